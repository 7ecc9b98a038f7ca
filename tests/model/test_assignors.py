"""Assignors (KAFKA.md, 3.3): range and round robin against kafka-python's, and names.

What Kafka's own classes assign is in tests/fidelity/test_assignments.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from kafkasim.model.config.clients import ASSIGNOR_CLASSES
from kafkasim.model.group.assignors import (
    ASSIGNORS,
    Assignment,
    Assignor,
    Members,
    RebalanceProtocol,
    Topics,
    assignor_class,
    rebalance_protocol,
    without_racks,
)
from kafkasim.model.group.assignors.sticky.constrained import IllegalStateError
from kafkasim.model.messages import JoinGroupMember, StickyUserData, Subscription
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


def assign(name: str, members: list[JoinGroupMember], partitions: dict[str, int]) -> Assignment:
    return ASSIGNORS[name]().assign(without_racks(partitions), members)


def ours(assignment: Assignment) -> dict[str, list[TopicPartition]]:
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
    assert ours(assign("range", members, partitions)) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=8), some_topics, counts)
def test_round_robin_is_kafka_pythons(
    static: list[bool], topics: tuple[str, ...], partitions: dict[str, int]
) -> None:
    # With unequal subscriptions kafka-python 3.0.12 fails (it looks a tuple up in a dict).
    members = members_of([(s, topics) for s in static])
    expected = theirs(RoundRobinPartitionAssignor, members, partitions)
    assert ours(assign("roundrobin", members, partitions)) == expected


def test_round_robin_with_unequal_subscriptions_is_as_kafkas_javadoc_says() -> None:
    members = [
        JoinGroupMember(name, None, Subscription(topics))
        for name, topics in (("C0", ("t0",)), ("C1", ("t0", "t1")), ("C2", ("t0", "t1", "t2")))
    ]
    assert assign("roundrobin", members, {"t0": 1, "t1": 2, "t2": 3}) == {
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
    owned = sorted(tp for tps in assign(name, members, partitions).values() for tp in tps)
    wanted = sorted({topic for _, topics in subscriptions for topic in topics})
    assert owned == [
        TopicPartition(topic, p) for topic in wanted for p in range(partitions.get(topic, 0))
    ]


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_an_assignor_is_known_by_its_name_and_by_kafkas_class(name: str) -> None:
    assert assignor_class(name) is assignor_class(ASSIGNOR_CLASSES[name]) is ASSIGNORS[name]


def test_a_user_names_an_assignor_by_module_and_name() -> None:
    here = __name__
    assert assignor_class(f"{here}:AllToFirst") is AllToFirst
    custom = assignor_class(f"{here}:all_to_first")
    members = members_of([(False, ("a",)), (False, ("a",))])
    assert custom.name == "all_to_first"
    assert custom.protocols == (RebalanceProtocol.EAGER,)
    everything = (TopicPartition("a", 0), TopicPartition("a", 1))
    assert custom().assign(without_racks({"a": 2}), members) == {"m0": everything, "m7": ()}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("best", "'best' is not one of range, roundrobin, sticky, cooperative-sticky"),
        ("no.such.module:assign", "cannot be imported"),
        (f"{__name__}:TOPICS", "is neither an Assignor nor a function"),
    ],
)
def test_an_unknown_assignor_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assignor_class(name)


def all_to_first(topics: Topics, members: Members) -> Assignment:
    first, *others = [member.member_id for member in members]
    everything = [TopicPartition(t, p) for t in sorted(topics) for p in range(len(topics[t]))]
    return {first: tuple(everything), **dict.fromkeys(others, ())}


class AllToFirst(Assignor):
    name = "all-to-first"
    protocols = (RebalanceProtocol.COOPERATIVE,)


@pytest.mark.parametrize(
    ("assignors", "protocol"),
    [
        (("range", "cooperative-sticky"), RebalanceProtocol.EAGER),
        (("cooperative-sticky",), RebalanceProtocol.COOPERATIVE),
        (("sticky", "roundrobin"), RebalanceProtocol.EAGER),
    ],
)
def test_the_protocol_is_the_most_advanced_that_all_assignors_support(
    assignors: tuple[str, ...], protocol: RebalanceProtocol
) -> None:
    assert rebalance_protocol([ASSIGNORS[name] for name in assignors]) is protocol


def test_assignors_without_a_common_protocol_are_refused() -> None:
    with pytest.raises(ValueError, match="range, all-to-first do not have commonly supported"):
        rebalance_protocol([ASSIGNORS["range"], AllToFirst])


def test_a_sticky_leader_remembers_the_highest_generation_that_it_has_seen() -> None:
    assignor = ASSIGNORS["sticky"]()

    def member(name: str, generation: int, *owned: int) -> JoinGroupMember:
        partitions = tuple([TopicPartition("a", p) for p in owned])
        data = StickyUserData(partitions, generation)
        topics = ("a",) if name == "m0" else ("a", "b")
        return JoinGroupMember(name, None, Subscription(topics, (), generation, None, data))

    topics = without_racks({"a": 2, "b": 1})
    first = assignor.assign(topics, [member("m0", 7, 0), member("m1", 7, 1)])
    again = assignor.assign(topics, [member("m0", 6, 0, 1), member("m1", 6)])
    assert sorted(again["m0"]) == [TopicPartition("a", 0), TopicPartition("a", 1)]
    assert sorted(first["m0"]) == [TopicPartition("a", 0)]


@pytest.mark.parametrize(
    ("partitions", "owned"),
    [(2, {"m1": (0, 1, 2, 3), "m2": (4, 5)}), (3, {"m1": (5,), "m2": (4,)})],
)
def test_owners_of_partitions_that_are_gone_fail_a_sticky_assignor(
    partitions: int, owned: dict[str, tuple[int, ...]]
) -> None:
    """Kafka 4.0.0 throws IllegalStateException in both cases."""
    members = [
        JoinGroupMember(
            name,
            None,
            Subscription(("a",), tuple([TopicPartition("a", p) for p in numbers]), 1),
        )
        for name, numbers in owned.items()
    ]
    with pytest.raises(IllegalStateError):
        assign("cooperative-sticky", members, {"a": partitions})
