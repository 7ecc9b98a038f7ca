"""Keyed timers of one process: a heap of ``(deadline, sequence, key)`` beside a table.

The table says what is armed; the heap only says when to look. Re-arming to a later deadline moves
the table entry alone, and the heap entry is pushed again when it is popped, so a session timer that
is refreshed by every heartbeat costs one dictionary write. Which clock a deadline is on is the
owner's business: hosts pass their monotonic ``now``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable

Key = Hashable
Handler = Callable[[int], None]


class Timers:
    """Armed deadlines by key. At equal deadlines, the first armed fires first."""

    __slots__ = ("_heap", "_queued", "_sequence", "_table")

    def __init__(self) -> None:
        # key -> (deadline, sequence, lane, handler)
        self._table: dict[Key, tuple[int, int, str, Handler]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._queued: dict[Key, int] = {}  # key -> earliest deadline it has in the heap
        self._sequence = 0

    @property
    def heap(self) -> list[tuple[int, int, Key]]:
        """The heap itself: the deadline at its top is at most :meth:`next_deadline` (hosts peek)."""
        return self._heap

    def arm(self, key: Key, deadline: int, lane: str, handler: Handler) -> None:
        """Arm or move the timer ``key``: ``handler(now)`` runs on ``lane`` at ``deadline``."""
        self._sequence = sequence = self._sequence + 1
        self._table[key] = (deadline, sequence, lane, handler)
        queued = self._queued.get(key)
        if queued is None or deadline < queued:
            self._queued[key] = deadline
            heapq.heappush(self._heap, (deadline, sequence, key))

    def cancel(self, key: Key) -> None:
        """Disarm ``key``; not armed is no error."""
        self._table.pop(key, None)

    def armed(self, key: Key) -> bool:
        """Return whether ``key`` is armed."""
        return key in self._table

    def deadline(self, key: Key) -> int | None:
        """Return the deadline of ``key``, or None if it is not armed."""
        entry = self._table.get(key)
        return None if entry is None else entry[0]

    def next_deadline(self) -> int | None:
        """Return the earliest armed deadline, or None."""
        heap = self._heap
        table = self._table
        while heap:
            deadline, _, key = heap[0]
            entry = table.get(key)
            if entry is not None and entry[0] == deadline:
                return deadline
            self._settle(key, deadline, entry)
        return None

    def pop_due(self, now: int) -> tuple[Key, int, str] | None:
        """Return ``(key, sequence, lane)`` of the earliest timer due at ``now``, or None.

        The timer stays armed until :meth:`fire`: a lane that is busy may run it later, and a
        handler that runs before may still cancel or move it.
        """
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        key = heapq.heappop(self._heap)[2]
        # May be gone: a key moved back and forth can stand twice at one deadline, and its second
        # entry is popped before the first has fired; that second fire finds nothing to do.
        self._queued.pop(key, None)
        _, sequence, lane, _ = self._table[key]
        return key, sequence, lane

    def fire(self, key: Key, sequence: int, now: int) -> None:
        """Run the handler of a popped timer unless it was cancelled or moved meanwhile."""
        entry = self._table.get(key)
        if entry is not None and entry[1] == sequence:
            del self._table[key]
            entry[3](now)

    def _settle(self, key: Key, deadline: int, entry: tuple[int, int, str, Handler] | None) -> None:
        """Drop the stale top of the heap, and queue the key again where it was moved to."""
        heapq.heappop(self._heap)
        if self._queued.get(key) == deadline:
            del self._queued[key]
            if entry is not None:
                self._queued[key] = entry[0]
                heapq.heappush(self._heap, (entry[0], entry[1], key))
