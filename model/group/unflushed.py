"""What a batch has changed that is not in the log yet, so that it can be undone (Kafka: snapshots).

A shard notes what it is about to change. When the batch cannot be appended, groups are again what
they were before it, and its offsets are gone. A group is copied once a batch, an offset not at all:
its versions tell where they end.
"""

from __future__ import annotations

from kafkasim.model.coordinator.context import CoordinatorContext
from kafkasim.model.group.classic.group import ClassicGroup
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.share.log.state import ShareGroup
from kafkasim.model.group.transactional.pending import PendingOffset
from kafkasim.model.records import TopicPartition

Known = tuple[ClassicGroup | None, ConsumerGroup | None]
"""The classic or the consumer group of an id, as it was."""


class UnflushedChanges:
    """The changes of the batch that is open in a partition."""

    __slots__ = ("_base", "_context", "dropped", "groups", "offsets", "share_groups")

    def __init__(self, context: CoordinatorContext) -> None:
        self._context = context
        self._base = -1  # where the batch begins that these changes are of
        self.groups: dict[str, Known] = {}
        self.share_groups: dict[str, ShareGroup | None] = {}
        self.offsets: dict[tuple[str, TopicPartition], None] = {}
        self.dropped: list[tuple[int, str, TopicPartition, PendingOffset]] = []

    def open(self) -> bool:
        """Return whether changes have to be noted now: a batch is open."""
        if not self._context.pending:
            return False
        self.of_batch(self._context.pending_base)
        return True

    def of_batch(self, base: int) -> None:
        """Forget the changes of an earlier batch than the one that begins at ``base``.

        That one is in the log: a revert ends at the base of the batch that failed.
        """
        if self._base != base:
            self.forget()
            self._base = base

    def forget(self) -> None:
        """Forget the changes: they are undone, or another batch is open."""
        self._base = -1  # the batch after a lost one begins where that did
        self.groups.clear()
        self.share_groups.clear()
        self.offsets.clear()
        self.dropped.clear()

    def note_group(
        self, group_id: str, classic: ClassicGroup | None, modern: ConsumerGroup | None
    ) -> None:
        """Keep a group as it is before its first change in this batch."""
        if self.open() and group_id not in self.groups:
            self.groups[group_id] = classic, None if modern is None else modern.copy()

    def note_share_group(self, group_id: str, group: ShareGroup | None) -> None:
        """Keep a share group as it is before its first change in this batch."""
        if self.open() and group_id not in self.share_groups:
            self.share_groups[group_id] = None if group is None else group.copy()

    def note_offset(self, group_id: str, tp: TopicPartition) -> None:
        """Remember that an offset gets a new version in this batch."""
        if self.open():
            self.offsets[group_id, tp] = None

    def note_dropped(
        self, group_id: str, tp: TopicPartition, dropped: list[tuple[int, PendingOffset]]
    ) -> None:
        """Remember the offsets of transactions that a tombstone has dropped."""
        if dropped and self.open():
            self.dropped += [(each, group_id, tp, pending) for each, pending in dropped]
