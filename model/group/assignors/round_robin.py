"""RoundRobinAssignor: the partitions of all topics go around the members."""

from __future__ import annotations

from kafkasim.model.group.assignors.base import (
    Assignment,
    Assignor,
    Members,
    Topics,
    assigned_topics,
    ordered_members,
)
from kafkasim.model.records import TopicPartition


class RoundRobinAssignor(Assignor):
    """Gives the partitions of all topics to the members in turn, skipping non-subscribers."""

    name = "roundrobin"

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Return the partitions of each member."""
        order = ordered_members(members)
        owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        at = 0
        for topic, partitions in assigned_topics(topics, members).items():
            for partition in range(len(partitions)):
                while topic not in order[at].subscription.topics:
                    at = (at + 1) % len(order)
                owned[order[at].member_id].append(TopicPartition(topic, partition))
                at = (at + 1) % len(order)
        return {member_id: tuple(tps) for member_id, tps in owned.items()}
