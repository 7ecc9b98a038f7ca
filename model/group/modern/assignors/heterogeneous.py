"""The uniform assignor when members subscribe to different topics.

(UniformHeterogeneousAssignmentBuilder.) Three steps: members keep what they still subscribe to; the
rest goes to the least loaded subscribers, topics with the most partitions for each subscriber
first; then each topic in turn moves partitions from its most to its least loaded subscribers, until
a whole round of the topics moves none, or after 16 rounds.
"""

from __future__ import annotations

from kafkasim.model.group.modern.assignors.spec import (
    GroupAssignment,
    GroupSpec,
    PartitionAssignorError,
)
from kafkasim.model.group.modern.state.assignment import assignment_of

MAX_ITERATION_COUNT = 16
NOBODY = -1


def assign_heterogeneous(spec: GroupSpec) -> GroupAssignment:
    """Balance the partitions of each topic among its subscribers."""
    return _Builder(spec).build()


class _Builder:
    """One assignment in the making; members are numbered in the order of their ids."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.member_ids = list(spec.members)
        self.sizes = [0] * len(self.member_ids)  # partitions of each member
        self.subscribers: dict[str, list[int]] = {}  # of each topic
        for i, member in enumerate(spec.members.values()):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(i)
        self.owners = {
            topic_id: [NOBODY] * spec.num_partitions(topic_id) for topic_id in self.subscribers
        }

    def build(self) -> GroupAssignment:
        self._keep()
        for topic_id in self._sorted(list(self.owners)):
            free = [n for n, owner in enumerate(self.owners[topic_id]) if owner == NOBODY]
            balancer = _Balancer(self.sizes, self.subscribers[topic_id])
            for number in free:
                self._give(topic_id, number, balancer.next_least_loaded())
        self._balance()
        given: list[list[tuple[str, int]]] = [[] for _ in self.member_ids]
        for topic_id, owners in self.owners.items():
            for number, owner in enumerate(owners):
                given[owner].append((topic_id, number))
        return dict(zip(self.member_ids, [assignment_of(some) for some in given]))

    def _keep(self) -> None:
        """Let each member keep its partitions of the topics to which it still subscribes.

        Raises:
            PartitionAssignorError: the metadata of a new coordinator lacks one of them; Kafka's
                assignor reads behind the end of an array (maybeRevokePartitions).
        """
        for i, member in enumerate(self.spec.members.values()):
            for topic_id, numbers in member.assignment.items():
                if topic_id in member.topic_ids:
                    for number in numbers:
                        if number >= len(self.owners[topic_id]):
                            raise PartitionAssignorError(f"{topic_id}-{number}")
                        self._give(topic_id, number, i)

    def _give(self, topic_id: str, number: int, member: int) -> None:
        owner = self.owners[topic_id][number]
        if owner != NOBODY:
            self.sizes[owner] -= 1
        self.owners[topic_id][number] = member
        self.sizes[member] += 1

    def _sorted(self, topic_ids: list[str]) -> list[str]:
        """Return topics by partitions per subscriber, falling; then by subscribers, then by id."""

        def key(topic_id: str) -> tuple[float, int, str]:
            subscribers = len(self.subscribers[topic_id])
            return (-len(self.owners[topic_id]) / subscribers, subscribers, topic_id)

        return sorted(topic_ids, key=key)

    def _balance(self) -> None:
        """Move partitions topic by topic, until a round of the topics moves none."""
        shared = [each for each, members in self.subscribers.items() if len(members) >= 2]
        topic_ids = self._sorted(shared)
        last = None  # the last topic that had a partition moved
        for _ in range(MAX_ITERATION_COUNT):
            for topic_id in topic_ids:
                if topic_id == last:
                    return
                if self._balance_topic(topic_id) or last is None:
                    last = topic_id

    def _balance_topic(self, topic_id: str) -> bool:
        """Move partitions of a topic between its subscribers; return whether any was moved."""
        balancer = _Balancer(self.sizes, self.subscribers[topic_id])
        if balancer.imbalance <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for number, owner in enumerate(self.owners[topic_id]):
            owned.setdefault(owner, []).append(number)
        moved = False
        while not balancer.balanced:
            source = balancer.next_most_loaded()
            while source is not None and not owned.get(source):
                balancer.exclude_most_loaded()
                source = balancer.next_most_loaded()
            if source is None:
                break
            number = owned[source].pop()
            destination = balancer.next_least_loaded()
            if balancer.balanced:
                break
            self._give(topic_id, number, destination)
            moved = True
        return moved


class _Balancer:
    """The least and the most loaded of some members, while partitions go from these to those.

    Members are sorted by their number of partitions. The least loaded are a range from the left,
    the most loaded a range from the right. All members of a range have as many partitions; when
    each has got or given one, the range's level changes, and it takes in the members that it meets.
    A member that has nothing to give is moved to the right of its range, and out of it.
    """

    def __init__(self, sizes: list[int], members: list[int]) -> None:
        self.sizes = sizes
        self.sorted = sorted(members, key=lambda member: (sizes[member], member))
        self.least_end = 0  # exclusive
        self.least_level = sizes[self.sorted[0]] - 1
        self.next_least = 0
        self.most_start = self.most_end = len(self.sorted)  # inclusive, exclusive
        self.most_level = sizes[self.sorted[-1]] + 1
        self.next_most = len(self.sorted) - 1
        self.imbalance = sizes[self.sorted[-1]] - sizes[self.sorted[0]]

    @property
    def balanced(self) -> bool:
        """Whether no move between the ranges makes them more equal."""
        return self.most_level - self.least_level <= 1

    def next_least_loaded(self) -> int:
        """Return the member that gets the next partition."""
        if self.next_least >= self.least_end:
            self.least_level += 1
            while (
                self.least_end < len(self.sorted) and self._size(self.least_end) == self.least_level
            ):
                self.least_end += 1
            self.next_least = 0
        member = self.sorted[self.next_least]
        self.next_least += 1
        return member

    def next_most_loaded(self) -> int | None:
        """Return the member that gives the next partition, None if nobody has any to give."""
        if self.next_most < self.most_start:
            if self.most_end <= self.most_start and self.most_start > 0:
                self.most_level = self._size(self.most_start - 1)  # all of the range are excluded
            else:
                self.most_level -= 1
            while self.most_start > 0 and self._size(self.most_start - 1) == self.most_level:
                self.most_start -= 1
            self.next_most = self.most_end - 1
        if self.next_most < 0:
            return None
        member = self.sorted[self.next_most]
        self.next_most -= 1
        return member

    def exclude_most_loaded(self) -> None:
        """Take the member that was returned last out of the most loaded: it has none to give."""
        place, end = self.next_most + 1, self.most_end - 1
        self.sorted[place], self.sorted[end] = self.sorted[end], self.sorted[place]
        self.most_end = end

    def _size(self, place: int) -> int:
        return self.sizes[self.sorted[place]]
