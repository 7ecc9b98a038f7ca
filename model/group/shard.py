"""The groups and committed offsets of one partition of ``__consumer_offsets``, and their replay.

Kafka: GroupCoordinatorShard with its snapshot registry. An offset keeps its uncommitted versions
beside the committed one, so that a read can ask for the committed or for the last one. Groups have
no versions. A classic group writes one record, at the end of a rebalance. The state of a consumer
group follows from its records alone.
"""

from __future__ import annotations

from kafkasim.model.coordinator.context import CoordinatorContext
from kafkasim.model.coordinator.loader import ReplayFailed
from kafkasim.model.group.classic.group import ClassicGroup
from kafkasim.model.group.modern.log.records import CONSUMER_GROUP_KEYS
from kafkasim.model.group.modern.log.replay import replay
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup, OwnershipRules
from kafkasim.model.group.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkasim.model.group.share.log.records import SHARE_GROUP_KEYS
from kafkasim.model.group.share.log.replay import replay_share_group
from kafkasim.model.group.share.log.state import ShareGroup
from kafkasim.model.group.transactional.pending import (
    PendingOffset,
    PendingOffsets,
    PendingTransactionalOffsets,
)
from kafkasim.model.group.unflushed import UnflushedChanges
from kafkasim.model.records import Record, RecordBatch, TopicPartition

Versions = list[tuple[int, OffsetCommitValue | None]]
"""(offset after the batch, value) of one committed offset, rising; None is a tombstone."""


class GroupShard:
    """The coordinator's state of one offsets partition under one tenure of this broker."""

    __slots__ = (
        "_materialized",
        "_rules",
        "_unflushed",
        "consumer_groups",
        "context",
        "groups",
        "offsets",
        "pending",
        "share_groups",
    )

    def __init__(self, context: CoordinatorContext, rules: OwnershipRules) -> None:
        self.context = context
        self._rules = rules
        self._unflushed = UnflushedChanges(context)
        self.consumer_groups: dict[str, ConsumerGroup] = {}  # a group is here or in ``groups``
        self.groups: dict[str, ClassicGroup] = {}
        self.share_groups: dict[str, ShareGroup] = {}
        self.offsets: dict[str, dict[TopicPartition, Versions]] = {}  # by group id
        self.pending = PendingTransactionalOffsets()
        # (group, partition): the version that a marker made, and where its own record ends.
        self._materialized: dict[tuple[str, TopicPartition], tuple[int, int]] = {}

    def latest(self, group_id: str, tp: TopicPartition) -> OffsetCommitValue | None:
        """Return the offset that was appended last, whether it is committed or not."""
        versions = self.offsets.get(group_id, {}).get(tp)
        return versions[-1][1] if versions else None

    def committed(self, group_id: str, tp: TopicPartition) -> OffsetCommitValue | None:
        """Return the newest offset below the high watermark."""
        for end_offset, value in reversed(self.offsets.get(group_id, {}).get(tp, ())):
            if end_offset <= self.context.last_committed:
                return value
        return None

    def record_end(self, group_id: str, tp: TopicPartition, offset: int) -> int:
        """Return where the newest record of this offset ends, or its marker, −1 if none does."""
        for end_offset, value in reversed(self.offsets.get(group_id, {}).get(tp, ())):
            if value is not None and value.offset == offset:
                return end_offset
        return -1

    def stored(self, group_id: str) -> list[TopicPartition]:
        """Return the partitions for which an offset was appended last, and not a tombstone."""
        slot = self.offsets.get(group_id, {})
        return [tp for tp in slot if self.latest(group_id, tp) is not None]

    def has_offsets(self, group_id: str) -> bool:
        """Return whether a group has offsets, or an open transaction has committed some of it."""
        return bool(self.stored(group_id)) or self.pending.has_open_transaction(group_id)

    def forget_offsets(self, group_id: str, gone: list[TopicPartition]) -> None:
        """Forget offsets, those that are not committed yet included; nothing need be in the log."""
        slot = self.offsets.get(group_id, {})
        for tp in gone:
            self.pending.drop(group_id, tp)
            slot.pop(tp, None)
        if not slot:
            self.offsets.pop(group_id, None)

    def replay_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, end_offset: int
    ) -> None:
        """Apply a record of an offset: the record that is later in the log wins (KAFKA-5247)."""
        slot = self.offsets.setdefault(key.group, {})
        tp = TopicPartition(key.topic, key.partition)
        self._unflushed.note_offset(key.group, tp)
        if value is None:
            dropped = self.pending.drop(key.group, tp)
            self._unflushed.note_dropped(key.group, tp, dropped)
        versions = slot.setdefault(tp, [])
        assert not versions or versions[-1][0] <= end_offset, (key, versions, end_offset)
        versions.append((end_offset, value))
        while len(versions) > 1 and versions[1][0] <= self.context.last_committed:
            del versions[0]

    def replay_marker(self, producer_id: int, committed: bool, end_offset: int) -> PendingOffsets:
        """Apply a marker; return the offsets that are the group's now, none if it aborts.

        Of two commits the one whose record is later in the log wins, whenever its transaction ends.
        ``end_offset`` is the offset after the marker. (replayEndTransactionMarker)
        """
        won: PendingOffsets = {}
        for group_id, offsets in self.pending.end(producer_id).items():
            for tp, pending in offsets.items():
                if committed and pending.end_offset > self._record_end(group_id, tp):
                    key = OffsetCommitKey(group_id, tp.topic, tp.partition)
                    self.replay_offset(key, pending.value, end_offset)
                    self._materialized[group_id, tp] = (end_offset, pending.end_offset)
                    won.setdefault(group_id, {})[tp] = pending
        return won

    def _record_end(self, group_id: str, tp: TopicPartition) -> int:
        """Return where the record of the newest offset ends, −1 if there is none."""
        versions = self.offsets.get(group_id, {}).get(tp)
        if not versions or versions[-1][1] is None:
            return -1
        version, record_end = self._materialized.get((group_id, tp), (-1, -1))
        return record_end if version == versions[-1][0] else versions[-1][0]

    def replay_transactional(self, batch: RecordBatch, now_ms: int) -> None:
        """Apply a transaction's offsets, or its marker, while the partition is loaded.

        The cleaner may have left a batch without its marker (CoordinatorLoaderImpl reads records).
        """
        if batch.control:
            for record in batch.records:
                self.replay_marker(batch.producer_id, record.value.committed, batch.next_offset)
            return
        for record in batch.records:
            key = record.key
            assert type(key) is OffsetCommitKey, record
            pending = PendingOffset(batch.next_offset, record.value, -1, "")
            tp = TopicPartition(key.topic, key.partition)
            self.pending.add(batch.producer_id, key.group, tp, pending)
            self.add_simple_group(key.group, now_ms)

    def add_simple_group(self, group_id: str, now_ms: int) -> None:
        """Add the group of a simple consumer, which only has offsets, unless the id is taken."""
        known = group_id in self.groups or group_id in self.consumer_groups
        if not known and group_id not in self.share_groups:
            self.put_classic(ClassicGroup(group_id, now_ms))

    def put_classic(self, group: ClassicGroup) -> None:
        """Add a classic group, whose record is appended."""
        self._note_group(group.group_id)
        self.groups[group.group_id] = group

    def remove_classic(self, group_id: str) -> None:
        """Forget a classic group, whose tombstone is appended."""
        self._note_group(group_id)
        self.groups.pop(group_id, None)

    def _note_group(self, group_id: str) -> None:
        classic, modern = self.groups.get(group_id), self.consumer_groups.get(group_id)
        self._unflushed.note_group(group_id, classic, modern)

    def revert(self) -> dict[str, tuple[ClassicGroup | None, ConsumerGroup | None]]:
        """Undo what the open batch has changed: it could not be appended.

        Return the groups that it had changed, as they were then.
        """
        changes, undone = self._unflushed, {}
        changes.of_batch(self.context.pending_base)
        for group_id, (classic, modern) in changes.groups.items():
            now_classic = self.groups.pop(group_id, None)
            now_modern = self.consumer_groups.pop(group_id, None)
            undone[group_id] = now_classic, now_modern
            if classic is not None:
                self.groups[group_id] = classic
            if modern is not None:
                self.consumer_groups[group_id] = modern
                if now_modern is not None:  # the lookup of topics is in no record
                    modern.refresh_deadline_us = now_modern.refresh_deadline_us
                    modern.refresh_epoch = now_modern.refresh_epoch
        for group_id, tp in changes.offsets:
            versions = self.offsets[group_id][tp]
            while versions and versions[-1][0] > self.context.last_written:
                versions.pop()
            if not versions:
                del self.offsets[group_id][tp]
            if not self.offsets[group_id]:
                del self.offsets[group_id]
        for producer_id, group_id, tp, pending in changes.dropped:
            self.pending.add(producer_id, group_id, tp, pending)
        changes.forget()
        return undone

    def revert_share_groups(self) -> list[str]:
        """Undo what the open batch has changed in share groups; return which. Before revert()."""
        changes = self._unflushed
        changes.of_batch(self.context.pending_base)
        for group_id, group in changes.share_groups.items():
            now = self.share_groups.pop(group_id, None)
            if group is not None:
                self.share_groups[group_id] = group
                if now is not None:  # the lookup of topics is in no record
                    group.refresh_deadline_us = now.refresh_deadline_us
                    group.refresh_epoch = now.refresh_epoch
        return list(changes.share_groups)

    def drop_tombstones(self) -> None:
        """Forget the offsets whose tombstone is committed."""
        for group_id in list(self.offsets):
            slot = self.offsets[group_id]
            for tp in list(slot):
                end_offset, value = slot[tp][-1]
                if value is None and end_offset <= self.context.last_committed:
                    del slot[tp]
            if not slot:
                del self.offsets[group_id]

    def replay(self, record: Record, end_offset: int, now_ms: int) -> None:
        """Apply a record; groups become what their records say.

        Every record while the partition is loaded, afterwards those of consumer groups.
        """
        key = record.key
        if type(key) is OffsetCommitKey:
            self.replay_offset(key, record.value, end_offset)
            if record.value is not None:
                self.add_simple_group(key.group, now_ms)
            return
        if type(key) in CONSUMER_GROUP_KEYS:
            self._note_group(key.group)
            replay(self.consumer_groups, self._create, key, record.value)
            return
        if type(key) in SHARE_GROUP_KEYS:
            self._unflushed.note_share_group(key.group, self.share_groups.get(key.group))
            replay_share_group(
                self.share_groups, self._create_share_group, key, record.value, now_ms
            )
            return
        assert type(key) is GroupMetadataKey, record
        value = record.value
        if value is None:
            self.remove_classic(key.group)
        else:
            assert type(value) is GroupMetadataValue, record
            self.put_classic(ClassicGroup.of_record(key.group, value))

    def _create(self, group_id: str) -> ConsumerGroup:
        """Make a consumer group; the group of a simple consumer, which has no record, gives way."""
        simple = self.groups.get(group_id)
        if group_id in self.share_groups or not (simple is None or simple.protocol_type is None):
            raise ReplayFailed(f"{group_id} is not a consumer group")
        self.groups.pop(group_id, None)
        group = self.consumer_groups[group_id] = ConsumerGroup(group_id, self._rules)
        return group

    def _create_share_group(self, group_id: str) -> ShareGroup:
        """Make a share group (getOrMaybeCreatePersistedShareGroup)."""
        if group_id in self.groups or group_id in self.consumer_groups:
            raise ReplayFailed(f"{group_id} is not a share group")
        group = self.share_groups[group_id] = ShareGroup(group_id)
        return group
