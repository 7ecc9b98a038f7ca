"""StickyAssignor and CooperativeStickyAssignor: balance, and move as little as possible.

Both find out what each member owns, and which claims are out of date (AbstractStickyAssignor). With
equal subscriptions ``constrained.py`` assigns, else ``general.py``. They differ in how a member
tells the leader what it owns, and in that the cooperative one gives a partition to its next owner
only after the present one has given it up (KIP-429).
"""

from __future__ import annotations

from kafkasim.model.group.assignors.base import (
    Assignment,
    Assignor,
    Members,
    RebalanceProtocol,
    Topics,
    assigned_topics,
    in_hash_order,
)
from kafkasim.model.group.assignors.java import java_order
from kafkasim.model.group.assignors.sticky.claims import NO_GENERATION, Claims, MemberData
from kafkasim.model.group.assignors.sticky.constrained import ConstrainedAssignment
from kafkasim.model.group.assignors.sticky.general import GeneralAssignment
from kafkasim.model.group.assignors.sticky.racks import Racks
from kafkasim.model.messages import StickyUserData, Subscription
from kafkasim.model.records import TopicPartition


class AbstractStickyAssignor(Assignor):
    """What both have in common."""

    def __init__(self) -> None:
        self._max_generation = NO_GENERATION  # the highest one that a member has ever named

    def member_data(self, subscription: Subscription) -> MemberData:
        """Return what a member claims to own."""
        raise NotImplementedError

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Return the partitions of each member."""
        assignment, _ = self._assign(topics, members)
        return {member_id: tuple(tps) for member_id, tps in assignment.items()}

    def _assign(
        self, topics: Topics, members: Members
    ) -> tuple[dict[str, list[TopicPartition]], dict[TopicPartition, str] | None]:
        """Return the assignment, and the new owners of partitions that have present ones.

        The owners are None where the algorithm does not keep them.
        """
        known = assigned_topics(topics, members)
        order = in_hash_order(members)
        data = {member.member_id: self.member_data(member.subscription) for member in order}
        claims = Claims(order, data, known)
        self._max_generation = max(self._max_generation, claims.max_generation)
        racks = Racks(order, known)
        if claims.equal_subscriptions:
            constrained = ConstrainedAssignment(known, racks, claims)
            return constrained.build(), constrained.transferred
        general = GeneralAssignment(known, racks, claims, order)
        return general.build(data, self._max_generation), None


class StickyAssignor(AbstractStickyAssignor):
    """The eager one: a member tells the leader its last assignment in its user data."""

    name = "sticky"

    def __init__(self) -> None:
        super().__init__()
        self._assigned: StickyUserData | None = None

    def user_data(self, _topics: tuple[str, ...]) -> StickyUserData | None:
        """Return the last assignment; None before the first."""
        return self._assigned

    def on_assignment(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        """Keep the assignment for the next subscription, topic by topic as it is serialized."""
        by_topic: dict[str, list[TopicPartition]] = {}
        for tp in partitions:
            by_topic.setdefault(tp.topic, []).append(tp)
        grouped = [tp for topic in java_order(by_topic) for tp in by_topic[topic]]
        self._assigned = StickyUserData(tuple(grouped), generation)

    def member_data(self, subscription: Subscription) -> MemberData:
        """Return what the user data says; owned partitions do not count, for it is eager."""
        data = subscription.user_data
        if type(data) is not StickyUserData:
            return MemberData((), None)
        return MemberData(data.partitions, data.generation)


class CooperativeStickyAssignor(AbstractStickyAssignor):
    """The cooperative one: a member tells the leader what it owns in its subscription."""

    name = "cooperative-sticky"
    protocols = (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)

    def __init__(self) -> None:
        super().__init__()
        self._generation = NO_GENERATION
        self.withholds = True  # what another member still owns

    def user_data(self, _topics: tuple[str, ...]) -> int:
        """Return the generation of the last assignment, for leaders before Kafka 3.5."""
        return self._generation

    def on_assignment(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        """Note the generation."""
        self._generation = generation

    def member_data(self, subscription: Subscription) -> MemberData:
        """Return the owned partitions with their generation: KAFKA-12984, KIP-792."""
        generation: int | None = subscription.generation_id
        if generation == NO_GENERATION:
            data = subscription.user_data
            generation = data if type(data) is int else None
        return MemberData(subscription.owned_partitions, generation)

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Return the partitions of each member, without those that another one still owns."""
        assignment, transferred = self._assign(topics, members)
        if transferred is None:
            transferred = _transferred(assignment, members)
        for tp, member_id in transferred.items() if self.withholds else ():
            assignment[member_id].remove(tp)
        return {member_id: tuple(tps) for member_id, tps in assignment.items()}


def _transferred(
    assignment: dict[str, list[TopicPartition]], members: Members
) -> dict[TopicPartition, str]:
    """Return the new owners of partitions that a present member would lose to them."""
    owned = {member.member_id: set(member.subscription.owned_partitions) for member in members}
    added: dict[TopicPartition, str] = {}
    revoked: set[TopicPartition] = set()
    for member_id, partitions in assignment.items():
        added.update({tp: member_id for tp in partitions if tp not in owned[member_id]})
        revoked |= owned[member_id].difference(partitions)
    return {tp: member_id for tp, member_id in added.items() if tp in revoked}
