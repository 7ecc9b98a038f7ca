"""What was fetched, until the application takes it: KafkaStream, ConsumerIterator and their queues.

Each topic has one stream, a queue of at most queued.max.message.chunks chunks. A chunk is what one
fetch returned of one partition. A fetcher that finds the queue full waits, with all its partitions.
The application takes one record at a time. The consumed offset moves behind a record when the
application gets it, not when it has processed it. So a commit covers the record in its hands.

A rebalance clears the queues and the chunk that is being read; the application keeps the record
that it has.

auto.offset.reset moves the fetched and the consumed offset, and leaves the queue as it is
(ConsumerFetcherThread.handleOffsetOutOfRange). Of the chunk that is being read the iterator then
rejects what lies below the consumed offset, but for the last record, which moves the consumed
offset back (ConsumerIterator.makeNext). Chunks behind it are read as if nothing had been reset.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.legacy.threads import Condition
from kafkasim.model.records import RecordBatch

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.completed_fetch import RecordTuple
    from kafkasim.model.client.legacy.threads import Steps
    from kafkasim.model.effects import Process
    from kafkasim.model.messages import FetchPartitionResponse
    from kafkasim.model.records import TopicPartition


class PartitionTopicInfo:
    """An owned partition: what was fetched of it, and what the application has got."""

    __slots__ = ("consumed_offset", "fetched_offset", "tp")

    def __init__(self, tp: TopicPartition, offset: int) -> None:
        self.tp = tp
        self.consumed_offset = offset  # the next to give to the application; −1: not known yet
        self.fetched_offset = offset  # the next to fetch; −1: not known yet

    def reset(self, offset: int) -> None:
        """Go on from another offset (resetFetchOffset, resetConsumeOffset)."""
        self.consumed_offset = self.fetched_offset = offset


class Chunk:
    """What one fetch returned of one partition (FetchedDataChunk)."""

    __slots__ = ("batch", "end", "fetch_offset", "high_watermark", "info", "records", "waiting")

    def __init__(self, info: PartitionTopicInfo, response: FetchPartitionResponse) -> None:
        self.info = info
        self.fetch_offset = info.fetched_offset
        self.high_watermark = response.high_watermark
        self.end = self.fetch_offset  # the offset behind the last batch
        self.batch = 0
        self.records: deque[RecordTuple] = deque()
        self.waiting: deque[object] = deque(response.batches)
        for batch in response.batches:
            if type(batch) is RecordBatch:
                self.end = max(self.end, batch.last_offset + 1)

    def next(self) -> RecordTuple | None:
        """Return the next record from the consumed offset on, None behind the last.

        Below the consumed offset the last record of the chunk is returned, and no other. What the
        batch of the fetch offset holds before it is left out here as well as in Kafka.

        Raises:
            KafkaError: the next batch is corrupt (InvalidMessageException).
        """
        record = self._decode()
        while record is not None and record[0] < self.info.consumed_offset:
            later = self._decode()
            if later is None:
                break
            record = later
        return record

    def _decode(self) -> RecordTuple | None:
        """Return the next record from the fetch offset on.

        Markers of transactions are no records: brokers leave them out for clients of this age.
        """
        while not self.records and self.waiting:
            batch = self.waiting[0]
            if type(batch) is not RecordBatch:
                raise KafkaError("CORRUPT_MESSAGE", f"{self.info.tp}")
            self.waiting.popleft()
            if not batch.control:
                deltas = batch.offset_deltas or range(len(batch.records))
                base, start = batch.base_offset, self.fetch_offset
                for delta, record in zip(deltas, batch.records, strict=True):
                    if base + delta >= start:
                        self.records.append(
                            (base + delta, record.value, record.key, record.timestamp_ms)
                        )
        return self.records.popleft() if self.records else None


class Stream:
    """The queue of one topic, and the place in it."""

    def __init__(self, process: Process, most_chunks: int) -> None:
        self._most_chunks = most_chunks
        self._queue: deque[Chunk] = deque()
        self._current: Chunk | None = None
        self._room = Condition(process)

    def put(self, chunk: Chunk) -> Steps:
        """Queue a chunk as soon as there is room (LinkedBlockingQueue.put)."""
        while len(self._queue) >= self._most_chunks:
            yield self._room
        self._queue.append(chunk)

    def take(self, now: int) -> tuple[Chunk, RecordTuple | None] | None:
        """Return the next record with its chunk; None while there is none (makeNext).

        The record is None where a chunk has ended behind markers, so that the consumed offset
        moves on.

        Raises:
            KafkaError: as :meth:`Chunk.next`.
        """
        while True:
            chunk = self._current
            if chunk is None:
                if not self._queue:
                    return None
                chunk = self._current = self._queue.popleft()
                self._room.notify(now)
                info = chunk.info
                # Kafka warns that the consumer may lose data, and goes on from there.
                info.consumed_offset = max(info.consumed_offset, chunk.fetch_offset)
            record = chunk.next()
            if record is not None:
                chunk.info.consumed_offset = record[0] + 1
                return chunk, record
            self._current = None
            if chunk.end > chunk.info.consumed_offset:
                chunk.info.consumed_offset = chunk.end
                return chunk, None

    def clear(self, now: int) -> None:
        """Drop all that the application has not got (clearFetcherQueues)."""
        self._queue.clear()
        self._current = None
        self._room.notify(now)
