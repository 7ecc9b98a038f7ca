"""What a broker's clients see of its limits on connections."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.fidelity.conversations.connections import CASES, Doors
from tests.fidelity.dialing import RealDialer
from tests.fidelity.one_broker import OneBroker
from tests.fidelity.real_kafka import running

HERE = Path(__file__).parent
VERSIONS = ("4.1.0",)


def ask(version: str) -> list[str]:
    """Start a broker for each case; return what its clients saw."""
    lines: list[str] = []
    for name, (case, settings) in CASES.items():
        with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
            cluster = OneBroker(version, Path(scratch), settings)
            with running(cluster):
                doors = Doors(RealDialer(cluster), name)
                case(doors)
                lines += doors.lines
    return lines


def committed(version: str) -> list[str]:
    """Return what the clients of a version's broker saw."""
    return (HERE / "connections" / f"{version}.txt").read_text().splitlines()
