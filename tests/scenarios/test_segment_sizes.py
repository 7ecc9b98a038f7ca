"""Sizes of segments: which release takes which setting (KIP-1030)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.scenarios.searching.worlds.releases import segments_that_all_take

SMALL, INTERNAL = {"segment.bytes": 400}, {"internal.segment.bytes": 400}
LEAST = 1048576
OFFSETS = "offsets.topic.segment.bytes"
OLDER = {"kafka-version": "4.0"}


def scenario(topic: dict[str, Any], *operations: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return {
        "name": "sizes",
        "claim": "Segments are as long as the release lets them be.",
        "duration": "4s",
        "cluster": {"brokers": 1, "controllers": 1, **cluster},
        "topics": [{"name": "orders", "config": topic}],
        "operations": list(operations),
    }


@pytest.mark.parametrize(
    ("topic", "cluster", "message"),
    [
        (
            SMALL,
            {"kafka-version": "4.1"},
            "topics.0.config.segment.bytes: 400 is below 1048576: Kafka 4.1 answers INVALID_CONFIG",
        ),
        (
            SMALL,
            {"nodes": {"broker-1": {"kafka-version": "4.1"}}},
            "topics.0.config.segment.bytes: 400 is below 1048576: Kafka 4.1 answers INVALID_CONFIG",
        ),
        (
            INTERNAL,
            {},
            (
                "topics.0.config.internal.segment.bytes: unknown key before Kafka 4.1:"
                " Kafka 4.0 answers INVALID_CONFIG"
            ),
        ),
        (
            {},
            {"config": {"log.segment.bytes": 1000}},
            (
                "cluster.config.log.segment.bytes: 1000 is below 1048576:"
                " a server of Kafka 4.0 does not start"
            ),
        ),
        (
            {},
            {"nodes": {"broker-1": {"config": {"log.segment.bytes": 1000}}}},
            (
                "cluster.nodes.broker-1.config.log.segment.bytes: 1000 is below 1048576:"
                " a server of Kafka 4.0 does not start"
            ),
        ),
    ],
)
def test_a_size_that_the_release_refuses_is_one_line(
    topic: dict[str, Any], cluster: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError) as raised:
        parse(scenario(topic, **cluster), "test")
    assert str(raised.value) == f"test: {message}"


def test_a_server_is_not_upgraded_with_a_default_that_4_0_refuses() -> None:
    data = scenario(
        {},
        {"kind": "upgrade", "kafka-version": "4.0", "at": "1s"},
        **{"kafka-version": "3.9", "config": {"log.segment.bytes": 1000}},
    )
    with pytest.raises(ScenarioError, match=r"cluster.config.log.segment.bytes: 1000 is below"):
        parse(data, "test")


@pytest.mark.parametrize("version", ["3.9", "4.0"])
def test_earlier_releases_roll_small_segments(version: str) -> None:
    parsed = parse(scenario(SMALL, **{"kafka-version": version}), "test")
    assert parsed.topics[0].config == SMALL


@pytest.mark.parametrize(
    ("version", "changes"),
    [("4.0", {"400": "NONE", "internal": "INVALID_CONFIG", "broker": "INVALID_REQUEST"}),
     ("4.1", {"400": "INVALID_CONFIG", "internal": "NONE", "broker": "INVALID_REQUEST"})],
)  # fmt: skip
def test_the_controller_refuses_what_its_release_does_not_take(
    version: str, changes: dict[str, str]
) -> None:
    data = scenario(
        {},
        {"kind": "alter-config", "topic": "orders", "config": SMALL, "at": "1s"},
        {"kind": "alter-config", "topic": "orders", "config": INTERNAL, "at": "2s"},
        {"kind": "alter-config", "node": "broker-1", "config": {"log.segment.bytes": 400},
         "at": "3s"},
        **{"kafka-version": version},
    )  # fmt: skip
    run = ScenarioRun(parse(data, "test"), 1, None, [])
    told: list[facts.Operated] = []
    run.trace.subscribe(facts.Operated, lambda _s, _t, _n, f: told.append(f))
    run.execute()
    assert [each.error for each in told] == list(changes.values())
    assert all(
        str(LEAST) in each.reason or "4.1" in each.reason for each in told if each.error != "NONE"
    )


def test_4_1_rolls_internal_topics_by_the_internal_setting() -> None:
    """A size that Kafka's controller would refuse (coordinators/registry.py)."""
    data = scenario(INTERNAL, **{"kafka-version": "4.1", "config": {OFFSETS: 2000}})
    data["workload"] = [{"kind": "consumer-group", "group": "readers", "topics": ["orders"]}]
    data["cluster"]["config"] |= {
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
    }
    run = ScenarioRun(parse(data, "test"), 1, None, [])
    assert run.execute().verdict == "pass"
    broker: Any = run.world.hosts["broker-1"].process
    assert {
        tp.topic: partition.log.config.segment_size
        for tp, partition in broker.replicas.partitions.items()
    } == {"orders": 400, "__consumer_offsets": 2000}


def test_a_broker_of_4_0_ignores_the_internal_setting() -> None:
    data = scenario(INTERNAL, **{"kafka-version": "4.1", "nodes": {"broker-1": OLDER}})
    run = ScenarioRun(parse(data, "test"), 1, None, [])
    assert run.execute().verdict == "pass"
    broker: Any = run.world.hosts["broker-1"].process
    sizes = [each.log.config.segment_size for each in broker.replicas.partitions.values()]
    assert sizes == [1 << 30]


@pytest.mark.parametrize(("size", "starts"), [(400, False), (LEAST, True)])
def test_a_broker_of_4_1_does_not_start_with_a_small_segment(size: int, starts: bool) -> None:
    """LogManager.fetchTopicConfigOverrides, called by BrokerMetadataPublisher.initializeManagers.

    The topic may be on any broker.
    """
    upgrade = {"kind": "upgrade", "kafka-version": "4.1", "nodes": ["broker-2"], "at": "1s"}
    data = scenario({"segment.bytes": size}, upgrade, brokers=2)
    data["topics"][0] |= {"partitions": 1, "assignment": [[1]]}
    run = ScenarioRun(parse(data, "test"), 1, None, [])
    result = run.execute()
    assert (result.verdict == "pass", run.progress.unfenced() == [1, 2]) == (starts, starts)


def test_a_drawn_scenario_of_4_1_has_the_internal_setting() -> None:
    change = {"kind": "alter-config", "topic": "orders", "config": dict(SMALL)}
    data = scenario(dict(SMALL), change, **{"kafka-version": "4.1", "config": {OFFSETS: 2000}})
    segments_that_all_take(data)
    assert data == scenario(
        INTERNAL,
        change | {"config": INTERNAL},
        **{"kafka-version": "4.1", "config": {OFFSETS: 2000}},
    )


def test_a_drawn_upgrade_to_4_1_has_segments_that_both_releases_take() -> None:
    upgrade = {"kind": "upgrade", "kafka-version": "4.1"}
    large = {"segment.bytes": LEAST}
    data = scenario(dict(SMALL), upgrade, config={OFFSETS: 2000})
    segments_that_all_take(data)
    assert data == scenario(large, upgrade, config={OFFSETS: LEAST})


def test_a_drawn_scenario_of_earlier_releases_stays_as_it_is() -> None:
    upgrade = {"kind": "upgrade", "kafka-version": "4.0"}
    data = scenario(dict(SMALL), upgrade, **{"kafka-version": "3.9"})
    segments_that_all_take(data)
    assert data == scenario(SMALL, upgrade, **{"kafka-version": "3.9"})
