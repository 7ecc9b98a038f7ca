"""The operators' verbs in ZooKeeper mode."""

from __future__ import annotations

from typing import Any

from kafkasim.model import facts
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import ScenarioRun

ORDERS = TopicPartition("orders", 0)


def answers(*operations: dict[str, Any], duration: str = "10s") -> tuple[ScenarioRun, list[Any]]:
    """Run a small cluster; return the run and what the operations were answered."""
    spec = parse(
        {
            "name": "operated",
            "claim": "Operators are answered.",
            "duration": duration,
            "cluster": {"brokers": 4, "mode": "zookeeper", "zookeepers": 1,
                        "config": {"offsets.topic.num.partitions": 1}},
            "topics": [{"name": "orders", "partitions": 2, "replication-factor": 3,
                        "assignment": [[1, 2, 3], [2, 3, 1]]}],
            "workload": [
                {"kind": "producer", "rate": "20/s", "stop": "6s"},
                {"kind": "consumer-group", "group": "billing"},
            ],
            "operations": list(operations),
        },
        "test",
    )  # fmt: skip
    run = ScenarioRun(spec, 1, None, [])
    told: list[Any] = []
    run.trace.subscribe(
        facts.Operated,
        lambda _seq, _t, _node, fact: told.append((fact.operation, fact.target, fact.error)),
    )
    result = run.execute()
    assert result.verdict == "pass", (result.anomalies, result.missing)
    return run, told


def test_topics_are_created_changed_and_deleted() -> None:
    run, told = answers(
        {"kind": "create-topic", "at": "1s", "topic": "new", "replication-factor": 3},
        {"kind": "create-topic", "at": "2s", "topic": "new"},
        {"kind": "alter-config", "at": "2s", "topic": "new", "config": {"min.insync.replicas": 2}},
        {"kind": "alter-config", "at": "2s", "topic": "old", "config": {"min.insync.replicas": 2}}
        | {"topic": "orders"},
        {"kind": "alter-config", "at": "3s", "node": "broker-1",
         "config": {"log.retention.ms": 1000}},
        {"kind": "alter-config", "at": "3s", "node": "brokers", "config": {"num.io.threads": 2}},
        {"kind": "delete-records", "at": "4s", "topic": "orders", "partition": 0, "offset": 5},
        {"kind": "delete-topic", "at": "5s", "topic": "new"},
        {"kind": "delete-topic", "at": "8s", "topic": "new"},
        {"kind": "unregister-broker", "at": "8s", "node": "broker-3"},
    )  # fmt: skip
    assert sorted(told) == sorted([
        ("create-topic", "new", "NONE"),
        ("create-topic", "new", "TOPIC_ALREADY_EXISTS"),
        ("alter-config", "topic:new", "NONE"),
        ("alter-config", "topic:orders", "NONE"),
        ("alter-config", "broker:1", "NONE"),
        ("alter-config", "broker:", "INVALID_REQUEST"),
        ("delete-records", "orders-0", "NONE"),
        ("delete-topic", "new", "NONE"),
        ("delete-topic", "new", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("unregister-broker", "broker-3", "UNSUPPORTED_VERSION"),
    ])  # fmt: skip
    replica = run.cluster.broker_process("broker-1").replicas.partitions[ORDERS]
    assert replica.log.log_start_offset == 5
    assert "topic-deleted" in run.court.observer.seen


def test_replicas_and_leaders_are_moved() -> None:
    run, told = answers(
        {"kind": "elect-leader", "at": "1s", "topic": "orders", "partition": 0},
        {"kind": "elect-leader", "at": "1s", "topic": "orders", "partition": 7},
        {"kind": "reassign", "at": "2s", "topic": "orders", "partition": 0,
         "replicas": [4, 2, 3]},
        {"kind": "reassign", "at": "2s", "topic": "orders", "partition": 1,
         "replicas": [9, 2, 3]},
        {"kind": "reassign", "at": "7s", "topic": "orders", "partition": 1,
         "replicas": [3, 2, 1]},  # after the first automatic balance
        {"kind": "reassign", "at": "7s", "topic": "orders", "partition": 0, "cancel": True},
        {"kind": "elect-leader", "at": "8s", "topic": "orders"},
    )  # fmt: skip
    assert sorted(told) == sorted([
        ("elect-leader", "orders-0", "ELECTION_NOT_NEEDED"),
        ("elect-leader", "orders-7", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("reassign", "orders-0", "NONE"),
        ("reassign", "orders-1", "INVALID_REPLICA_ASSIGNMENT"),
        ("reassign", "orders-1", "NONE"),
        ("reassign", "orders-0", "NO_REASSIGNMENT_IN_PROGRESS"),
        ("elect-leader", "orders-0", "ELECTION_NOT_NEEDED"),
        ("elect-leader", "orders-1", "NONE"),
    ])  # fmt: skip
    assert "reassigned" in run.court.observer.seen
    leaders = {key[1]: change.leader for key, change in run.progress.partitions.items()
               if run.progress.name(key).startswith("orders")}  # fmt: skip
    assert leaders == {0: 4, 1: 3}


def test_a_reassignment_that_cannot_go_on_is_cancelled() -> None:
    run, told = answers(
        {"kind": "stop", "at": "1s", "node": "broker-4"},
        {"kind": "start", "at": "9s", "node": "broker-4"},
        {"kind": "reassign", "at": "3s", "topic": "orders", "partition": 0,
         "replicas": [4, 2, 3]},
        {"kind": "reassign", "at": "500ms", "topic": "orders", "partition": 1,
         "replicas": [3, 1]},
    )  # fmt: skip
    assert ("reassign", "orders-0", "INVALID_REPLICA_ASSIGNMENT") in told  # 4 is not alive
    assert ("reassign", "orders-1", "NONE") in told
    isr = {key[1]: change.isr for key, change in run.progress.partitions.items()
           if run.progress.name(key).startswith("orders")}  # fmt: skip
    assert [sorted(isr[0]), sorted(isr[1])] == [[1, 2, 3], [1, 3]]
