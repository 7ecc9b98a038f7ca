"""The registries of a consumer group in ZooKeeper, and what a consumer reads there (ZkUtils).

    /consumers/GROUP/ids/CONSUMER               ephemeral: what the consumer subscribes to
    /consumers/GROUP/owners/TOPIC/PARTITION     ephemeral: the thread that owns the partition
    /consumers/GROUP/offsets/TOPIC/PARTITION    persistent: the offset of the next record to read
    /brokers/ids/N, /brokers/topics/TOPIC       written by brokers and by the controller

Kafka encodes the data of these znodes as JSON or as decimal text; here they are values. All methods
but the constructor are steps of a thread (``threads.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.legacy.assignors import AssignmentContext, Subscription
from kafkasim.model.controller.zk.store.zk_data import (
    BROKER_IDS,
    BrokerInfo,
    TopicAssignment,
    broker_path,
    topic_path,
)
from kafkasim.model.values import value
from kafkasim.model.zookeeper.ops import Create, Delete, SetData, ZkError, parent_of

if TYPE_CHECKING:
    from kafkasim.model.client.legacy.threads import Steps
    from kafkasim.model.client.legacy.zk_client import ZkClient
    from kafkasim.model.records import TopicPartition

STATIC = "static"
"""The pattern of a subscription that names its topics; white and black lists are not modelled."""


@value
class ConsumerRegistration:
    """Data of ``/consumers/GROUP/ids/CONSUMER``, ephemeral."""

    version: int  # 1
    subscription: Subscription  # topic -> number of streams
    pattern: str
    timestamp_ms: int


class GroupRegistry:
    """The registries of one group, for one consumer.

    ``topic_ids`` are those of the topics whose partitions were read last: the trace names them.
    """

    def __init__(self, zk: ZkClient, group: str) -> None:
        self.zk = zk
        self.ids_path = f"/consumers/{group}/ids"
        self._owners_path = f"/consumers/{group}/owners"
        self._offsets_path = f"/consumers/{group}/offsets"
        self.topic_ids: dict[str, str] = {}

    # Writes.

    def register(self, consumer: str, registration: ConsumerRegistration) -> Steps:
        """Create the consumer's znode.

        Raises:
            KafkaError: another session has it (ZKCheckedEphemeral.create).
        """
        path = f"{self.ids_path}/{consumer}"
        if (yield from self._create(path, registration, ephemeral=True)) is ZkError.NODEEXISTS:
            found = yield from self.zk.data(path)
            if found.error is ZkError.OK and found.stat.ephemeral_owner != self.zk.session_id:
                raise KafkaError("NODEEXISTS", path)

    def claim(self, tp: TopicPartition, owner: str) -> Steps:
        """Create the owner's znode of a partition; return who has it already, or "".

        It may be the consumer's own, written when the answer was lost
        (createEphemeralPathExpectConflict).
        """
        path = self._owner_path(tp)
        if (yield from self._create(path, owner, ephemeral=True)) is ZkError.NODEEXISTS:
            found = yield from self.zk.data(path)
            if found.error is not ZkError.OK:
                return "nobody"  # it has just disappeared
            return "" if found.data == owner else found.data
        return ""

    def release(self, tp: TopicPartition) -> Steps:
        """Delete the owner's znode of a partition, whoever wrote it."""
        yield Delete(self._owner_path(tp))

    def commit(self, tp: TopicPartition, offset: int) -> Steps:
        """Write the offset of a partition, whatever it was before (updatePersistentPath)."""
        path = f"{self._offsets_path}/{tp.topic}/{tp.partition}"
        done = yield SetData(path, offset)
        if done.error is ZkError.NONODE:
            if (yield from self._create(path, offset, ephemeral=False)) is ZkError.NODEEXISTS:
                yield SetData(path, offset)

    def _create(self, path: str, data: object, *, ephemeral: bool) -> Steps:
        """Create a znode, and its parents if they are missing; return the error."""
        done = yield Create(path, data, ephemeral)
        if done.error is ZkError.NONODE:
            yield from self.make_sure_exists(parent_of(path))
            done = yield Create(path, data, ephemeral)
        return done.error

    def make_sure_exists(self, path: str) -> Steps:
        """Create a persistent znode and its parents (makeSurePersistentPathExists)."""
        if path == "/":
            return
        done = yield Create(path, "")
        if done.error is ZkError.NONODE:
            yield from self.make_sure_exists(parent_of(path))
            yield Create(path, "")

    # Reads.

    def committed(self, tp: TopicPartition) -> Steps:
        """Return the offset of a partition, −1 if there is none."""
        found = yield from self.zk.data(f"{self._offsets_path}/{tp.topic}/{tp.partition}")
        return found.data if found.error is ZkError.OK else -1

    def cluster(self) -> Steps:
        """Return the brokers by id (getCluster).

        Raises:
            KafkaError: one of them disappeared between two reads.
        """
        brokers: dict[int, str] = {}
        for name in (yield from self._names(BROKER_IDS)):
            info: BrokerInfo = yield from self._must_read(broker_path(int(name)))
            brokers[info.id] = info.address
        return brokers

    def brokers(self) -> Steps:
        """Return the brokers by id, those that are still there (getAllBrokersInCluster)."""
        brokers: dict[int, str] = {}
        for name in (yield from self._names(BROKER_IDS)):
            found = yield from self.zk.data(broker_path(int(name)))
            if found.error is ZkError.OK:
                brokers[found.data.id] = found.data.address
        return brokers

    def subscription(self, consumer: str) -> Steps:
        """Return what a consumer subscribes to (TopicCount.constructTopicCount).

        Raises:
            KafkaError: it is not registered (any more).
        """
        found: ConsumerRegistration = yield from self._must_read(f"{self.ids_path}/{consumer}")
        return found.subscription

    def assignment_context(self, consumer: str) -> Steps:
        """Return what the assignor needs, read one by one (AssignmentContext).

        Raises:
            KafkaError: a consumer disappeared between two reads.
        """
        own = yield from self.subscription(consumer)
        subscriptions = {}
        for member in (yield from self._names(self.ids_path)):
            subscriptions[member] = yield from self.subscription(member)
        topics = [topic for each in subscriptions.values() for topic in each]
        partitions = {}
        for topic in sorted(dict.fromkeys(topics)):
            partitions[topic] = yield from self.partitions(topic)
        found = yield from self.zk.children(self.ids_path)
        version = -1 if found.stat is None else found.stat.cversion
        return AssignmentContext(
            consumer, own, subscriptions, partitions, tuple(sorted(found.children)), version
        )

    def partitions(self, topic: str) -> Steps:
        """Return the partitions of a topic, ascending; none if there is no such topic."""
        found = yield from self.zk.data(topic_path(topic))
        if found.error is not ZkError.OK:
            return ()
        assignment: TopicAssignment = found.data
        self.topic_ids[topic] = assignment.topic_id
        return tuple(sorted([number for number, _ in assignment.partitions]))

    def _names(self, path: str) -> Steps:
        found = yield from self.zk.children(path)
        return found.children

    def _must_read(self, path: str) -> Steps:
        found = yield from self.zk.data(path)
        if found.error is not ZkError.OK:
            raise KafkaError(found.error.name, path)
        return found.data

    def _owner_path(self, tp: TopicPartition) -> str:
        return f"{self._owners_path}/{tp.topic}/{tp.partition}"
