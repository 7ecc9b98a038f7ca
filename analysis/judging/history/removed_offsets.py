"""Which commits are gone: deleted by an operator, or expired.

A commit is acknowledged when the high watermark has passed its record. If an operator deletes the
offset meanwhile, the tombstone stands behind the record, and the acknowledgement comes after the
tombstone was appended. So the order of the two in the log decides what the group has, not the order
of their rows in the trace (OffsetMetadataManager.replay; the Scala coordinator forgets the waiting
commit, GroupMetadata.removeOffsets).

A coordinator removes the offsets of an empty group when the retention is over since the last member
left (KIP-211; OffsetMetadataManager.cleanupExpiredOffsets, GroupMetadata.removeExpiredOffsets). The
group's facts tell how long it was empty, so an expiry that the coordinator only believes in covers
nothing (KAFKA-13636). Offsets of topics that a group with members has unsubscribed from expire,
too, and are not known here.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

Offset = tuple[str, str, int]
"""Group, topic name, partition."""


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
