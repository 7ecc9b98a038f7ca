"""Transactions in a drawn scenario: producers that commit now and then, and a processor.

They need a topic without unclean elections: what such an election costs tears transactions, and no
configuration of theirs rules that out.
"""

from __future__ import annotations

import random
from typing import Any

OUTPUT = "outputs"


def transactions(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some of the producers with acks=all use transactions, and some groups read_committed.

    In some seeds a processor takes the place of a group.
    """
    share = rng.random()
    if share >= 0.3 or _may_lose(data):
        return
    producers = [
        each
        for each in data["workload"]
        if each["kind"] == "producer"
        and each["config"].get("acks", "all") == "all"
        and each["config"].get("enable.idempotence", True)
    ]
    if not producers:
        return
    config = data["cluster"]["config"]
    config["transaction.state.log.num.partitions"] = rng.choice((1, 3))
    config["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = rng.choice((500, 2000))
    for index, producer in enumerate(producers):
        if index == 0 or rng.random() < 0.5:
            _make_transactional(rng, producer, f"writer-{index}")
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    for name in dict.fromkeys([each["group"] for each in groups]):
        if rng.random() < 0.7:
            for group in groups:
                if group["group"] == name:
                    group["config"]["isolation.level"] = "read_committed"
    if share < 0.12:
        _add_processor(rng, data)


def _may_lose(data: dict[str, Any]) -> bool:
    """Return whether the configuration lets committed records be lost."""
    unclean = "unclean.leader.election.enable"
    permits = data["expect"]["permits"]
    settings = [data["cluster"]["config"], data["topics"][0]["config"]]
    elected = any(each.get("election") == "unclean" for each in data.get("operations", ()))
    return "inconsistent-offsets" in permits or elected or any(unclean in own for own in settings)


def _make_transactional(rng: random.Random, producer: dict[str, Any], name: str) -> None:
    producer["transactional-id"] = name
    producer["transaction-records"] = rng.choice((1, 5, 20))
    producer["transaction-time"] = rng.choice(("100ms", "1s"))
    producer["abort-share"] = rng.choice((0, 0.1, 0.3))
    producer["config"]["transaction.timeout.ms"] = rng.choice((2000, 5000, 10_000))
    if producer["config"].get("max.in.flight.requests.per.connection", 5) > 5:
        del producer["config"]["max.in.flight.requests.per.connection"]


def _add_processor(rng: random.Random, data: dict[str, Any]) -> None:
    topic = data["topics"][0]
    replicas = len(topic["assignment"][0]) if topic.get("assignment") else 0
    factor = topic.get("replication-factor", replicas or 1)
    config = {"min.insync.replicas": topic["config"].get("min.insync.replicas", 1)}
    output = {"name": OUTPUT, "partitions": rng.choice((1, 2)), "replication-factor": factor}
    data["topics"].append(output | {"config": config})
    session = rng.choice((1500, 3000, 6000))
    data["workload"].append({
        "kind": "processor",
        "group": "processors",
        "count": rng.choice((1, 2)),
        "topics": [topic["name"]],
        "output": OUTPUT,
        "abort-share": rng.choice((0, 0.1)),
        "config": {
            "session.timeout.ms": session,
            "heartbeat.interval.ms": session // 3,
            "max.poll.interval.ms": 10_000,
            "max.poll.records": rng.choice((5, 500)),
            "default.api.timeout.ms": 5000,
            "request.timeout.ms": 2000,
            "metadata.max.age.ms": 5000,
        },
        "producer-config": {
            "transaction.timeout.ms": rng.choice((2000, 5000)),
            "request.timeout.ms": 2000,
            "delivery.timeout.ms": 10_000,
            "metadata.max.age.ms": 5000,
        },
    })  # fmt: skip
