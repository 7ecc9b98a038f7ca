"""A tiny scripted cluster for client tests: connections open at once, brokers answer by handler.

``Harness`` plays the host: it carries effects out, keeps the clock, and hands every request to
``cluster.answer(node, message)``; None withholds the answer, so that a test can give it later or
break the connection.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from typing import Any

from kafkasim.model.client.process import ClientProcess
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.effects import (
    Call,
    Close,
    Closed,
    Open,
    Opened,
    OpenFailed,
    Post,
    Posted,
    Reply,
    Response,
    Send,
)
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import MemoryFiles

LATENCY_US = 500


class Cluster:
    """Topics and leaders that a test moves, and a handler per request type."""

    def __init__(self, partitions: int = 1, brokers: int = 2) -> None:
        self.brokers = [f"broker-{i}" for i in range(brokers)]
        self.topics: dict[str, int] = {"t": partitions}
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        self.controller = 0  # the node that metadata names
        self.handlers: dict[type, Callable[[str, Any], Any]] = {
            MetadataRequest: self.metadata,
            InitProducerIdRequest: lambda _node, _m: InitProducerIdResponse(NONE, 7, 0),
            FindCoordinatorRequest: lambda _node, _m: FindCoordinatorResponse(NONE, 0, "broker-0"),
        }
        self.down: dict[str, None] = {}
        self.seen: list[tuple[str, Any]] = []

    def leader(self, tp: TopicPartition) -> tuple[int, int]:
        return self.leaders.get(tp, (tp.partition % len(self.brokers), 0))

    def metadata(self, node: str, message: MetadataRequest) -> MetadataResponse:
        topics = []
        for topic in message.topics or ():
            if topic not in self.topics:
                topics.append(MetadataTopic(topic, "", Errors.UNKNOWN_TOPIC_OR_PARTITION, ()))
                continue
            parts = []
            for p in range(self.topics[topic]):
                leader, epoch = self.leader(TopicPartition(topic, p))
                parts.append(MetadataPartition(p, NONE, leader, epoch, (0, 1), (0, 1), ()))
            topics.append(MetadataTopic(topic, f"id-{topic}", NONE, tuple(parts)))
        brokers = tuple(MetadataBroker(i, a, None) for i, a in enumerate(self.brokers))
        return MetadataResponse(brokers, self.controller, tuple(topics))

    def answer(self, node: str, message: Any) -> Any:
        self.seen.append((node, message))
        return self.handlers[type(message)](node, message)

    def requests(self, kind: type) -> list[Any]:
        return [message for _, message in self.seen if type(message) is kind]


class Harness:
    """The host of one client process."""

    def __init__(
        self,
        config: Any,
        cluster: Cluster,
        rules: ClientRules | None = None,
    ) -> None:
        self.cluster = cluster
        self.now = 1_000_000
        self.process = ClientProcess(
            "client-1",
            tuple(cluster.brokers),
            {"c": config},
            rules or ClientRules(),
            MemoryFiles(),
            random.Random(1),
            self.now,
        )
        self.queue: list[tuple[int, int, Any]] = []
        self.sequence = 0
        self.calls = 0
        self.replies: dict[int, Any] = {}
        self.facts: list[Any] = []
        self.addresses: dict[int, str] = {}
        self.closed: dict[int, None] = {}  # connections that the client has closed
        self.withheld: list[tuple[int, int, Any]] = []  # (connection, correlation, message)
        self.process.start(self.now)
        self.drain()

    def call(self, method: str, *args: Any) -> int:
        self.calls += 1
        self.process.handle(Call(self.calls, f"c.{method}", args), self.now)
        self.drain()
        return self.calls

    def result(self, method: str, *args: Any, within_ms: int = 200_000) -> Any:
        """Call and run until the reply; an error is returned, not raised."""
        call = self.call(method, *args)
        limit = self.now + within_ms * 1000
        while call not in self.replies and self.step(limit):
            pass
        return self.replies[call]

    def push(self, delay: int, item: Any) -> None:
        self.sequence += 1
        heapq.heappush(self.queue, (self.now + delay, self.sequence, item))

    def drain(self) -> None:
        out, self.process.out = self.process.out, []
        for effect in out:
            kind = type(effect)
            if kind is Open:
                self.addresses[effect.connection] = effect.address
                if effect.address in self.cluster.down:
                    self.push(LATENCY_US, OpenFailed(effect.connection, "refused"))
                else:
                    self.push(LATENCY_US, Opened(effect.connection))
            elif kind is Send:
                self.push(LATENCY_US, effect)
            elif kind is Reply:
                self.replies[effect.call] = effect.error if effect.error else effect.result
            elif kind is Post:
                self.push(1, Posted(effect.handler, effect.message))
            elif kind is Close:
                self.closed[effect.connection] = None
            else:
                self.facts.append(effect)

    def respond(self, connection: int, correlation: int, message: Any) -> None:
        self.push(LATENCY_US, Response(connection, correlation, message))

    def reset(self, address: str) -> None:
        """Break all connections to a broker."""
        for connection, known in self.addresses.items():
            if known == address:
                self.push(0, Closed(connection, "reset"))

    def step(self, limit: int) -> bool:
        """Do the next thing that is due up to ``limit``; False if there is nothing."""
        timer = self.process.timers.next_deadline()
        arrival = self.queue[0][0] if self.queue else None
        times = [t for t in (timer, arrival) if t is not None]
        if not times or min(times) > limit:
            self.now = max(self.now, limit)
            return False
        self.now = max(self.now, min(times))
        if arrival is not None and arrival <= self.now:
            item = heapq.heappop(self.queue)[2]
            if type(item) is Send:
                answer = self.cluster.answer(self.addresses[item.connection], item.message)
                if answer is None:
                    self.withheld.append((item.connection, item.correlation, item.message))
                else:
                    self.respond(item.connection, item.correlation, answer)
            else:
                self.process.handle(item, self.now)
        else:
            due = self.process.timers.pop_due(self.now)
            if due is not None:
                self.process.timers.fire(due[0], due[1], self.now)
        self.drain()
        return True

    def run(self, ms: int) -> None:
        """Let time pass."""
        limit = self.now + ms * 1000
        while self.step(limit):
            pass

    def of(self, kind: type) -> list[Any]:
        """The facts of one kind so far."""
        return [fact for fact in self.facts if type(fact) is kind]
