"""Who owns what, as members say it (AbstractStickyAssignor.allSubscriptionsEqual)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkasim.model.group.assignors.base import Members
from kafkasim.model.records import TopicPartition

NO_GENERATION = -1  # AbstractStickyAssignor.DEFAULT_GENERATION


class MemberData(NamedTuple):
    """What one member claims."""

    partitions: tuple[TopicPartition, ...]
    generation: int | None  # in which it was assigned them; None unknown


class Claims:
    """The partitions that each member owns, without claims that newer ones override."""

    def __init__(
        self, members: Members, data: Mapping[str, MemberData], topics: Collection[str]
    ) -> None:
        self.owned: dict[str, list[TopicPartition]] = {}  # by member id, in the order of members
        self.doubly_claimed: set[TopicPartition] = set()  # by members of the same generation
        self.max_generation = NO_GENERATION
        self.equal_subscriptions = _equal_subscriptions(members)
        # Kafka compares with the generation in the other member's subscription, also where the
        # claim comes from user data with a generation of its own.
        generations = {m.member_id: m.subscription.generation_id for m in members}
        owners: dict[TopicPartition, str] = {}
        for member in members:
            member_id = member.member_id
            claim = data[member_id]
            generation = NO_GENERATION if claim.generation is None else claim.generation
            self.max_generation = max(self.max_generation, generation)
            owned = self.owned[member_id] = []
            for tp in claim.partitions:
                if tp.topic not in topics:
                    continue
                other = owners.get(tp)
                if other is None:
                    owned.append(tp)
                    owners[tp] = member_id
                elif generation == generations[other]:
                    self.doubly_claimed.add(tp)
                    self._withdraw(other, tp)
                    owners[tp] = member_id
                elif generation > generations[other]:
                    owned.append(tp)
                    self._withdraw(other, tp)
                    owners[tp] = member_id

    def _withdraw(self, member_id: str, tp: TopicPartition) -> None:
        if tp in self.owned[member_id]:
            self.owned[member_id].remove(tp)


def _equal_subscriptions(members: Members) -> bool:
    first: set[str] = set()
    for member in members:
        topics = member.subscription.topics
        if not first:
            first.update(topics)
        elif len(topics) != len(first) or not first.issuperset(topics):
            return False
    return True
