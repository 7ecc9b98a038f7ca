"""Records and record batches (format v2), as objects with the sizes that they have on the wire.

A batch is immutable. The leader builds a new one with its offsets and its epoch, and then every
replica's log, every response and every disk share that object. Requests and logs name a partition
by :class:`TopicPartition`; facts name it by topic id and number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafkasim.model.values import value

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_OVERHEAD = 61  # header of a v2 batch
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1

# The topics of coordinators, which are Kafka's internal topics (Topic.isInternal).
GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
COORDINATOR_TOPICS = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC)


class TopicPartition(NamedTuple):
    """A partition, named by its topic and its number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Tombstone(int):
    """The id of a workload's record without value (null): the cleaner takes it for a deletion."""


@value
class Record:
    """One record of a batch."""

    key: Any
    value: Any  # a workload's record id; in internal topics an object; None, Tombstone: no value
    size: int  # bytes that it takes in the batch
    timestamp_ms: int


@value
class RecordBatch:
    """A batch of records (v2). −1 in a field says that there is no such number."""

    base_offset: int  # of the first record; −1 until a leader appends the batch
    last_offset: int  # of the last record
    leader_epoch: int  # of the leader that appended it
    producer_id: int
    producer_epoch: int
    base_sequence: int  # of the first record of an idempotent producer
    records: tuple[Record, ...]
    size: int  # bytes, with the header
    max_timestamp_ms: int
    transactional: bool = False
    control: bool = False  # its one record is no data: a leader change, or a transaction's end
    offset_deltas: tuple[int, ...] | None = None  # None: record i is at base_offset + i
    delete_horizon_ms: int = NO_TIMESTAMP  # when the cleaner may remove tombstones and the marker

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, −1 without a producer id."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_sequence(self.base_sequence, self.last_offset - self.base_offset)


def names_producer(producer_id: int, producer_epoch: int) -> bool:
    """Return whether a broker can build a transactional batch or a marker of this producer.

    A client's request may say −1 for both. Kafka then throws an IllegalArgumentException, which
    becomes UNKNOWN_SERVER_ERROR (MemoryRecordsBuilder.validateProducerState).
    """
    return producer_id != NO_PRODUCER_ID and producer_epoch != NO_PRODUCER_EPOCH


@value
class EndTransactionMarker:
    """The value of a control record that ends a producer's transaction in one partition."""

    committed: bool  # False: aborted
    coordinator_epoch: int  # the leader epoch of the coordinator's partition


MARKER_SIZE = 17  # bytes of the record: a key of 4 and a value of 6


def end_transaction_marker(
    producer_id: int, producer_epoch: int, marker: EndTransactionMarker, timestamp_ms: int
) -> RecordBatch:
    """Return a control batch that no leader has appended yet (withEndTransactionMarker)."""
    return batch_of(
        (Record(None, marker, MARKER_SIZE, timestamp_ms),),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def batch_of(
    records: tuple[Record, ...],
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> RecordBatch:
    """Return a batch that no leader has appended yet: base offset and leader epoch are −1."""
    return RecordBatch(
        -1,
        len(records) - 2,
        -1,
        producer_id,
        producer_epoch,
        base_sequence,
        records,
        BATCH_OVERHEAD + sum([record.size for record in records]),
        max([record.timestamp_ms for record in records], default=NO_TIMESTAMP),
        transactional,
        control,
    )


def assigned(batch: RecordBatch, base_offset: int, leader_epoch: int) -> RecordBatch:
    """Return the batch as a leader appends it: at ``base_offset``, under ``leader_epoch``."""
    return RecordBatch(
        base_offset,
        base_offset + batch.last_offset - batch.base_offset,
        leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.records,
        batch.size,
        batch.max_timestamp_ms,
        batch.transactional,
        batch.control,
        batch.offset_deltas,
        batch.delete_horizon_ms,
    )


def offsets_of(batch: RecordBatch) -> Sequence[int]:
    """Return the offset of each record of a batch, in the order of the records."""
    base, deltas = batch.base_offset, batch.offset_deltas
    if deltas is None:
        return range(base, base + len(batch.records))
    return [base + delta for delta in deltas]


def has_value(record: Record) -> bool:
    """Return whether a record has a value; one without is a tombstone."""
    return record.value is not None and not isinstance(record.value, Tombstone)


def add_sequence(sequence: int, increment: int) -> int:
    """Return a sequence number that is ``increment`` later; 0 follows 2147483647.

    Kafka: DefaultRecordBatch.incrementSequence.
    """
    total = sequence + increment
    return total if total <= MAX_SEQUENCE else total - MAX_SEQUENCE - 1


def varint_size(number: int) -> int:
    """Return the size in bytes of a number as zig-zag varint (ByteUtils.sizeOfVarint)."""
    zigzag = (number << 1) ^ (number >> 63)
    return (zigzag.bit_length() + 6) // 7 or 1


NO_HEADERS = 1
"""The bytes of a record's headers if there are none: their count."""


def headers_size(headers: Sequence[tuple[str, bytes | None]]) -> int:
    """Return the bytes of a record's headers, with their count (DefaultRecord.sizeOf)."""
    total = varint_size(len(headers))
    for name, data in headers:
        size = len(name.encode())
        total += varint_size(size) + size
        total += varint_size(-1) if data is None else varint_size(len(data)) + len(data)
    return total


def record_size(
    key_size: int,
    value_size: int,
    offset_delta: int,
    timestamp_delta: int,
    headers_size: int = NO_HEADERS,
) -> int:
    """Return the bytes that a record takes in a batch.

    ``key_size`` and ``value_size`` are −1 for null; the deltas are to the batch's first record.
    """
    body = (
        1
        + varint_size(timestamp_delta)
        + varint_size(offset_delta)
        + varint_size(key_size)
        + max(key_size, 0)
        + varint_size(value_size)
        + max(value_size, 0)
        + headers_size
    )
    return body + varint_size(body)


def restamped_size(size: int, timestamp_delta: int, new_delta: int) -> int:
    """Return the bytes of a record of ``size`` bytes once its timestamp delta is another one."""
    body = size - 1
    while body + varint_size(body) > size:
        body -= 1
    body += varint_size(new_delta) - varint_size(timestamp_delta)
    return body + varint_size(body)
