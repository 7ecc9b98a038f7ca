"""A consumer of group.protocol=consumer that subscribes by pattern (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.messages import ConsumerGroupHeartbeatRequest, MetadataRequest
from tests.model.client_harness import Harness
from tests.model.test_consumer_group import polled
from tests.model.test_consumer_group_member import BOTH, Coordinator
from tests.model.test_pattern_subscription import AllTopics


def start(method: str, pattern: str, **config: Any) -> Harness:
    cluster = AllTopics(2)
    cluster.topics = {"t": 2, "tea": 1, "x": 1, "__consumer_offsets": 1}
    Coordinator(cluster)
    settings: dict[str, Any] = {"group_id": "g", "group_protocol": "consumer", **config}
    h = Harness(ConsumerConfig(auto_offset_reset="earliest", **settings), cluster)
    h.call(method, pattern)
    return h


def told(h: Harness) -> list[tuple[Any, Any]]:
    """Return (topics, expression) of every heartbeat."""
    return [
        (m.subscribed_topic_names, m.subscribed_topic_regex)
        for m in h.cluster.requests(ConsumerGroupHeartbeatRequest)
    ]


def test_the_coordinator_is_told_the_expression_once_and_no_names() -> None:
    h = start("subscribe_subscription_pattern", "t.*")
    assert h.result("poll", 1000)[0] == "assigned"
    h.result("continue")
    h.run(6_000)
    assert told(h)[:3] == [((), "t.*"), (None, None), (None, None)]
    assert h.cluster.requests(ConsumerGroupHeartbeatRequest)[1].topic_partitions == BOTH
    assert h.cluster.requests(MetadataRequest)[-1].topics is None


def test_subscribing_to_names_takes_the_expression_back() -> None:
    h = start("subscribe_subscription_pattern", "t.*")
    polled(h, 100)
    h.call("unsubscribe")  # else it is refused: names and expression exclude each other
    h.call("subscribe", ("x",))
    polled(h, 6_000)
    assert (("x",), None) in told(h)


def test_a_pattern_of_java_is_matched_by_the_member() -> None:
    h = start("subscribe_pattern", "t.*", metadata_max_age_ms=5000)
    polled(h, 1000)
    assert (("t", "tea"), None) in told(h)
    h.cluster.topics["tree"] = 1
    polled(h, 7000)
    assert (("t", "tea", "tree"), None) in told(h)


def test_a_pattern_of_java_that_nothing_matches_joins_all_the_same() -> None:
    h = start("subscribe_pattern", "none")
    polled(h, 100)
    assert told(h)[0] == ((), None)


@pytest.mark.parametrize(("protocol", "pattern"), [("classic", "t.*"), ("consumer", "")])
def test_what_is_refused(protocol: str, pattern: str) -> None:
    h = Harness(ConsumerConfig(group_id="g", group_protocol=protocol), AllTopics(2))
    assert isinstance(h.result("subscribe_subscription_pattern", pattern), KafkaError)
