"""A coordinator in a process of its own on an in-memory log: requests in, answers and facts out."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model import facts
from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.effects import Post, Process, Read, Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.group.coordinator import GroupCoordinator
from kafkasim.model.group.modern.state.topics import NO_TOPICS, TopicsImage
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Subscription,
    SyncGroupRequest,
)
from kafkasim.model.records import GROUP_METADATA_TOPIC, TopicPartition
from kafkasim.model.storage.files import MemoryFiles

SECOND = 1_000_000
GROUP = "billing"
T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)
FACTS = tuple(facts.FACTS.values())


class Bench(Process):
    """One broker with nothing but a group coordinator. ``replicate`` moves the high watermark."""

    def __init__(
        self,
        log: MemoryCoordinatorLog | None = None,
        rules: GroupRules | None = None,
        seed: int = 1,
        now: int = 0,
        new_coordinator: bool = True,
        image: TopicsImage = NO_TOPICS,
        **config: Any,
    ) -> None:
        super().__init__("broker-1", MemoryFiles(), random.Random(seed), now)
        self.now = now
        self.log = log or MemoryCoordinatorLog()
        config = {
            "offsets_topic_num_partitions": 1, "group_coordinator_append_linger_ms": 0, **config,
        }  # fmt: skip
        self.group = GroupCoordinator(
            self, 1, BrokerConfig(**config), rules or GroupRules(), self.log, new_coordinator, image
        )
        self.tp = TopicPartition(GROUP_METADATA_TOPIC, 0)
        self.answers: dict[int, Any] = {}
        self.facts: list[Any] = []
        self.posts: list[Post] = []
        self.auto_replicate = True
        self.last = 0

    def elect(self, epoch: int = 1) -> Bench:
        self.group.on_elected(0, epoch, self.now)
        self.settle()
        return self

    def ask(self, message: Any) -> int:
        """Send a request; its number finds the answer in ``answers``, once there is one."""
        self.last += 1
        self.group.on_request(Request(7, self.last, message, self.now), self.now)
        self.settle()
        return self.last

    def get(self, message: Any) -> Any:
        """Send a request that must be answered at once."""
        return self.answers[self.ask(message)]

    def replicate(self) -> None:
        self.log.high_watermarks[self.tp] = self.log.end(self.tp)
        self.group.on_high_watermark(0, self.log.end(self.tp), self.now)
        self.drain()

    def settle(self) -> None:
        self.drain()
        while self.posts:
            post = self.posts.pop(0)
            post.handler(post.message, self.now)
            self.drain()
        while self.auto_replicate and self.log.end(self.tp) > self.log.high_watermark(self.tp):
            self.replicate()

    def drain(self) -> None:
        for effect in self.out:
            if isinstance(effect, Respond):
                assert effect.correlation not in self.answers, effect
                self.answers[effect.correlation] = effect.message
            elif isinstance(effect, Post):
                self.posts.append(effect)
            elif isinstance(effect, Read):
                self.posts.append(Post("group-loader", effect.handler, None))
            else:
                assert isinstance(effect, FACTS), effect
                self.facts.append(effect)
        self.out.clear()

    def wait(self, seconds: float) -> None:
        """Let time pass; timers fire at their deadlines."""
        until = self.now + int(seconds * SECOND)
        while (deadline := self.timers.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            due = self.timers.pop_due(self.now)
            assert due is not None
            assert due[2] == "group/0", due
            self.timers.fire(due[0], due[1], self.now)
            self.settle()
        self.now = until

    def seen(self, kind: type) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def states(self) -> list[tuple[str, int]]:
        return [(fact.state, fact.generation) for fact in self.seen(facts.GroupState)]

    # Whole conversations

    def member_id(self, client: str) -> str:
        """Have a member id handed out to a new dynamic member."""
        answer = self.get(join(client=client))
        assert answer.error is Errors.MEMBER_ID_REQUIRED, answer
        return str(answer.member_id)

    def form(self, *clients: str) -> tuple[int, dict[str, str]]:
        """Bring a group to Stable; return its generation and the member ids by client."""
        ids = {client: self.member_id(client) for client in clients}
        asked = {client: self.ask(join(ids[client], client=client)) for client in clients}
        self.wait(10)
        answers = {client: self.answers[asked[client]] for client in clients}
        leader = next(a for a in answers.values() if a.leader == a.member_id)
        generation = leader.generation_id
        assignments = tuple(
            (member.member_id, (TopicPartition("orders", i),))
            for i, member in enumerate(leader.members)
        )
        for client in clients:
            given = assignments if ids[client] == leader.member_id else ()
            self.ask(sync(ids[client], generation, given))
        return generation, ids


def join(
    member_id: str = "",
    *,
    client: str = "c",
    group: str = GROUP,
    instance: str | None = None,
    session_ms: int = 10_000,
    rebalance_ms: int = 60_000,
    protocols: tuple[str, ...] = ("range",),
    topics: tuple[str, ...] = ("orders",),
) -> JoinGroupRequest:
    subscribed = tuple((name, Subscription(topics)) for name in protocols)
    return JoinGroupRequest(
        group, session_ms, rebalance_ms, member_id, instance, "consumer", subscribed, client
    )


def sync(
    member_id: str, generation: int, assignments: Any = (), *, instance: str | None = None
) -> SyncGroupRequest:
    return SyncGroupRequest(
        GROUP, generation, member_id, instance, "consumer", "range", tuple(assignments)
    )


def heartbeat(member_id: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(GROUP, generation, member_id, instance)


def leave(member_id: str, instance: str | None = None) -> LeaveGroupRequest:
    return LeaveGroupRequest(GROUP, ((member_id, instance, "test"),))


def commit(
    offset: int,
    member_id: str = "",
    generation: int = -1,
    tp: TopicPartition = T0,
    instance: str | None = None,
    metadata: str = "",
) -> OffsetCommitRequest:
    return OffsetCommitRequest(GROUP, generation, member_id, instance, ((tp, offset, 3, metadata),))


def fetch(*tps: TopicPartition, stable: bool = True) -> OffsetFetchRequest:
    return OffsetFetchRequest(GROUP, tps or None, stable)


def offsets(answer: Any) -> dict[TopicPartition, int]:
    assert answer.error is Errors.NONE, answer
    return {p.tp: p.offset for p in answer.partitions}
