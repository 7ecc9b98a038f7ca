"""What an assignor is, what it is given, and what several of Kafka's need.

Models ConsumerPartitionAssignor, AbstractPartitionAssignor and its MemberInfo.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, ClassVar

from kafkasim.model.group.assignors.java import java_order
from kafkasim.model.messages import JoinGroupMember
from kafkasim.model.records import TopicPartition

Assignment = dict[str, tuple[TopicPartition, ...]]
"""By member id, every member of the group."""

Members = Sequence[JoinGroupMember]

Topics = Mapping[str, Sequence[frozenset[str]]]
"""By topic, for each partition the racks of its replicas. Topics without metadata are left out."""


class RebalanceProtocol(Enum):
    """What a member does with its partitions when it joins again (KIP-429)."""

    EAGER = "eager"  # it gives all of them up first
    COOPERATIVE = "cooperative"  # it keeps them, and gives up what the new assignment lacks


class Assignor:
    """One consumer's instance of an assignor (ConsumerPartitionAssignor).

    A consumer keeps it as long as it lives, so an assignor may remember assignments.
    """

    name: ClassVar[str]  # under which JoinGroup proposes it
    blocks: ClassVar[bool] = False
    """Whether assign() asks brokers, as that of Kafka Streams does. Then nobody calls it: the
    leader's poll() ends with the event ``assign``, and its application continues with the result"""
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)

    def user_data(self, topics: tuple[str, ...]) -> Any:
        """Return what a subscription to topics carries for the leader (subscriptionUserData)."""
        return None

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Return the partitions of each member. Only the leader of a generation calls this."""
        raise NotImplementedError

    def on_assignment(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        """Note what the member was assigned in a generation."""


def ordered_members(members: Members) -> list[JoinGroupMember]:
    """Return the members in the order of MemberInfo: static by instance id, dynamic by id."""
    static = [member for member in members if member.group_instance_id is not None]
    dynamic = [member for member in members if member.group_instance_id is None]
    static.sort(key=lambda member: member.group_instance_id or "")
    dynamic.sort(key=lambda member: member.member_id)
    return static + dynamic


def in_hash_order(members: Members) -> list[JoinGroupMember]:
    """Return the members as the leader's ``HashMap<String, Subscription>`` iterates over them."""
    by_id = {member.member_id: member for member in members}
    return [by_id[member_id] for member_id in java_order(by_id)]


def assigned_topics(topics: Topics, members: Members) -> dict[str, Sequence[frozenset[str]]]:
    """Return the topics with metadata that some member subscribes to, by name."""
    subscribed = {topic: None for member in members for topic in member.subscription.topics}
    return {topic: topics[topic] for topic in sorted(subscribed) if topics.get(topic)}


def without_racks(counts: Mapping[str, int]) -> dict[str, list[frozenset[str]]]:
    """Return topics with these numbers of partitions, whose replicas are in unknown racks."""
    return {topic: [frozenset()] * count for topic, count in counts.items()}


def racks_matter(consumer_racks: set[str], partition_racks: Sequence[frozenset[str]]) -> bool:
    """Return whether racks of consumers and partitions call for a rack-aware assignment (KIP-881).

    They do not when every rack has every partition (useRackAwareAssignment).
    """
    all_racks = frozenset().union(*partition_racks)
    if consumer_racks.isdisjoint(all_racks):
        return False
    return any(racks != all_racks for racks in partition_racks)
