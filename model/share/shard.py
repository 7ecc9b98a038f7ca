"""The share partitions of one partition of ``__share_group_state``, and their replay.

Kafka: the maps of ShareCoordinatorShard, with their snapshot registry: what the open batch has
changed is undone if it cannot be appended.
"""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model.coordinator.context import CoordinatorContext
from kafkasim.model.records import Record, RecordBatch
from kafkasim.model.share.offsets_manager import ShareCoordinatorOffsetsManager
from kafkasim.model.share.records import (
    DEFAULT_STATE_EPOCH,
    ShareGroupOffset,
    SharePartitionKey,
    ShareSnapshotKey,
    ShareUpdate,
    ShareUpdateKey,
)
from kafkasim.model.share.state_batches import combine
from kafkasim.model.values import value

NO_TIMESTAMP_MS = 0


@value
class ShareState:
    """What the coordinator knows of a share partition."""

    offset: ShareGroupOffset
    leader_epoch: int  # the highest that was seen
    state_epoch: int  # the highest that was seen
    updates: int | None  # since the last snapshot; None before the first, which counts as 0


class ShareShard:
    """The coordinator's state of one partition under one tenure of this broker."""

    __slots__ = (
        "_batch_base", "_batch_end", "_next_offset", "_undo", "context", "offsets_manager",
        "states", "updates_per_snapshot",
    )  # fmt: skip

    def __init__(self, context: CoordinatorContext, updates_per_snapshot: int) -> None:
        self.context = context
        self.updates_per_snapshot = updates_per_snapshot
        self.states: dict[SharePartitionKey, ShareState] = {}
        self.offsets_manager = ShareCoordinatorOffsetsManager()
        self._batch_end = -1  # of the batch that is loaded now
        self._next_offset = 0  # of its next record
        # What the open batch has changed, and where it begins: state and offset as they were.
        self._undo: dict[SharePartitionKey, tuple[ShareState | None, int | None]] = {}
        self._batch_base = -1

    def replay_transactional(self, batch: RecordBatch, _now_ms: int) -> None:
        """Fail: the coordinator writes its own log without transactions."""
        raise AssertionError(batch)

    def replay(self, record: Record, end_offset: int, _now_ms: int) -> None:
        """Apply a record while the partition is loaded; no cleaner leaves gaps in this topic."""
        if end_offset != self._batch_end:
            self._batch_end, self._next_offset = end_offset, self.context.last_written
        self.apply(record, self._next_offset)
        self._next_offset += 1

    def apply(self, record: Record, offset: int) -> None:
        """Apply a record that is, or will be, at ``offset``."""
        key = record.key
        self._note(key.share_partition)
        if type(key) is ShareUpdateKey:
            assert type(record.value) is ShareUpdate, record
            self._apply_update(key.share_partition, record.value)
            return
        assert type(key) is ShareSnapshotKey, record
        if record.value is None:
            self.states.pop(key.share_partition, None)
        else:
            assert type(record.value) is ShareGroupOffset, record
            self._apply_snapshot(key.share_partition, record.value)
        self.offsets_manager.update_state(key.share_partition, offset)

    def _apply_snapshot(self, key: SharePartitionKey, snapshot: ShareGroupOffset) -> None:
        known = self.states.get(key)
        if known is None:
            leader_epoch, state_epoch = snapshot.leader_epoch, snapshot.state_epoch
            self.states[key] = ShareState(snapshot, leader_epoch, state_epoch, None)
            return
        updates = known.updates
        if updates is not None and updates >= self.updates_per_snapshot:
            updates = 0
        self.states[key] = ShareState(
            snapshot,
            max(known.leader_epoch, snapshot.leader_epoch),
            max(known.state_epoch, snapshot.state_epoch),
            updates,
        )

    def _apply_update(self, key: SharePartitionKey, update: ShareUpdate) -> None:
        known = self.states.get(key)
        if known is None:  # its snapshot is not in the log, which may happen to a cut log only
            offset = ShareGroupOffset(
                update.snapshot_epoch, DEFAULT_STATE_EPOCH, update.leader_epoch,
                update.start_offset, update.state_batches, NO_TIMESTAMP_MS, NO_TIMESTAMP_MS,
            )  # fmt: skip
            self.states[key] = ShareState(offset, update.leader_epoch, DEFAULT_STATE_EPOCH, 0)
            return
        so_far = known.offset
        start_offset = so_far.start_offset if update.start_offset == -1 else update.start_offset
        leader_epoch = so_far.leader_epoch if update.leader_epoch == -1 else update.leader_epoch
        offset = replace(
            so_far,
            start_offset=start_offset,
            leader_epoch=leader_epoch,
            state_batches=combine(so_far.state_batches, update.state_batches, start_offset),
        )
        self.states[key] = ShareState(
            offset,
            max(known.leader_epoch, update.leader_epoch),
            known.state_epoch,
            0 if known.updates is None else known.updates + 1,
        )

    def _note(self, key: SharePartitionKey) -> None:
        """Remember a share partition as it is before its first change in the open batch."""
        context = self.context
        if not context.pending:
            return
        if self._batch_base != context.pending_base:
            self._undo.clear()
            self._batch_base = context.pending_base
        if key not in self._undo:
            self._undo[key] = self.states.get(key), self.offsets_manager.offset_of(key)

    def revert(self) -> None:
        """Undo what the open batch has changed: it could not be appended."""
        if self._batch_base == self.context.pending_base:
            for key, (state, offset) in self._undo.items():
                if state is None:
                    self.states.pop(key, None)
                else:
                    self.states[key] = state
                if self.offsets_manager.offset_of(key) != offset:
                    self.offsets_manager.restore(key, offset)
        self._undo.clear()
        self._batch_base = -1
