"""A coordinator's access to the partitions of its topic (PartitionWriter, CoordinatorLoader)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.errors import Errors
from kafkasim.model.records import RecordBatch, TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.replication.manager import ReplicaManager


class ReplicatedCoordinatorLog:
    """Implements every coordinator's ``CoordinatorLog`` over the ReplicaManager."""

    def __init__(self, incarnation: Incarnation, replicas: ReplicaManager) -> None:
        self.incarnation = incarnation
        self.replicas = replicas

    def append(
        self,
        tp: TopicPartition,
        batch: RecordBatch,
        now: int,
        transaction_version: int = 0,
        guard: Any = None,
        acks: int = -1,
    ) -> tuple[Errors, int]:
        """Append a coordinator's batch as leader; return the error and the offset after it."""
        if self.incarnation.stopping:
            return Errors.NOT_LEADER_OR_FOLLOWER, -1
        append = self.replicas.producing.append_from_coordinator
        return append(tp, batch, now, transaction_version, guard, acks)

    def wait_for_role(self, tp: TopicPartition, action: Callable[[int], None]) -> bool:
        """Call ``action(now)`` once a change of roles that is under way has taken effect.

        Return False, and do not call it, if none is under way.
        """
        return self.replicas.locks.defer(tp, action)

    def is_online(self, tp: TopicPartition) -> bool:
        """Return whether this broker has a replica whose log directory has not failed."""
        partition = self.replicas.partitions.get(tp)
        return partition is not None and not partition.offline

    def start(self, tp: TopicPartition) -> int:
        """Return a partition's log start offset, 0 if this broker has no replica."""
        partition = self.replicas.partitions.get(tp)
        return 0 if partition is None else partition.log.log_start_offset

    def end(self, tp: TopicPartition) -> int:
        """Return a partition's log end offset, 0 if this broker has no replica."""
        partition = self.replicas.partitions.get(tp)
        return 0 if partition is None else partition.log.log_end_offset

    def read(self, tp: TopicPartition, offset: int, max_bytes: int) -> tuple[RecordBatch, ...]:
        """Return a partition's batches from ``offset`` on, none at the log end."""
        partition = self.replicas.partitions.get(tp)
        if partition is None:
            return ()
        return partition.log.read(offset, max_bytes, partition.log.log_end_offset)

    def high_watermark(self, tp: TopicPartition) -> int:
        """Return the local replica's high watermark, 0 if this broker has no replica."""
        partition = self.replicas.partitions.get(tp)
        return 0 if partition is None else partition.log.high_watermark
