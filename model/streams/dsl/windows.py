"""TimeWindows, SessionWindows, JoinWindows and Suppressed; all times are in ms.

The constructors are those of Kafka 3.0 and later: a window has no grace unless it is given.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.model.streams.topology.nodes import TopologyError


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Windows [start, start + size), one each ``advance``: tumbling, or hopping if it is less."""

    size_ms: int
    grace_ms: int
    advance_ms: int

    @classmethod
    def ofSizeAndGrace(cls, size_ms: int, grace_ms: int) -> TimeWindows:
        """Return tumbling windows.

        Raises:
            TopologyError: the size is not positive, or the grace is negative.
        """
        if size_ms <= 0:
            raise TopologyError("Window size (sizeMs) must be larger than zero.")
        if grace_ms < 0:
            raise TopologyError("Grace period must not be negative.")
        return cls(size_ms, grace_ms, size_ms)

    @classmethod
    def ofSizeWithNoGrace(cls, size_ms: int) -> TimeWindows:
        """Return tumbling windows that close when they end."""
        return cls.ofSizeAndGrace(size_ms, 0)

    def advanceBy(self, advance_ms: int) -> TimeWindows:
        """Return the hopping windows of this size, one each ``advance_ms``.

        Raises:
            TopologyError: the advance is not positive, or larger than the size.
        """
        if not 0 < advance_ms <= self.size_ms:
            raise TopologyError(
                f"Window advancement interval should be more than zero and less than or equal to "
                f"window duration which is {self.size_ms} ms, but given advancement interval is: "
                f"{advance_ms} ms."
            )
        return TimeWindows(self.size_ms, self.grace_ms, advance_ms)

    def windows_for(self, timestamp: int) -> range:
        """Return the starts of the windows that contain a timestamp; none is below 0."""
        first = max(0, timestamp - self.size_ms + self.advance_ms)
        return range(first // self.advance_ms * self.advance_ms, timestamp + 1, self.advance_ms)


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions: records of a key that are at most ``gap`` apart."""

    gap_ms: int
    grace_ms: int

    @classmethod
    def ofInactivityGapAndGrace(cls, gap_ms: int, grace_ms: int) -> SessionWindows:
        """Return sessions.

        Raises:
            TopologyError: the gap is not positive, or the grace is negative.
        """
        if gap_ms <= 0:
            raise TopologyError("Gap time (inactivityGapMs) cannot be zero or negative.")
        if grace_ms < 0:
            raise TopologyError("Grace period must not be negative.")
        return cls(gap_ms, grace_ms)

    @classmethod
    def ofInactivityGapWithNoGrace(cls, gap_ms: int) -> SessionWindows:
        """Return sessions that close one gap after their end."""
        return cls.ofInactivityGapAndGrace(gap_ms, 0)


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """Two records join if the right one is at most ``before`` older, ``after`` younger."""

    before_ms: int
    after_ms: int
    grace_ms: int

    @classmethod
    def ofTimeDifferenceAndGrace(cls, difference_ms: int, grace_ms: int) -> JoinWindows:
        """Return a symmetric window.

        Raises:
            TopologyError: the window would end before it starts, or the grace is negative.
        """
        return cls._checked(difference_ms, difference_ms, grace_ms)

    @classmethod
    def ofTimeDifferenceWithNoGrace(cls, difference_ms: int) -> JoinWindows:
        """Return a symmetric window that closes when it ends."""
        return cls._checked(difference_ms, difference_ms, 0)

    def before(self, before_ms: int) -> JoinWindows:
        """Return the window with another lower bound."""
        return self._checked(before_ms, self.after_ms, self.grace_ms)

    def after(self, after_ms: int) -> JoinWindows:
        """Return the window with another upper bound."""
        return self._checked(self.before_ms, after_ms, self.grace_ms)

    @property
    def size_ms(self) -> int:
        """The length of the window."""
        return self.before_ms + self.after_ms

    @classmethod
    def _checked(cls, before_ms: int, after_ms: int, grace_ms: int) -> JoinWindows:
        if before_ms + after_ms < 0:
            raise TopologyError("Window interval (ie, beforeMs+afterMs) must not be negative.")
        if grace_ms < 0:
            raise TopologyError("Grace period must not be negative.")
        return cls(before_ms, after_ms, grace_ms)


@dataclass(frozen=True, slots=True)
class Suppressed:
    """Which updates suppress() holds back, and how many it can."""

    time_limit_ms: int | None  # None: until the window closes
    max_records: int | None = None
    max_bytes: int | None = None
    emit_early: bool = False  # when full; else the application stops

    @classmethod
    def untilWindowCloses(
        cls, max_records: int | None = None, max_bytes: int | None = None
    ) -> Suppressed:
        """Emit only the final result of each window; when full, stop (shutDownWhenFull)."""
        return cls(None, max_records, max_bytes)

    @classmethod
    def untilTimeLimit(
        cls,
        time_limit_ms: int,
        max_records: int | None = None,
        max_bytes: int | None = None,
        emit_early: bool = True,
    ) -> Suppressed:
        """Emit at most one update of a key per span; when full, emit early or stop."""
        return cls(time_limit_ms, max_records, max_bytes, emit_early)
