"""Reassignments and preferred-leader elections of internal topics.

The leader of a partition of __consumer_offsets, __transaction_state or __share_group_state is a
coordinator. Faults stop coordinators. Here an operator moves them while all brokers live, and often
moves them back soon, to a broker that is still unloading the partition.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.records import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.moments import moment
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

SHARE = 0.06
"""The share of seeds in which this happens."""

FACTOR = 3
"""Kafka's replication factor of internal topics."""

PARTITIONS = {
    GROUP_METADATA_TOPIC: "offsets.topic.num.partitions",
    TRANSACTION_STATE_TOPIC: "transaction.state.log.num.partitions",
    SHARE_GROUP_STATE_TOPIC: "share.coordinator.state.topic.num.partitions",
}


def moved_internal_topics(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Let an operator move partitions of internal topics in some seeds, once to four times."""
    cast = Cast(rng, data, mode)
    topics = _topics(cast)
    if rng.random() >= SHARE or not topics or is_about_its_faults(data):
        return
    topic = rng.choice(topics)
    known = data["cluster"]["config"].get(PARTITIONS[topic], 50)
    partitions = rng.sample(range(known), min(known, rng.choice((1, 1, 2, 5))))
    brokers = range(1, data["cluster"]["brokers"] + 1)
    operations = data.setdefault("operations", [])
    anchor, delay = moment(rng, cast), 0.0
    for _ in range(rng.choice((1, 2, 2, 4))):
        for partition in partitions:
            operations.append({
                "kind": "reassign", "topic": topic, "partition": partition,
                "replicas": rng.sample(brokers, min(len(brokers), FACTOR)), **anchor.at(delay),
            })  # fmt: skip
        soon = delay + rng.choice((40.0, 40.0, cast.near()))
        operations.append({"kind": "elect-leader", "topic": topic, **anchor.at(soon)})
        delay = soon + cast.near()


def _topics(cast: Cast) -> list[str]:
    """Return the internal topics that the scenario has, those of transactions and shares twice."""
    topics = [GROUP_METADATA_TOPIC] if cast.groups else []
    if cast.writers:
        topics += [TRANSACTION_STATE_TOPIC] * 2
    if any(each["kind"] == "share-group" for each in cast.data["workload"]):
        topics += [SHARE_GROUP_STATE_TOPIC] * 2
    return topics
