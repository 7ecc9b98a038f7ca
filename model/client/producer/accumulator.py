"""Batches that wait to be sent, per partition: Kafka's RecordAccumulator, ProducerBatch, BufferPool.

The drain lives in sender.py; here are the data: a queue of batches per partition with the
partition's producer sequences, and the memory they take.

Not modelled: compression, headers, the free list of buffers.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafkasim.model.records import (
    BATCH_OVERHEAD,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Record,
    RecordBatch,
    TopicPartition,
    add_sequence,
    record_size,
)

if TYPE_CHECKING:
    from kafkasim.model.client.producer.sender import Node


class ProducerBatch:
    """Records of one partition that travel together, from the first append to their result."""

    __slots__ = (
        "acks",
        "allocated",
        "attempts",
        "backoff_until",
        "base_sequence",
        "created_us",
        "done",
        "full",
        "ids",
        "indeterminate",
        "leader_epoch",
        "max_timestamp_ms",
        "number",
        "producer_epoch",
        "producer_id",
        "queue",
        "records",
        "sequence_reset",
        "size",
        "topic_id",
        "wire",
    )

    def __init__(self, queue: PartitionQueue, number: int, created_us: int, allocated: int) -> None:
        self.queue = queue
        self.number = number
        self.created_us = created_us  # when the first record got its memory
        self.allocated = allocated  # bytes of buffer.memory
        self.records: list[Record] = []
        self.ids: list[int] = []
        self.acks: list[tuple[int, int]] | None = None  # (call that wants the ack, index)
        self.size = BATCH_OVERHEAD
        self.max_timestamp_ms = -1
        self.full = False
        self.done = False
        self.attempts = 0
        self.backoff_until = 0
        self.leader_epoch = -1  # of the leader of the last attempt
        self.topic_id = ""  # as known at the last attempt
        self.indeterminate = False  # an attempt may have been appended
        self.wire: RecordBatch | None = None  # built at the first drain, kept over retries
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.sequence_reset = False

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record."""
        return add_sequence(self.base_sequence, len(self.records) - 1)

    def build(self, transactional: bool = False) -> RecordBatch:
        """Build the batch as it goes over the wire."""
        self.wire = RecordBatch(
            -1,
            len(self.records) - 2,
            -1,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            tuple(self.records),
            self.size,
            self.max_timestamp_ms,
            transactional,
        )
        return self.wire

    def set_sequence(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Give the batch its place in a producer's sequence."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.wire = None

    def split(self, limit: int, numbers: list[int]) -> list[ProducerBatch]:
        """Return batches of at most ``limit`` bytes with the same records, in order.

        ``numbers`` gives each its batch number, as many as there are records at most. Parts keep
        the creation time and continue the sequence, and count as never tried.
        """
        parts: list[ProducerBatch] = []
        base_timestamp = 0
        for index, record in enumerate(self.records):
            part = parts[-1] if parts else None
            size = 0
            if part is not None:
                size = self._size_in(part, record, base_timestamp)
            if part is None or part.size + size > limit:
                part = ProducerBatch(self.queue, numbers[len(parts)], self.created_us, 0)
                part.indeterminate = self.indeterminate
                part.acks = None if self.acks is None else []
                base_timestamp = record.timestamp_ms
                size = self._size_in(part, record, base_timestamp)
                if self.base_sequence != NO_SEQUENCE:
                    base = add_sequence(self.base_sequence, index)
                    part.set_sequence(self.producer_id, self.producer_epoch, base)
                parts.append(part)
            if self.acks is not None:
                assert part.acks is not None
                at = len(part.records)
                part.acks += [(call, at) for call, i in self.acks if i == index]
            part.records.append(record)
            part.ids.append(record.value)
            part.size += size
            part.max_timestamp_ms = max(part.max_timestamp_ms, record.timestamp_ms)
            part.full = True
        parts[0].allocated = self.allocated
        return parts

    def _size_in(self, part: ProducerBatch, record: Record, base_timestamp: int) -> int:
        key_size = -1 if record.key is None else len(record.key.encode())
        payload = record.size - record_size(key_size, 0, 0, 0)
        return record_size(
            key_size, payload, len(part.records), record.timestamp_ms - base_timestamp
        )


class PartitionQueue:
    """The batches of one partition, oldest first, and its producer sequences."""

    __slots__ = (
        "batches",
        "in_flight",
        "last_acked_offset",
        "last_acked_sequence",
        "muted",
        "next_sequence",
        "node",
        "producer_epoch",
        "producer_id",
        "tp",
        "unresolved",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.batches: deque[ProducerBatch] = deque()
        self.muted = False  # a batch is in flight and max.in.flight is 1
        self.node: Node | None = None  # the leader's, None while unknown
        # TxnPartitionEntry: sequences of the current producer id and epoch
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.last_acked_offset = -1
        self.in_flight: list[ProducerBatch] = []  # has a sequence and no result, by sequence
        self.unresolved: int | None = None  # the sequence after a batch that expired

    def put_back(self, batch: ProducerBatch) -> None:
        """Put a batch back for a retry: at the front, or in the order of sequences."""
        batches = self.batches
        if batch.base_sequence == NO_SEQUENCE:
            batches.appendleft(batch)
            return
        index = self.in_flight.index(batch)
        earlier = {id(other) for other in self.in_flight[:index]}  # membership only
        at = 0
        while at < len(batches) and id(batches[at]) in earlier:
            at += 1
        batches.insert(at, batch)
