"""How long windowed stores keep what: retention and segments.

Models AbstractRocksDBSegmentedBytesStore and AbstractSegments. Reads see what is younger than the
retention; a write is refused when its segment has expired. Segments are as long as half of the
retention, and at least a minute.
"""

from __future__ import annotations

MIN_SEGMENT_INTERVAL_MS = 60_000


class Segments:
    """The clock of a windowed store: the largest timestamp that was written to it."""

    def __init__(self, retention_ms: int, time_ordered: bool = False) -> None:
        self._retention_ms, self._time_ordered = retention_ms, time_ordered
        self._interval_ms = max(retention_ms // 2, MIN_SEGMENT_INTERVAL_MS)
        self.observed_ms = -1

    def observe(self, timestamp: int) -> bool:
        """Advance the store's time; return whether the timestamp's segment is still live."""
        self.observed_ms = max(self.observed_ms, timestamp)
        return self.segment_of(timestamp) >= self.first_live()

    def first_live(self) -> int:
        """Return the id of the oldest segment that is kept."""
        return self.segment_of(self.observed_ms - self._retention_ms)

    def segment_of(self, timestamp: int) -> int:
        """Return the id of a timestamp's segment; the quotient is cut towards 0, as in Java."""
        quotient = abs(timestamp) // self._interval_ms
        return quotient if timestamp >= 0 else -quotient

    def oldest_visible(self) -> int:
        """Return the oldest timestamp that a read sees (getActualFrom).

        A time-ordered store shows one more millisecond (AbstractDualSchema…getActualFrom).
        """
        return self.observed_ms - self._retention_ms + (0 if self._time_ordered else 1)
