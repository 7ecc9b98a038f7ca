"""The producer's batches, queued by partition: Kafka's ProducerBatch and TxnPartitionEntry.

A batch is created by the first record that is appended to it and lives until it has a result. A
:class:`PartitionQueue` holds the batches of one partition that wait to be sent, in order; beside
them stand the partition's producer sequences, which only the TransactionManager writes.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafkasim.model.client.producer.compression import estimated_size
from kafkasim.model.records import (
    BATCH_OVERHEAD,
    MAX_SEQUENCE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Record,
    RecordBatch,
    TopicPartition,
    record_size,
)

if TYPE_CHECKING:
    from kafkasim.model.client.producer.compression import Packing


def java_int(total: int) -> int:
    """Return what Java's int holds for a sum of two: it overflows to negative numbers."""
    return total if total <= MAX_SEQUENCE else total - 2 * (MAX_SEQUENCE + 1)


class ProducerBatch:
    """Records of one partition that travel together, from the first append to their result."""

    __slots__ = (
        "ack_calls",
        "allocated",
        "attempts",
        "backoff_until",
        "base_sequence",
        "created_us",
        "done",
        "estimate",
        "full",
        "indeterminate",
        "last_error",
        "leader_epoch",
        "max_timestamp_ms",
        "number",
        "packed",
        "packing",
        "producer_epoch",
        "producer_id",
        "queue",
        "records",
        "sequence_reset",
        "size",
        "topic_id",
        "uncompressed",
        "wire",
    )

    def __init__(self, queue: PartitionQueue, number: int, created_us: int, allocated: int) -> None:
        self.queue = queue
        self.number = number
        self.created_us = created_us  # when the first record got its memory
        self.allocated = allocated  # bytes of buffer.memory
        self.records: list[Record] = []
        self.ack_calls: list[tuple[int, int]] | None = None  # (call, index of its record)
        self.size = BATCH_OVERHEAD  # bytes; an estimate while a compressed batch is open
        self.packing: Packing | None = None  # None: not compressed
        self.packed = False  # compressed: the size is what it weighs
        self.estimate = 1.0  # compressed bytes by bytes, as expected when the batch was opened
        self.uncompressed = 0  # bytes of the records, if they are compressed
        self.max_timestamp_ms = -1
        self.full = False
        self.done = False  # has its result, or was split
        self.attempts = 0
        self.backoff_until = 0
        self.leader_epoch = -1  # of the leader to which the last attempt went
        self.topic_id = ""  # as known at the last attempt
        self.indeterminate = False  # an attempt may have been appended
        self.last_error = ""  # by which an attempt has failed
        self.wire: RecordBatch | None = None  # built at the first drain, kept over retries
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.base_sequence = NO_SEQUENCE
        self.sequence_reset = False  # renumbered since it was last sent (reopened)

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; negative if one before it is the largest."""
        last = self.base_sequence + len(self.records) - 1
        return last if last <= MAX_SEQUENCE else java_int(last)

    @property
    def record_ids(self) -> tuple[int, ...]:
        """The workload's ids of the records, in order."""
        return tuple([record.value for record in self.records])

    def want_ack(self, call: int) -> None:
        """Note the call that gets the result of the last record."""
        if self.ack_calls is None:
            self.ack_calls = []
        self.ack_calls.append((call, len(self.records) - 1))

    def forget_ack(self, call: int) -> bool:
        """Let a call not get the result of the last record; return whether it would have."""
        if not self.ack_calls or self.ack_calls[-1][0] != call:
            return False
        self.ack_calls.pop()
        return True

    def estimated_with(self, size: int) -> int:
        """Return the size of the compressed batch with a record more, as it is expected to be."""
        self.uncompressed += size
        return estimated_size(self.uncompressed, self.estimate)

    def build(self, transactional: bool = False) -> RecordBatch:
        """Build the batch as it goes over the wire."""
        if self.packing is not None and not self.packed:
            self.packed = True
            topic = self.queue.tp.topic
            self.size = self.packing.pack(topic, self.records, self.uncompressed)
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
        """Give the batch its place in the sequence of a producer."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.wire = None

    def split(self, limit: int, first_number: int) -> list[ProducerBatch]:
        """Return batches of at most ``limit`` bytes with the same records, in order.

        The parts are numbered from ``first_number``. They keep the creation time, continue the
        sequence, and count as never sent. Behind the largest sequence theirs are negative, as in
        Kafka; brokers refuse them.
        """
        parts: list[ProducerBatch] = []
        base_timestamp = 0
        calls = {index: call for call, index in self.ack_calls or ()}
        for index, record in enumerate(self.records):
            part = parts[-1] if parts else None
            size = 0
            if part is not None:
                size = self._size_in(part, record, base_timestamp)
            if part is None or part.size + size > limit:
                part = ProducerBatch(self.queue, first_number + len(parts), self.created_us, 0)
                part.indeterminate = self.indeterminate
                part.packing = self.packing
                part.full = True
                base_timestamp = record.timestamp_ms
                size = self._size_in(part, record, base_timestamp)
                if self.base_sequence != NO_SEQUENCE:
                    base = java_int(self.base_sequence + index)
                    part.set_sequence(self.producer_id, self.producer_epoch, base)
                parts.append(part)
            part.records.append(record)
            part.size += size
            part.max_timestamp_ms = max(part.max_timestamp_ms, record.timestamp_ms)
            if index in calls:
                part.want_ack(calls[index])
        for part in parts:
            part.uncompressed = part.size - BATCH_OVERHEAD
        parts[0].allocated = self.allocated
        return parts

    def _size_in(self, part: ProducerBatch, record: Record, base_timestamp: int) -> int:
        """Return the bytes that the record takes as the next one of ``part``."""
        key = record.key
        key_size = -1 if key is None else len(key.encode() if isinstance(key, str) else key)
        payload = record.size - record_size(key_size, 0, 0, 0)
        return record_size(
            key_size, payload, len(part.records), record.timestamp_ms - base_timestamp
        )


def _place(batch: ProducerBatch) -> tuple[int, int, int]:
    return batch.producer_id, batch.producer_epoch, batch.base_sequence


class TxnPartitionEntry:
    """The sequences of one partition, for the current producer id and epoch.

    The TransactionManager is the only writer, but for a split of a batch that is in flight.
    """

    __slots__ = (
        "in_flight",
        "last_acked_offset",
        "last_acked_sequence",
        "next_sequence",
        "producer_epoch",
        "producer_id",
        "unresolved",
    )

    def __init__(self) -> None:
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.next_sequence = 0
        self.last_acked_sequence = -1
        self.last_acked_offset = -1  # of this producer id and epoch
        self.in_flight: list[ProducerBatch] = []  # with a sequence and without a result; see track
        self.unresolved: int | None = None  # the sequence after a batch that expired when sent

    def is_next(self, sequence: int) -> bool:
        """Return whether a sequence follows on the last one that was acknowledged.

        In Kafka 0 does not follow on the largest (TransactionManager.isNextSequence).
        """
        return sequence - self.last_acked_sequence == 1

    def track(self, batch: ProducerBatch) -> None:
        """Count a batch as in flight, in the order of producer id, epoch and sequence.

        The order is by number (PRODUCER_BATCH_COMPARATOR): after the largest sequence a batch with
        sequence 0 stands before those that were sent before it.
        """
        in_flight = self.in_flight
        if not in_flight:
            in_flight.append(batch)
            return
        at = len(in_flight)
        while at and _place(in_flight[at - 1]) > _place(batch):
            at -= 1
        in_flight.insert(at, batch)

    def remove(self, batch: ProducerBatch) -> None:
        """Stop counting a batch as in flight."""
        in_flight = self.in_flight
        if in_flight and in_flight[0] is batch:
            del in_flight[0]
        elif batch in in_flight:
            in_flight.remove(batch)


class PartitionQueue:
    """The batches of one partition that wait to be sent, oldest first."""

    __slots__ = ("batches", "muted", "sequences", "tp")

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.batches: deque[ProducerBatch] = deque()
        self.muted = False  # a batch is in flight and max.in.flight.requests.per.connection is 1
        self.sequences = TxnPartitionEntry()

    def reenqueue(self, batch: ProducerBatch) -> None:
        """Put a batch back for a retry: to the front, or in the order of sequences.

        Models RecordAccumulator.insertInSequenceOrder, which throws if the partition's sequences
        were forgotten meanwhile: the batch is then left to delivery.timeout.ms.
        """
        batches = self.batches
        if batch.base_sequence == NO_SEQUENCE:
            batches.appendleft(batch)
            return
        in_flight = self.sequences.in_flight
        if batch not in in_flight:
            return
        earlier = in_flight[: in_flight.index(batch)]
        at = 0
        while at < len(batches) and batches[at] in earlier:
            at += 1
        batches.insert(at, batch)
