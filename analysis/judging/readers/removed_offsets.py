"""Which commits are gone: deleted by an operator, expired, or replaced without an answer.

A commit is acknowledged when the high watermark has passed its record. If an operator deletes the
offset meanwhile, the tombstone stands behind the record, and the acknowledgement comes after the
tombstone was appended. So the order of the two in the log decides what the group has, not the order
of their rows in the trace (OffsetMetadataManager.replay; the Scala coordinator forgets the waiting
commit, GroupMetadata.removeOffsets). The same holds of the group: a commit that waits while an
operator deletes it is answered without an error once the high watermark has passed its record, and
tells nothing of a group that takes the name later (GroupMetadataManager.createPutCacheCallback asks
for DEAD before it changes the cache, not before it answers).

A coordinator removes the offsets of an empty group when the retention is over since the last member
left (KIP-211; OffsetMetadataManager.cleanupExpiredOffsets, GroupMetadata.removeExpiredOffsets). The
group's facts tell how long it was empty, so an expiry that the coordinator only believes in covers
nothing (KAFKA-13636). Offsets of topics that a group with members has unsubscribed from expire,
too, and are not known here.

A commit that the coordinator has appended counts for whoever loads the log next, also if its leader
lost the partition before the high watermark passed it, so that nobody was told
(OffsetMetadataManager.replay). kafka-consumer-groups.sh --reset-offsets may thus be refused,
because the group has members by the time of its next attempt, and have set the offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts
from kafkasim.model.group.records import OffsetCommitKey

Offset = tuple[str, str, int]
"""Group, topic name, partition."""
Batch = list[int]
"""The next offset of a batch; empty as long as it has not come."""


class DeletedOffsets:
    """The last tombstone of each offset: its row, and its place in the coordinator's log."""

    def __init__(self, trace: FactSource) -> None:
        # Row, and (leader epoch, next offset).
        self._last: dict[Offset, tuple[int, tuple[int, int]]] = {}
        trace.subscribe(facts.OffsetsDeleted, self._on_deleted)

    def _on_deleted(self, seq: int, _t: int, _node: str, fact: facts.OffsetsDeleted) -> None:
        place = (fact.coordinator_epoch, fact.next_offset)
        self._last[fact.group, fact.topic, fact.partition] = (seq, place)

    def cover(self, seq: int, fact: facts.OffsetCommitted) -> bool:
        """Return whether a tombstone stands behind the commit that row ``seq`` acknowledges."""
        if not self._last:
            return False
        row, place = self._last.get((fact.group, fact.topic, fact.partition), (-1, (-1, -1)))
        waited = fact.next_offset >= 0 and (fact.coordinator_epoch, fact.next_offset) <= place
        return seq < row or waited


class GroupEnds:
    """The ends of each group, and in which of its lives a commit was stored.

    A commit of a group's last members stands before the end of the first batch that the coordinator
    appends when the group is gone, and one of its next members stands behind: the coordinator
    stores the assignment of their generation before they can commit
    (GroupMetadataManager.storeGroup; since 4.0 GroupMetadataManager.classicGroupSync). A commit
    that another node stored counts by its row.
    """

    def __init__(self, trace: FactSource, home: Callable[[str], tuple[str, int]]) -> None:
        self._home = home  # the partition of __consumer_offsets that holds a group
        # By group, each end: the node that told it, and its next batch in the group's partition.
        self._ends: dict[str, list[tuple[str, Batch]]] = {}
        self._open: dict[tuple[str, str, int], list[Batch]] = {}  # that batch has not come
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.Appended, self._on_appended)

    def _on_state(self, _seq: int, _t: int, node: str, fact: facts.GroupState) -> None:
        if fact.state == "Dead":
            batch: Batch = []
            self._ends.setdefault(fact.group, []).append((node, batch))
            self._open.setdefault((node, *self._home(fact.group)), []).append(batch)

    def _on_appended(self, _seq: int, _t: int, node: str, fact: facts.Appended) -> None:
        if self._open:
            for batch in self._open.pop((node, fact.topic_id, fact.partition), ()):
                batch.append(fact.next_offset)

    def life(self, node: str, fact: facts.OffsetCommitted) -> int:
        """Return how often the group had ended before ``node`` appended the commit.

        A coordinator keeps its epoch when the leader epoch rises, so their offsets alone tell.
        """
        return sum(
            by != node or (bool(batch) and batch[0] < fact.next_offset)
            for by, batch in self._ends.get(fact.group, ())
        )


class ExpiredOffsets:
    """Since when each group has no members, and when it last had none for the whole retention."""

    def __init__(self, trace: FactSource, retention_us: int) -> None:
        self.retention_us = retention_us
        self._empty_since: dict[str, int] = {}
        self._expirable: dict[str, int] = {}
        trace.subscribe(facts.GroupState, self._on_state)

    def _on_state(self, _seq: int, t: int, _node: str, fact: facts.GroupState) -> None:
        if not fact.member_ids:
            self._empty_since.setdefault(fact.group, t)
            return
        since = self._empty_since.pop(fact.group, t)
        if t - since >= self.retention_us:
            self._expirable[fact.group] = t

    def cover(self, group: str, committed: int, t: int) -> bool:
        """Return whether a commit of time ``committed`` may be gone at ``t``, both in µs."""
        since = self._empty_since.get(group, t)
        return t - since >= self.retention_us or committed <= self._expirable.get(group, -1)


def is_replaced(log: Any, answer: facts.OffsetFetched, commit: facts.OffsetCommitted) -> bool:
    """Return whether the answer is the last commit of its offset in the coordinator's log, behind
    ``commit``.

    Those of transactions do not count: an answer told of them, or their transaction did not end.
    """
    if log is None or commit.next_offset < 0:
        return False
    key = OffsetCommitKey(answer.group, answer.topic, answer.partition)
    values = [
        record.value
        for batch in log.batches_from(commit.next_offset)
        if batch.base_offset >= commit.next_offset and batch.producer_id < 0
        for record in batch.records
        if record.key == key
    ]
    return bool(values) and values[-1] is not None and values[-1].offset == answer.offset
