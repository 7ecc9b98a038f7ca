"""RangeAssignor: consecutive partitions of each topic, in matching racks first (KIP-881)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from kafkasim.model.group.assignors.base import (
    Assignment,
    Assignor,
    Members,
    Topics,
    assigned_topics,
    ordered_members,
    racks_matter,
)
from kafkasim.model.records import TopicPartition


class RangeAssignor(Assignor):
    """Gives each subscriber of a topic consecutive partitions of it; the first get one more.

    When racks matter, partitions go to members in their replicas' racks first; topics with equal
    numbers of partitions and the same members go together, so that they stay co-partitioned. What
    is left is given out as without racks. Kafka's lists are not sorted by topic unless racks
    matter; ours always are.
    """

    name = "range"

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Return the partitions of each member."""
        order = ordered_members(members)
        owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
        states: list[_Topic] = []
        for topic, partitions in assigned_topics(topics, members).items():
            racks = {
                member.member_id: member.subscription.rack_id or None
                for member in order
                if topic in member.subscription.topics
            }
            states.append(_Topic(topic, partitions, racks, owned))
        if any(state.rack_aware for state in states):
            _assign_matching(states)
        for state in states:
            state.assign_ranges(lambda _member, _partition: True)
        return {member_id: tuple(sorted(tps)) for member_id, tps in owned.items()}


class _Topic:
    """What is assigned of one topic (RangeAssignor.TopicAssignmentState)."""

    def __init__(
        self,
        topic: str,
        partition_racks: Sequence[frozenset[str]],
        racks: dict[str, str | None],
        owned: dict[str, list[TopicPartition]],
    ) -> None:
        self.topic = topic
        self.partition_racks = partition_racks
        self.racks = racks  # of the subscribers, in the order of assignment; None unknown
        self.unassigned = dict.fromkeys(range(len(partition_racks)))
        self.rack_aware = racks_matter({r for r in racks.values() if r}, partition_racks)
        self._owned = owned
        self._counts = dict.fromkeys(racks, 0)
        self._quota, self._extra = divmod(len(partition_racks), len(racks))

    def matches(self, member_id: str, partition: int) -> bool:
        """Return whether a member may read a partition in its own rack, or has no rack."""
        rack = self.racks[member_id]
        return rack is None or rack in self.partition_racks[partition]

    def room(self, member_id: str) -> int:
        """Return how many more partitions a member may get."""
        return max(0, self._quota + (1 if self._extra > 0 else 0) - self._counts[member_id])

    def give(self, member_id: str, partitions: list[int]) -> None:
        """Give partitions to a member; above the quota, one fewer member gets one more."""
        self._owned[member_id].extend([TopicPartition(self.topic, p) for p in partitions])
        self._counts[member_id] += len(partitions)
        if self._counts[member_id] > self._quota:
            self._extra -= 1
        for partition in partitions:
            del self.unassigned[partition]

    def assign_ranges(self, may_own: Callable[[str, int], bool]) -> None:
        """Fill the members one after the other with partitions that they may own."""
        for member_id in self.racks:
            if not self.unassigned:
                break
            allowed = (p for p in self.unassigned if may_own(member_id, p))
            chosen = list(islice(allowed, self.room(member_id)))
            if chosen:
                self.give(member_id, chosen)


def _assign_matching(states: list[_Topic]) -> None:
    """Assign what can be aligned on racks, together for co-partitioned topics."""
    together: dict[tuple[tuple[tuple[str, str | None], ...], int], list[_Topic]] = {}
    for state in states:
        # Kafka counts the partitions whose racks it knows: none when no subscriber has a rack.
        known = len(state.partition_racks) if any(state.racks.values()) else 0
        members = tuple(sorted(state.racks.items()))
        together.setdefault((members, known), []).append(state)
    for (_, known), group in together.items():
        if len(group) > 1:
            _assign_co_partitioned(group, known)
        elif group[0].rack_aware:
            group[0].assign_ranges(group[0].matches)


def _assign_co_partitioned(states: list[_Topic], partitions: int) -> None:
    remaining = list(states[0].racks)
    for partition in range(partitions):
        for member_id in remaining:
            if all(s.matches(member_id, partition) and s.room(member_id) for s in states):
                for state in states:
                    state.give(member_id, [partition])
                if not any(state.room(member_id) for state in states):
                    remaining.remove(member_id)
                break
        if not remaining:
            break
