"""Range and round robin (KAFKA.md, 3.3) against kafka-python's, an independent implementation."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from kafkasim.model.group.assignors import ASSIGNORS, range_assign, round_robin_assign
from kafkasim.model.messages import JoinGroupMember, Subscription
from kafkasim.model.records import TopicPartition

TOPICS = ("a", "b", "c", "d")


class Cluster:
    def __init__(self, partitions: dict[str, int]) -> None:
        self.partitions = partitions

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        count = self.partitions.get(topic)
        return None if count is None else set(range(count))


class Theirs:
    """A member as kafka-python's assignors read it."""

    def __init__(self, member: JoinGroupMember) -> None:
        self.member_id = member.member_id
        self.group_instance_id = member.group_instance_id
        self.metadata = member.subscription


def theirs(assignor: Any, members: list[JoinGroupMember], partitions: dict[str, int]) -> Any:
    # kafka-python groups static members only when they stand together: list them first.
    ordered = sorted(members, key=lambda m: m.group_instance_id is None)
    result = assignor.assign(Cluster(partitions), [Theirs(m) for m in ordered])
    return {
        member_id: [TopicPartition(topic, p) for topic, ps in assignment.assignment for p in ps]
        for member_id, assignment in result.items()
    }


def ours(assignment: dict[str, tuple[TopicPartition, ...]]) -> dict[str, list[TopicPartition]]:
    return {member_id: sorted(tps) for member_id, tps in assignment.items()}


def members_of(subscriptions: list[tuple[bool, tuple[str, ...]]]) -> list[JoinGroupMember]:
    return [
        JoinGroupMember(
            f"m{(i * 7) % 11}", f"i{(i * 5) % 11}" if static else None, Subscription(topics)
        )
        for i, (static, topics) in enumerate(subscriptions)
    ]


some_topics = st.lists(st.sampled_from(TOPICS), unique=True, min_size=1).map(tuple)
counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 7))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.booleans(), some_topics), min_size=1, max_size=8), counts)
def test_range_is_kafka_pythons(
    subscriptions: list[tuple[bool, tuple[str, ...]]], partitions: dict[str, int]
) -> None:
    members = members_of(subscriptions)
    expected = theirs(RangePartitionAssignor, members, partitions)
    assert ours(range_assign(members, partitions)) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=8), some_topics, counts)
def test_round_robin_is_kafka_pythons(
    static: list[bool], topics: tuple[str, ...], partitions: dict[str, int]
) -> None:
    # With unequal subscriptions kafka-python 3.0.12 fails (it looks a tuple up in a dict).
    members = members_of([(s, topics) for s in static])
    expected = theirs(RoundRobinPartitionAssignor, members, partitions)
    assert ours(round_robin_assign(members, partitions)) == expected


def test_round_robin_with_unequal_subscriptions_is_as_kafkas_javadoc_says() -> None:
    members = [
        JoinGroupMember(name, None, Subscription(topics))
        for name, topics in (("C0", ("t0",)), ("C1", ("t0", "t1")), ("C2", ("t0", "t1", "t2")))
    ]
    assert round_robin_assign(members, {"t0": 1, "t1": 2, "t2": 3}) == {
        "C0": (TopicPartition("t0", 0),),
        "C1": (TopicPartition("t1", 0),),
        "C2": (
            TopicPartition("t1", 1),
            TopicPartition("t2", 0),
            TopicPartition("t2", 1),
            TopicPartition("t2", 2),
        ),
    }


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(sorted(ASSIGNORS)),
    st.lists(st.tuples(st.booleans(), some_topics), min_size=1, max_size=8),
    counts,
)
def test_every_partition_of_a_subscribed_topic_has_one_owner(
    name: str, subscriptions: list[tuple[bool, tuple[str, ...]]], partitions: dict[str, int]
) -> None:
    members = members_of(subscriptions)
    owned = sorted(tp for tps in ASSIGNORS[name](members, partitions).values() for tp in tps)
    wanted = sorted({topic for _, topics in subscriptions for topic in topics})
    assert owned == [
        TopicPartition(topic, p) for topic in wanted for p in range(partitions.get(topic, 0))
    ]
