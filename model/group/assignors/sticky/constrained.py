"""The sticky assignment when all members subscribe to the same topics.

Models AbstractStickyAssignor.ConstrainedAssignmentBuilder. A member may have as many partitions as
a share rounded down (the minimal quota), and some members one more (the maximal quota). In turn:
members keep what they own up to a quota; what is free goes to members in racks of its replicas; the
rest goes around the members below their quota.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkasim.model.group.assignors.sticky.claims import Claims
from kafkasim.model.group.assignors.sticky.racks import Racks
from kafkasim.model.records import TopicPartition


class IllegalStateError(Exception):
    """Members own partitions that are not in the leader's metadata.

    The topic was created anew and is smaller, or the leader has not heard of new partitions.
    Kafka's algorithm counts them all the same and ends in an IllegalStateException, which fails the
    poll().
    """


class ConstrainedAssignment:
    """One computation of it."""

    def __init__(
        self, topics: Mapping[str, Sequence[frozenset[str]]], racks: Racks, claims: Claims
    ) -> None:
        self.transferred: dict[TopicPartition, str] = {}  # their next owners
        self._topics = topics
        self._racks = racks
        self._claims = claims
        self._result: dict[str, list[TopicPartition]] = {m: [] for m in claims.owned}
        self._given_up: dict[TopicPartition, str] = {}  # by whom: it was above a quota, or far away
        total = sum([len(partitions) for partitions in topics.values()])
        self._min_quota, self._larger_due = divmod(total, len(claims.owned))
        self._max_quota = self._min_quota + (1 if self._larger_due else 0)
        self._larger = 0  # members above the minimal quota; at most _larger_due
        self._below_min: list[str] = []
        self._at_min: list[str] = []  # that may get one more

    def build(self) -> dict[str, list[TopicPartition]]:
        """Return the partitions of each member."""
        for member_id in self._claims.owned:
            self._keep(member_id)
        self._below_min.sort()
        self._at_min.sort()
        free = self._racks.fewest_members_first(self._free())
        if self._racks.consumers:
            free = self._assign_in_racks(free)
        self._assign_round_robin(free)
        self._verify()
        return self._result

    def _keep(self, member_id: str) -> None:
        """Have a member keep what it owns, up to a quota (assignOwnedPartitions)."""
        owned: list[TopicPartition] = []
        for tp in sorted(self._claims.owned[member_id], key=lambda tp: (tp.partition, tp.topic)):
            if self._racks.mismatch(member_id, tp):
                self._given_up[tp] = member_id
            elif tp not in self._claims.doubly_claimed:
                owned.append(tp)
        if len(owned) < self._min_quota:
            kept = len(owned)
            self._below_min.append(member_id)
        elif len(owned) >= self._max_quota and self._larger < self._larger_due:
            kept = self._max_quota
            self._one_more_larger()
        else:
            kept = self._min_quota
            if self._larger < self._larger_due:
                self._at_min.append(member_id)
        self._result[member_id].extend(owned[:kept])
        self._given_up.update(dict.fromkeys(owned[kept:], member_id))

    def _one_more_larger(self) -> None:
        """Count a member at the maximal quota; the others stay at the minimal one after the last.

        Models the clearing of unfilledMembersWithExactlyMinQuotaPartitions.
        """
        self._larger += 1
        if self._larger == self._larger_due:
            self._at_min.clear()

    def _free(self) -> list[TopicPartition]:
        kept = {tp for partitions in self._result.values() for tp in partitions}
        return [
            tp
            for topic in sorted(self._topics)
            for tp in [TopicPartition(topic, p) for p in range(len(self._topics[topic]))]
            if tp not in kept
        ]

    def _assign_in_racks(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Assign what can be near a replica; return the rest (assignRackAwareRoundRobin)."""
        left: list[TopicPartition] = []
        start = 0
        for tp in free:
            at = self._racks.next_match(tp, self._below_min, start)
            if at >= 0:
                member_id = self._below_min[at]
                count = len(self._result[member_id]) + 1
                if count >= self._min_quota:
                    del self._below_min[at]
                    if count < self._max_quota and self._larger < self._larger_due:
                        self._at_min.append(member_id)
                else:
                    at += 1
                start = at % len(self._below_min) if self._below_min else 0
            else:
                at = self._racks.next_match(tp, self._at_min, 0)
                if at < 0:
                    left.append(tp)
                    continue
                member_id = self._at_min[at]
                if len(self._result[member_id]) + 1 == self._max_quota:
                    del self._at_min[at]
                    self._one_more_larger()
            self._give(tp, member_id)
        return left

    def _assign_round_robin(self, free: list[TopicPartition]) -> None:
        """Assign the rest: up to the minimal quota first, then one more (assignRoundRobin)."""
        at = 0
        for tp in free:
            if at >= len(self._below_min):
                at = 0
            if self._below_min:
                member_id = self._below_min[at]
            else:
                if not self._at_min:
                    raise IllegalStateError("No more unfilled consumers to be assigned.")
                member_id = self._at_min.pop(0)
            count = self._give(tp, member_id)
            if count == self._min_quota:
                del self._below_min[at]
                self._at_min.append(member_id)
            elif count == self._max_quota:
                self._larger += 1
            else:
                at += 1

    def _give(self, tp: TopicPartition, member_id: str) -> int:
        """Give a free partition to a member; return how many it has now (assignNewPartition)."""
        self._result[member_id].append(tp)
        if self._given_up.get(tp, member_id) != member_id or tp in self._claims.doubly_claimed:
            self.transferred[tp] = member_id
        return len(self._result[member_id])

    def _verify(self) -> None:
        """Check that every member has its share (verifyUnfilledMembers)."""
        if self._below_min and self._larger != self._larger_due:
            raise IllegalStateError("We haven't reached the expected number of members")
        for member_id in self._below_min:
            if len(self._result[member_id]) != self._min_quota:
                raise IllegalStateError(f"Consumer {member_id} doesn't reach minQuota partitions")
