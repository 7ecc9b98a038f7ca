"""Operator verbs: what a scenario may say, and what a cluster makes of it."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import ScenarioRun

ORDERS = TopicPartition("orders", 0)


def scenario(*operations: dict[str, Any], duration: str = "12s") -> Any:
    return parse(
        {
            "name": "operated",
            "claim": "Operators are answered.",
            "duration": duration,
            "cluster": {"brokers": 3, "controllers": 1,
                        "config": {"offsets.topic.num.partitions": 1}},
            "topics": [{"name": "orders", "partitions": 2, "replication-factor": 3}],
            "workload": [
                {"kind": "producer", "rate": "20/s", "stop": "8s"},
                {"kind": "consumer-group", "group": "billing"},
            ],
            "operations": list(operations),
        },
        "test",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"kind": "reassign", "at": "1s"}, "operations.0.topic: is missing"),
        ({"kind": "reassign", "at": "1s", "topic": "orders"}, "give either replicas or cancel"),
        (
            {"kind": "delete-topic", "at": "1s", "topic": "order"},
            "operations.0.topic: no topic 'order'; allowed: orders",
        ),
        (
            {"kind": "delete-topic", "at": "1s", "topic": "orders", "kill": True},
            "operations.0.kill: delete-topic takes topic",
        ),
        ({"kind": "alter-config", "at": "1s", "config": {}}, "give either topic, node or group"),
        ({"kind": "restart", "at": "1s"}, "operations.0.node: is missing"),
        (
            {"kind": "unregister-broker", "at": "1s", "node": "active-controller"},
            "operations.0.node: unregister-broker names no role",
        ),
        (
            {"kind": "restart", "at": "1s", "node": "@node"},
            "operations.0.node: '@node' needs a when",
        ),
        ({"kind": "restart", "node": "broker-1"}, "operations.0.at: give at, when, or both"),
        (
            {"kind": "elect-leader", "when": {"fact": "Elected"}},
            "operations.0.when.fact: 'Elected' is none of",
        ),
        (
            {"kind": "reset-offsets", "at": "1s", "topic": "orders", "group": "x"},
            "operations.0.group: no group 'x'",
        ),
    ],
)
def test_a_verb_says_what_it_needs_and_takes(operation: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message.replace(".", r"\.")):
        scenario(operation)


def _answers(spec: Any) -> tuple[ScenarioRun, list[tuple[str, str, str]]]:
    run = ScenarioRun(spec, 1, None, [])
    told: list[tuple[str, str, str]] = []
    run.trace.subscribe(
        facts.Operated,
        lambda _seq, _t, _node, fact: told.append((fact.operation, fact.target, fact.error)),
    )
    result = run.execute()
    assert result.verdict == "pass", (result.anomalies, result.missing)
    return run, told


def test_what_the_cluster_answers_is_in_the_trace() -> None:
    run, told = _answers(
        scenario(
            {"kind": "create-topic", "at": "1s", "topic": "new", "replication-factor": 3},
            {"kind": "create-topic", "at": "2s", "topic": "new"},
            {"kind": "alter-config", "at": "2s", "topic": "new",
             "config": {"min.insync.replicas": 2}},
            {"kind": "alter-config", "at": "2s", "node": "broker-1",
             "config": {"num.io.threads": 2}},
            {"kind": "elect-leader", "at": "3s", "topic": "orders", "partition": 0},
            {"kind": "elect-leader", "at": "3s", "topic": "orders", "partition": 7},
            {"kind": "delete-records", "at": "4s", "topic": "orders", "partition": 0, "offset": 5},
            {"kind": "delete-topic", "at": "5s", "topic": "new"},
            {"kind": "reset-offsets", "at": "6s", "group": "billing", "topic": "orders"},
            {"kind": "abort-hanging", "at": "7s", "topic": "orders"},
        )
    )  # fmt: skip
    assert sorted(told) == sorted([
        ("create-topic", "new", "NONE"),
        ("create-topic", "new", "TOPIC_ALREADY_EXISTS"),
        ("alter-config", "topic:new", "NONE"),
        ("alter-config", "broker:1", "INVALID_REQUEST"),
        ("elect-leader", "orders-0", "ELECTION_NOT_NEEDED"),
        ("elect-leader", "orders-7", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("delete-records", "orders-0", "NONE"),
        ("delete-topic", "new", "NONE"),
        ("reset-offsets", "billing orders-0", "UNKNOWN_MEMBER_ID"),
        ("reset-offsets", "billing orders-1", "UNKNOWN_MEMBER_ID"),
        ("abort-hanging", "orders", "NONE"),
    ])  # fmt: skip
    replica = run.cluster.broker_process("broker-1").replicas.partitions[ORDERS]
    assert replica.log.log_start_offset == 5


def test_an_operation_waits_for_a_fact_and_looks_its_role_up_then() -> None:
    gone = {"fact": "HostStopped", "node": "broker-3"}
    _, told = _answers(
        scenario(
            {"kind": "restart", "at": "1s", "node": "broker-3", "pause": "1s"},
            {"kind": "delete-records", "when": gone, "at": "200ms", "topic": "orders",
             "partition": 0, "offset": 1},
            {"kind": "restart", "when": gone, "node": "leader:orders-0", "pause": "100ms"},
            {"kind": "restart", "when": {**gone, "count": 2}, "node": "broker-1"},
        )
    )  # fmt: skip
    leader = next(target for kind, target, _ in told if kind == "restart" and target != "broker-3")
    assert leader.startswith("broker-")
    assert sorted(told) == sorted([
        ("restart", "broker-3", "NONE"),
        ("delete-records", "orders-0", "NONE"),
        ("restart", leader, "NONE"),
    ])  # fmt: skip


def test_a_replaced_disk_is_filled_again_and_an_unregistered_broker_comes_back() -> None:
    run, told = _answers(
        scenario(
            {"kind": "replace-disk", "at": "1s", "node": "broker-2", "pause": "1s"},
            {"kind": "stop", "at": "9s", "node": "broker-3"},
            {"kind": "unregister-broker", "at": "14s", "node": "broker-3"},
            duration="20s",
        )
    )
    assert told == [
        ("replace-disk", "broker-2", "NONE"),
        ("stop", "broker-3", "NONE"),
        ("unregister-broker", "broker-3", "NONE"),
    ]
    assert not run.court.history.budget.outside  # the others had it all
    assert run.court.observer.seen["isr-shrink:controlled-shutdown"]


def test_a_start_waits_for_the_end_of_the_shutdown() -> None:
    spec = scenario(
        {"kind": "stop", "at": "2s", "node": "broker-2"},
        {"kind": "start", "at": "2001ms", "node": "broker-2"},
    )
    run = ScenarioRun(spec, 1, None, [])
    broker: list[str] = []

    def on_host(_seq: int, t_us: int, node: str, fact: Any) -> None:
        if node == "broker-2" and 0 < run.ready_us <= t_us < run.ready_us + spec.duration:
            broker.append(type(fact).__name__)

    for kind in (facts.HostStopped, facts.HostStarted):
        run.trace.subscribe(kind, on_host)
    run.execute()
    assert broker == ["HostStopped", "HostStarted"]


def test_a_client_that_was_never_started_is_not_restarted() -> None:
    """Mutant 160256: its workload starts it later, or never."""
    run = scenario(
        {"kind": "restart", "node": "consumer-1", "at": "500ms", "pause": "100ms"}, duration="3s"
    )
    late = run.workload[1].model_copy(update={"start": 2_000_000})
    run = run.model_copy(update={"workload": [run.workload[0], late]})
    executed = ScenarioRun(run, 0, None, [])
    assert executed.execute().verdict == "pass"
    assert executed.world.hosts["consumer-1"].incarnation == 0
