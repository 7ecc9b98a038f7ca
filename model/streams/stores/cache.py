"""The record cache: stores whose writes go on, downstream and to the changelog, at the commit.

Models ThreadCache, NamedCache and the Caching stores. The last value of a key counts; entries
leave when the task commits, or the least recently used ones when the thread's caches are full.
When one entry that was written leaves, all written entries of its store do.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple

from kafkasim.model.streams.records import (
    Change,
    RecordContext,
    StreamRecord,
    ValueAndTimestamp,
    Windowed,
    WindowKey,
    serialized,
    value_of,
)
from kafkasim.model.streams.stores.base import StoreContext
from kafkasim.model.streams.stores.key_value import KeyValueStore, KeyValueWrites
from kafkasim.model.streams.stores.sessions import SessionStore
from kafkasim.model.streams.stores.windows import WindowStore

FlushListener = Callable[[StreamRecord], None]
"""Takes an update that leaves the cache: its value is a Change."""


class CacheEntry(NamedTuple):
    """What a cache holds of a key; a value of None is a deletion."""

    value: Any
    context: RecordContext | None  # of the write
    size: int  # bytes


class ThreadCache:
    """The caches of one thread's stores, which share its bytes (statestore.cache.max.bytes)."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0

    def make_room(self, cache: NamedCache) -> None:
        """Evict entries of the store that has grown, until all caches fit (maybeEvict)."""
        while self.size_bytes > self.max_bytes and cache.entries:
            cache.evict()


class NamedCache:
    """The cache of one store, least recently used entry first."""

    def __init__(self, thread: ThreadCache, leave: Callable[[Any, CacheEntry], None]) -> None:
        self.entries: OrderedDict[Any, CacheEntry] = OrderedDict()
        self._of_key: dict[Any, dict[Any, None]] = {}  # windows or sessions, by their key
        self._dirty: dict[Any, None] = {}  # in the order of their last writes
        self._thread = thread
        self._leave = leave

    def get(self, key: Any) -> CacheEntry | None:
        """Return an entry, which is then the most recently used."""
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.move_to_end(key)
        return entry

    def of_key(self, key: Any) -> list[tuple[Any, Any]]:
        """Return the windows or sessions of a key that are cached, with their values."""
        return [(each, self.entries[each].value) for each in self._of_key.get(key, ())]

    def put(self, key: Any, value: Any, context: RecordContext | None) -> None:
        """Write an entry, and evict others if the thread's caches are full."""
        entry = CacheEntry(value, context, _size(key, value, context))
        known = self.entries.get(key)
        self._thread.size_bytes += entry.size - (known.size if known else 0)
        self.entries[key] = entry
        self.entries.move_to_end(key)
        if isinstance(key, WindowKey | Windowed):
            self._of_key.setdefault(key.key, {})[key] = None
        self._dirty.pop(key, None)
        self._dirty[key] = None
        self._thread.make_room(self)

    def evict(self) -> None:
        """Remove the least recently used entry; if it was written, all written ones leave."""
        key = next(iter(self.entries))
        entry = self._remove(key)
        if key in self._dirty:
            del self._dirty[key]
            self._flush([(key, entry)])

    def flush(self) -> None:
        """Let all written entries leave, in the order of their last writes."""
        self._flush([])

    def clear(self) -> None:
        """Forget all entries, without a word downstream."""
        self._thread.size_bytes -= sum([entry.size for entry in self.entries.values()])
        self.entries.clear()
        self._of_key.clear()
        self._dirty.clear()

    def _flush(self, leaving: list[tuple[Any, CacheEntry]]) -> None:
        leaving += [(key, self.entries[key]) for key in self._dirty]
        self._dirty.clear()
        for key, entry in leaving:
            self._leave(key, entry)
        for key, entry in leaving:
            if entry.value is None and self.entries.get(key) is entry:
                self._remove(key)

    def _remove(self, key: Any) -> CacheEntry:
        entry = self.entries.pop(key)
        self._thread.size_bytes -= entry.size
        if isinstance(key, WindowKey | Windowed):
            del self._of_key[key.key][key]
        return entry


def _size(key: Any, value: Any, context: RecordContext | None) -> int:
    """Return the bytes that Kafka counts for an entry (LRUNode.size, LRUCacheEntry.size)."""
    content = 0 if value is None else len(serialized(value))
    around = 20 + len((context and context.topic) or "")
    return len(serialized(key)) + 24 + 1 + content + around


class Cached:
    """What the three caching stores share: the cache, and how an entry leaves it."""

    def __init__(self, inner: Any, thread: ThreadCache, context: StoreContext) -> None:
        self.inner = inner
        self.name: str = inner.name
        self.cache = NamedCache(thread, self._entry_leaves)
        self._context = context
        self._listener: FlushListener | None = None
        self._send_old = False

    def set_flush_listener(self, listener: FlushListener, send_old: bool) -> None:
        """Let a processor forward what leaves the cache, with old values or without."""
        self._listener, self._send_old = listener, send_old

    def flush(self) -> None:
        """Let everything leave: the task commits."""
        self.cache.flush()

    def clear_cache(self) -> None:
        """Forget what is cached: the task was recycled (KAFKA-14172)."""
        self.cache.clear()

    def all(self) -> list[tuple[Any, Any]]:
        """Return all entries of the store and, over them, of the cache.

        What is in the cache is seen for longer than the retention of the store.
        """
        merged = dict(self.inner.all())
        orders = {key: self.inner.order(self._stored(key)) for key in merged}
        for key, entry in self.cache.entries.items():
            merged[self._shown(key)] = entry.value
            orders[self._shown(key)] = self.inner.order(key)
        found = [key for key, value in merged.items() if value is not None]
        return [(key, merged[key]) for key in sorted(found, key=orders.__getitem__)]

    def _write(self, key: Any, value: Any) -> None:
        self.cache.put(key, value, self._context.record_context)

    def _entry_leaves(self, key: Any, entry: CacheEntry) -> None:
        old = self._read(key) if self._send_old or entry.value is None else None
        if self._listener is not None and entry.value is None and old is None:
            return  # a deletion of what never left the cache
        before = self._context.record_context
        self._context.set_record_context(entry.context)
        try:
            self._write_through(key, entry.value)
            if self._listener is not None:
                change = Change(_plain(entry.value), _plain(old) if self._send_old else None)
                self._listener(StreamRecord(self._shown(key), change, self._time(key, entry)))
        finally:
            self._context.set_record_context(before)

    def _time(self, key: Any, entry: CacheEntry) -> int:
        if isinstance(entry.value, ValueAndTimestamp):
            return entry.value.timestamp
        return 0 if entry.context is None else entry.context.timestamp

    def _shown(self, key: Any) -> Any:
        """Return a key of the cache as processors see it."""
        return key

    def _stored(self, key: Any) -> Any:
        """Return a key that processors see as the cache has it."""
        return key

    def _read(self, key: Any) -> Any:
        raise NotImplementedError

    def _write_through(self, key: Any, value: Any) -> None:
        raise NotImplementedError


def _plain(value: Any) -> Any:
    return value_of(value) if isinstance(value, ValueAndTimestamp) else value


class CachingKeyValueStore(KeyValueWrites, Cached):
    """A key-value store with a cache."""

    inner: KeyValueStore

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        entry = self.cache.get(key)
        return self.inner.get(key) if entry is None else entry.value

    def put(self, key: Any, value: Any) -> None:
        """Set a value, or delete it (None)."""
        self._write(key, value)

    def _read(self, key: Any) -> Any:
        return self.inner.get(key)

    def _write_through(self, key: Any, value: Any) -> None:
        self.inner.put(key, value)


class CachingWindowStore(Cached):
    """A window store with a cache."""

    inner: WindowStore

    def get(self, key: Any, start: int) -> Any:
        """Return the value of one window, or None."""
        entry = self.cache.get(WindowKey(key, start, 0))
        return self.inner.get(key, start) if entry is None else entry.value

    def put(self, key: Any, value: Any, start: int) -> None:
        """Set the value of a window, or delete it (None)."""
        self._write(WindowKey(key, start, 0), value)

    def fetch(self, key: Any, time_from: int, time_to: int) -> list[tuple[int, Any]]:
        """Return (start, value) of a key's windows that start in a span."""
        merged = dict(self.inner.fetch(key, time_from, time_to))
        for each, value in self.cache.of_key(key):
            if time_from <= each.start <= time_to:
                merged[each.start] = value
        return [(start, merged[start]) for start in sorted(merged) if merged[start] is not None]

    def fetch_all(self, time_from: int, time_to: int) -> list[tuple[Windowed, Any]]:
        """Return all windows that start in a span, by time and key (TimeOrderedCaching…)."""
        merged = dict(self.inner.fetch_all(time_from, time_to))
        for each, entry in self.cache.entries.items():
            if time_from <= each.start <= time_to:
                merged[self._shown(each)] = entry.value
        found = [key for key, value in merged.items() if value is not None]
        found.sort(key=lambda key: (key.start, serialized(key.key)))
        return [(key, merged[key]) for key in found]

    def _shown(self, key: Any) -> Any:
        return Windowed(key.key, key.start, key.start + self.inner.spec.window_size_ms)

    def _stored(self, key: Any) -> Any:
        return WindowKey(key.key, key.start, 0)

    def _read(self, key: Any) -> Any:
        return self.inner.get(key.key, key.start)

    def _write_through(self, key: Any, value: Any) -> None:
        self.inner.put(key.key, value, key.start)


class CachingSessionStore(Cached):
    """A session store with a cache."""

    inner: SessionStore

    def get(self, session: Windowed) -> Any:
        """Return the value of one session, or None."""
        entry = self.cache.get(session)
        return self.inner.get(session) if entry is None else entry.value

    def put(self, session: Windowed, value: Any) -> None:
        """Set the value of a session, or delete it (None)."""
        self._write(session, value)

    def remove(self, session: Windowed) -> None:
        """Delete a session."""
        self._write(session, None)

    def find_sessions(
        self, key: Any, earliest_end: int, latest_start: int
    ) -> list[tuple[Windowed, Any]]:
        """Return a key's sessions that end and start within bounds, by end and start."""
        merged = dict(self.inner.find_sessions(key, earliest_end, latest_start))
        for each, value in self.cache.of_key(key):
            if each.end >= earliest_end and each.start <= latest_start:
                merged[each] = value
        found = [session for session, value in merged.items() if value is not None]
        found.sort(key=lambda session: (session.end, session.start))
        return [(session, merged[session]) for session in found]

    def _time(self, key: Any, entry: CacheEntry) -> int:
        return int(key.end)  # SessionCacheFlushListener

    def _read(self, key: Any) -> Any:
        return self.inner.get(key)

    def _write_through(self, key: Any, value: Any) -> None:
        self.inner.put(key, value)
