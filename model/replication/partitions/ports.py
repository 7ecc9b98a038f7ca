"""What a partition needs of its broker, and what all partitions of one broker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import BrokerImage
    from kafkasim.model.messages import AlterPartitionData, AlterPartitionResult
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.isr import IsrState
    from kafkasim.model.replication.partitions.role_locks import RoleLocks
    from kafkasim.model.replication.rules import ReplicationRules


class HostBroker(Protocol):
    """The broker that hosts the partitions."""

    broker_id: int
    broker_epoch: int  # −1 before the registration

    def wall_ms(self, now: int) -> int:
        """Return the wall clock in milliseconds."""
        ...


class IsrProposer(Protocol):
    """A leader whose ISR is to change."""

    tp: TopicPartition
    leader_id: int
    replicas: tuple[int, ...]

    def on_alter_result(self, pending: IsrState, result: AlterPartitionResult, now: int) -> None:
        """Take the controller's answer to the proposal ``pending``."""
        ...


class IsrChannel(Protocol):
    """The way of a proposed ISR to the controller (AlterPartitionManager, ZkIsrManager)."""

    def submit(
        self, data: AlterPartitionData, leader: IsrProposer, pending: IsrState, now: int
    ) -> bool:
        """Queue a proposal; return False if one of this partition is on its way already."""
        ...


class RecoveryPoints(Protocol):
    """What the broker keeps of its logs: the checkpoints of what is durable, and of cleanings."""

    def checkpoint_recovery_points(self, tp: TopicPartition) -> None:
        """Make the recovery points durable before the log of ``tp`` grows again."""
        ...

    def truncated_segments(self, tp: TopicPartition, active_base_offset: int) -> None:
        """Hear that the log of ``tp`` was truncated below the segment that had been active."""
        ...


@dataclass(slots=True)
class PartitionContext:
    """What all partitions of one broker share."""

    host: HostBroker
    out: list[Any]  # the process's outbox
    rules: ReplicationRules
    brokers: dict[int, BrokerImage]  # the metadata cache's, live
    lag_us: int  # replica.lag.time.max.ms
    locks: RoleLocks
    isr_channel: IsrChannel
    recovery_points: RecoveryPoints
    coordinator_committed: Callable[[TopicPartition, int], None]
    """Hears of the high watermark of a partition of a coordinator's topic."""
