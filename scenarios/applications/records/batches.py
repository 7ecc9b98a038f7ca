"""BatchBuilder: a batch that an application puts together, under aiokafka's name.

What fits is decided as by aiokafka's builder of batches (DefaultRecordBatchBuilder), by bytes that
are not compressed yet. A record without a timestamp has the time at which it was appended, on its
host's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafkasim.model.records import BATCH_OVERHEAD, Record, headers_size, record_size
from kafkasim.scenarios.applications.session import Payload, Session

Serializer = Callable[[Any], bytes]


class BatchRecordMetadata(NamedTuple):
    """What ``append`` returns of a record: its place in the batch, its bytes, its time in ms."""

    offset: int
    crc: None
    size: int
    timestamp: int


def serialized(what: str, given: Any, serializer: Serializer | None) -> bytes | None:
    """Return a key or a value as bytes.

    Raises:
        TypeError: it has no serializer and is not bytes.
    """
    data = serializer(given) if serializer is not None and given is not None else given
    if data is not None and not isinstance(data, bytes | bytearray):
        raise TypeError(f"{what}: bytes are needed, not {type(data).__name__}; give a serializer")
    return None if data is None else bytes(data)


class BatchBuilder:
    """An empty batch of a producer; ``AIOKafkaProducer.send_batch`` submits it, which closes it."""

    def __init__(
        self,
        place: Session,
        batch_size: int,
        key_serializer: Serializer | None,
        value_serializer: Serializer | None,
    ) -> None:
        self._session = place
        self._batch_size = batch_size
        self._of_key, self._of_value = key_serializer, value_serializer
        self._size = BATCH_OVERHEAD
        self._closed = False
        self._records: list[Record] = []

    def append(
        self,
        *,
        timestamp: int | None,
        key: Any,
        value: Any,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> BatchRecordMetadata | None:
        """Add a record; return None if the batch is closed, or is full, which closes it.

        Raises:
            ValueError: a negative timestamp.
            TypeError: the key or the value is not bytes, and there is no serializer.
        """
        if timestamp is not None and timestamp < 0:
            raise ValueError(f"timestamp: {timestamp}; it must not be negative")
        if self._closed:
            return None
        place, records = self._session, self._records
        key_bytes = serialized("key", key, self._of_key)
        value_bytes = serialized("value", value, self._of_value)
        headers = tuple(headers or ())
        time_ms = place.port.wall_us // 1000 if timestamp is None else timestamp
        size = record_size(
            -1 if key_bytes is None else len(key_bytes),
            -1 if value_bytes is None else len(value_bytes),
            len(records),
            time_ms - records[0].timestamp_ms if records else 0,
            headers_size(headers),
        )
        if records and self._size + size >= self._batch_size:
            self._closed = True
            return None
        record_id = place.payloads.new(place.node, place.number, Payload(value_bytes, headers))
        records.append(Record(key_bytes, record_id, size, time_ms))
        self._size += size
        return BatchRecordMetadata(len(records) - 1, None, size, time_ms)

    def close(self) -> None:
        """Take no more records: neither by ``append`` nor, once it is submitted, by ``send``."""
        self._closed = True

    def closed(self) -> bool:
        """Return whether the batch takes no more records."""
        return self._closed

    def size(self) -> int:
        """Return the bytes of the batch, not compressed."""
        return self._size

    def record_count(self) -> int:
        """Return how many records the batch has."""
        return len(self._records)

    def records(self) -> tuple[Record, ...]:
        """Return the records as the simulated producer takes them."""
        return tuple(self._records)
