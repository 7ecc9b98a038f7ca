"""Replica managers without brokers around them: metadata and deliveries are done by hand."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.controller.common.image import (
    BrokerImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kafkasim.model.effects import (
    Barrier,
    Close,
    Flush,
    Open,
    Opened,
    Post,
    Posted,
    Request,
    Respond,
    Response,
    Send,
    Then,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    ListOffsetsResponse,
    OffsetsForLeaderEpochResponse,
    ProducePartition,
    ProduceRequest,
)
from kafkasim.model.records import Record, TopicPartition, batch_of
from kafkasim.model.replication.manager import ReplicaManager
from kafkasim.model.replication.partitions.leader_state import LeaderState
from kafkasim.model.replication.partitions.partition import Partition
from kafkasim.model.replication.ports import BrokerProcess
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.files import DiskError, MemoryFiles
from kafkasim.model.storage.rules import StorageRules

TP = TopicPartition("t", 0)
TOPIC_ID = "topic-1"


class Link:
    """A controller link whose queue the test answers."""

    def __init__(self) -> None:
        self.queue: deque[tuple[AlterPartitionRequest, Any]] = deque()

    def send(self, message: Any, now: int, done: Any) -> None:
        self.queue.append((message, done))


class Node(BrokerProcess):
    """A broker's replica manager and nothing else."""

    def __init__(
        self,
        number: int,
        config: BrokerConfig,
        rules: ReplicationRules,
        storage: StorageRules | None = None,
    ) -> None:
        super().__init__(f"broker-{number}", MemoryFiles(), random.Random(number), 0)
        self.broker_id = number
        self.broker_epoch = number
        self.image = MetadataImage()
        self.link = Link()
        self.committed: list[tuple[int, int]] = []
        self.failures: list[DiskError] = []
        self.known: dict[TopicPartition, None] = {TP: None}  # the partitions of the metadata cache
        for broker in (1, 2, 3):
            self.image.brokers[broker] = BrokerImage(
                broker, broker, "", f"broker-{broker}", None, False, False
            )
        topic = self.image.topics[TOPIC_ID] = TopicImage("t", TOPIC_ID)
        self.image.topic_names["t"] = TOPIC_ID
        self.topic = topic
        self.replicas = ReplicaManager(
            self,
            config,
            rules,
            storage or StorageRules(),
            self.image,
            self.link,
            lambda partition, offset: self.committed.append((partition, offset)),
        )

    @property
    def partition(self) -> Partition:
        return self.replicas.partitions[TP]

    @property
    def leader(self) -> LeaderState:
        """What the node knows as the leader, visibly or not."""
        role = self.partition.role
        assert isinstance(role, LeaderState), role
        return role

    def knows_partition(self, tp: TopicPartition) -> bool:
        return tp in self.known

    def knows_topic_id(self, topic_id: str) -> bool:
        return topic_id == self.topic.topic_id

    def cached_leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        entry = self.topic.partitions.get(tp.partition) if tp == TP else None
        return None if entry is None else (entry.leader, entry.leader_epoch)

    def log_dir_failed(self, error: DiskError, now: int) -> None:
        self.failures.append(error)

    def on_request(self, item: Request, now: int) -> None:
        if type(item.message).__name__ == "FetchRequest":
            self.replicas.fetching.serve(item, now)
        elif type(item.message).__name__ == "ProduceRequest":
            self.replicas.producing.serve(item, now)
        elif type(item.message).__name__ == "OffsetsForLeaderEpochRequest":
            ends = [self.replicas.offsets.epoch_end_offset(p) for p in item.message.partitions]
            self.out.append(
                Respond(
                    item.connection, item.correlation, OffsetsForLeaderEpochResponse(tuple(ends))
                )
            )
        else:
            found = [
                self.replicas.offsets.list_offset(item.message, p) for p in item.message.partitions
            ]
            answer = ListOffsetsResponse(tuple(found))
            self.out.append(Respond(item.connection, item.correlation, answer))

    def adopt(self, registration: PartitionRegistration, now: int) -> None:
        """Replay metadata."""
        delta = MetadataDelta(self.image)
        self.topic.partitions[0] = registration
        delta.changed_partitions[(TOPIC_ID, 0)] = registration
        self.replicas.apply_delta(delta, now)


def registration(
    leader: int,
    epoch: int,
    partition_epoch: int,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
) -> PartitionRegistration:
    """A partition of the controller."""
    return PartitionRegistration(replicas, isr, (), (), leader, epoch, partition_epoch, 0, (), ())


class Trio:
    """Three nodes, hand-delivered messages, and a controller of one partition."""

    def __init__(
        self,
        rules: ReplicationRules | None = None,
        storage: StorageRules | None = None,
        **settings: Any,
    ) -> None:
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.config = BrokerConfig.from_properties(properties)
        self.rules = rules or ReplicationRules()
        self.now = 1_000_000
        self.nodes = {n: Node(n, self.config, self.rules, storage) for n in (1, 2, 3)}
        self.registration = registration(1, 1, 0)
        self.versions = dict.fromkeys(self.nodes, -1)
        # per (follower, connection): requests on their way, replies on their way
        self.requests: dict[tuple[int, int], deque[Any]] = {}
        self.replies: dict[tuple[int, int], deque[Any]] = {}
        self.targets: dict[tuple[int, int], int] = {}
        self.answers: dict[int, Any] = {}
        self.facts: list[tuple[int, Any]] = []
        self.calls = 0

    def tell(self, *numbers: int) -> None:
        """Let nodes learn the controller's present state."""
        for number in numbers or (1, 2, 3):
            self.nodes[number].adopt(self.registration, self.now)
            self.drain(number)

    def elect(self, leader: int) -> None:
        """Change the leader at the controller."""
        old = self.registration
        self.registration = registration(
            leader, old.leader_epoch + 1, old.partition_epoch + 1, old.isr
        )

    def produce(self, number: int, value: int, acks: int = -1) -> int:
        """Send a produce request; the answer shows up in ``answers`` under the number returned."""
        self.calls += 1
        data = ProducePartition(TP, batch_of((Record("k", value, 50, 0),)))
        request = ProduceRequest(acks, 30000, (data,))
        node = self.nodes[number]
        node.handle(Request(900_000 + self.calls, 1, request, self.now), self.now)
        self.drain(number)
        return self.calls

    def drain(self, number: int) -> None:
        node = self.nodes[number]
        while node.out:
            effects, node.out[:] = list(node.out), []
            for effect in effects:
                self._perform(number, node, effect)

    def _perform(self, number: int, node: Node, effect: Any) -> None:
        kind = type(effect)
        if kind is Open:
            key = (number, effect.connection)
            self.targets[key] = int(effect.address.removeprefix("broker-"))
            self.requests[key], self.replies[key] = deque(), deque()
            node.handle(Opened(effect.connection), self.now)
        elif kind is Send:
            self.requests[(number, effect.connection)].append(effect)
        elif kind is Close:
            for table in (self.requests, self.replies, self.targets):
                table.pop((number, effect.connection), None)  # type: ignore[attr-defined]
        elif kind is Respond:
            if effect.connection > 900_000:
                self.answers[effect.connection - 900_000] = effect.message
            else:
                key = (effect.connection // 1000, effect.connection % 1000)
                if key in self.replies:
                    self.replies[key].append(effect)
        elif kind is Post:
            node.handle(Posted(effect.handler, effect.message), self.now)
        elif kind is Then:
            effect.handler(self.now)
        elif kind not in (Flush, Barrier):
            self.facts.append((number, effect))

    def links(self) -> list[tuple[int, int]]:
        """Connections that have something to deliver."""
        return [key for key in self.requests if self.requests[key] or self.replies[key]]

    def deliver(self, key: tuple[int, int]) -> None:
        """Deliver the oldest thing of a connection: a reply before a request."""
        if self.replies[key]:
            reply = self.replies[key].popleft()
            follower = self.nodes[key[0]]
            follower.handle(Response(key[1], reply.correlation, reply.message), self.now)
            self.drain(key[0])
            return
        sent = self.requests[key].popleft()
        target = self.targets[key]
        connection = key[0] * 1000 + key[1]
        self.nodes[target].handle(
            Request(connection, sent.correlation, sent.message, self.now), self.now
        )
        self.drain(target)

    def settle(self, rounds: int = 30) -> None:
        """Deliver everything until all fetches are parked."""
        for _ in range(rounds):
            links = self.links()
            if not links:
                return
            for key in links:
                if key in self.requests and (self.requests[key] or self.replies[key]):
                    self.deliver(key)

    def advance(self, us: int) -> None:
        """Let time pass, firing timers."""
        self.now += us
        for number, node in self.nodes.items():
            while (popped := node.timers.pop_due(self.now)) is not None:
                node.timers.fire(popped[0], popped[1], self.now)
            self.drain(number)

    def shrink(self, number: int) -> None:
        """Run the isr-expiration task."""
        self.nodes[number].replicas.shrink_isrs(self.now)
        self.drain(number)

    def controller(self, number: int, lose_reply: bool = False) -> None:
        """Let the controller serve a node's oldest AlterPartition."""
        request, done = self.nodes[number].link.queue[0]
        data = request.partitions[0]
        now = self.registration
        error = Errors.NONE
        if data.leader_epoch > now.leader_epoch or data.partition_epoch > now.partition_epoch:
            error = Errors.NOT_CONTROLLER
        elif data.leader_epoch < now.leader_epoch:
            error = Errors.FENCED_LEADER_EPOCH
        elif data.partition_epoch < now.partition_epoch:
            error = Errors.INVALID_UPDATE_VERSION
        if error is Errors.NONE:
            isr = tuple([member for member, _ in data.new_isr])
            now = self.registration = registration(
                now.leader, now.leader_epoch, now.partition_epoch + 1, isr
            )
        if lose_reply:
            return
        self.nodes[number].link.queue.popleft()
        result = AlterPartitionResult(
            TOPIC_ID, 0, error, now.leader, now.leader_epoch, now.isr, now.partition_epoch
        )
        done(AlterPartitionResponse(Errors.NONE, (result,)), self.now)
        self.drain(number)

    def log(self, number: int) -> list[tuple[int, int, Any]]:
        """(offset, epoch, value) of a replica's records."""
        partition = self.nodes[number].replicas.partitions.get(TP)
        if partition is None:
            return []
        return [
            (b.base_offset, b.leader_epoch, b.records[0].value)
            for b in partition.log.batches_from(0)
        ]
