"""SQL functions of time and chance, from the host's clock and the run's seed."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable
from typing import Any

OF_TIME = ("date", "time", "datetime", "julianday", "strftime", "unixepoch")

CURRENT = {"current_timestamp": "datetime", "current_date": "date", "current_time": "time"}


def bind(connection: sqlite3.Connection, wall_us: Callable[[], int], rng: random.Random) -> None:
    """Replace the functions of a connection that would read the machine's clock or its entropy."""
    plain = sqlite3.connect(":memory:")

    def evaluate(name: str, *arguments: Any) -> Any:
        first = 1 if name == "strftime" else 0  # behind the format
        given = list(arguments) if len(arguments) > first else [*arguments, "now"]
        if given[first] == "now":
            given[first : first + 1] = [wall_us() / 1e6, "unixepoch"]
        marks = ", ".join("?" * len(given))
        return plain.execute(f"SELECT {name}({marks})", given).fetchone()[0]

    for name in OF_TIME:
        connection.create_function(name, -1, lambda *given, name=name: evaluate(name, *given))
    for name, function in CURRENT.items():
        connection.create_function(name, 0, lambda function=function: evaluate(function))
    connection.create_function("random", 0, lambda: rng.getrandbits(64) - (1 << 63))
    connection.create_function("randomblob", 1, lambda size: rng.randbytes(max(1, size)))
