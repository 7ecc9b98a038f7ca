"""Consumers that keep reading from a replica that goes away, is moved, or falls behind.

A leader sends a consumer with a rack to the replica in that rack (KIP-392). The consumer reads
there until metadata.max.age.ms is over, or until an error makes it ask the leader again. In other
seeds metadata.max.age.ms is some seconds. Here it is longer than the run, or so short that the
consumer asks the leader again and again.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.chains.settings import RACKS
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.shapes.apart import has_second_process, is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.04
"""The share of seeds in which this happens, of those that can have it."""

SELECTOR = "replica.selector.class"

AGES = (300_000, 300_000, 60_000, 500)
"""metadata.max.age.ms, of which Kafka's default is the first."""


def read_leases(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Let consumers of some seeds read from replicas in their racks, and strike these replicas."""
    groups = [
        each
        for each in data["workload"]
        if each["kind"] == "consumer-group" and "protocol" not in each
    ]
    replicated = data["topics"][0]["replication-factor"] > 1
    if rng.random() >= SHARE or not groups or not replicated or is_about_its_faults(data):
        return
    cluster = data["cluster"]
    cluster["config"][SELECTOR] = "RackAwareReplicaSelector"
    cluster["racks"] = list(RACKS)
    age = rng.choice(AGES)
    for each in groups:
        each["rack"] = each["config"]["client.rack"] = rng.choice(RACKS)
        each["config"]["metadata.max.age.ms"] = age
    cast = Cast(rng, data, mode)
    at = float(rng.randrange(1000, 4000))
    for _ in range(rng.choice((1, 2, 2, 3))):
        rng.choice((_moved, _away, _cut_off, _behind))(cast, at)
        at += cast.near()


def _topic(cast: Cast) -> dict[str, Any]:
    topic: dict[str, Any] = cast.data["topics"][0]
    return topic


def _partition(cast: Cast) -> int:
    topic = _topic(cast)
    return cast.rng.randrange(max(topic["partitions"], len(topic.get("assignment", ()))))


def _moved(cast: Cast, at: float) -> None:
    """A partition gets other replicas, and a preferred leader among them."""
    rng, topic = cast.rng, _topic(cast)
    replicas = rng.sample(range(1, len(cast.brokers) + 1), topic["replication-factor"])
    operations = cast.data.setdefault("operations", [])
    operations.append({"kind": "reassign", "topic": topic["name"], "partition": _partition(cast),
                       "replicas": replicas, "at": ms(at)})  # fmt: skip
    operations.append({"kind": "elect-leader", "topic": topic["name"], "at": ms(at + cast.near())})


def _away(cast: Cast, at: float) -> None:
    """A broker that follows goes away, for longer than a session or shorter."""
    follower = f"follower:{_topic(cast)['name']}-{_partition(cast)}"
    kind = cast.rng.choice(("crash", "stop", "gc-pause", "isolate"))
    _strike(cast, at, kind=kind, node=cast.rng.choice((follower, *cast.brokers)), guarded=True)


def _cut_off(cast: Cast, at: float) -> None:
    """One broker is not reached by one of the consumers, and by all others."""
    kind = cast.rng.choice(("partition", "partition-oneway"))
    _strike(cast, at, kind=kind, node="any-consumer", peers=cast.rng.sample(cast.brokers, 1))


def _behind(cast: Cast, at: float) -> None:
    """A follower gets no records, and its readers none either."""
    follower = f"follower:{_topic(cast)['name']}-{_partition(cast)}"
    _strike(cast, at, kind="hold", node=follower, purpose="replica-fetch")


def _strike(cast: Cast, at: float, **fault: Any) -> None:
    if fault["node"] != "any-consumer" and has_second_process(cast.data):
        return
    cast.data["faults"].append({**fault, "at": ms(at), "for": ms(cast.away())})
