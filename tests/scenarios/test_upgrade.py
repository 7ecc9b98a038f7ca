"""Upgrades: each node gets another release while it is down, and what that changes."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import ScenarioRun

BASE: dict[str, Any] = {
    "name": "upgraded",
    "claim": "Nodes change their release one by one.",
    "duration": "14s",
    "cluster": {"brokers": 1, "controllers": 1, "kafka-version": "3.9"},
    "topics": [{"name": "orders"}],
}


def answers(*operations: dict[str, Any], **more: Any) -> tuple[ScenarioRun, list[tuple[str, ...]]]:
    run = ScenarioRun(parse({**BASE, **more, "operations": list(operations)}, "test"), 1, None, [])
    told: list[tuple[str, ...]] = []
    run.trace.subscribe(
        facts.Operated,
        lambda _s, _t, _n, f: told.append((f.operation, f.target, f.error, f.reason)),
    )
    result = run.execute()
    assert result.verdict == "pass", (result.anomalies, result.missing)
    return run, told


def test_features_wait_for_the_last_broker_and_are_finalized_then() -> None:
    levels = {"metadata.version": 25, "eligible.leader.replicas.version": 1}
    run, told = answers(
        {"kind": "upgrade", "kafka-version": "4.0", "nodes": ["controller-1"], "at": "1s",
         "pause": "500ms"},
        {"kind": "update-features", "features": levels, "at": "4s"},
        {"kind": "upgrade", "kafka-version": "4.0", "nodes": ["broker-1"], "at": "5s",
         "pause": "500ms"},
        {"kind": "update-features", "features": levels, "at": "13s"},
    )  # fmt: skip
    assert [row[:3] for row in told] == [
        ("upgrade", "controller-1", "NONE"),
        ("update-features", "features", "INVALID_UPDATE_VERSION"),
        ("upgrade", "broker-1", "NONE"),
        ("update-features", "features", "NONE"),
    ]
    assert "Broker 1 supports" in told[1][3]
    assert (told[0][3], told[2][3]) == ("3.9 to 4.0", "3.9 to 4.0")
    controller: Any = run.world.hosts["controller-1"].process
    assert {name: controller.image.features[name] for name in levels} == levels
    assert controller.raft._context.rules.pre_vote()


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"kind": "upgrade", "at": "1s"}, "operations.0.kafka-version: is missing"),
        ({"kind": "upgrade", "at": "1s", "kafka-version": "2.8-zk"}, "2.8-zk has no mode kraft"),
        ({"kind": "update-features", "at": "1s"}, "operations.0.features: is missing"),
    ],
)
def test_an_upgrade_says_what_it_needs(operation: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message.replace(".", r"\.")):
        parse({**BASE, "operations": [operation]}, "test")


def test_a_mixed_cluster_begins_at_what_its_oldest_node_supports() -> None:
    mixed = {"brokers": 2, "controllers": 1, "nodes": {"broker-2": {"kafka-version": "3.9"}}}
    levels = {"metadata.version": 22}
    run, told = answers(
        {"kind": "update-features", "features": levels, "at": "1s"}, cluster=mixed, duration="3s"
    )
    assert [row[2] for row in told] == ["INVALID_UPDATE_VERSION"]
    controller: Any = run.world.hosts["controller-1"].process
    assert controller.image.features["metadata.version"] == 21


def test_4_1_begins_with_eligible_leader_replicas() -> None:
    run, _ = answers(cluster={"brokers": 1, "controllers": 1, "kafka-version": "4.1"})
    controller: Any = run.world.hosts["controller-1"].process
    levels = {"metadata.version": 27, "eligible.leader.replicas.version": 1}
    assert controller.image.features == levels
    assert controller.image.dynamic_config(1) == {"min.insync.replicas": "1"}


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"features": {"metadata.version": 26}}, "Kafka 4.0 does not support level 26"),
        ({"kafka-version": "3.9", "features": {"eligible.leader.replicas.version": 1}}, "3.9"),
        (
            {"features": {"metadata.version": 22, "eligible.leader.replicas.version": 1}},
            "eligible.leader.replicas.version 1 needs metadata.version 23",
        ),
        (
            {"features": {"metadata.version": 16}, "config": {"log.dirs": "/a,/b"}},
            "several log.dirs need 17",
        ),
    ],
)
def test_levels_that_kafka_storage_would_refuse(cluster: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse({**BASE, "cluster": {"brokers": 1, "controllers": 1, **cluster}}, "test")
