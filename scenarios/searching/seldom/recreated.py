"""One of two topics is deleted and created again while groups and followers hold both.

The topic is created again under the same name with another topic id. A member's target, a
consumer's position, a fetch session or a follower that knows the old id must tell the two apart. It
must not lose its state of the second topic, for which all guarantees hold. In most seeds the topic
has records before it is deleted. So groups carry their positions and committed offsets, which are
kept by the topic's name, from the old topic to the new one.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.05
"""The share of seeds in which this happens, of those that can have it."""

BEFORE = 0.8
"""The share of these in which the topic has records before it is deleted."""

OTHER = "invoices"

NAMED = ("pattern", "subscription-pattern", "protocol", "app", "topics")
"""Keys of groups that say otherwise what they read, or that are old consumers."""

FORGETTING = ("producer.id.expiration.ms", "producer.id.expiration.check.interval.ms")
"""How soon logs forget producers: whoever writes the second topic is idempotent alone, and may send
a batch again after seconds (clients/limits.py:forgotten_producers)."""


def recreated_topics(rng: random.Random, data: dict[str, Any]) -> None:
    """Add a second topic that groups read, too, and recreate it once or twice.

    Nobody but the operator creates it: a client that asks for it meanwhile would be served with one
    of the broker's defaults.
    """
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    fit = [each for each in groups if not each.keys() & set(NAMED)]
    if rng.random() >= SHARE or not fit or is_about_its_faults(data):
        return
    first = data["topics"][0]
    own: dict[str, Any] = {
        "partitions": rng.choice((1, 2, 3)),
        "replication-factor": first["replication-factor"],
        "config": {"min.insync.replicas": first["config"].get("min.insync.replicas", 1)},
    }
    data["topics"].append({"name": OTHER, **own})
    both = rng.choice(([first["name"], OTHER], [OTHER, first["name"]]))
    for each in fit:
        each["topics"] = list(both)
    config = data["cluster"]["config"]
    config["auto.create.topics.enable"] = False
    for each in FORGETTING:
        config.pop(each, None)
    at = float(rng.randrange(1000, 5000))
    for _ in range(rng.choice((1, 1, 2))):
        gap = rng.choice((1, 20, 200, 1000)) * rng.uniform(0.5, 1.5)
        again = {**own, "partitions": rng.choice((own["partitions"], rng.choice((1, 2, 3))))}
        data.setdefault("operations", []).extend([
            {"kind": "delete-topic", "topic": OTHER, "at": ms(at)},
            {"kind": "create-topic", "topic": OTHER, "at": ms(at + gap), **again},
        ])  # fmt: skip
        at += gap + rng.choice((100, 1000, 3000))
    producer = _producer(rng)
    if rng.random() >= BEFORE:
        producer["start"] = ms(at)
    data["workload"].append(producer)
    data["duration"] = ms(max(duration_us(data["duration"]) / 1000, at + 3000))


def _producer(rng: random.Random) -> dict[str, Any]:
    """Return who writes the second topic."""
    config = {
        "acks": "all",
        "request.timeout.ms": 1000,
        "delivery.timeout.ms": rng.choice((2000, 10_000)),
        "metadata.max.age.ms": rng.choice((1000, 5000)),
    }
    return {"kind": "producer", "topic": OTHER, "rate": rng.choice(("5/s", "20/s")),
            "config": config}  # fmt: skip
