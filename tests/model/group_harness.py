"""A group coordinator in a process of its own on an in-memory log, and what members send it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.model import facts
from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.errors import Errors
from kafkasim.model.group.coordinator import GroupCoordinator
from kafkasim.model.group.modern.state.topics import Broker, Topic, TopicsImage
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
from tests.model.coordinator_bench import CoordinatorBench

GROUP = "billing"
T0 = TopicPartition("orders", 0)
T1 = TopicPartition("orders", 1)


class _NoTopics:
    """The metadata of a broker that knows nothing."""

    offset = -1
    group_version = 0
    share_version = 0
    group_configs: Mapping[str, Mapping[str, str]] = {}
    brokers: Mapping[int, Broker] = {}
    topics: Mapping[str, Topic] = {}
    topic_names: Mapping[str, str] = {}

    def topic_by_name(self, name: str) -> Topic | None:
        return None


NO_TOPICS = _NoTopics()


class Bench(CoordinatorBench):
    """One broker with nothing but a group coordinator."""

    lane = "group"

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
        super().__init__(log, seed, now)
        config = {
            "offsets_topic_num_partitions": 1, "group_coordinator_append_linger_ms": 0, **config,
        }  # fmt: skip
        self.group = self.coordinator = GroupCoordinator(
            self, 1, BrokerConfig(**config), rules or GroupRules(), self.log, new_coordinator, image
        )
        self.tp = TopicPartition(GROUP_METADATA_TOPIC, 0)

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
