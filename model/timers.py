"""Keyed timers of one process: a table of what is armed, and a heap that says when to look.

Moving a timer to a later deadline changes the table only. Its old entry in the heap is found stale
when it comes to the top, and the key is pushed again with the new deadline. So a session timer that
every heartbeat moves costs one dictionary write each time. Deadlines are in microseconds of the
host's monotonic clock.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable

Key = Hashable
Handler = Callable[[int], None]


class Timers:
    """Armed timers by key. Of two with the same deadline, the one armed first fires first."""

    __slots__ = ("_heap", "_queued", "_sequence", "_table")

    def __init__(self) -> None:
        # key -> (deadline, sequence, lane, handler, first)
        self._table: dict[Key, tuple[int, int, str, Handler, bool]] = {}
        self._heap: list[tuple[int, int, Key]] = []
        self._queued: dict[Key, int] = {}  # key -> earliest deadline it has in the heap
        self._sequence = 0

    @property
    def heap(self) -> list[tuple[int, int, Key]]:
        """The heap, for hosts to peek at: its top may be stale, and is never too late."""
        return self._heap

    def arm(
        self, key: Key, deadline: int, lane: str, handler: Handler, first: bool = False
    ) -> None:
        """Arm or move the timer ``key``: ``handler(now)`` runs on ``lane`` at ``deadline``.

        With ``first`` it runs before all that waits on the lane then.
        """
        self._sequence = sequence = self._sequence + 1
        self._table[key] = (deadline, sequence, lane, handler, first)
        queued = self._queued.get(key)
        if queued is None or deadline < queued:
            self._queued[key] = deadline
            heapq.heappush(self._heap, (deadline, sequence, key))

    def cancel(self, key: Key) -> None:
        """Disarm ``key``, if it is armed."""
        self._table.pop(key, None)

    def armed(self, key: Key) -> bool:
        """Return whether ``key`` is armed."""
        return key in self._table

    def deadline(self, key: Key) -> int | None:
        """Return the deadline of ``key``, or None if it is not armed."""
        entry = self._table.get(key)
        return None if entry is None else entry[0]

    def next_deadline(self) -> int | None:
        """Return the earliest armed deadline, or None if no timer is armed."""
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

        The timer stays armed until :meth:`fire`, because its lane may be busy; a handler that runs
        in between may still cancel or move it.
        """
        deadline = self.next_deadline()
        if deadline is None or deadline > now:
            return None
        key = heapq.heappop(self._heap)[2]
        # A key that was moved back and forth can be in the heap twice with one deadline. The second
        # entry is then popped before the first has fired, and its fire finds nothing to do.
        self._queued.pop(key, None)
        _, sequence, lane, _, _ = self._table[key]
        return key, sequence, lane

    def goes_first(self, key: Key) -> bool:
        """Return whether ``key`` is armed and runs before all that waits on its lane."""
        entry = self._table.get(key)
        return entry is not None and entry[4]

    def fire(self, key: Key, sequence: int, now: int) -> None:
        """Run the handler of a popped timer, unless it was cancelled or moved since."""
        entry = self._table.get(key)
        if entry is not None and entry[1] == sequence:
            del self._table[key]
            entry[3](now)

    def _settle(
        self, key: Key, deadline: int, entry: tuple[int, int, str, Handler, bool] | None
    ) -> None:
        """Pop the stale top of the heap; push the key again if it was moved to later."""
        heapq.heappop(self._heap)
        if self._queued.get(key) == deadline:
            del self._queued[key]
            if entry is not None:
                self._queued[key] = entry[0]
                heapq.heappush(self._heap, (entry[0], entry[1], key))
