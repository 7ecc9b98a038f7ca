"""Seconds and CPU seconds of a process, as Linux counts them."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


class Clock:
    """A stopwatch for a process, this one by default."""

    def __init__(self, process: int | None = None) -> None:
        self._process = os.getpid() if process is None else process
        self._began, self._used = time.perf_counter(), self._cpu()

    def read(self) -> tuple[float, float]:
        """Return the seconds and the CPU seconds of all its threads since the clock was made."""
        return time.perf_counter() - self._began, self._cpu() - self._used

    def _cpu(self) -> float:
        told = Path(f"/proc/{self._process}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / TICKS
