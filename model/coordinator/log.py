"""The port from a coordinator to the logs of its topic, and an in-memory log for tests.

Kafka: PartitionWriter and CoordinatorLoader of the coordinator runtime. The broker implements the
port over its ReplicaManager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.errors import Errors
from kafkasim.model.records import RecordBatch, TopicPartition, assigned


class CoordinatorLog(Protocol):
    """The replicas of a coordinator's topic (``__consumer_offsets``) on this broker."""

    def append(
        self,
        tp: TopicPartition,
        batch: RecordBatch,
        now: int,
        transaction_version: int = 0,
        guard: Any = None,
        acks: int = -1,
    ) -> tuple[Errors, int]:
        """Append a batch as the partition's leader; return the error and the offset after it.

        On an error nothing was appended, and the offset is meaningless. The batch is committed when
        the high watermark has reached that offset. ``transaction_version`` counts for a marker,
        ``guard`` for a batch of a transaction. With ``acks`` 0 too small an ISR is no error.
        """
        ...

    def wait_for_role(self, tp: TopicPartition, action: Callable[[int], None]) -> bool:
        """Call ``action(now)`` once a change of roles that is under way has taken effect.

        Return False, and do not call it, if none is under way. Kafka's thread waits for
        Partition.leaderIsrUpdateLock; an append meanwhile would be refused.
        """
        ...

    def is_online(self, tp: TopicPartition) -> bool:
        """Return whether this broker has a replica whose log directory has not failed."""
        ...

    def start(self, tp: TopicPartition) -> int:
        """Return the log start offset."""
        ...

    def end(self, tp: TopicPartition) -> int:
        """Return the log end offset."""
        ...

    def read(self, tp: TopicPartition, offset: int, max_bytes: int) -> tuple[RecordBatch, ...]:
        """Return batches from ``offset`` on, at least one of them; none at the log end."""
        ...

    def high_watermark(self, tp: TopicPartition) -> int:
        """Return the partition's high watermark as this broker knows it."""
        ...


class MemoryCoordinatorLog:
    """One log for each partition, for tests: a test sets the high watermark by hand."""

    def __init__(self) -> None:
        self.batches: dict[TopicPartition, list[RecordBatch]] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.error = Errors.NONE  # what the next appends answer
        self.changing_role: list[Callable[[int], None]] | None = None  # while it is a list

    def append(
        self,
        tp: TopicPartition,
        batch: RecordBatch,
        now: int,
        transaction_version: int = 0,
        guard: Any = None,
        acks: int = -1,
    ) -> tuple[Errors, int]:
        """Append a batch, or refuse it with ``error``."""
        if self.error is not Errors.NONE:
            return self.error, -1
        batch = assigned(batch, self.end(tp), 0)
        self.batches.setdefault(tp, []).append(batch)
        return Errors.NONE, batch.next_offset

    def wait_for_role(self, tp: TopicPartition, action: Callable[[int], None]) -> bool:
        """Keep ``action`` in ``changing_role`` if that is a list."""
        if self.changing_role is None:
            return False
        self.changing_role.append(action)
        return True

    def is_online(self, tp: TopicPartition) -> bool:
        """Return whether the log directory is in order, as ``error`` says."""
        return self.error is not Errors.KAFKA_STORAGE_ERROR

    def start(self, tp: TopicPartition) -> int:
        """Return 0."""
        return 0

    def read(self, tp: TopicPartition, offset: int, max_bytes: int) -> tuple[RecordBatch, ...]:
        """Return the batches of a partition from ``offset`` on."""
        found: list[RecordBatch] = []
        for batch in self.batches.get(tp, ()):
            if batch.base_offset >= offset:
                if found and sum(each.size for each in [*found, batch]) > max_bytes:
                    break
                found.append(batch)
        return tuple(found)

    def high_watermark(self, tp: TopicPartition) -> int:
        """Return the high watermark that the test has set, 0 before that."""
        return self.high_watermarks.get(tp, 0)

    def end(self, tp: TopicPartition) -> int:
        """Return the log end offset."""
        batches = self.batches.get(tp)
        return batches[-1].next_offset if batches else 0
