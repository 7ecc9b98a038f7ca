"""A window store: values by key and window start, and the stores of stream-stream joins.

Models RocksDBWindowStore, ChangeLoggingTimestampedWindowBytesStore and, if the spec says so,
RocksDBTimeOrderedWindowStore.
"""

from __future__ import annotations

import bisect
from typing import Any

from kafkasim.model.streams.records import Windowed, WindowKey, serialized, timestamped
from kafkasim.model.streams.stores.base import Store, StoreContext
from kafkasim.model.streams.stores.segments import Segments
from kafkasim.model.streams.topology.nodes import StoreKind, StoreSpec


class WindowStore(Store):
    """Values by WindowKey. A join's store keeps duplicates, each with a sequence of its own."""

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self._duplicates = spec.kind is StoreKind.JOIN_WINDOW
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._segments = Segments(self.spec.retention_ms, self.spec.time_ordered)
        self._by_key: dict[Any, list[tuple[int, int]]] = {}  # (start, sequence), sorted
        self._by_segment: dict[int, dict[WindowKey, None]] = {}
        self._sequence = 0  # of the last duplicate kept
        self._logged = 0  # and logged

    def put(self, key: Any, value: Any, start: int) -> None:
        """Set the value of a window, or delete it (None), and log the write.

        A join's store ignores None, but logs it, and counts what it logs by itself.
        """
        if self._duplicates:
            self._logged = (self._logged + 1) & 0x7FFFFFFF
            if value is not None:
                self._sequence = (self._sequence + 1) & 0x7FFFFFFF
                self._put(WindowKey(key, start, self._sequence), value)
            self._log(WindowKey(key, start, self._logged), value, self._time())
            return
        window = WindowKey(key, start, 0)
        self._put(window, value)
        if value is None:
            self._log(window, None, self._time())
        else:
            self._log(window, value.value, value.timestamp)

    def _put(self, window: WindowKey, value: Any) -> None:
        if not self._set(window, value):
            self._context.expired()

    def get(self, key: Any, start: int) -> Any:
        """Return the value of one window, or None (`fetch` with one time)."""
        if start < self._segments.oldest_visible():
            return None
        return self.entries.get(WindowKey(key, start, 0))

    def fetch(self, key: Any, time_from: int, time_to: int) -> list[tuple[int, Any]]:
        """Return (start, value) of a key's windows that start in a span, both ends inclusive."""
        times = self._by_key.get(key)
        if times is None:
            return []
        oldest = max(time_from, self._segments.oldest_visible())
        first = bisect.bisect_left(times, (oldest, -1))
        last = bisect.bisect_left(times, (time_to + 1, -1))
        entries = self.entries
        return [(start, entries[WindowKey(key, start, n)]) for start, n in times[first:last]]

    def fetch_all(self, time_from: int, time_to: int) -> list[tuple[Windowed, Any]]:
        """Return all windows that start in a span, segment by segment, in the order of bytes.

        A time-ordered store goes by time first.
        """
        oldest = max(time_from, self._segments.oldest_visible())
        found = [key for key in self.entries if oldest <= key.start <= time_to]
        size = self.spec.window_size_ms
        return [
            (Windowed(key.key, key.start, key.start + size), self.entries[key])
            for key in sorted(found, key=self.order)
        ]

    def all(self) -> list[tuple[Any, Any]]:
        """Return (Windowed, value) of all windows that are younger than the retention."""
        return list(self.fetch_all(0, 1 << 62))

    def restore(self, key: Any, value: Any, timestamp: int) -> None:
        """Apply a changelog record, whose key is a WindowKey."""
        self._set(key, value if self._duplicates else timestamped(value, timestamp))

    def order(self, key: WindowKey) -> tuple[int, bytes]:
        """Return by what entries are ordered."""
        if self.spec.time_ordered:
            return key.start, serialized(key.key)
        return self._segments.segment_of(key.start), serialized(key)

    def _set(self, key: WindowKey, value: Any) -> bool:
        before = self._segments.first_live()
        if not self._segments.observe(key.start):
            return False
        if self._segments.first_live() > before:
            self._expire()
        if key in self.entries:
            if value is None:
                self._remove(key)
                self._by_segment[self._segments.segment_of(key.start)].pop(key)
            else:
                self.entries[key] = value
        elif value is not None:
            self.entries[key] = value
            bisect.insort(self._by_key.setdefault(key.key, []), (key.start, key.sequence))
            self._by_segment.setdefault(self._segments.segment_of(key.start), {})[key] = None
        return True

    def _expire(self) -> None:
        live = self._segments.first_live()
        for segment in [each for each in self._by_segment if each < live]:
            for key in self._by_segment.pop(segment):
                self._remove(key)

    def _remove(self, key: WindowKey) -> None:
        del self.entries[key]
        times = self._by_key[key.key]
        del times[bisect.bisect_left(times, (key.start, key.sequence))]
        if not times:
            del self._by_key[key.key]
