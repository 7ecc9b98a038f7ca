"""The queues of a task's input partitions: which record is next, and whether to wait for others.

Models PartitionGroup and RecordQueue. Next is the head with the smallest timestamp among the queues
that have records. With max.task.idle.ms ≥ 0 the task waits while a queue is empty whose partition
has, or may have, more records on its broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.records import UNKNOWN

DISABLED = -1
"""max.task.idle.ms: never wait."""


class Queued(NamedTuple):
    """A record that was polled and waits for its turn."""

    offset: int
    record_id: int
    key: str | bytes | None
    timestamp: int  # ms


class Queue:
    """The records of one input partition."""

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.records: deque[Queued] = deque()
        self.partition_time = UNKNOWN  # the largest timestamp taken of it


class PartitionGroup:
    """The queues of one task, and its stream time."""

    def __init__(self, partitions: Iterable[TopicPartition], max_task_idle_ms: int) -> None:
        self.queues = {tp: Queue(tp) for tp in sorted(partitions)}
        self.stream_time = UNKNOWN
        self._max_task_idle_ms = max_task_idle_ms
        self._lags: dict[TopicPartition, int] = {}
        self._idle_until: dict[TopicPartition, int] = {}

    def add(self, tp: TopicPartition, records: Iterable[Queued]) -> int:
        """Add polled records of a partition; return how many it has now."""
        queue = self.queues[tp].records
        queue.extend(records)
        return len(queue)

    def ready(self, now_ms: int) -> bool:
        """Return whether the next record may be taken (readyToProcess)."""
        if self._max_task_idle_ms == DISABLED:
            return True
        enforced = queued = False
        for tp, queue in self.queues.items():
            if queue.records:
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

    def take(self) -> tuple[Queue, Queued] | None:
        """Take the record with the smallest timestamp, None without any."""
        waiting = [queue for queue in self.queues.values() if queue.records]
        if not waiting:
            return None
        queue = min(waiting, key=lambda each: each.records[0].timestamp)
        record = queue.records.popleft()
        queue.partition_time = max(queue.partition_time, record.timestamp)
        self.stream_time = max(self.stream_time, record.timestamp)
        return queue, record

    def set_partition_time(self, tp: TopicPartition, timestamp: int) -> None:
        """Start a partition at the time that was committed with its offset (KAFKA-7994)."""
        self.queues[tp].partition_time = timestamp
        self.stream_time = max(self.stream_time, timestamp)

    def head_offset(self, tp: TopicPartition) -> int | None:
        """Return the offset of a partition's first waiting record."""
        records = self.queues[tp].records
        return records[0].offset if records else None

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
            queue.records.clear()
        self.stream_time = UNKNOWN
        self._lags.clear()
