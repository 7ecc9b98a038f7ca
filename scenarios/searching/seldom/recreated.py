"""One of two topics is deleted and created again, at once or after a while, while groups run.

The topic is created again under the same name with another topic id. A member's target, a
consumer's position, a fetch session or a follower that knows the old id must tell the two apart. It
must not lose its state of the second topic, for which all guarantees hold. The topic has no records
before it is created again. A broker that crashes before the next checkpoint gives the new log the
high watermark of the old one: replication-offset-checkpoint goes by the topic's name, and nobody
writes it at a deletion (LogManager.asyncDelete). Readers then see uncommitted records (seed 30).

If it is created again after seconds, groups have settled without it: they subscribe to a topic that
does not exist yet. A member is assigned it before its metadata has the topic's name (KIP-848).
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.05
"""The share of seeds in which this happens, of those that can have it."""

LATE = 0.015
"""The share of seeds in which it comes late, of those that can have it."""

LATE_MODERN = 0.3
"""The same of seeds with a group of the consumer protocol, which are few."""

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
    fit = _readers(data)
    if rng.random() >= SHARE or not fit or is_about_its_faults(data):
        return
    own = _second_topic(rng, data, fit)
    at = float(rng.randrange(1000, 5000))
    for _ in range(rng.choice((1, 1, 2))):
        gap = rng.choice((1, 20, 200, 1000)) * rng.uniform(0.5, 1.5)
        again = {**own, "partitions": rng.choice((own["partitions"], rng.choice((1, 2, 3))))}
        _recreate(data, at, gap, again)
        at += gap + rng.choice((100, 1000, 3000))
    _write(rng, data, at)


def late_topics(rng: random.Random, data: dict[str, Any]) -> None:
    """Let groups subscribe to a second topic that is created after they have run for a while.

    It is deleted at the begin: a scenario has its topics from the start.
    """
    fit = _readers(data)
    modern = any(each["config"].get("group.protocol") == "consumer" for each in fit)
    share = LATE_MODERN if modern else LATE
    known = any(each["name"] == OTHER for each in data["topics"])
    if rng.random() >= share or not fit or known or is_about_its_faults(data):
        return
    own = _second_topic(rng, data, fit)
    at, gap = float(rng.randrange(1, 300)), float(rng.randrange(1500, 5000))
    _recreate(data, at, gap, own)
    at += gap
    if rng.random() < 0.5:
        at += rng.choice((20, 200, 1000)) * rng.uniform(0.5, 1.5)
        more = {"partitions": own["partitions"] + rng.choice((1, 2))}
        grows = {"kind": "create-partitions", "topic": OTHER, "at": ms(at), **more}
        data["operations"].append(grows)
    _write(rng, data, at + rng.choice((100, 1000)))


def _readers(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the groups whose topics can be changed."""
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    return [each for each in groups if not each.keys() & set(NAMED)]


def _second_topic(
    rng: random.Random, data: dict[str, Any], readers: list[dict[str, Any]]
) -> dict[str, Any]:
    """Add a topic that groups read, too; return its settings."""
    first = data["topics"][0]
    own: dict[str, Any] = {
        "partitions": rng.choice((1, 2, 3)),
        "replication-factor": first["replication-factor"],
        "config": {"min.insync.replicas": first["config"].get("min.insync.replicas", 1)},
    }
    data["topics"].append({"name": OTHER, **own})
    both = rng.choice(([first["name"], OTHER], [OTHER, first["name"]]))
    for each in readers:
        each["topics"] = list(both)
    config = data["cluster"]["config"]
    config["auto.create.topics.enable"] = False
    for name in FORGETTING:
        config.pop(name, None)
    return own


def _recreate(data: dict[str, Any], at: float, gap: float, again: dict[str, Any]) -> None:
    data.setdefault("operations", []).extend([
        {"kind": "delete-topic", "topic": OTHER, "at": ms(at)},
        {"kind": "create-topic", "topic": OTHER, "at": ms(at + gap), **again},
    ])  # fmt: skip


def _write(rng: random.Random, data: dict[str, Any], at: float) -> None:
    """Let a producer write the second topic from ``at`` ms on."""
    data["workload"].append({**_producer(rng), "start": ms(at)})
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
