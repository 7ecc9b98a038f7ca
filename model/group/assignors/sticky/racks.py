"""Racks of members and partitions, for sticky assignors (KIP-881, RackInfo)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkasim.model.group.assignors.base import Members, racks_matter
from kafkasim.model.records import TopicPartition


class Racks:
    """Which members are in racks with replicas of a partition; empty when racks do not matter."""

    def __init__(self, members: Members, topics: Mapping[str, Sequence[frozenset[str]]]) -> None:
        racks = {m.member_id: m.subscription.rack_id for m in members}
        of_members = {member_id: rack for member_id, rack in racks.items() if rack}
        of_partitions = {
            TopicPartition(topic, p): replicas
            for topic, partitions in topics.items()
            for p, replicas in enumerate(partitions)
        }
        use = racks_matter(set(of_members.values()), list(of_partitions.values()))
        self.consumers: dict[str, str] = of_members if use else {}
        self.partitions: dict[TopicPartition, frozenset[str]] = of_partitions if use else {}
        # Kafka counts the members near a partition even when racks do not matter otherwise.
        self._near: dict[TopicPartition, int] = {}
        if of_members:
            for tp, replicas in of_partitions.items():
                self._near[tp] = sum(rack in replicas for rack in of_members.values())

    def mismatch(self, member_id: str, tp: TopicPartition) -> bool:
        """Return whether a member with a rack has no replica of the partition in it."""
        rack = self.consumers.get(member_id)
        return rack is not None and rack not in self.partitions.get(tp, ())

    def fewest_members_first(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return partitions ordered by the number of members in racks of their replicas."""
        return sorted(partitions, key=lambda tp: self._near.get(tp, 0))

    def next_match(self, tp: TopicPartition, members: Sequence[str], first: int) -> int:
        """Return the index of the next member in a rack of the partition, −1 for none.

        The search begins at index ``first`` and goes around.
        """
        racks = self.partitions.get(tp)
        if racks:
            for i in range(len(members)):
                at = (first + i) % len(members)
                if self.consumers.get(members[at]) in racks:
                    return at
        return -1
