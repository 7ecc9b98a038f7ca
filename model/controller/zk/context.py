"""What the controller knows of the cluster (ControllerContext); a resignation forgets all of it.

Partitions are named by topic and number, as ZooKeeper names them. ``epoch`` and
``epoch_zk_version`` are those of /controller_epoch as this controller wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from kafkasim.model.controller.zk.store.zk_data import (
    BrokerInfo,
    PartitionState,
    ReplicaAssignment,
    TopicAssignment,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

NON_EXISTENT, NEW, ONLINE, OFFLINE = "NonExistent", "New", "Online", "Offline"
DELETION_STARTED, DELETION_SUCCESSFUL = "ReplicaDeletionStarted", "ReplicaDeletionSuccessful"
DELETION_INELIGIBLE = "ReplicaDeletionIneligible"

Replica = tuple[TopicPartition, int]
UNCHANGED: Mapping[int, ReplicaAssignment] = MappingProxyType({})


@value
class Leadership:
    """A partition's state and its zkVersion, as last read or written by this controller."""

    state: PartitionState
    version: int


class ControllerContext:
    """Brokers, assignments, leaderships, and the states of the two state machines."""

    def __init__(self) -> None:
        self.epoch = 0
        self.epoch_zk_version = -1
        self.reset()

    def reset(self) -> None:
        """Forget everything but the epoch."""
        self.brokers: dict[int, BrokerInfo] = {}  # live or shutting down, by id
        self.broker_epochs: dict[int, int] = {}
        self.shutting_down: dict[int, None] = {}
        self.topic_ids: dict[str, str] = {}  # all topics
        # A topic's own settings, and the zxid of their last change.
        self.configs: dict[str, tuple[tuple[tuple[str, str], ...], int]] = {}
        self.assignments: dict[TopicPartition, ReplicaAssignment] = {}
        self.leaderships: dict[TopicPartition, Leadership] = {}
        self.partition_states: dict[TopicPartition, str] = {}
        self.replica_states: dict[Replica, str] = {}
        self.topics_to_delete: dict[str, None] = {}
        self.topics_ineligible: dict[str, None] = {}
        self.deletion_started: dict[str, None] = {}
        self.reassigning: dict[TopicPartition, None] = {}
        # The replicas in log directories that failed, by broker, as their brokers answered.
        self.offline_dirs: dict[int, dict[TopicPartition, None]] = {}

    # ------------------------------------------------------------------------------------ brokers

    def is_live(self, broker: int) -> bool:
        """Return whether a broker is registered and not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    def online(self, broker: int, tp: TopicPartition) -> bool:
        """Return whether the replica of a partition on this broker is online (isReplicaOnline)."""
        offline = self.offline_dirs.get(broker)
        return (
            broker in self.brokers
            and broker not in self.shutting_down
            and (offline is None or tp not in offline)
        )

    def live_or_shutting_down(self) -> tuple[int, ...]:
        """Return the registered brokers."""
        return tuple(sorted(self.brokers))

    # ---------------------------------------------------------------------- partitions, replicas

    def partitions_of(self, topic: str) -> list[TopicPartition]:
        """Return the partitions of a topic."""
        return [tp for tp in self.assignments if tp.topic == topic]

    def topic_assignment(
        self, topic: str, changed: Mapping[int, ReplicaAssignment] = UNCHANGED
    ) -> TopicAssignment:
        """Return what belongs in a topic's znode, with the replicas of some partitions changed."""
        entries = {tp.partition: self.assignments[tp] for tp in self.partitions_of(topic)}
        entries |= changed
        return TopicAssignment(self.topic_ids[topic], tuple(sorted(entries.items())))

    def partitions_on(self, broker: int) -> list[TopicPartition]:
        """Return the partitions that have a replica on a broker."""
        return [tp for tp, entry in self.assignments.items() if broker in entry.replicas]

    def replicas_on(self, brokers: tuple[int, ...]) -> list[Replica]:
        """Return the replicas on these brokers."""
        return [
            (tp, broker)
            for broker in brokers
            for tp, entry in self.assignments.items()
            if broker in entry.replicas
        ]

    def replicas_of(self, partitions: list[TopicPartition]) -> list[Replica]:
        """Return all replicas of these partitions."""
        return [(tp, replica) for tp in partitions for replica in self.assignments[tp].replicas]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        """Return all replicas of a topic."""
        return self.replicas_of(self.partitions_of(topic))

    def led_by_offline(self) -> list[TopicPartition]:
        """Return the partitions whose leader is not online, but those of deleted topics."""
        return [
            tp
            for tp, known in self.leaderships.items()
            if not self.online(known.state.leader, tp) and not self.deleting(tp.topic)
        ]

    def deleting(self, topic: str) -> bool:
        """Return whether a topic is queued up for deletion."""
        return topic in self.topics_to_delete

    def replicas_in(self, topic: str, state: str) -> list[Replica]:
        """Return a topic's replicas that are in a state."""
        return [key for key, now in self.replica_states.items()
                if now == state and key[0].topic == topic]  # fmt: skip

    def remove_topic(self, topic: str) -> None:
        """Forget a topic."""
        for tp in self.partitions_of(topic):
            del self.assignments[tp]
            self.leaderships.pop(tp, None)
            self.partition_states.pop(tp, None)
            self.reassigning.pop(tp, None)
        for key in [key for key in self.replica_states if key[0].topic == topic]:
            del self.replica_states[key]
        self.topic_ids.pop(topic, None)
        self.configs.pop(topic, None)
        self.topics_to_delete.pop(topic, None)
        self.topics_ineligible.pop(topic, None)
        self.deletion_started.pop(topic, None)
