"""How applications commit, and how producers compress and partition.

All values are drawn equally often, because nobody knows before which one a bug needs.
:func:`permit_by_commits` permits the anomalies that a way of committing allows.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.config.clients import ROUND_ROBIN
from kafkasim.scenarios.searching.choices import custom
from kafkasim.scenarios.searching.draw_workload import skips_by_commit

COMMITS = ("auto", "sync", "async", "async-retry", "async-ordered-retry", "first", "none")
"""How the members of a group with a coordinator commit."""

OLD_COMMITS = ("auto", "sync", "first", "none")
"""The same of old consumers, which have no async commit."""

DRAWN_BEFORE = ("auto", "sync", "async")
"""What a group has from draw_workload.py; an old consumer there is never async."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

PARTITIONERS = (None, ROUND_ROBIN, custom.PARTITIONERS)
"""None is the built-in one: by key, or the sticky one. A tuple is one of several users' own."""


def commits(rng: random.Random, data: dict[str, Any]) -> None:
    """Let groups commit in the other ways, too; all members of a group do it alike.

    A group keeps the way that it has as often as it takes a fair share for all of them.
    """
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    for name in dict.fromkeys([each["group"] for each in groups]):
        members = [each for each in groups if each["group"] == name]
        every = OLD_COMMITS if members[0].get("protocol") == "zookeeper" else COMMITS
        chosen = rng.choice(every)
        if chosen not in DRAWN_BEFORE:
            for member in members:
                member["commit"] = chosen
    permit_by_commits(data)


def permit_by_commits(data: dict[str, Any]) -> None:
    """Permit what the ways of committing mean, and no more.

    A group that commits what it has not processed may skip records. An application that sends each
    failed commit again, whatever it has committed since, goes back behind its own commits. An
    unclean election lets a group skip records however it commits (draw_workload.py:permitted).
    """
    permits = set(data["expect"]["permits"])
    if "inconsistent-offsets" not in permits:
        permits.discard("skipped-by-commit")
    for each in data["workload"]:
        if skips_by_commit(each):
            permits.add("skipped-by-commit")
        if each.get("commit") == "async-retry":
            permits.add("reordered-commit")
    data["expect"]["permits"] = sorted(permits)


def codecs(rng: random.Random, data: dict[str, Any]) -> None:
    """Let each workload that writes compress in one of Kafka's ways."""
    for config in _written(data):
        codec = rng.choice(CODECS)
        if codec != "none":
            config["compression.type"] = codec


def partitioners(rng: random.Random, data: dict[str, Any]) -> None:
    """Let a third of the workloads that write take each kind: built in, round robin, a user's."""
    for config in _written(data):
        partitioner = rng.choice(PARTITIONERS)
        if isinstance(partitioner, tuple):
            partitioner = rng.choice(partitioner)
        if partitioner is not None:
            config["partitioner.class"] = partitioner


def _written(data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the properties of all producers, those of processors too."""
    writers = [each for each in data["workload"] if each["kind"] != "consumer-group"]
    return [each.get("producer-config", each["config"]) for each in writers]
