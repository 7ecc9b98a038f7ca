"""What a history has told: lines for each subject, subjects in the order of their kinds."""

from __future__ import annotations


class Told:
    """Lines such as ``broker 1: fenced``; kind 0 (controllers) comes first."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, str], list[str]] = {}

    def say(self, kind: int, subject: str, line: str) -> None:
        """Add a line about a subject."""
        self._lines.setdefault((kind, subject), []).append(f"{subject}{line}")

    def lines(self) -> list[str]:
        """Return all lines, sorted by subject, those of one subject as they came."""
        return [line for _, lines in sorted(self._lines.items()) for line in lines]
