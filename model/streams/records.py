"""What flows through a topology and what its stores hold; keys as bytes, as RocksDB orders them.

Models Record, Windowed, Change, ValueAndTimestamp and ProcessorRecordContext, and the layouts of
WindowKeySchema, SessionKeySchema and TimestampedKeyAndJoinSideSerializer. Keys and values are
None, int, str, bytes, or what JSON can say. Left out: headers.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

UNKNOWN = -1
"""A time that is not known (ConsumerRecord.NO_TIMESTAMP)."""


class StreamRecord(NamedTuple):
    """A record between two processors (processor.api.Record)."""

    key: Any
    value: Any
    timestamp: int  # ms


class RecordContext(NamedTuple):
    """The input record that caused a call; ``timestamp`` is that of the record in flight.

    In punctuators there is none: the topic is None, partition and offset are −1.
    """

    topic: str | None
    partition: int
    offset: int
    timestamp: int


class Windowed(NamedTuple):
    """A key with its window: [start, end), or [start, end] of a session."""

    key: Any
    start: int  # ms
    end: int
    session: bool = False

    def __str__(self) -> str:
        return f"[{self.key}@{self.start}/{self.end}]"


class Change(NamedTuple):
    """An update of a table. ``old`` is None unless something downstream needs old values."""

    new: Any
    old: Any


class ValueAndTimestamp(NamedTuple):
    """A value of a timestamped store; its value is never None."""

    value: Any
    timestamp: int


class WindowKey(NamedTuple):
    """The key of a window store's entry; ``sequence`` tells duplicates of a join's store apart."""

    key: Any
    start: int
    sequence: int


class JoinSideKey(NamedTuple):
    """The key of a record that a left or outer join still holds (TimestampedKeyAndJoinSide)."""

    timestamp: int
    left: bool
    key: Any


def value_of(entry: ValueAndTimestamp | None) -> Any:
    """Return the value of an entry of a timestamped store, or None (getValueOrNull)."""
    return None if entry is None else entry.value


def timestamped(value: Any, timestamp: int) -> ValueAndTimestamp | None:
    """Return a value with its time, or None for no value (ValueAndTimestamp.make)."""
    return None if value is None else ValueAndTimestamp(value, timestamp)


def base_key(key: Any) -> Any:
    """Return the key by which a sink chooses the partition: without the window.

    Kafka: WindowedStreamPartitioner.
    """
    return key.key if isinstance(key, Windowed) else key


def _long(number: int) -> bytes:
    return number.to_bytes(8, "big", signed=True)


def serialized(data: Any) -> bytes:
    """Return a key or a value as bytes: integers as longs, texts as UTF-8, others as JSON.

    Stores iterate in the order of these bytes, compared without sign.
    """
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, int) and not isinstance(data, bool) and -(1 << 63) <= data < 1 << 63:
        return _long(data)
    if data is None:
        return b""
    if isinstance(data, bytes):
        return data
    if isinstance(data, Windowed):
        times = (data.end, data.start) if data.session else (data.start,)
        return serialized(data.key) + b"".join([_long(time) for time in times])
    if isinstance(data, WindowKey):
        return serialized(data.key) + _long(data.start) + data.sequence.to_bytes(4, "big")
    if isinstance(data, JoinSideKey):
        return _long(data.timestamp) + bytes([data.left]) + serialized(data.key)
    if isinstance(data, ValueAndTimestamp):
        return _long(data.timestamp) + serialized(data.value)
    return json.dumps(data, separators=(",", ":")).encode()
