"""Which commits an operator has deleted: those before a tombstone in the coordinator's log.

A commit is acknowledged when the high watermark has passed its record. If an operator deletes the
offset meanwhile, the tombstone stands behind the record, and the acknowledgement comes after the
tombstone was appended. So the order of the two in the log decides what the group has, not the order
of their rows in the trace (OffsetMetadataManager.replay; the Scala coordinator forgets the waiting
commit, GroupMetadata.removeOffsets).
"""

from __future__ import annotations

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource

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
