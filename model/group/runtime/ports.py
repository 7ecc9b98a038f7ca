"""What the group coordinator needs of the replica manager, and an in-memory fake of it.

Kafka: PartitionWriter and CoordinatorLoader of the coordinator runtime. The broker implements the
port over its ReplicaManager and tells the coordinator of elections, resignations and high
watermarks (GroupCoordinator.on_elected, on_resigned, on_high_watermark).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from kafkasim.model.errors import Errors
from kafkasim.model.records import RecordBatch, TopicPartition, assigned

OFFSETS_TOPIC = "__consumer_offsets"


class GroupLog(Protocol):
    """The partitions of ``__consumer_offsets`` that this broker has."""

    def append(self, tp: TopicPartition, batch: RecordBatch, now: int) -> tuple[Errors, int]:
        """Append as leader; return the error and the offset after the batch.

        On an error nothing was appended and the offset means nothing. Whether it is replicated is
        told later, by the high watermark.
        """
        ...

    def read_all(self, tp: TopicPartition) -> Iterable[RecordBatch]:
        """Return all batches from the log start to the log end."""
        ...

    def high_watermark(self, tp: TopicPartition) -> int:
        """Return the partition's high watermark as this broker knows it."""
        ...

    def leader_epoch(self, tp: TopicPartition) -> int | None:
        """Return the epoch under which this broker leads the partition, None if it does not."""
        ...


class MemoryGroupLog:
    """One log per partition without replication, for tests: the high watermark is set by hand."""

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, list[RecordBatch]] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.error = Errors.NONE  # what the next appends answer

    def append(self, tp: TopicPartition, batch: RecordBatch, now: int) -> tuple[Errors, int]:
        """Append, or answer ``error``."""
        if self.error is not Errors.NONE:
            return self.error, -1
        batch = assigned(batch, self.end(tp), self.epochs.get(tp, 0))
        self.batches.setdefault(tp, []).append(batch)
        return Errors.NONE, batch.next_offset

    def read_all(self, tp: TopicPartition) -> Iterable[RecordBatch]:
        """Return the batches of a partition."""
        return tuple(self.batches.get(tp, ()))

    def high_watermark(self, tp: TopicPartition) -> int:
        """Return what was set by hand, 0 before."""
        return self.high_watermarks.get(tp, 0)

    def leader_epoch(self, tp: TopicPartition) -> int | None:
        """Return what was set by hand."""
        return self.epochs.get(tp)

    def end(self, tp: TopicPartition) -> int:
        """Return the log end offset."""
        batches = self.batches.get(tp)
        return batches[-1].next_offset if batches else 0
