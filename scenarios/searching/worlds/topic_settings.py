"""Settings that decide a topic's guarantees change during faults: min ISR, unclean elections."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.draw_cluster import COUNTED
from kafkasim.scenarios.searching.draw_workload import permitted
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

MIN_ISR = 0.12
"""The share of seeds whose min.insync.replicas is lowered and raised."""

UNCLEAN = 0.05
"""The share of seeds whose topic elects uncleanly for some time."""

REASONS = ("lag", "fenced", "caught-up", "unfenced", "reassignment")
"""Reasons of a partition's change, at which an operator acts."""


def min_isr_changes(rng: random.Random, data: dict[str, Any]) -> None:
    """Let an operator lower and raise min.insync.replicas of some topics, one after the other."""
    topic = data["topics"][0]
    factor = topic["replication-factor"]
    if rng.random() >= MIN_ISR or factor == 1 or is_about_its_faults(data):
        return
    least = topic["config"].get("min.insync.replicas", 1)
    begins = _moment(rng)
    for _ in range(rng.choice((2, 2, 3))):
        least = rng.choice([value for value in range(1, factor + 1) if value != least])
        _alter(data, {"min.insync.replicas": least}, begins)
        begins = {**begins, "at": _later(rng, begins)}


def unclean_elections(rng: random.Random, data: dict[str, Any]) -> None:
    """Allow unclean elections of some topics, from the start or for some time.

    What such an election costs tears transactions, and outputs and results are counted, so topics
    of such workloads are left alone.
    """
    counted = {"transactional-id", "transactional-id-prefix", *COUNTED}
    kinds = {each["kind"] for each in data["workload"]}
    apart = "processor" in kinds or any(each.keys() & counted for each in data["workload"])
    if rng.random() >= UNCLEAN or apart or is_about_its_faults(data):
        return
    key = "unclean.leader.election.enable"
    if rng.random() < 0.4:
        data["topics"][0]["config"][key] = True
    else:
        begins = _moment(rng)
        _alter(data, {key: True}, begins)
        if rng.random() < 0.7:
            _alter(data, {key: False}, {**begins, "at": _later(rng, begins)})
    permits = {*data["expect"].get("permits", ()), *permitted(data["workload"], True)}
    data["expect"]["permits"] = sorted(permits)


def _alter(data: dict[str, Any], config: dict[str, Any], begins: dict[str, Any]) -> None:
    name = data["topics"][0]["name"]
    operation = {"kind": "alter-config", "topic": name, "config": config, **begins}
    data.setdefault("operations", []).append(operation)


def _moment(rng: random.Random) -> dict[str, Any]:
    """Draw when the first change is made: at any time, or when a partition has changed."""
    if rng.random() < 0.5:
        return {"at": ms(rng.randrange(300, 5000))}
    fields = {"topic": "orders", "reason": rng.choice(REASONS)}
    when = {"fact": "PartitionChanged", "fields": fields, "count": rng.choice((1, 1, 2, 3))}
    return {"at": ms(rng.choice((1, 20, 300))), "when": when}


def _later(rng: random.Random, begins: dict[str, Any]) -> str:
    gap = rng.choice((50, 500, 2000)) * rng.uniform(0.5, 1.5)
    return ms(int(begins["at"].removesuffix("ms")) + gap)


ONE_BATCH = 0.15
"""The share of seeds whose segments hold a batch or a few."""


def one_batch_segments(rng: random.Random, data: dict[str, Any]) -> None:
    """Let most batches of some seeds roll a segment."""
    if rng.random() < ONE_BATCH and not is_about_its_faults(data):
        roll_most_batches(rng, data)


def roll_most_batches(rng: random.Random, data: dict[str, Any]) -> None:
    """Let the segments of users' topics hold a batch or a few.

    Kafka rolls a segment after a gigabyte or a week. A run of seconds hardly ever truncates, ends
    or begins to read at a roll, where a log also writes its producers' snapshot, unless most
    batches roll. A batch has to fit into a segment (RECORD_LIST_TOO_LARGE). A fetch reads one
    segment: while a consumer has a record of it left, its next fetch asks for the other partitions
    only, so it must not wait for long.
    """
    size = rng.choice((200, 200, 600))
    for topic in data["topics"]:
        topic.setdefault("config", {})["segment.bytes"] = size
    for each in data["workload"]:
        if each["kind"] == "producer":
            each["config"]["batch.size"] = size // 2
        elif each["kind"] == "processor":
            each.setdefault("producer-config", {})["batch.size"] = size // 2
        elif each["kind"] == "consumer-group":
            old = each.get("protocol") == "zookeeper"
            each["config"]["fetch.wait.max.ms" if old else "fetch.max.wait.ms"] = 30
