"""The queues of a task's input partitions: which record is next, and whether to wait for others.

Models PartitionGroup and RecordQueue. The first record of a queue, its head, is deserialized as
soon as it is the first. Next is the head with the smallest timestamp among the queues that have
records; equal ones take turns. With max.task.idle.ms ≥ 0 the task waits while a queue is empty
whose partition has, or may have, more records on its broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafkasim.model.group.assignors.java import JavaHeap
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.records import UNKNOWN, StreamRecord

DISABLED = -1
"""max.task.idle.ms: never wait."""


class Queued(NamedTuple):
    """A record that was polled and waits for its turn."""

    offset: int
    record_id: int
    key: str | bytes | None
    timestamp: int  # ms


class Head(NamedTuple):
    """The first record of a queue (StampedRecord)."""

    offset: int
    record: StreamRecord | None  # None: it cannot be deserialized, and only its offset counts
    timestamp: int  # −1 of one that cannot be deserialized


Deserialize = Callable[[TopicPartition, Queued], "StreamRecord | None"]
"""Returns what a polled record says, None if it is to be skipped."""


class Queue:
    """The records of one input partition (RecordQueue)."""

    def __init__(self, tp: TopicPartition, deserialize: Deserialize) -> None:
        self.tp = tp
        self.head: Head | None = None
        self.partition_time = UNKNOWN  # the largest timestamp taken of it
        self._deserialize = deserialize
        self._behind: deque[Queued] = deque()

    def __len__(self) -> int:
        return len(self._behind) + (self.head is not None)

    def add(self, records: Iterable[Queued]) -> None:
        """Add polled records."""
        self._behind.extend(records)
        self._update_head()

    def poll(self) -> Head:
        """Take the head. The queue is not empty."""
        taken = self.head
        assert taken is not None, self.tp
        self.head = None
        self.partition_time = max(self.partition_time, taken.timestamp)
        self._update_head()
        return taken

    def clear(self) -> None:
        """Forget all records, and the partition's time."""
        self._behind.clear()
        self.head = None
        self.partition_time = UNKNOWN

    def _update_head(self) -> None:
        """Find the next record that can be deserialized (updateHead).

        If there is none, the last record stands for those that were skipped: its offset is to be
        committed (KAFKA-6502).
        """
        skipped: Queued | None = None
        while self.head is None and self._behind:
            queued = self._behind.popleft()
            record = self._deserialize(self.tp, queued)
            if record is None:
                skipped = queued
            else:
                self.head = Head(queued.offset, record, record.timestamp)
        if self.head is None and skipped is not None:
            self.head = Head(skipped.offset, None, UNKNOWN)


def _head_time(queue: Queue) -> int:
    assert queue.head is not None, queue.tp
    return queue.head.timestamp


class PartitionGroup:
    """The queues of one task, and its stream time."""

    def __init__(
        self,
        partitions: Iterable[TopicPartition],
        max_task_idle_ms: int,
        deserialize: Deserialize,
    ) -> None:
        self.queues = {tp: Queue(tp, deserialize) for tp in sorted(partitions)}
        self.stream_time = UNKNOWN
        self._with_records: JavaHeap[Queue] = JavaHeap((), _head_time)  # nonEmptyQueuesByTime
        self._max_task_idle_ms = max_task_idle_ms
        self._lags: dict[TopicPartition, int] = {}
        self._idle_until: dict[TopicPartition, int] = {}

    def add(self, tp: TopicPartition, records: Iterable[Queued]) -> int:
        """Add polled records of a partition; return how many it has now."""
        queue = self.queues[tp]
        was_empty = not queue
        queue.add(records)
        if was_empty and queue:
            self._with_records.offer(queue)
        return len(queue)

    def ready(self, now_ms: int) -> bool:
        """Return whether the next record may be taken (readyToProcess)."""
        if self._max_task_idle_ms == DISABLED:
            return True
        enforced = queued = False
        for tp, queue in self.queues.items():
            if queue:
                self._idle_until.pop(tp, None)
                queued = True
                continue
            if self._lags.get(tp, UNKNOWN) != 0:
                self._idle_until.pop(tp, None)
                return False
            if now_ms < self._idle_until.setdefault(tp, now_ms + self._max_task_idle_ms):
                return False
            enforced = True
        return queued or not enforced

    def take(self) -> tuple[Queue, Head] | None:
        """Take the record with the smallest timestamp, None without any (nextRecord)."""
        queue = self._with_records.poll()
        if queue is None:
            return None
        taken = queue.poll()
        if queue:
            self._with_records.offer(queue)
        self.stream_time = max(self.stream_time, taken.timestamp)
        return queue, taken

    def set_partition_time(self, tp: TopicPartition, timestamp: int) -> None:
        """Start a partition at the time that was committed with its offset (KAFKA-7994)."""
        self.queues[tp].partition_time = timestamp
        self.stream_time = max(self.stream_time, timestamp)

    def head_offset(self, tp: TopicPartition) -> int | None:
        """Return the offset of a partition's first waiting record."""
        head = self.queues[tp].head
        return None if head is None else head.offset

    def update_lags(self, lags: Mapping[TopicPartition, int | None]) -> None:
        """Learn how many records of each partition are still to be polled; None: unknown."""
        for tp in self.queues:
            lag = lags.get(tp)
            if lag is None:
                self._lags.pop(tp, None)
            else:
                self._lags[tp] = lag

    def clear(self) -> None:
        """Drop what waits: the consumer will fetch it again from the committed position."""
        for queue in self.queues.values():
            queue.clear()
        self._with_records.clear()
        self.stream_time = UNKNOWN
        self._lags.clear()
