"""Releases and features: the newest one is not rarer than the older ones."""

from __future__ import annotations

import random
from typing import Any

NEWEST = 0.3
"""The share of clusters of the default release that get the newest one instead."""


def newest_release(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some KRaft clusters without a named release run 4.1, which has ELR on (KIP-966)."""
    cluster = data["cluster"]
    if rng.random() >= NEWEST or data["expect"].keys() & {"never", "in-time"}:
        return
    if cluster.get("mode") != "zookeeper" and not cluster.keys() & {"kafka-version", "nodes"}:
        cluster["kafka-version"] = "4.1"


CHANGED = 0.05
"""The share of KRaft seeds with ELR turned on or off while they run."""


def features_change(rng: random.Random, data: dict[str, Any]) -> None:
    """Let an operator turn eligible leader replicas (KIP-966) on or off, once or twice."""
    cluster = data["cluster"]
    if rng.random() >= CHANGED or data["expect"].keys() & {"never", "in-time"}:
        return
    if cluster.get("mode") == "zookeeper" or cluster.get("kafka-version") == "3.9":
        return
    level = rng.choice((0, 1))
    for at in sorted(rng.sample(range(500, 6000), rng.choice((1, 2)))):
        features = {"eligible.leader.replicas.version": level}
        operation = {"kind": "update-features", "features": features, "at": f"{at}ms"}
        data.setdefault("operations", []).append(operation)
        level = 1 - level
