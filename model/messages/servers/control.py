"""The requests of a ZooKeeper controller to brokers, and controlled shutdown.

``configs`` of LeaderAndIsr is an addition of ours. In Kafka a broker reads a topic's settings from
/config/topics when it creates a log. Here the controller, which has read them, sends them along
with the zxid of their last change, and a broker that knows newer ones keeps these.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

LEADER_DURING_DELETE = -2  # LeaderAndIsr.LeaderDuringDelete: the topic is being deleted
EPOCH_DURING_DELETE = -2  # LeaderAndIsr.EpochDuringDelete: stop the replica in any epoch
NO_EPOCH = -1  # LeaderAndIsr.NoEpoch: the controller does not know the epoch


@value
class ControlPartition:
    """A partition's state in its znode (LeaderAndIsrPartitionState, UpdateMetadata…State)."""

    tp: TopicPartition
    topic_id: str
    controller_epoch: int  # of the controller that wrote it
    leader: int  # −1: none
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int  # the version of the znode
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
    live_leaders: tuple[tuple[int, str], ...]  # (broker id, address)
    configs: tuple[tuple[str, tuple[tuple[str, str], ...], int], ...] = ()  # (topic, …, zxid)

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
