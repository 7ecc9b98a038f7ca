"""What the active controller knows of the cluster (ControllerContext).

A resignation forgets everything but the epoch. Partitions are named by topic and number, as in
ZooKeeper. ``epoch`` and ``epoch_zk_version`` are the data and the version of /controller_epoch as
this controller wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from kafkasim.model.controller.zk.store.zk_data import (
    BrokerInfo,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicAssignment,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

Replica = tuple[TopicPartition, int]
"""A partition and the id of a broker that holds a replica of it."""

NO_SETTINGS: tuple[tuple[tuple[str, str], ...], int] = ((), -1)
UNCHANGED: Mapping[int, ReplicaAssignment] = MappingProxyType({})


class ZkPartitionState(Enum):
    """The states of ZkPartitionStateMachine. A partition without an entry is NonExistent."""

    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"
    NON_EXISTENT = "NonExistentPartition"


class ZkReplicaState(Enum):
    """The states of ZkReplicaStateMachine. A replica without an entry is NonExistent."""

    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"
    NON_EXISTENT = "NonExistentReplica"


@value
class Leadership:
    """The data and the version of a partition's state znode, as last read or written here.

    The version (zkVersion) is the partition epoch.
    """

    state: LeaderAndIsr
    version: int


class ControllerContext:
    """Brokers, assignments, leaderships, and the states of both state machines."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_zk_version = -1
        self.reset()

    def reset(self) -> None:
        """Forget everything but the epoch."""
        self.brokers: dict[int, BrokerInfo] = {}  # registered: live or shutting down, by id
        self.broker_epochs: dict[int, int] = {}
        self.shutting_down: dict[int, None] = {}
        self.topic_ids: dict[str, str] = {}  # of all topics, by name; written by add_topic()
        self.topic_names: dict[str, str] = {}  # the names by id
        # The settings of a topic, and the zxid of their last change.
        self.configs: dict[str, tuple[tuple[tuple[str, str], ...], int]] = {}
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}  # written by assign()
        self._of_topic: dict[str, dict[TopicPartition, None]] = {}  # an index of assignments
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.partition_states: dict[TopicPartition, ZkPartitionState] = {}
        self.replica_states: dict[Replica, ZkReplicaState] = {}
        self.topics_to_delete: dict[str, None] = {}
        self.topics_ineligible: dict[
            str, None
        ] = {}  # of these, the ones that cannot be deleted now
        self.deletion_started: dict[str, None] = {}
        self.reassigning: dict[TopicPartition, None] = {}
        # The replicas in failed log directories, by broker, as the brokers reported them.
        self.offline_dirs: dict[int, dict[TopicPartition, None]] = {}

    # ------------------------------------------------------------------------------------ brokers

    def is_live(self, broker: int) -> bool:
        """Return whether a broker is registered and not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    def online(self, broker: int, tp: TopicPartition) -> bool:
        """Return whether the partition's replica on this broker is online (isReplicaOnline).

        True means that the broker is live and the replica's log directory has not failed.
        """
        offline = self.offline_dirs.get(broker)
        return (
            broker in self.brokers
            and broker not in self.shutting_down
            and (offline is None or tp not in offline)
        )

    def live_or_shutting_down(self) -> tuple[int, ...]:
        """Return the ids of the registered brokers, ascending."""
        return tuple(sorted(self.brokers))

    # ---------------------------------------------------------------------- partitions, replicas

    def add_topic(self, topic: str, topic_id: str) -> None:
        """Take up a topic, which has no partitions yet."""
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def assign(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Set the replicas of a partition, which may be new."""
        self.assignments[tp] = assignment
        self._of_topic.setdefault(tp.topic, {})[tp] = None

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic."""
        return list(self._of_topic.get(topic, ()))

    def topic_assignment(
        self, topic: str, changed: Mapping[int, ReplicaAssignment] = UNCHANGED
    ) -> TopicAssignment:
        """Return the data of a topic's znode; ``changed`` replaces the replicas of partitions."""
        entries = {tp.partition: self.assignments[tp] for tp in self.partitions_of(topic)}
        entries |= changed
        return TopicAssignment(self.topic_ids[topic], tuple(sorted(entries.items())))

    def partitions_on(self, broker: int) -> list[TopicPartition]:
        """Return the partitions that have a replica on a broker."""
        return [tp for tp, entry in self.assignments.items() if broker in entry.replicas]

    def replicas_on(self, brokers: tuple[int, ...]) -> list[Replica]:
        """Return the replicas on these brokers, broker by broker."""
        return [(tp, broker) for broker in brokers for tp in self.partitions_on(broker)]

    def replicas_of(self, partitions: list[TopicPartition]) -> list[Replica]:
        """Return all replicas of these partitions."""
        return [(tp, replica) for tp in partitions for replica in self.assignments[tp].replicas]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        """Return all replicas of a topic."""
        return self.replicas_of(self.partitions_of(topic))

    def led_by_offline(self) -> list[TopicPartition]:
        """Return the partitions whose leader is not online, without those of deleted topics."""
        return [
            tp
            for tp, known in self.leaderships.items()
            if not self.online(known.state.leader, tp) and not self.deleting(tp.topic)
        ]

    def deleting(self, topic: str) -> bool:
        """Return whether a topic is queued for deletion."""
        return topic in self.topics_to_delete

    def is_reassigning(self, topic: str) -> bool:
        """Return whether a partition of the topic is being reassigned."""
        return any(tp.topic == topic for tp in self.reassigning)

    def replicas_in(self, topic: str, state: ZkReplicaState) -> list[Replica]:
        """Return a topic's replicas that are in a state."""
        return [key for key, now in self.replica_states.items()
                if now is state and key[0].topic == topic]  # fmt: skip

    def remove_topic(self, topic: str) -> None:
        """Forget a topic."""
        for key in self.replicas_of_topic(topic):
            self.replica_states.pop(key, None)
        for tp in self.partitions_of(topic):
            del self.assignments[tp]
            self.leaderships.pop(tp, None)
            self.partition_states.pop(tp, None)
            self.reassigning.pop(tp, None)
        self._of_topic.pop(topic, None)
        self.topic_names.pop(self.topic_ids.pop(topic, ""), None)
        self.configs.pop(topic, None)
        self.topics_to_delete.pop(topic, None)
        self.topics_ineligible.pop(topic, None)
        self.deletion_started.pop(topic, None)
