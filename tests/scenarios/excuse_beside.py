"""A second group beside the one of a stored scenario, which stalls if a variant lets it.

A stall excuse must not cover a group that waits for another reason. So beside the story that the
scenario tells, a topic of its own is written and read, and gets a second partition: the group has
to read that one, too (M45 breaks it).
"""

from __future__ import annotations

from typing import Any

BESIDE = "beside"


def with_group_beside(scenario: dict[str, Any], grows_at: str) -> dict[str, Any]:
    """Return a scenario with another topic, which grows at a time, its producer and its group."""
    cluster, first = scenario["cluster"], scenario["topics"][0]["name"]
    replicas = list(range(1, min(3, cluster["brokers"]) + 1))
    topic = {
        "name": BESIDE,
        "partitions": 1,
        "replication-factor": len(replicas),
        "assignment": [replicas],
    }
    config = {"metadata.max.age.ms": 500}
    producer = {
        "kind": "producer",
        "topic": BESIDE,
        "rate": "10/s",
        "keys": "uniform:20",
        "stop": _late(scenario["duration"]),
        "config": config,
    }
    group = {
        "kind": "consumer-group",
        "group": BESIDE,
        "topics": [BESIDE],
        "config": {**config, "auto.offset.reset": "earliest"},
    }
    grows = {"kind": "create-partitions", "topic": BESIDE, "partitions": 2, "at": grows_at}
    return {
        **scenario,
        "cluster": {
            **cluster,
            "config": {**cluster.get("config", {}), "group.initial.rebalance.delay.ms": 0},
        },
        "topics": [*scenario["topics"], topic],
        "workload": [*[_of(first, each) for each in scenario["workload"]], producer, group],
        "operations": [*scenario.get("operations", []), grows],
    }


def _of(topic: str, workload: dict[str, Any]) -> dict[str, Any]:
    """Return a workload that reads the scenario's first topic if it names none."""
    named = any(key in workload for key in ("topic", "topics", "pattern"))
    return workload if named or workload["kind"] == "producer" else {**workload, "topics": [topic]}


def _late(duration: str) -> str:
    """Return seven tenths of a duration, which ends in s or ms."""
    if duration.endswith("ms"):
        return f"{int(float(duration.removesuffix('ms')) * 0.7)}ms"
    return f"{int(float(duration.removesuffix('s')) * 700)}ms"
