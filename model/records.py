"""Records and record batches (format v2), as objects with the sizes they would have on the wire.

A batch is immutable: the leader builds a new one with its offsets and epoch, and every replica's
log, every response and every disk share that object. ``TopicPartition`` is how a partition is
named on the wire; facts name it by topic id.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kafkasim.model.values import value

BATCH_OVERHEAD = 61  # header of a v2 batch
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
MAX_SEQUENCE = 2**31 - 1


class TopicPartition(NamedTuple):
    """A partition by topic name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@value
class Record:
    """One record. ``value`` is a workload's unique record id (an int), or, in internal topics, the
    value object itself; None is a tombstone. ``size`` is the record's size in the batch in bytes.
    """

    key: Any
    value: Any
    size: int
    timestamp_ms: int


@value
class RecordBatch:
    """A v2 batch. ``base_offset`` and ``leader_epoch`` are −1 until a leader assigns them.

    ``offset_deltas`` is None for a dense batch (record i is at base_offset + i), else the delta of
    each record (after compaction). ``control`` marks a control batch (transaction marker, Raft
    leader change), whose records are for the log's owner and never for consumers.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records: tuple[Record, ...]
    size: int
    max_timestamp_ms: int
    transactional: bool = False
    control: bool = False
    offset_deltas: tuple[int, ...] | None = None

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return self.last_offset + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, −1 without a producer id."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return add_sequence(self.base_sequence, self.last_offset - self.base_offset)


def batch_of(
    records: tuple[Record, ...],
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> RecordBatch:
    """Build a batch that no leader has seen yet: base_offset −1, leader epoch −1."""
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
    """Return the batch as the leader writes it: at ``base_offset`` under ``leader_epoch``."""
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
    )


def add_sequence(sequence: int, increment: int) -> int:
    """Add to a sequence number; after 2147483647 comes 0 (DefaultRecordBatch.incrementSequence)."""
    total = sequence + increment
    return total if total <= MAX_SEQUENCE else total - MAX_SEQUENCE - 1


def varint_size(number: int) -> int:
    """Return the size in bytes of a zig-zag varint (ByteUtils.sizeOfVarint)."""
    zigzag = (number << 1) ^ (number >> 63)
    return (zigzag.bit_length() + 6) // 7 or 1


def record_size(key_size: int, value_size: int, offset_delta: int, timestamp_delta: int) -> int:
    """Return the size of a record without headers in a v2 batch; a size of −1 stands for null."""
    body = (
        1
        + varint_size(timestamp_delta)
        + varint_size(offset_delta)
        + varint_size(key_size)
        + max(key_size, 0)
        + varint_size(value_size)
        + max(value_size, 0)
        + 1
    )
    return body + varint_size(body)
