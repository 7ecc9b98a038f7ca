"""Offsets of transactions that have not ended (OffsetMetadataManager.pendingTransactionalOffsets).

They wait here from the record of their commit to the marker of their transaction, which makes them
the group's offsets or drops them.
"""

from __future__ import annotations

from kafkasim.model.group.records import OffsetCommitValue
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value


@value
class PendingOffset:
    """An offset, and where its record is."""

    end_offset: int  # of the log after the batch of the record
    value: OffsetCommitValue
    generation: int  # of the member that committed it, −1 unknown: it was loaded from the log
    member_id: str


PendingOffsets = dict[str, dict[TopicPartition, PendingOffset]]
"""By group."""


class PendingTransactionalOffsets:
    """The pending offsets of one shard, by producer id."""

    __slots__ = ("_by_producer", "_open")

    def __init__(self) -> None:
        self._by_producer: dict[int, PendingOffsets] = {}
        self._open: dict[str, dict[int, None]] = {}  # group to the producers that have offsets

    def add(
        self, producer_id: int, group_id: str, tp: TopicPartition, pending: PendingOffset
    ) -> None:
        """Take the offset of an open transaction; a later one of it replaces an earlier one."""
        groups = self._by_producer.setdefault(producer_id, {})
        groups.setdefault(group_id, {})[tp] = pending
        self._open.setdefault(group_id, {})[producer_id] = None

    def has(self, group_id: str, tp: TopicPartition) -> bool:
        """Return whether a transaction may still change this offset."""
        producers = self._open.get(group_id, ())
        return any(tp in self._by_producer[each].get(group_id, ()) for each in producers)

    def has_open_transaction(self, group_id: str) -> bool:
        """Return whether an open transaction has committed offsets of the group."""
        return group_id in self._open

    def groups(self) -> list[str]:
        """Return the groups that open transactions have committed offsets of."""
        return list(self._open)

    def partitions(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions whose offsets are pending in a group."""
        producers = self._open.get(group_id, ())
        found = [tp for each in producers for tp in self._by_producer[each].get(group_id, ())]
        return list(dict.fromkeys(found))

    def drop(self, group_id: str, tp: TopicPartition) -> list[tuple[int, PendingOffset]]:
        """Forget an offset: a tombstone of it was written. Return it with its producers."""
        found = []
        for each in self._open.get(group_id, ()):
            pending = self._by_producer[each].get(group_id, {}).pop(tp, None)
            if pending is not None:
                found.append((each, pending))
        return found

    def end(self, producer_id: int) -> PendingOffsets:
        """Return all offsets of a producer's transaction, which has ended, and keep none."""
        ended = self._by_producer.pop(producer_id, {})
        for group_id in ended:
            producers = self._open[group_id]
            del producers[producer_id]
            if not producers:
                del self._open[group_id]
        return ended
