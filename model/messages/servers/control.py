"""What a ZooKeeper controller tells the brokers, and what a broker that shuts down asks it.

``configs`` of LeaderAndIsr is ours: a broker of Kafka reads /config/topics itself when it creates a
log; here the controller, which has read them, sends a topic's own settings along, with the zxid of
their last change, so that a broker that knows newer ones keeps these.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

LEADER_DURING_DELETE = -2  # LeaderAndIsr.LeaderDuringDelete: the partition's topic goes
EPOCH_DURING_DELETE = -2  # LeaderAndIsr.EpochDuringDelete: stop, whatever the epoch is
NO_EPOCH = -1  # LeaderAndIsr.NoEpoch: the controller does not know the epoch


@value
class ControlPartition:
    """The state of a partition as the controller stored it in its znode."""

    tp: TopicPartition
    topic_id: str
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int  # the zkVersion
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False
    leader_recovery_state: int = 0


@value
class LeaderAndIsrRequest(Message):
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[ControlPartition, ...]
    live_leaders: tuple[tuple[int, str], ...]
    configs: tuple[tuple[str, tuple[tuple[str, str], ...], int], ...] = ()

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION * len(self.partitions)


@value
class LeaderAndIsrResponse(Message):
    error: Errors
    partitions: tuple[tuple[TopicPartition, Errors], ...] = ()


@value
class UpdateMetadataBroker:
    id: int
    address: str
    rack: str | None


@value
class UpdateMetadataRequest(Message):
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[ControlPartition, ...]
    live_brokers: tuple[UpdateMetadataBroker, ...]

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION * (len(self.partitions) + len(self.live_brokers))


@value
class UpdateMetadataResponse(Message):
    error: Errors


@value
class StopReplicaPartition:
    tp: TopicPartition
    leader_epoch: int
    delete_partition: bool


@value
class StopReplicaRequest(Message):
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: tuple[StopReplicaPartition, ...]

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION * len(self.partitions)


@value
class StopReplicaResponse(Message):
    error: Errors
    partitions: tuple[tuple[TopicPartition, Errors], ...] = ()


@value
class ControlledShutdownRequest(Message):
    broker_id: int
    broker_epoch: int


@value
class ControlledShutdownResponse(Message):
    error: Errors
    remaining_partitions: tuple[TopicPartition, ...] = ()


@value
class EnvelopeRequest(Message):
    """A client's request that its broker forwards to the controller (KIP-590); what comes back is
    the answer to ``request`` itself."""

    request: Any

    def wire_size(self) -> int:
        return HEADER + int(self.request.wire_size())
