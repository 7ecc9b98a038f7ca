"""A session store: aggregates by key and session (RocksDBSessionStore, SessionKeySchema)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.streams.records import Windowed, serialized
from kafkasim.model.streams.stores.base import Store, StoreContext
from kafkasim.model.streams.stores.segments import Segments
from kafkasim.model.streams.topology.nodes import StoreSpec


class SessionStore(Store):
    """Values by session, a Windowed whose end is inclusive."""

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.clear()

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._segments = Segments(self.spec.retention_ms)
        self._by_key: dict[Any, dict[Windowed, None]] = {}

    def put(self, session: Windowed, value: Any) -> None:
        """Set the value of a session, or delete it (None), and log the write."""
        if not self._set(session, value):
            self._context.expired()
        self._log(session, value, self._time())

    def remove(self, session: Windowed) -> None:
        """Delete a session, and log that."""
        self._set(session, None)
        self._log(session, None, self._time())

    def get(self, session: Windowed) -> Any:
        """Return the value of one session, or None (fetchSession)."""
        if session.end < self._segments.oldest_visible():
            return None
        return self.entries.get(session)

    def find_sessions(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> list[tuple[Windowed, Any]]:
        """Return a key's sessions that end and start within bounds, by segment, end and start."""
        oldest = max(earliest_end, self._segments.oldest_visible())
        found = [
            session
            for session in self._by_key.get(key, ())
            if session.end >= oldest and session.start <= latest_start
        ]
        return [(session, self.entries[session]) for session in sorted(found, key=self.order)]

    def find_ended(self, earliest_end: int, latest_end: int) -> list[tuple[Windowed, Any]]:
        """Return the sessions of all keys that end in a span, by their ends.

        The retention does not count. Kafka: RocksDBTimeOrderedSessionStore, the store of
        emit-on-window-close.
        """
        found = [each for each in self.entries if earliest_end <= each.end <= latest_end]
        found.sort(key=lambda each: (each.end, each.start, serialized(each.key)))
        return [(session, self.entries[session]) for session in found]

    def all(self) -> list[tuple[Any, Any]]:
        """Return all sessions that are younger than the retention."""
        oldest = self._segments.oldest_visible()
        found = sorted((each for each in self.entries if each.end >= oldest), key=self.order)
        return [(session, self.entries[session]) for session in found]

    def restore(self, key: Any, value: Any, timestamp: int) -> None:
        """Apply a changelog record, whose key is the session."""
        self._set(key, value)

    def order(self, session: Windowed) -> tuple[int, bytes]:
        """Return by what entries are ordered."""
        return self._segments.segment_of(session.end), serialized(session)

    def _set(self, session: Windowed, value: Any) -> bool:
        before = self._segments.first_live()
        if not self._segments.observe(session.end):
            return False
        if self._segments.first_live() > before:
            live = self._segments.first_live()
            for each in [s for s in self.entries if self._segments.segment_of(s.end) < live]:
                self._remove(each)
        if value is not None:
            self.entries[session] = value
            self._by_key.setdefault(session.key, {})[session] = None
        elif session in self.entries:
            self._remove(session)
        return True

    def _remove(self, session: Windowed) -> None:
        del self.entries[session]
        del self._by_key[session.key][session]
