"""The results of a shrink so far, so that a killed shrink can continue.

A line for each candidate: its digest and whether it was kept. Reductions are tried in a fixed
order, so a shrink that starts again tries the same candidates and finds their results here. The
first line names the scenario and the anomaly; a journal about others is discarded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Journal:
    """A file of answers; without a path they are kept in memory only."""

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        self.answers: dict[str, bool] = {}
        self._path = path
        if path is None:
            return
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        head = json.dumps(about, sort_keys=True)
        if lines[:1] != [head]:
            path.write_text(head + "\n", encoding="utf-8")
            return
        for line in lines[1:]:
            key, _, answer = line.partition(" ")
            if answer in ("kept", "dropped"):  # the last line of a killed process may be cut
                self.answers[key] = answer == "kept"
        whole = [head, *(self._line(key, kept) for key, kept in self.answers.items())]
        path.write_text("\n".join(whole) + "\n", encoding="utf-8")

    def add(self, key: str, kept: bool) -> None:
        """Remember an answer, on disk before the next question is asked."""
        self.answers[key] = kept
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._line(key, kept) + "\n")

    @staticmethod
    def _line(key: str, kept: bool) -> str:
        return f"{key} {'kept' if kept else 'dropped'}"
