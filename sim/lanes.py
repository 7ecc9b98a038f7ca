"""Lanes: the threads of a process, as the host sees them.

A lane has a number of threads and a queue of what waits for one. Items that take no time run at
once while a thread is free; a request takes a thread for its service time; a barrier or a slow disk
keeps the thread that waits. While a thread is free the queue is empty.

``busy_until_us`` (one thread) and ``debt_us`` (a pool) remember page-cache write costs that were
too small for an event of their own.
"""

from __future__ import annotations

from collections import deque
from typing import Any


class Lane:
    """One lane of one incarnation."""

    __slots__ = ("blocked", "busy_until_us", "debt_us", "free", "name", "queue", "threads")

    def __init__(self, name: str, threads: int) -> None:
        assert threads > 0, (name, threads)
        self.name = name
        self.threads = threads
        self.free = threads
        self.queue: deque[Any] = deque()
        self.blocked: deque[Any] = deque()  # connections not read because the queue is full
        self.busy_until_us = 0
        self.debt_us = 0

    def discard(self) -> None:
        """Drop all that waits: the process died."""
        self.queue.clear()
        self.blocked.clear()
