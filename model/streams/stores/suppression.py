"""The buffer of suppress() (InMemoryTimeOrderedKeyValueChangeBuffer).

It is in memory. Its changelog is written when the task commits: a record for each key that has
changed since.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkasim.model.group.assignors.java import JavaHashSet
from kafkasim.model.streams.records import Change, RecordContext, StreamRecord, serialized
from kafkasim.model.streams.stores.base import Store, StoreContext
from kafkasim.model.streams.topology.nodes import StoreSpec

NEVER = (1 << 63) - 1


class Buffered(NamedTuple):
    """The last update of a key, and when it will leave; it is also the changelog's value."""

    time: int  # by which it leaves: a window's end, or the time of the key's first update
    change: Change
    prior: Any  # the value before the first buffered update
    context: RecordContext  # of the last update (KAFKA-7895)


class _HashSet:
    """Keys in the order of Java's HashSet<Bytes>, in which they are logged."""

    def __init__(self) -> None:
        self._set: JavaHashSet[bytes] = JavaHashSet(_bytes_hash)
        self._keys: dict[bytes, Any] = {}

    def add(self, key: Any) -> None:
        """Add a key, if it is not there."""
        data = serialized(key)
        if data not in self._keys:
            self._set.add(data)
            self._keys[data] = key

    def __iter__(self) -> Iterator[Any]:
        return iter([self._keys[data] for data in self._set])


def _bytes_hash(data: bytes) -> int:
    """Return Arrays.hashCode of bytes, without its sign."""
    code = 1
    for each in data:
        code = (31 * code + (each - 256 if each > 127 else each)) & 0xFFFFFFFF
    return code


class SuppressionBuffer(Store):
    """Updates by key, which leave in the order of their times, then of their keys' bytes."""

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        super().__init__(spec, context)
        self.clear()

    def clear(self) -> None:
        """Forget everything: the buffer is in memory."""
        super().clear()
        self._queue: list[tuple[int, bytes, Any]] = []  # a heap; gone keys stay until seen
        self._dirty = _HashSet()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self.entries)

    def put(self, time: int, record: StreamRecord) -> None:
        """Buffer an update; the key keeps the time of its first one."""
        known = self.entries.get(record.key)
        context = self._context.record_context
        assert context is not None, self.name
        if known is None:
            new = Buffered(time, record.value, record.value.old, context)
        else:
            new = known._replace(change=record.value, context=context)
        self._set(record.key, new)
        self._dirty.add(record.key)

    @property
    def min_timestamp(self) -> int:
        """The least time of a buffered update, the largest long if there is none."""
        while self._queue:
            time, _, key = self._queue[0]
            known = self.entries.get(key)
            if known is not None and known.time == time:
                return time
            heapq.heappop(self._queue)
        return NEVER

    def first(self) -> tuple[Any, Buffered]:
        """Return the key and update that leave next. The buffer is not empty."""
        assert self.min_timestamp != NEVER, self.name
        key = self._queue[0][2]
        return key, self.entries[key]

    def evict(self, key: Any) -> None:
        """Let a key leave."""
        self._set(key, None)
        self._dirty.add(key)

    def prior(self, key: Any) -> Buffered | None:
        """Return what is buffered of a key (priorValueForBuffered)."""
        return self.entries.get(key)

    def flush(self) -> None:
        """Write to the changelog what has changed; the producer's time stands for no time."""
        for key in self._dirty:
            self._log(key, self.entries.get(key), None)
        self._dirty = _HashSet()

    def all(self) -> list[tuple[Any, Any]]:
        """Return the updates in the order in which they will leave."""
        order = sorted(self.entries, key=lambda key: (self.entries[key].time, serialized(key)))
        return [(key, self.entries[key]) for key in order]

    def restore(self, key: Any, value: Any, timestamp: int) -> None:
        """Apply a changelog record; its own timestamp does not count (KAFKA-7895)."""
        if value is not None and not self._context.rules.restores_suppressed_context():
            value = value._replace(context=RecordContext(None, -1, -1, timestamp))
        self._set(key, value)

    def _set(self, key: Any, new: Buffered | None) -> None:
        known = self.entries.get(key)
        if known is not None:
            self.size_bytes -= _size(key, known)
        if new is None:
            self.entries.pop(key, None)
            return
        if known is None or known.time != new.time:
            heapq.heappush(self._queue, (new.time, serialized(key), key))
        self.entries[key] = new
        self.size_bytes += _size(key, new)


def _size(key: Any, buffered: Buffered) -> int:
    """Return the bytes that Kafka counts for an update (computeRecordSize)."""
    size = 8 + len(serialized(key))
    change, context = buffered.change, buffered.context
    if buffered.prior is not None:
        size += len(serialized(buffered.prior))
    if change.old is not None and change.old is not buffered.prior:
        size += len(serialized(change.old))
    if change.new is not None:
        size += len(serialized(change.new))
    return size + 20 + len(context.topic or "")
