"""SimpleAssignor of share groups (SimpleAssignorTest, KIP-932)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasim.model.coordinator.hashing import java_string_hash
from kafkasim.model.group.modern.assignors.spec import PartitionAssignorError, SubscriptionType
from kafkasim.model.group.modern.state.assignment import Assignment, assignment_of, partitions_of
from kafkasim.model.group.share.simple_assignor import (
    ShareGroupSpec,
    ShareMemberSpec,
    simple_assign,
)

SAME, OTHER = SubscriptionType.HOMOGENEOUS, SubscriptionType.HETEROGENEOUS
T = {"t1": (0, 1, 2), "t2": (0, 1)}


def spec(
    members: dict[str, tuple[tuple[str, ...], Assignment]],
    kind: SubscriptionType = SAME,
    assignable: Assignment = T,
) -> ShareGroupSpec:
    specs = {name: ShareMemberSpec(*members[name]) for name in sorted(members)}
    return ShareGroupSpec(specs, kind, assignable)


def test_one_member_gets_everything() -> None:
    assert simple_assign(spec({"A": (("t1", "t2"), {})})) == {"A": T}


def test_nobody_and_nothing() -> None:
    assert simple_assign(spec({})) == {}
    assert simple_assign(spec({"A": ((), {})})) == {}
    assert simple_assign(spec({"A": (("t1",), {})}, assignable={})) == {"A": {}}
    assert simple_assign(spec({"A": ((), {}), "B": (("t2",), {})}, OTHER))["A"] == {}


def test_the_hash_of_a_member_gives_it_its_first_partition() -> None:
    """testAssignWithTwoMembersAndTwoTopicsHomogeneous: A has hash 65, B 66, of five partitions."""
    assert (java_string_hash("A"), java_string_hash("B")) == (65, 66)
    given_ = simple_assign(spec({"A": (("t1", "t2"), {}), "B": (("t1", "t2"), {})}))
    assert given_ == {"A": {"t1": (0, 2), "t2": (1,)}, "B": {"t1": (1,), "t2": (0,)}}


def test_a_partition_of_a_topic_that_is_left_goes() -> None:
    before = {"t1": (0,), "t2": (0, 1)}
    assert simple_assign(spec({"A": (("t1",), before)})) == {"A": {"t1": (0, 1, 2)}}


def test_members_that_subscribe_otherwise() -> None:
    """testAssignWithThreeMembersThreeTopicsHeterogeneous, of two topics here."""
    given_ = simple_assign(
        spec({"A": (("t1",), {}), "B": (("t1", "t2"), {}), "C": (("t2",), {})}, OTHER)
    )
    assert given_ == {"A": {"t1": (0, 2)}, "B": {"t1": (1,), "t2": (0,)}, "C": {"t2": (1,)}}


def test_no_member_with_room_is_an_error() -> None:
    """Both have the same four partitions, and may not have more than four: two go to nobody."""
    before = {"t1": (0, 1, 2, 3)}
    both = {"m16": (("t1",), before), "m52": (("t1",), before)}
    with pytest.raises(PartitionAssignorError):
        simple_assign(spec(both, assignable={"t1": (0, 1, 2, 3, 4, 5)}))


TOPICS = ("t1", "t2", "t3")


@st.composite
def groups(draw: st.DrawFn) -> ShareGroupSpec:
    assignable = {
        name: tuple(sorted(draw(st.sets(st.integers(0, 8), min_size=1)))) for name in TOPICS
    }
    names = draw(st.lists(st.text("abcxyz0123", min_size=1, max_size=6), min_size=1, unique=True))
    same = draw(st.booleans())
    common = tuple(sorted(draw(st.sets(st.sampled_from(TOPICS), min_size=1))))
    members = {}
    every = [(topic, number) for topic, some in assignable.items() for number in some]
    for name in names:
        own = tuple(sorted(draw(st.sets(st.sampled_from(TOPICS)))))
        before = assignment_of(draw(st.sets(st.sampled_from(every), max_size=6)))
        members[name] = (common if same else own, before)
    return spec(members, SAME if same else OTHER, assignable)


@given(groups())
def test_everything_is_assigned_to_subscribers_and_evenly(group: ShareGroupSpec) -> None:
    try:
        assigned = simple_assign(group)
    except PartitionAssignorError:
        return
    wanted: dict[tuple[str, int], None] = {}
    for name, member in group.members.items():
        subscribed = {topic: group.assignable[topic] for topic in member.topic_ids}
        wanted |= dict.fromkeys(partitions_of(subscribed))
        assert set(partitions_of(assigned.get(name, {}))) <= set(partitions_of(subscribed))
    found = {each for given_ in assigned.values() for each in partitions_of(given_)}
    if group.subscription_type is SAME:
        assert found == set(wanted)
        share = -(-len(wanted) // len(group.members))
        assert all(len(list(partitions_of(a))) <= share + 1 for a in assigned.values())
