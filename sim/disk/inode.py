"""A file's content, and what a power loss would undo.

Every append and every truncation of a file is an operation with a number. ``durable`` is the number
up to which the device has them. An append is undone by dropping the last item, so only truncations
keep what they removed: a log that is not flushed costs two integers.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from kafkasim.model.storage.files import Corrupt

WRITEBACK_US = 30_000_000
"""The kernel writes a truncation back after this time without being asked to."""


class Inode:
    """The items of one file as they are read back, and the operations that are not durable."""

    __slots__ = ("durable", "items", "removed", "sequence", "size", "sizes")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.sizes: list[int] = []  # of the items, in bytes
        self.size = 0  # their sum
        self.sequence = 0  # operations so far
        self.durable = 0  # of these, how many the device has
        # Pending truncations: (operation, time, items removed, their sizes). Others are appends.
        self.removed: deque[tuple[int, int, list[Any], list[int]]] = deque()

    def made_durable(self, sequence: int) -> None:
        """Forget how to undo the operations up to ``sequence``."""
        if sequence > self.durable:
            self.durable = sequence
            while self.removed and self.removed[0][0] <= sequence:
                self.removed.popleft()

    def truncate(self, count: int, now_us: int) -> None:
        """Cut the file to ``count`` items, as one operation."""
        removed, sizes = self.items[count:], self.sizes[count:]
        del self.items[count:]
        del self.sizes[count:]
        self.size -= sum(sizes)
        self.sequence += 1
        self.removed.append((self.sequence, now_us, removed, sizes))
        while self.removed[0][1] < now_us - WRITEBACK_US:
            self.made_durable(self.removed[0][0])

    def lose(self, rng: random.Random) -> None:
        """Lose power: keep a drawn prefix of the pending operations.

        If the last operation kept is an append, its item is torn with probability 1/2.
        """
        if self.durable == self.sequence:
            return
        kept = self.durable + int(rng.random() * (self.sequence - self.durable + 1))
        torn = rng.random() < 0.5
        while self.sequence > kept:
            if self.removed and self.removed[-1][0] == self.sequence:
                _, _, items, sizes = self.removed.pop()
                self.items += items
                self.sizes += sizes
            else:
                self.items.pop()
                self.sizes.pop()
            self.sequence -= 1
        is_append = not (self.removed and self.removed[-1][0] == kept)
        if torn and kept > self.durable and is_append:
            self.items[-1] = Corrupt(self.items[-1])
        self.size = sum(self.sizes)
        self.durable = self.sequence
        self.removed.clear()
