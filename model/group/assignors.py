"""Client-side assignors: RangeAssignor and RoundRobinAssignor, exactly as in Kafka's clients.

The leader of a classic group runs one of them between its JoinGroup and its SyncGroup. An assignor
is a pure function of the members' subscriptions and of the number of partitions of each topic; it
leaves out topics without metadata. Members are ordered: static ones by instance id, then dynamic
ones by member id (AbstractPartitionAssignor.MemberInfo).

Not modelled: the rack-aware variant of range, sticky and cooperative-sticky.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kafkasim.model.messages import JoinGroupMember
from kafkasim.model.records import TopicPartition

Assignment = dict[str, tuple[TopicPartition, ...]]
Assignor = Callable[[Sequence[JoinGroupMember], Mapping[str, int]], Assignment]


def ordered_members(members: Sequence[JoinGroupMember]) -> list[JoinGroupMember]:
    """Return the members in the order in which assignors give them partitions."""
    static = [member for member in members if member.group_instance_id is not None]
    dynamic = [member for member in members if member.group_instance_id is None]
    static.sort(key=lambda member: member.group_instance_id or "")
    dynamic.sort(key=lambda member: member.member_id)
    return static + dynamic


def range_assign(members: Sequence[JoinGroupMember], partitions: Mapping[str, int]) -> Assignment:
    """Give each subscriber of a topic consecutive partitions of it; the first get one more."""
    order = ordered_members(members)
    owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    for topic in _topics(members, partitions):
        consumers = [member for member in order if topic in member.subscription.topics]
        quota, extra = divmod(partitions[topic], len(consumers))
        for i, member in enumerate(consumers):
            start = i * quota + min(i, extra)
            end = start + quota + (1 if i < extra else 0)
            owned[member.member_id].extend([TopicPartition(topic, p) for p in range(start, end)])
    return {member_id: tuple(tps) for member_id, tps in owned.items()}


def round_robin_assign(
    members: Sequence[JoinGroupMember], partitions: Mapping[str, int]
) -> Assignment:
    """Give the partitions of all topics to the members in turn, skipping non-subscribers."""
    order = ordered_members(members)
    owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    at = 0
    for topic in _topics(members, partitions):
        for partition in range(partitions[topic]):
            while topic not in order[at].subscription.topics:
                at = (at + 1) % len(order)
            owned[order[at].member_id].append(TopicPartition(topic, partition))
            at = (at + 1) % len(order)
    return {member_id: tuple(tps) for member_id, tps in owned.items()}


def _topics(members: Sequence[JoinGroupMember], partitions: Mapping[str, int]) -> list[str]:
    subscribed = {topic: None for member in members for topic in member.subscription.topics}
    return sorted([topic for topic in subscribed if partitions.get(topic, 0) > 0])


ASSIGNORS: dict[str, Assignor] = {"range": range_assign, "roundrobin": round_robin_assign}
"""By the name under which clients propose them in JoinGroup."""
