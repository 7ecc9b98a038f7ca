"""Play a transcript: its commands are executed again, and what follows each must be what it says.

A transcript is a text file of comments (``# …``), empty lines and commands (``> command``), each
with the lines that it gave below. With ``REWRITE=1`` in the environment the file is written anew
instead; review the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

REWRITE = os.environ.get("REWRITE") == "1"


class Script(Protocol):
    """Executes the commands of one transcript."""

    def run(self, line: str) -> Iterable[str]:
        """Execute a command; return the lines that follow it."""
        ...


def play(path: Path, script: Script) -> None:
    """Execute a transcript's commands and compare, or rewrite the file."""
    lines: list[str] = []
    for line in path.read_text().splitlines():
        if line.startswith("#") or line == "":
            lines.append(line)
        elif line.startswith("> "):
            lines += [line, *script.run(line[2:])]
    actual = "\n".join(lines) + "\n"
    if REWRITE:
        path.write_text(actual)
    assert actual == path.read_text()
