"""The operations of a drawn scenario: what an operator does during the faults."""

from __future__ import annotations

import random
from typing import Any

KINDS = ("elect-leader", "elect-leader", "reassign", "reassign", "cancel", "restart")
"""What :func:`operations` draws from; ``cancel`` is a reassign that cancels."""

MORE_KINDS = ("reassign", "cancel", "alter-config", "extra-topic", "replace-disk")
"""What :func:`more_operations` draws from; ``extra-topic`` is created and deleted again."""

GROWN = 0.1
"""The share of seeds that add partitions to their topic."""

DELETING = 0.15
"""The share of seeds that delete records."""

AWAY = ("crash", "crash", "gc-pause", "isolate")
"""What keeps a broker from fetching while records are deleted."""


def operations(rng: random.Random, brokers: int, topic: dict[str, Any]) -> list[dict[str, Any]]:
    """Draw a rolling restart, elections, reassignments and restarts; most seeds get none."""
    drawn: list[dict[str, Any]] = []
    if rng.random() < 0.2:
        drawn.append({
            "kind": "rolling-restart", "at": f"{rng.randrange(1, 6)}s", "pause": "1s",
            "kill": rng.random() < 0.3,
        })  # fmt: skip
    while rng.random() < 0.35:
        drawn.append(_operation(rng, brokers, KINDS, topic))
    return drawn


def more_operations(
    rng: random.Random, brokers: int, topic: dict[str, Any]
) -> list[dict[str, Any]]:
    """Draw for some seeds: reassign, alter a property, an extra topic, replace a disk."""
    drawn: list[dict[str, Any]] = []
    while rng.random() < 0.3:
        kind = rng.choice(MORE_KINDS)
        at = {"at": ["500ms", "8s"]}
        if kind in ("reassign", "cancel"):
            drawn.append(_operation(rng, brokers, (kind,), topic))
        elif kind == "alter-config":
            least = rng.randrange(1, min(topic["replication-factor"], 2) + 1)
            config = rng.choice(({"min.insync.replicas": least}, {"flush.messages": 1}))
            drawn.append({"kind": kind, "topic": topic["name"], "config": config, **at})
        elif kind == "replace-disk":
            node = f"broker-{rng.randrange(1, brokers + 1)}"
            kill = rng.random() < 0.5
            drawn.append({"kind": kind, "node": node, "kill": kill, "pause": "300ms", **at})
        elif all(known["kind"] != "create-topic" for known in drawn):
            create: dict[str, Any] = {
                "kind": "create-topic",
                "topic": "extra",
                "at": ["100ms", "3s"],
            }
            create |= {"partitions": rng.choice((1, 3)), "replication-factor": rng.choice((1, 3))}
            drawn.append(create)
            drawn.append({"kind": "delete-topic", "topic": "extra", "at": ["2s", "6s"]})
    return drawn


def grow(rng: random.Random, data: dict[str, Any]) -> None:
    """Let the topic of some seeds get more partitions."""
    topic = data["topics"][0]
    if rng.random() < GROWN:
        known = max(topic["partitions"], len(topic.get("assignment", ())))
        data.setdefault("operations", []).append({
            "kind": "create-partitions", "topic": topic["name"],
            "partitions": known + rng.choice((1, 2, 3)), "at": ["500ms", "6s"],
        })  # fmt: skip


def delete_records(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some seeds delete records, most of them while a broker is away.

    The broker goes long enough before that it has left the ISR, so the deletion may pass the end
    of its logs; it comes back soon after.
    """
    if rng.random() >= DELETING:
        return
    topic = data["topics"][0]
    partitions = max(topic["partitions"], len(topic.get("assignment", ())))
    at = rng.randrange(2500, 7000)
    for partition in rng.sample(range(partitions), min(partitions, rng.choice((1, 2, 3)))):
        data.setdefault("operations", []).append({
            "kind": "delete-records", "topic": topic["name"], "partition": partition,
            "offset": rng.choice((-1, -1, -1, 20)), "at": [f"{at}ms", f"{at + 500}ms"],
        })  # fmt: skip
    if rng.random() < 0.8:
        gone = rng.randrange(500, 4500)
        data["faults"].append({
            "kind": rng.choice(AWAY),
            "node": f"broker-{rng.randrange(1, data['cluster']['brokers'] + 1)}",
            "at": f"{max(200, at - gone)}ms", "for": f"{gone + rng.randrange(300, 2500)}ms",
        })  # fmt: skip


def _operation(
    rng: random.Random, brokers: int, kinds: tuple[str, ...], topic: dict[str, Any]
) -> dict[str, Any]:
    what: dict[str, Any] = {"at": ["500ms", "8s"]}
    kind = rng.choice(kinds)
    partition = rng.randrange(topic["partitions"])
    if kind == "elect-leader":
        return {"kind": kind, **what}
    if kind == "restart":
        broker = f"broker-{rng.randrange(1, brokers + 1)}"
        return {"kind": kind, "node": broker, "kill": rng.random() < 0.5, "pause": "300ms", **what}
    place = {"kind": "reassign", "topic": topic["name"], "partition": partition, **what}
    if kind == "cancel":
        return {**place, "cancel": True}
    count = topic["replication-factor"]
    return {**place, "replicas": rng.sample(range(1, brokers + 1), count)}
