"""The sticky assignment when members subscribe to different topics.

Models AbstractStickyAssignor.GeneralAssignmentBuilder. Members keep what they own and still
subscribe to; free partitions go to the subscriber with the fewest, in racks of its replicas first;
then partitions move from member to member while that improves the balance.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence

from kafkasim.model.group.assignors.base import Members
from kafkasim.model.group.assignors.sticky.claims import NO_GENERATION, Claims, MemberData
from kafkasim.model.group.assignors.sticky.movements import PartitionMovements
from kafkasim.model.group.assignors.sticky.racks import Racks
from kafkasim.model.records import TopicPartition

Partitions = list[TopicPartition]


class GeneralAssignment:
    """One computation of it."""

    def __init__(
        self,
        topics: Mapping[str, Sequence[frozenset[str]]],
        racks: Racks,
        claims: Claims,
        members: Members,
    ) -> None:
        self._topics = topics
        self._racks = racks
        self._current = {member_id: list(owned) for member_id, owned in claims.owned.items()}
        self._subscribed: dict[str, list[str]] = {}  # topics with metadata, by member
        self._subscribers: dict[str, list[str]] = {topic: [] for topic in topics}
        for member in members:
            known = [topic for topic in member.subscription.topics if topic in topics]
            self._subscribed[member.member_id] = known
            for topic in known:
                self._subscribers[topic].append(member.member_id)
        self._all = [
            TopicPartition(topic, p)
            for topic in sorted(topics, key=lambda t: (len(self._subscribers[t]), t))
            for p in range(len(topics[topic]))
        ]
        self._owner = {tp: m for m, owned in self._current.items() for tp in owned}
        self._order: list[tuple[int, str]] = []  # (number of partitions, member), rising
        self._movements = PartitionMovements()
        self._revocation_required = False

    def build(
        self, data: Mapping[str, MemberData], max_generation: int
    ) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member; ``data`` is what each one claims."""
        previous = _previous_owners(data, max_generation)
        kept = self._keep_owned()
        free = [tp for tp in self._all if tp not in kept]
        for member_id in self._current:
            self._insert(member_id)
        self._balance(previous, free)
        return self._current

    def _keep_owned(self) -> set[TopicPartition]:
        """Take from members what they do not subscribe to or what is far; return what is left."""
        kept: set[TopicPartition] = set()
        for member_id, owned in self._current.items():
            stays: Partitions = []
            for tp in owned:
                far = self._racks.mismatch(member_id, tp)
                if tp.topic not in self._subscribed[member_id] or far:
                    self._revocation_required = True
                else:
                    stays.append(tp)
            self._current[member_id] = stays
            kept.update(stays)
        return kept

    # The members by their number of partitions: Kafka's TreeSet sortedCurrentSubscriptions.

    def _insert(self, member_id: str) -> None:
        insort(self._order, (len(self._current[member_id]), member_id))

    def _take_out(self, member_id: str) -> None:
        at = bisect_left(self._order, (len(self._current[member_id]), member_id))
        assert self._order[at][1] == member_id, (self._order, member_id)
        del self._order[at]

    # Balance.

    def _balance(self, previous: Mapping[TopicPartition, str], free: Partitions) -> None:
        """Assign what is free, then move partitions while the balance improves."""
        initializing = self._order[-1][0] == 0
        left = free
        if self._racks.consumers:
            left = [tp for tp in free if not self._assign(tp, match_racks=True)]
        for tp in left:
            self._assign(tp, match_racks=False)
        movable = [tp for tp in self._all if len(self._subscribers[tp.topic]) >= 2]
        free = [tp for tp in free if len(self._subscribers[tp.topic]) >= 2]
        fixed: dict[str, Partitions] = {}
        for member_id in self._subscribed:
            if not self._may_change(member_id):
                self._take_out(member_id)
                fixed[member_id] = self._current.pop(member_id)
        before = {member_id: list(owned) for member_id, owned in self._current.items()}
        if not self._revocation_required:
            self._reassign_while_better(free, previous)
        moved = self._reassign_while_better(movable, previous)
        if not initializing and moved and _score(self._current) >= _score(before):
            self._current = before
        self._current.update(fixed)

    def _assign(self, tp: TopicPartition, match_racks: bool) -> bool:
        """Give a free partition to the subscriber with the fewest; return whether there is one."""
        for _, member_id in self._order:
            if tp.topic in self._subscribed[member_id] and not (
                match_racks and self._racks.mismatch(member_id, tp)
            ):
                self._take_out(member_id)
                self._current[member_id].append(tp)
                self._owner[tp] = member_id
                self._insert(member_id)
                return True
        return False

    def _may_change(self, member_id: str) -> bool:
        """Return whether a member could get or give partitions."""
        owned = self._current[member_id]
        if len(owned) < self._most(member_id):
            return True
        return any(len(self._subscribers[tp.topic]) >= 2 for tp in owned)

    def _most(self, member_id: str) -> int:
        """Return how many partitions the member's topics have (getMaxAssignmentSize)."""
        return sum([len(self._topics[topic]) for topic in self._subscribed[member_id]])

    def _balanced(self) -> bool:
        """Return whether no member could get a partition of one with at least two more."""
        if not self._order or self._order[0][0] >= self._order[-1][0] - 1:
            return True
        owner = {tp: m for m, owned in self._current.items() for tp in owned}
        for count, member_id in self._order:
            if count == self._most(member_id):
                continue
            for topic in self._subscribed[member_id]:
                for partition in range(len(self._topics[topic])):
                    other = owner[TopicPartition(topic, partition)]
                    if other != member_id and count + 1 < len(self._current[other]):
                        return False
        return True

    def _reassign_while_better(
        self, partitions: Partitions, previous: Mapping[TopicPartition, str]
    ) -> bool:
        """Move partitions until nothing improves; return whether one moved."""
        performed = False
        modified = True
        while modified:
            modified = False
            for tp in partitions:
                if self._balanced():
                    break
                if self._reassign(tp, previous.get(tp)):
                    performed = modified = True
        return performed

    def _reassign(self, tp: TopicPartition, previous: str | None) -> bool:
        """Move a partition to a member that has at least two fewer; return whether one has.

        The owner in an older generation comes first. Kafka asks for a member in a rack of the
        partition before it asks for any, but moves the partition to the same one in both cases.
        """
        count = len(self._current[self._owner[tp]])
        if previous is not None and count > len(self._current[previous]) + 1:
            self._move(tp, previous)
            return True
        if all(count <= len(self._current[m]) + 1 for m in self._subscribers[tp.topic]):
            return False
        self._move(tp, next(m for _, m in self._order if tp.topic in self._subscribed[m]))
        return True

    def _move(self, tp: TopicPartition, new: str) -> None:
        """Move the partition, or one that moved the other way before (reassignPartition)."""
        tp = self._movements.actual(tp, self._owner[tp], new)
        old = self._owner[tp]
        self._take_out(old)
        self._take_out(new)
        self._movements.move(tp, old, new)
        self._current[old].remove(tp)
        self._current[new].append(tp)
        self._owner[tp] = new
        self._insert(new)
        self._insert(old)


def _previous_owners(
    data: Mapping[str, MemberData], max_generation: int
) -> dict[TopicPartition, str]:
    """Return who owned partitions in the newest generation before the last one.

    Models prepopulateCurrentAssignments.
    """
    newest: dict[TopicPartition, tuple[int, str]] = {}
    for member_id, claim in data.items():
        generation = NO_GENERATION if claim.generation is None else claim.generation
        if generation >= max_generation:
            continue
        for tp in claim.partitions:
            if tp not in newest or generation > newest[tp][0]:
                newest[tp] = (generation, member_id)
    return {tp: member_id for tp, (_, member_id) in newest.items()}


def _score(assignment: Mapping[str, Partitions]) -> int:
    """Return the sum of the differences of all pairs of members; 0 is a perfect balance."""
    sizes = [len(owned) for owned in assignment.values()]
    return sum([abs(a - b) for i, a in enumerate(sizes) for b in sizes[i + 1 :]])
