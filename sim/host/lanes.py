"""A lane: the threads of a process that do one kind of work, as the host sees them.

A lane has a number of threads and a queue of what waits for one. An input that takes no time runs
at once while a thread is free; a request takes a thread for its service time; a barrier or a slow
disk keeps the thread that waits. While a thread is free the queue is empty.

Page-cache writes that are too cheap for an event of their own are a debt. The next item pays it if
it comes before ``busy_until_us`` and finds no other thread.
"""

from __future__ import annotations

from collections import deque
from typing import Any


class Lane:
    """One lane of one incarnation of a process."""

    __slots__ = ("blocked", "busy_until_us", "debt_us", "free", "name", "queue", "threads")

    def __init__(self, name: str, threads: int) -> None:
        assert threads > 0, (name, threads)
        self.name = name
        self.threads = threads
        self.free = threads  # 0 <= free <= threads
        self.queue: deque[Any] = deque()
        self.blocked: deque[Any] = deque()  # connections not read because the queue is full
        self.busy_until_us = 0
        self.debt_us = 0

    def discard(self) -> None:
        """Drop all that waits: the process died."""
        self.queue.clear()
        self.blocked.clear()

    def add_debt(self, cost_us: int, now_us: int) -> int:
        """Take time of a thread from now on; return how long after now it is done."""
        if self.busy_until_us < now_us:
            self.busy_until_us = now_us
            self.debt_us = 0
        self.debt_us += cost_us
        if self.threads == 1:
            self.busy_until_us += cost_us
            return self.busy_until_us - now_us
        self.busy_until_us = max(self.busy_until_us, now_us + cost_us)
        return cost_us

    def take_debt(self, now_us: int) -> int:
        """Return how much longer the item that begins now takes."""
        debt = self.busy_until_us - now_us if self.threads == 1 else self.debt_us
        self.debt_us = 0
        self.busy_until_us = 0
        return debt


class LaneInput:
    """An input for a lane, and the event of its arrival if it takes time to get there."""

    __slots__ = ("callbacks", "item", "lane")

    _ok = True

    def __init__(self, callbacks: Any, lane: Lane, item: Any) -> None:
        self.callbacks = callbacks
        self.lane = lane
        self.item = item
