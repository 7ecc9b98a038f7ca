"""Which partitions moved between which members in one assignment.

Models AbstractStickyAssignor.PartitionMovements. Instead of a second partition moving back from B
to A, the one that moved from A to B does.
"""

from __future__ import annotations

from kafkasim.model.group.assignors.java import JavaHashSet, partition_hash
from kafkasim.model.records import TopicPartition

Pair = tuple[str, str]  # from, to


class PartitionMovements:
    """The movements so far: of each partition from its first owner to its present one."""

    def __init__(self) -> None:
        self._pairs: dict[TopicPartition, Pair] = {}
        self._moved: dict[str, dict[Pair, JavaHashSet[TopicPartition]]] = {}  # by topic

    def move(self, tp: TopicPartition, old: str, new: str) -> None:
        """Note that a partition moves; one that comes back to its first owner has not moved."""
        first = old
        if tp in self._pairs:
            first, last = self._forget(tp)
            assert last == old, (tp, last, old)
        if first != new:
            pair = self._pairs[tp] = (first, new)
            moved = self._moved.setdefault(tp.topic, {})
            if pair not in moved:
                moved[pair] = JavaHashSet(lambda tp: partition_hash(tp.topic, tp.partition))
            moved[pair].add(tp)

    def actual(self, tp: TopicPartition, old: str, new: str) -> TopicPartition:
        """Return which partition to move in place of ``tp`` (getTheActualPartitionToBeMoved)."""
        if tp in self._pairs:
            old = self._pairs[tp][0]
        back = self._moved.get(tp.topic, {}).get((new, old))
        return tp if back is None else next(iter(back))

    def _forget(self, tp: TopicPartition) -> Pair:
        pair = self._pairs.pop(tp)
        moved = self._moved[tp.topic]
        moved[pair].remove(tp)
        if not len(moved[pair]):
            del moved[pair]
        return pair
