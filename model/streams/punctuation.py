"""When punctuators fire (PunctuationQueue, PunctuationSchedule)."""

from __future__ import annotations

import heapq

from kafkasim.model.streams.processors.context import Punctuator


class Schedule:
    """One scheduled punctuator."""

    def __init__(self, callback: Punctuator, interval_ms: int) -> None:
        self.callback, self.interval_ms = callback, interval_ms
        self.cancelled = False

    def cancel(self) -> None:
        """Let it not fire again."""
        self.cancelled = True


class PunctuationQueue:
    """The punctuators of a task that one kind of time moves.

    One that is late fires once, and then at the next time of its grid. Among equal times the one
    scheduled first fires first; Kafka leaves that order to a heap.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Schedule]] = []
        self._count = 0

    def add(self, at_ms: int, interval_ms: int, callback: Punctuator) -> Schedule:
        """Schedule a punctuator, first at ``at_ms``."""
        schedule = Schedule(callback, interval_ms)
        self._push(at_ms, schedule)
        return schedule

    def next_ms(self) -> int | None:
        """Return when the next one is due, None without any."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def punctuate(self, now_ms: int) -> bool:
        """Fire what is due at a time, also what that schedules; return whether any did."""
        fired = False
        while (due := self.next_ms()) is not None and due <= now_ms:
            at_ms, _, schedule = heapq.heappop(self._heap)
            schedule.callback(now_ms)
            if not schedule.cancelled:
                missed = (now_ms - at_ms) // schedule.interval_ms
                self._push(at_ms + (missed + 1) * schedule.interval_ms, schedule)
            fired = True
        return fired

    def _push(self, at_ms: int, schedule: Schedule) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at_ms, self._count, schedule))
