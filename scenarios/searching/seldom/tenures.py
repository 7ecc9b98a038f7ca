"""A broker that loses a role and gets it back while a message of its first tenure is under way.

A broker leads a partition, and by that it may be a coordinator. What it sends in a tenure is
answered to the broker, and what it was sent is served by it, whoever leads meanwhile. An answer may
come in the next tenure of the same broker, which has another epoch and a state of its own. Crashes
end the connections, so nothing outlives them; and where leaders move while all brokers live, the
way back takes longer than a message. Here a message is held up until the broker leads again, or a
little less or longer.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.coordinator.hashing import KeyPartitions
from kafkasim.model.records import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.moments import moment
from kafkasim.scenarios.searching.seldom.internal_topics import FACTOR, PARTITIONS
from kafkasim.scenarios.searching.shapes.apart import has_second_process, is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.05
"""The share of seeds in which this happens."""

SETTLED_MS = 300.0
"""How long a partition gets to move to the broker that leads it first."""

ELECT_MS = 40.0
"""From the new order of the replicas to the election of the first of them."""

FETCHES = ("FetchFollower", "Fetch")
"""They are sent all the time."""

OF_LEADERS = ("WriteTxnMarkers", "AlterPartition", "WriteShareGroupState", "ReadShareGroupState")
"""What the leader itself sends."""

AT_MESSAGE = 0.7
"""The share of the other holds that begin when such a message was sent."""

BOTH = 0.5
"""The share of these in which messages of the leader in between are held up, too: what the first
one has begun is not ended by the second."""

OF_DATA = ("FetchFollower", "Fetch", "Produce", "AlterPartition", "OffsetForLeaderEpoch")

OF_TOPIC = {
    GROUP_METADATA_TOPIC: ("FetchFollower", "OffsetCommit", "OffsetFetch", "Heartbeat",
                           "JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat"),
    TRANSACTION_STATE_TOPIC: ("FetchFollower", "WriteTxnMarkers", "WriteTxnMarkers",
                              "InitProducerId", "AddPartitionsToTxn", "EndTxn"),
    SHARE_GROUP_STATE_TOPIC: ("FetchFollower", "WriteShareGroupState", "WriteShareGroupState",
                              "ReadShareGroupState"),
}  # fmt: skip
"""What is held up, by the topic whose leader changes; other topics have :data:`OF_DATA`."""


def returning_roles(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Let a broker of some seeds lead a partition, then another one, and then the first again."""
    cast = Cast(rng, data, mode)
    topics = _topics(cast)
    if rng.random() >= SHARE or is_about_its_faults(data) or has_second_process(data):
        return
    if not topics or (mode == "zookeeper" and "log.dirs" in data["cluster"]["config"]):
        return
    topic = rng.choice(topics)
    first, second, *others = _replicas(cast, topic)
    where = {"topic": topic, "partition": _partition(cast, topic)}
    api = rng.choice(OF_TOPIC.get(topic, OF_DATA))
    first_at = Anchor(float(rng.randrange(100, 1500)))
    anchor, held = _moment(cast, api, f"broker-{first}")
    leaves = held + cast.near()
    returns = leaves + ELECT_MS + cast.near()
    ends = returns + 2 * ELECT_MS + cast.near()
    operations = data.setdefault("operations", [])
    for begins, elected, order in (
        (first_at.at(), first_at.at(SETTLED_MS), [first, second, *others]),
        (anchor.at(leaves), anchor.at(leaves + ELECT_MS), [second, first, *others]),
        (anchor.at(returns), anchor.at(returns + ELECT_MS), [first, second, *others]),
    ):
        operations += [
            {"kind": "reassign", **where, "replicas": order, **begins},
            {"kind": "elect-leader", **where, **elected},
        ]
    struck = [f"broker-{first}", *([f"broker-{second}"] if rng.random() < BOTH else [])]
    fault = {"kind": "hold", "nodes": struck, "api": api, **anchor.at(held), "for": ms(ends - held)}
    if api != "FetchFollower":
        fault["direction"] = rng.choice(("request", "response", "response"))
    data["faults"].append(fault)


def _moment(cast: Cast, api: str, broker: str) -> tuple[Anchor, float]:
    """Return a moment, and how many ms later the hold begins: often when a message was sent."""
    rng = cast.rng
    if api in FETCHES or rng.random() >= AT_MESSAGE:
        return moment(rng, cast), cast.near()
    when: dict[str, Any] = {"request": api, "count": rng.randrange(1, 8)}
    if api in OF_LEADERS:
        when["node"] = broker
    return Anchor(0.0, when), 0.0


def _topics(cast: Cast) -> list[str]:
    """Return the topics whose leaders may change: those of coordinators more than once."""
    found = [GROUP_METADATA_TOPIC] * 2 if cast.groups else []
    if cast.writers:
        found += [TRANSACTION_STATE_TOPIC] * 3
    if any(each["kind"] == "share-group" for each in cast.data["workload"]):
        found += [SHARE_GROUP_STATE_TOPIC] * 3
    orders = cast.data["topics"][0]
    return found + ([orders["name"]] if orders["replication-factor"] > 1 else [])


def _replicas(cast: Cast, topic: str) -> list[int]:
    factor = FACTOR if topic in PARTITIONS else cast.data["topics"][0]["replication-factor"]
    brokers = range(1, len(cast.brokers) + 1)
    return cast.rng.sample(brokers, min(len(brokers), factor))


def _partition(cast: Cast, topic: str) -> int:
    """Return a partition of the topic; of internal topics one that somebody's state is in."""
    if topic not in PARTITIONS:
        return cast.rng.randrange(cast.data["topics"][0]["partitions"])
    known: int = cast.data["cluster"]["config"].get(PARTITIONS[topic], 50)
    if topic == GROUP_METADATA_TOPIC:
        return KeyPartitions(known).of(cast.rng.choice(cast.groups)["group"])
    if topic == TRANSACTION_STATE_TOPIC:
        return KeyPartitions(known).of(cast.transactional_id())
    return cast.rng.randrange(known)
