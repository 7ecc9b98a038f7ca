"""What an operator does to the committed offsets of a group: reset, delete, delete the group.

The coordinator refuses that while the group has members (for a deletion of offsets: while members
read the topic). So in most seeds the members are stopped before and started again afterwards.
Offsets are reset to the earliest only, because a reset to a later offset skips records by itself.
"""

from __future__ import annotations

import random
from typing import Any

SHARE = 0.12
"""The share of seeds with a coordinator's group that do any of it."""

KINDS = ("reset-offsets", "delete-offsets", "delete-group")

AWAY = 0.8
"""The share of these in which the members are stopped."""


def tamper_with_offsets(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some seeds reset or delete what a group has committed, once or twice."""
    groups = [
        each["group"]
        for each in data["workload"]
        if each["kind"] == "consumer-group" and each.get("protocol") != "zookeeper"
    ]
    if not groups or rng.random() >= SHARE:
        return
    group, at = rng.choice(groups), rng.randrange(2000, 6000)
    done = data.setdefault("operations", [])
    if rng.random() < AWAY:
        kill = rng.random() < 0.3
        back = at + rng.randrange(500, 4000)
        for node in _members(data, group):
            done.append({"kind": "stop", "node": node, "kill": kill, "at": f"{at - 1000}ms"})
            done.append({"kind": "start", "node": node, "at": f"{back}ms"})
    for _ in range(rng.choice((1, 1, 2))):
        operation = {"kind": rng.choice(KINDS), "group": group, "at": [f"{at}ms", f"{at + 500}ms"]}
        if operation["kind"] != "delete-group":
            operation["topic"] = data["topics"][0]["name"]
        if operation["kind"] == "reset-offsets":
            operation["to"] = "earliest"
        done.append(operation)


def _members(data: dict[str, Any], group: str) -> list[str]:
    """Return the hosts of a group's members; consumers are numbered in the order of workloads."""
    found, number = [], 0
    for each in data["workload"]:
        if each["kind"] == "consumer-group":
            count = each.get("count", 1)
            if each["group"] == group:
                found += [f"consumer-{number + i}" for i in range(1, count + 1)]
            number += count
    return found
