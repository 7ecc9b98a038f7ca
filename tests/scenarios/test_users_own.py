"""The assignors and partitioners that the search draws as a user's own keep Kafka's contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkasim.model.client.consumer.group.assignors import _validate_cooperative
from kafkasim.model.client.producer.partitioner import partitioner_class
from kafkasim.model.group.assignors.base import without_racks
from kafkasim.model.messages import JoinGroupMember
from kafkasim.model.messages.clients.groups import Subscription
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.searching.choices.custom import PARTITIONERS, Keeping, failover

TOPICS = ("orders", "clicks")
TPS = [TopicPartition(topic, number) for topic in TOPICS for number in range(4)]

SUBSCRIPTIONS = st.builds(
    Subscription,
    st.lists(st.sampled_from(TOPICS), min_size=1, max_size=2, unique=True).map(tuple),
    st.lists(st.sampled_from(TPS), max_size=6, unique=True).map(tuple),
    st.integers(-1, 3),
)
COUNTS = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 3))


def members(subscriptions: list[Subscription]) -> list[JoinGroupMember]:
    return [JoinGroupMember(f"m-{n}", None, each) for n, each in enumerate(subscriptions)]


@given(COUNTS, st.lists(SUBSCRIPTIONS, min_size=1, max_size=4))
def test_every_partition_goes_to_one_member_that_subscribes_to_it(
    counts: dict[str, int], subscriptions: list[Subscription]
) -> None:
    subscribed = {topic for each in subscriptions for topic in each.topics}
    every = [TopicPartition(t, n) for t in sorted(counts) for n in range(counts[t])]
    group = members(subscriptions)
    for assignment in (
        failover(without_racks(counts), group), Keeping().assign(without_racks(counts), group),
    ):  # fmt: skip
        given_away = sorted([tp for tps in assignment.values() for tp in tps])
        assert given_away == [tp for tp in every if tp.topic in subscribed]
        assert list(assignment) == [member.member_id for member in group]
        for member in group:
            topics = {tp.topic for tp in assignment[member.member_id]}
            assert topics <= set(member.subscription.topics)


@given(COUNTS, st.lists(SUBSCRIPTIONS, min_size=1, max_size=4))
def test_the_cooperative_one_takes_nothing_from_a_member_for_another_one(
    counts: dict[str, int], subscriptions: list[Subscription]
) -> None:
    group = members(subscriptions)
    claimed: set[TopicPartition] = set()
    sole = []
    for member in group:
        mine = member.subscription
        owned = tuple(
            [tp for tp in mine.owned_partitions if tp not in claimed and tp.topic in mine.topics]
        )
        claimed.update(owned)
        own = Subscription(mine.topics, owned, mine.generation_id)
        sole.append(JoinGroupMember(member.member_id, None, own))
    _validate_cooperative(Keeping().assign(without_racks(counts), sole), sole)


def test_the_first_subscriber_gets_everything_and_an_owner_keeps_what_it_has() -> None:
    subscribed = Subscription(("orders",))
    owner = Subscription(("orders",), (TopicPartition("orders", 1),), 2)
    tps = tuple([TopicPartition("orders", n) for n in range(3)])
    counts = without_racks({"orders": 3})
    assert failover(counts, members([subscribed, owner])) == {"m-0": tps, "m-1": ()}
    assert Keeping().assign(counts, members([subscribed, owner])) == {
        "m-0": (tps[0], tps[2]), "m-1": (tps[1],),
    }  # fmt: skip


def test_partitioners_of_a_user_choose_without_looking_at_leaders() -> None:
    first, turns = [partitioner_class(name)() for name in PARTITIONERS]
    assert [first(b"k", range(3), [1]), first(None, range(3), [2])] == [0, 0]
    assert [turns(None, range(3), [2]) for _ in range(4)] == [0, 1, 2, 0]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("org.acme.Mine", "cannot be imported"),
        ("kafkasim.scenarios.searching.choices.custom:nothing", "cannot be imported"),
        ("kafkasim.scenarios.searching.choices.custom:failover", "is no class"),
    ],
)
def test_what_is_no_class_is_no_partitioner(name: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        partitioner_class(name)
