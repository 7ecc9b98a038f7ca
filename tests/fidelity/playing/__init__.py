"""Schedules of faults, played on real Kafka and on the model, and compared as text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from kafkasim.model.controller.common.records import ELR_FEATURE
from kafkasim.scenarios.language import spec
from kafkasim.scenarios.language.tables import Scenario

HERE = Path(__file__).parent.parent


ZOOKEEPER = "3.9.1-zookeeper"
"""The version of the schedules in ZooKeeper mode."""

GROUPS = ("4.0.0-groups", "4.1.0-groups")
"""The versions of the schedules with consumer groups."""

TRANSACTIONS = ("4.0.0-transactions", "4.1.0-transactions")
"""The versions of the schedules with transactional producers."""

MIRRORS = ("4.1.0-mirrors",)
"""The versions of the schedules with two clusters and MirrorMaker 2."""

STREAMS = ("4.1.0-streams",)
"""The versions of the schedules with instances of Kafka Streams."""


def recorded(versions: Sequence[str]) -> list[tuple[str, str]]:
    """Return the schedules that versions of Kafka have a history of: (version, name)."""
    return [
        (version, name)
        for version in versions
        for name in sorted(file.stem for file in (HERE / "histories" / version).glob("*.txt"))
    ]


def names(version: str = "") -> list[str]:
    """Return the names of all schedules in KRaft mode, in ZooKeeper mode, or with clients."""
    return sorted(file.stem for file in place(version).glob("*.toml"))


def place(version: str) -> Path:
    """Return the directory of the schedules of a version."""
    return HERE / "schedules" / version.partition("-")[2]


def load(name: str, version: str = "4.0.0") -> Scenario:
    """Return a schedule with the rules of a version.

    Without a word of its own it has no eligible leader replicas, which are 4.1's default.
    """
    if version == ZOOKEEPER:
        return spec.load(place(version) / f"{name}.toml")
    file = place(version) / f"{name}.toml"
    data = spec.read_toml(file)
    for each in data.get("clusters", [data]):
        cluster = each["cluster"]
        cluster["kafka-version"] = version.partition("-")[0].rpartition(".")[0]
        cluster["features"] = {ELR_FEATURE: 0} | cluster.get("features", {})
    return spec.parse(data, str(file))


def stored(version: str, name: str) -> Path:
    """Return the file with the history that a version of Kafka had."""
    return HERE / "histories" / version / f"{name}.txt"


def differences(version: str, name: str, model: Sequence[str]) -> str:
    """Return how the model's history differs from the stored one of real Kafka, "" if not."""
    real = stored(version, name).read_text().splitlines()
    rows = difflib.unified_diff(real, model, f"Kafka {version}", "the model", n=1, lineterm="")
    return "\n".join(rows)
