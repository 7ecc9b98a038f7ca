"""A consumer that subscribes by pattern: which topics it has, and when it joins again."""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import ConsumerConfig
from kafkasim.model.errors import NONE
from kafkasim.model.facts import ConsumerAssigned
from kafkasim.model.messages import (
    JoinGroupRequest,
    MetadataRequest,
    MetadataResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness
from tests.model.test_consumer_group import Group, polled


class AllTopics(Cluster):
    """A cluster that tells of all topics when it is asked for all."""

    def metadata(self, node: str, message: MetadataRequest) -> MetadataResponse:
        topics = tuple(sorted(self.topics)) if message.topics is None else message.topics
        return super().metadata(node, MetadataRequest(topics))


def start(pattern: str, **topics: int) -> tuple[Harness, Group]:
    cluster = AllTopics(brokers=1)
    group = Group(cluster, 0)
    cluster.topics = {"__consumer_offsets": 1, **topics}
    group.logs = {TopicPartition(t, p): 0 for t, n in cluster.topics.items() for p in range(n)}
    config = ConsumerConfig(
        group_id="g", auto_offset_reset="earliest", metadata_max_age_ms=5000,
        partition_assignment_strategy=("range",),
    )  # fmt: skip
    h = Harness(config, cluster)
    h.call("subscribe_pattern", pattern)
    return h, group


def subscribed(h: Harness) -> list[tuple[str, ...]]:
    return [m.protocols[0][1].topics for m in h.cluster.requests(JoinGroupRequest)]


def assigned(h: Harness) -> list[tuple[str, ...]]:
    return [fact.assignment for fact in h.of(ConsumerAssigned)]


def test_the_whole_name_must_match_and_internal_topics_never_do() -> None:
    h, _ = start("orders.*|_.*", **{"orders": 1, "orders-eu": 1, "old-orders": 1})
    polled(h, 100)
    assert subscribed(h)[-1] == ("orders", "orders-eu")
    assert assigned(h) == [("orders-0", "orders-eu-0")]


def test_a_topic_that_is_created_later_is_found_by_the_next_metadata() -> None:
    h, group = start("orders.*", orders=1)
    polled(h, 100)
    h.cluster.topics["orders-eu"] = 1
    group.logs[TopicPartition("orders-eu", 0)] = 0
    polled(h, 7000)
    assert assigned(h)[-1] == ("orders-0", "orders-eu-0")
    assert h.cluster.requests(JoinGroupRequest)[-1].reason in (
        "cached metadata has changed", "subscription has changed",
    )  # fmt: skip


def test_a_topic_that_is_deleted_is_given_up() -> None:
    h, _ = start("orders.*", **{"orders": 1, "orders-eu": 1})
    polled(h, 100)
    del h.cluster.topics["orders-eu"]
    polled(h, 7000)
    assert assigned(h)[-1] == ("orders-0",)


def test_a_member_asks_for_metadata_before_it_joins_again() -> None:
    h, _ = start("orders.*", **{"orders": 1, "orders-eu": 1})
    polled(h, 100)
    del h.cluster.topics["orders-eu"]

    def metadata(node: str, message: MetadataRequest) -> MetadataResponse:
        known = h.cluster.metadata(node, message)
        h.cluster.topics["orders-eu"] = 1  # the next broker that is asked knows it
        return known

    h.cluster.handlers[MetadataRequest] = metadata
    joins = len(subscribed(h))
    h.run(6000)  # it hears of the deletion while its application does not poll
    polled(h, 1000)
    assert subscribed(h)[joins:] == [("orders", "orders-eu")]
    assert len(assigned(h)) == 2


def test_a_pattern_that_nothing_matches_joins_and_waits() -> None:
    h, _ = start("bills", orders=1)
    assert polled(h, 100) == ("records", {})
    assert (subscribed(h)[-1], assigned(h)) == ((), [()])


def test_a_topic_that_only_the_leader_knows_is_accepted_if_it_matches() -> None:
    h, group = start("orders.*", orders=1)
    early = TopicPartition("orders-eu", 0)

    def sync(_node: str, _m: SyncGroupRequest) -> Any:
        h.cluster.topics["orders-eu"] = 1  # the member's metadata is without it
        return SyncGroupResponse(NONE, "consumer", "range", (TopicPartition("orders", 0), early))

    h.cluster.handlers[SyncGroupRequest] = sync
    group.logs[early] = 0
    polled(h, 100)
    assert assigned(h)[0] == ("orders-0", "orders-eu-0")
    assert len(h.cluster.requests(SyncGroupRequest)) == 1


def test_subscribing_to_names_ends_the_pattern() -> None:
    h, _ = start("orders.*", orders=1, bills=1)
    polled(h, 100)
    h.call("unsubscribe")  # else it is refused: names and pattern exclude each other
    h.call("subscribe", ("bills",))
    polled(h, 1000)
    assert assigned(h)[-1] == ("bills-0",)
    assert h.cluster.requests(MetadataRequest)[-1].topics == ("bills",)
