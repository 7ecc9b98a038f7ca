"""How much there is of each kind of thing in a scenario, and what a shrink took out of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.scenarios.language.files.data import Data, as_data
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.units import duration_text


def removed(before: Data, after: Data) -> list[str]:
    """Return what differs between two scenarios, a line for each kind of thing."""
    lines = []
    one, other = (amounts(each) for each in (before, after))
    for name, amount in one.items():
        if other.get(name, 0) != amount:
            lines.append(f"{name}: {_amount(name, amount)} -> {_amount(name, other.get(name, 0))}")
    return lines


def _amount(name: str, amount: int) -> str:
    return duration_text(amount) if name == "duration" else str(amount)


def grows(before: Data, after: Data) -> bool:
    """Return whether a scenario has more of something, as when a default is more than a key was."""
    one, other = amounts(before), amounts(after)
    return any(amount > one.get(name, 0) for name, amount in other.items())


def amounts(data: Data) -> dict[str, int]:
    """Return how many there are of each kind of thing; the duration is in microseconds.

    Raises:
        ScenarioError: the data are no scenario.
    """
    scenario = parse(data, "a candidate")
    cluster = scenario.cluster
    found: dict[str, int] = {
        key: len(value) for key, value in data.items() if isinstance(value, list)
    }
    found["partitions"] = sum(max(t.partitions, len(t.assignment)) for t in scenario.topics)
    found["replicas"] = sum(
        max(t.partitions, len(t.assignment)) * t.replication_factor for t in scenario.topics
    )
    zookeeper = cluster.mode == "zookeeper"
    found["brokers"] = cluster.brokers
    found["zookeepers" if zookeeper else "controllers"] = (
        cluster.zookeepers if zookeeper else cluster.controllers
    )
    for kind in ("producer", "consumer-group", "processor", "share-group"):
        found[f"clients ({kind})"] = sum(w.count for w in scenario.workload if w.kind == kind)
    found["duration"] = scenario.duration
    found["other keys"] = _leaves(as_data(scenario))
    return found


def _leaves(value: Any) -> int:
    """Return how many values a table and its tables have."""
    if isinstance(value, Mapping):
        return sum(_leaves(inner) for inner in value.values())
    if isinstance(value, list):
        return sum(_leaves(inner) for inner in value)
    return 1
