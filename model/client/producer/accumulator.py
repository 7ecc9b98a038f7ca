"""Where records wait to be sent: Kafka's RecordAccumulator and BufferPool.

The accumulator owns a queue of batches for each partition, the bytes of buffer.memory, and the
flushes that wait for batches. It does not know who drains it; that is the Sender.

Not modelled: the free list of buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkasim.model.client.exceptions import KafkaError, RecordTooLargeError
from kafkasim.model.client.producer.batches import PartitionQueue, ProducerBatch
from kafkasim.model.client.producer.compression import Packing
from kafkasim.model.compression import STATED_RATIOS, Compressor
from kafkasim.model.config import ProducerConfig
from kafkasim.model.records import (
    BATCH_OVERHEAD,
    NO_HEADERS,
    Record,
    TopicPartition,
    record_size,
    varint_size,
)

NEVER = 1 << 62

MAX_VARINT = 5
MAX_RECORD_OVERHEAD = 21
"""The most bytes of a record's attributes, deltas and length (DefaultRecord)."""


class RecordAccumulator:
    """The batches of one producer and the memory they take.

    ``on_release(now)`` is called whenever a batch has got its result and its memory is free.
    """

    def __init__(
        self,
        config: ProducerConfig,
        on_release: Callable[[int], None],
        compressor: Compressor = STATED_RATIOS,
        stops_at_held_back: bool = True,
    ) -> None:
        """``stops_at_held_back``: see :meth:`ready`; ClientRules decides."""
        self._config = config
        self._stops_at_held_back = stops_at_held_back
        codec = config.compression_type
        self._packing = None if codec == "none" else Packing(codec, compressor)
        self._batch_size = config.batch_size
        self._linger_us = config.linger_ms * 1000
        self._on_release = on_release
        self.queues: dict[tuple[str, int], PartitionQueue] = {}  # keyed by TopicPartition
        self.incomplete: dict[int, ProducerBatch] = {}  # without a result; by number, oldest first
        self.skips_linger = False  # batches are ready at once: memory is short, flush or close
        self._free_bytes = config.buffer_memory
        # Keys, values and headers of fewer bytes make no record that is too large.
        overheads = BATCH_OVERHEAD + MAX_RECORD_OVERHEAD + 2 * MAX_VARINT
        self._surely_small = min(config.max_request_size, config.buffer_memory) - overheads
        self._last_number = 0  # of a batch
        self._flushes: list[tuple[int, int]] = []  # (call, number of the last batch it waits for)
        self._first_sizes: dict[tuple[int, ...], int] = {}  # of a batch's first record

    def queue(self, topic: str, partition: int) -> PartitionQueue:
        """Return the queue of a partition, a new one at its first record."""
        queue = self.queues.get((topic, partition))
        if queue is None:
            queue = PartitionQueue(TopicPartition(topic, partition))
            self.queues[queue.tp] = queue
        return queue

    def append(
        self,
        queue: PartitionQueue,
        key: str | None,
        key_size: int,
        record_id: int,
        value_size: int,
        timestamp_ms: int,
        ack_call: int | None,
        may_allocate: bool,
        now: int,
        headers_size: int = NO_HEADERS,
    ) -> ProducerBatch | None:
        """Append a record to the last batch, or to a new one.

        Return the batch, or None while there is no memory for a new one. Sizes are in bytes;
        ``key_size`` is −1 for no key. ``ack_call`` is the call that gets the result, if any.
        ``may_allocate`` is False if other records wait for memory and this one must not overtake
        them.
        The record is not too large (:meth:`too_large`).
        """
        batches = queue.batches
        batch = batches[-1] if batches else None
        if batch is not None and not batch.full and not batch.attempts:
            records = batch.records
            delta_ms = timestamp_ms - records[0].timestamp_ms
            size = record_size(key_size, value_size, len(records), delta_ms, headers_size)
            if batch.size + size > self._batch_size:
                batch.full = True
                batch = None
        else:
            batch = None
        if batch is None:
            size = self._first_size(key_size, value_size, headers_size)
            batch = self._new_batch(queue, size, may_allocate, now)
            if batch is None:
                return None
        batch.records.append(Record(key, record_id, size, timestamp_ms))
        total = batch.size + size if batch.packing is None else batch.estimated_with(size)
        batch.size = total
        if timestamp_ms > batch.max_timestamp_ms:
            batch.max_timestamp_ms = timestamp_ms
        if ack_call is not None:
            batch.want_ack(ack_call)
        if total >= self._batch_size:
            batch.full = True
        return batch

    def too_large(self, key_size: int, value_size: int, headers_size: int) -> KafkaError | None:
        """Return the error of a record that is larger than max.request.size or buffer.memory.

        It is asked of every record, and before compression (KafkaProducer.ensureValidRecordSize):
        what counts is the most that a batch with this record alone may take.
        """
        if key_size + value_size + headers_size < self._surely_small:
            return None
        parts = (key_size, value_size)
        size = sum([varint_size(part) + max(part, 0) for part in parts]) + headers_size
        size += BATCH_OVERHEAD + MAX_RECORD_OVERHEAD
        config = self._config
        text = f"The message is {size} bytes when serialized which is larger than"
        if size > config.max_request_size:
            text += f" {config.max_request_size}, which is the value of the max.request.size"
            return RecordTooLargeError("MESSAGE_TOO_LARGE", f"{text} configuration.")
        if size > config.buffer_memory:
            text += " the total memory buffer you have configured with the buffer.memory"
            return RecordTooLargeError("MESSAGE_TOO_LARGE", f"{text} configuration.")
        return None

    def append_batch(
        self, queue: PartitionQueue, records: Sequence[Record], call: int, closed: bool, now: int
    ) -> None:
        """Append records as one batch, for which there is memory; see ``sends/prepared.py``.

        ``call`` gets the result, with the first record's offset.
        """
        size = sum([record.size for record in records])
        batch = self._new_batch(queue, size, True, now)
        assert batch is not None, (queue.tp, size, self._free_bytes)
        batch.records.append(records[0])
        batch.want_ack(call)
        batch.records += records[1:]
        batch.max_timestamp_ms = max([record.timestamp_ms for record in records])
        batch.size = batch.size + size if batch.packing is None else batch.estimated_with(size)
        batch.full = closed or batch.size >= self._batch_size

    def has_memory_for(self, records: Sequence[Record]) -> bool:
        """Return whether there is memory for a new batch of these records.

        Raises:
            KafkaError: the batch would be larger than max.request.size or buffer.memory.
        """
        return self._needed(sum([record.size for record in records])) <= self._free_bytes

    def _needed(self, size: int) -> int:
        """Return the bytes of buffer.memory that a batch with records of ``size`` bytes takes."""
        need = max(self._batch_size, size + BATCH_OVERHEAD)
        if need > self._batch_size:
            if need > self._config.max_request_size or need > self._config.buffer_memory:
                raise KafkaError("MESSAGE_TOO_LARGE", f"{need} bytes")
        return need

    def _new_batch(
        self, queue: PartitionQueue, size: int, may_allocate: bool, now: int
    ) -> ProducerBatch | None:
        need = self._needed(size)
        if need > self._free_bytes or not may_allocate:
            return None
        self._free_bytes -= need
        self._last_number = number = self._last_number + 1
        batch = self.incomplete[number] = ProducerBatch(queue, number, now, need)
        if self._packing is not None:
            batch.packing = self._packing
            batch.estimate = self._packing.estimate(queue.tp.topic)
        queue.batches.append(batch)
        return batch

    def _first_size(self, *sizes: int) -> int:
        """Return the bytes of a record of these sizes that opens a batch."""
        known = self._first_sizes.get(sizes)
        if known is None:
            key_size, value_size, headers_size = sizes
            known = record_size(key_size, value_size, 0, 0, headers_size)
            self._first_sizes[sizes] = known
        return known

    def takes(
        self,
        queue: PartitionQueue,
        key_size: int,
        value_size: int,
        timestamp_ms: int,
        headers_size: int,
    ) -> bool:
        """Return whether a record fits into the last batch of a partition (tryAppend).

        A batch that has no room for it is full from then on.
        """
        batch = queue.batches[-1] if queue.batches else None
        if batch is None or batch.full or batch.attempts:
            return False
        delta_ms = timestamp_ms - batch.records[0].timestamp_ms
        size = record_size(key_size, value_size, len(batch.records), delta_ms, headers_size)
        batch.full = batch.size + size > self._batch_size
        return not batch.full

    def has_memory(self, key_size: int, value_size: int, headers_size: int) -> bool:
        """Return whether there is memory for a new batch with such a record."""
        size = record_size(key_size, value_size, 0, 0, headers_size) + BATCH_OVERHEAD
        return max(self._batch_size, size) <= self._free_bytes

    def ready(
        self,
        pending: dict[TopicPartition, PartitionQueue],
        may_send: Callable[[ProducerBatch, int], bool] | None,
        now: int,
    ) -> tuple[list[PartitionQueue], int]:
        """Return the queues whose first batch goes into the next request, and when to look again.

        Models RecordAccumulator.ready and .drain for one node. ``pending`` are the node's queues
        with batches. If one batch is ready, the first batches of the other queues go with it, up to
        max.request.size. The list is empty if no batch is ready; the time is then the end of the
        first linger or retry backoff, NEVER if there is none.

        ``may_send`` may hold a batch back (TransactionManager.may_send). That ends the drain, and
        the next one begins at that queue: the other partitions of the node wait, too
        (drainBatchesForOneNode, KAFKA-13834).
        """
        ready, stopped = self.skips_linger, False
        wake = NEVER
        size = 0
        queues: list[PartitionQueue] = []
        for queue in pending.values():
            batch = queue.batches[0]
            if queue.muted:
                continue
            if batch.backoff_until > now:
                wake = min(wake, batch.backoff_until)
                continue
            if not ready:
                if batch.full or batch.attempts or len(queue.batches) > 1:
                    ready = True
                else:
                    due = batch.created_us + self._linger_us
                    if due <= now:
                        ready = True
                    elif due < wake:
                        wake = due
            if stopped:
                continue
            if queues and size + batch.size > self._config.max_request_size:
                stopped = True
            elif may_send is not None and not may_send(batch, now):
                stopped = self._stops_at_held_back
            else:
                queues.append(queue)
                size += batch.size
        return (queues if ready else []), wake

    def split(self, batch: ProducerBatch, limit: int) -> list[ProducerBatch]:
        """Replace a batch by parts of at most ``limit`` bytes, which are in no queue yet.

        Models RecordAccumulator.splitAndReenqueue without the second half. The batch has no result
        of its own any more; a flush that waits for it waits for its parts.
        """
        if self._packing is not None:
            ratio = (batch.size - BATCH_OVERHEAD) / max(1, batch.uncompressed)
            self._packing.expect_no_gain(batch.queue.tp.topic, ratio)
        parts = batch.split(limit, self._last_number + 1)
        self._last_number = last = parts[-1].number
        sequences = batch.queue.sequences
        if batch in sequences.in_flight:
            sequences.remove(batch)
            for part in parts:
                sequences.track(part)
        batch.done = True
        del self.incomplete[batch.number]
        for part in parts:
            self.incomplete[part.number] = part
        self._flushes = [(call, last) for call, _ in self._flushes]
        return parts

    def release(self, batch: ProducerBatch, now: int) -> None:
        """Free the memory of a batch that has its result (deallocate)."""
        batch.done = True
        del self.incomplete[batch.number]
        self._free_bytes += batch.allocated
        self._on_release(now)

    def begin_flush(self, call: int) -> None:
        """Note a flush that waits for every batch there is now; lingering ends."""
        self._flushes.append((call, self._last_number))
        self.skips_linger = True

    @property
    def flushing(self) -> bool:
        """Whether a flush waits for batches."""
        return bool(self._flushes)

    def finished_flushes(self) -> list[int]:
        """Return, once each, the calls of flushes whose batches all have their result."""
        oldest = next(iter(self.incomplete), None)
        finished = [(c, last) for c, last in self._flushes if oldest is None or oldest > last]
        for flush in finished:
            self._flushes.remove(flush)
        return [call for call, _ in finished]
