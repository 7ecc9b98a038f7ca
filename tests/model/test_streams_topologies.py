"""The DSL makes Kafka's nodes, names, subtopologies and topics, and refuses what Kafka does."""

from __future__ import annotations

import pytest

from kafkasim.model.streams.dsl import JoinWindows, StreamsBuilder, Suppressed, TimeWindows
from kafkasim.model.streams.topology import Topology, TopologyError

WINDOWS = TimeWindows.ofSizeAndGrace(10_000, 5_000)


def counts_by_value() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("words").groupBy(lambda _, value: value)
    counts = words.windowedBy(WINDOWS).count().suppress(Suppressed.untilWindowCloses())
    counts.toStream().to("counts")
    return builder.build()


def test_a_change_of_key_makes_a_second_subtopology() -> None:
    first, second = counts_by_value().subtopologies("app")
    repartition = "app-KSTREAM-AGGREGATE-STATE-STORE-0000000002-repartition"
    assert (first.source_topics, first.sink_topics) == (("words",), (repartition,))
    assert (second.source_topics, second.sink_topics) == ((repartition,), ("counts",))
    assert second.repartition_topics == {repartition: None}
    assert second.changelog_topics == {
        "KSTREAM-AGGREGATE-STATE-STORE-0000000002": (
            "app-KSTREAM-AGGREGATE-STATE-STORE-0000000002-changelog"
        ),
        "KTABLE-SUPPRESS-STATE-STORE-0000000008": (
            "app-KTABLE-SUPPRESS-STATE-STORE-0000000008-changelog"
        ),
    }


def test_changelogs_of_windows_are_kept_a_day_longer() -> None:
    _, second = counts_by_value().subtopologies("app")
    windows, suppression = (spec.changelog_configs() for spec in second.stores)
    assert windows == {
        "message.timestamp.type": "CreateTime",
        "cleanup.policy": "compact,delete",
        "retention.ms": str(15_000 + 86_400_000),
    }
    assert suppression["cleanup.policy"] == "compact"


def test_topics_that_are_joined_are_copartitioned() -> None:
    builder = StreamsBuilder()
    orders = builder.stream("orders").selectKey(lambda _, value: value)
    orders.join(builder.table("users"), lambda order, user: [order, user]).to("out")
    topology = builder.build()
    assert topology.copartition_groups("app") == (
        ("app-KSTREAM-KEY-SELECT-0000000001-repartition", "users"),
    )


def test_windows_close_only_below_a_windowed_aggregation() -> None:
    table = StreamsBuilder().stream("in").groupByKey().count()
    with pytest.raises(TopologyError, match="Window close time is only defined for windowed"):
        table.suppress(Suppressed.untilWindowCloses())


def test_overlapping_sources_are_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("a", "b").to("x")
    builder.stream("b").to("y")
    with pytest.raises(TopologyError, match="overlapping but not equal"):
        builder.build()


def test_repartition_topics_of_a_join_must_agree() -> None:
    builder = StreamsBuilder()
    left = builder.stream("a").repartition("left", 3)
    right = builder.stream("b").repartition("right", 4)
    left.join(right, lambda one, two: [one, two], JoinWindows.ofTimeDifferenceWithNoGrace(5))
    with pytest.raises(TopologyError, match="left-repartition=3, right-repartition=4"):
        builder.build()
