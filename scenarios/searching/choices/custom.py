"""Assignors and partitioners as users write them, and their draw.

They keep the contract of ConsumerPartitionAssignor and Partitioner, but do what Kafka's own never
do: one member gets all partitions, a member keeps its partitions as long as it lives, all records
of a topic go to one partition, or to a partition without a leader.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kafkasim.model.client.producer.partitioner import partition_for_key
from kafkasim.model.group.assignors import Assignor, RebalanceProtocol
from kafkasim.model.group.assignors.base import (
    Assignment,
    Members,
    Topics,
    assigned_topics,
    ordered_members,
)
from kafkasim.model.records import TopicPartition

SHARE = 0.2
"""The share of classic groups that have an assignor of the user's."""


def failover(topics: Topics, members: Members) -> Assignment:
    """Give each topic as a whole to the first member that subscribes to it; the others wait."""
    ordered = ordered_members(members)
    owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
    for topic, partitions in assigned_topics(topics, members).items():
        first = next(member for member in ordered if topic in member.subscription.topics)
        owned[first.member_id] += [TopicPartition(topic, p) for p in range(len(partitions))]
    return {member_id: tuple(tps) for member_id, tps in owned.items()}


class Keeping(Assignor):
    """Let members keep what they own, and give what is free to whoever has least.

    It is cooperative, and never takes a partition from a member that has it.
    """

    name = "keeping"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Return the partitions of each member."""
        free = {
            TopicPartition(topic, number): None
            for topic, partitions in assigned_topics(topics, members).items()
            for number in range(len(partitions))
        }
        ordered = ordered_members(members)
        owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in ordered}
        newest = sorted(ordered, key=lambda member: -member.subscription.generation_id)
        for member in newest:  # of two members that name a partition, the later generation has it
            for tp in member.subscription.owned_partitions:
                if tp in free and tp.topic in member.subscription.topics:
                    del free[tp]
                    owned[member.member_id].append(tp)
        for tp in free:
            takers = [each for each in ordered if tp.topic in each.subscription.topics]
            least = min(takers, key=lambda member: len(owned[member.member_id]))
            owned[least.member_id].append(tp)
        return {member_id: tuple(tps) for member_id, tps in owned.items()}


class FirstPartition:
    """Send all records of a topic to its first partition."""

    def __call__(self, _key: bytes | None, _every: Sequence[int], _avail: Sequence[int]) -> int:
        """Return 0."""
        return 0


class BlindTurns:
    """Take all partitions of a topic in turn for records without a key, led or not."""

    def __init__(self) -> None:
        self._turn = -1

    def __call__(self, key: bytes | None, every: Sequence[int], _available: Sequence[int]) -> int:
        """Return the next partition, or the one of the key."""
        if key is not None:
            return partition_for_key(key, len(every))
        self._turn += 1
        return self._turn % len(every)


ASSIGNORS = (f"{__name__}:failover", f"{__name__}:Keeping")

PARTITIONERS = (f"{__name__}:FirstPartition", f"{__name__}:BlindTurns")


def assignors(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some classic groups have an assignor of the user's; all members of a group have it.

    A group that changes its protocol keeps the one that its deployments name.
    """
    deployed = [each.get("group") for each in data.get("operations", ())]
    classic = [
        each
        for each in data["workload"]
        if "partition.assignment.strategy" in each["config"] and "protocol" not in each
    ]
    for name in dict.fromkeys([each["group"] for each in classic]):
        if rng.random() < SHARE and name not in deployed:
            strategy = [rng.choice(ASSIGNORS)]
            for each in classic:
                if each["group"] == name:
                    each["config"]["partition.assignment.strategy"] = strategy
