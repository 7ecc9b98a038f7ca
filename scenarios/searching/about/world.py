"""The cluster of a scenario about clients: three brokers, mostly with one of each coordinator.

It is as small as Kafka's rules let it be, so that most of a run's events are those of the clients.
Each broker leads, follows and coordinates.
"""

from __future__ import annotations

import random
from typing import Any

LAG_MS = (1000, 3000)
SESSION_MS = (1500, 3000)


def small_cluster(rng: random.Random, mode: str, versions: tuple[str, ...]) -> dict[str, Any]:
    """Draw the servers; ``versions`` are the releases of KRaft clusters."""
    session = rng.choice(SESSION_MS)
    config: dict[str, Any] = {
        "replica.lag.time.max.ms": rng.choice(LAG_MS),
        "replica.fetch.wait.max.ms": rng.choice((50, 500)),
        "broker.session.timeout.ms": session,
        "broker.heartbeat.interval.ms": session // 5,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "offsets.topic.num.partitions": rng.choice((1, 1, 3)),
        "offsets.topic.replication.factor": 3,
        "transaction.state.log.num.partitions": rng.choice((1, 1, 3)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice((200, 1000)),
    }
    cluster: dict[str, Any] = {"brokers": 3, "config": config}
    if mode == "zookeeper":
        cluster |= {"mode": mode, "kafka-version": rng.choice(("2.8-zk", "3.9")), "zookeepers": 1}
        cluster["zookeeper-config"] = {"tickTime": 300}
        config["zookeeper.session.timeout.ms"] = rng.choice((2000, 3000))
    else:
        cluster |= {"kafka-version": rng.choice(versions), "controllers": rng.choice((1, 1, 3))}
    return cluster


def topic_of(rng: random.Random, partitions: int) -> dict[str, Any]:
    """Draw the topic that all clients use."""
    config = {"min.insync.replicas": rng.choice((1, 2))}
    return {"name": "orders", "partitions": partitions, "replication-factor": 3, "config": config}


def reader(rng: random.Random) -> dict[str, Any]:
    """Draw a consumer that reads all, and so shows what there is."""
    return {
        "kind": "consumer-group",
        "group": "readers",
        "count": 1,
        "commit": rng.choice(("auto", "sync", "async")),
        "config": {
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 3000,
            "heartbeat.interval.ms": 1000,
            "auto.commit.interval.ms": 1000,
            "request.timeout.ms": 2000,
            "default.api.timeout.ms": 5000,
            "metadata.max.age.ms": 5000,
        },
    }


def scenario(name: str, duration: float) -> dict[str, Any]:
    """Return the frame of a scenario; cluster, topics and workload are missing."""
    return {
        "name": name,
        "claim": "Whatever these clients are put through within the budget, Kafka's promises hold.",
        "duration": f"{int(duration)}ms",
        "faults": [],
        "operations": [],
        "expect": {},
    }
