"""Releases and features: the newest release is drawn as often as the older ones."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.config import LEAST_SEGMENT_BYTES
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

NEWEST = 0.3
"""The share of clusters of the default release that get the newest one instead."""


def newest_release(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some KRaft clusters without a named release run 4.1, which has ELR on (KIP-966)."""
    cluster = data["cluster"]
    if rng.random() >= NEWEST or is_about_its_faults(data):
        return
    if cluster.get("mode") != "zookeeper" and not cluster.keys() & {"kafka-version", "nodes"}:
        cluster["kafka-version"] = "4.1"


CHANGED = 0.05
"""The share of KRaft seeds with ELR turned on or off while they run."""


def features_change(rng: random.Random, data: dict[str, Any]) -> None:
    """Let an operator turn eligible leader replicas (KIP-966) on or off, once or twice."""
    cluster = data["cluster"]
    if rng.random() >= CHANGED or is_about_its_faults(data):
        return
    if cluster.get("mode") == "zookeeper" or cluster.get("kafka-version") == "3.9":
        return
    level = rng.choice((0, 1))
    for at in sorted(rng.sample(range(500, 6000), rng.choice((1, 2)))):
        features = {"eligible.leader.replicas.version": level}
        operation = {"kind": "update-features", "features": features, "at": f"{at}ms"}
        data.setdefault("operations", []).append(operation)
        level = 1 - level


INTERNAL_TOPICS = (
    "offsets.topic.segment.bytes",
    "transaction.state.log.segment.bytes",
    "share.coordinator.state.topic.segment.bytes",
)


def segments_that_all_take(data: dict[str, Any]) -> None:
    """Make small segments a setting that every release of the scenario takes.

    4.1 takes no segment.bytes of less than 1 MiB, and no earlier release has the
    internal.segment.bytes by which Kafka's own tests go below. So where 4.1 meets an earlier
    release, segments are of 1 MiB.
    """
    releases = _releases(data)
    if "4.1" not in releases:
        return
    configs = [each.get("config", {}) for each in [*data["topics"], *data.get("operations", ())]]
    for config in configs:
        if config.get("segment.bytes", LEAST_SEGMENT_BYTES) >= LEAST_SEGMENT_BYTES:
            continue
        size = config.pop("segment.bytes")
        if len(releases) == 1:
            config["internal.segment.bytes"] = size
        else:
            config["segment.bytes"] = LEAST_SEGMENT_BYTES
    if len(releases) > 1:
        servers = data["cluster"].get("config", {})
        for key in INTERNAL_TOPICS:
            if key in servers:
                servers[key] = LEAST_SEGMENT_BYTES


def _releases(data: dict[str, Any]) -> list[str]:
    """Return the releases that servers of the scenario run, each once."""
    cluster = data["cluster"]
    tables = [cluster, *cluster.get("nodes", {}).values(), *data.get("operations", ())]
    named = [each["kafka-version"] for each in tables if "kafka-version" in each]
    default = [] if "kafka-version" in cluster else ["4.0"]
    return list(dict.fromkeys([*default, *named]))
