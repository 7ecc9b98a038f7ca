"""Offset syncs: which ones a source task writes, and what a checkpoint task keeps of them."""

from __future__ import annotations

from typing import NamedTuple

from kafkasim.model.connect.rules import MirrorRules
from kafkasim.model.records import TopicPartition

OUTSTANDING = 10
"""How many syncs a task has in flight at most (MAX_OUTSTANDING_OFFSET_SYNCS)."""

SYNCS = 64
"""How many syncs are kept of each partition (SYNCS_PER_PARTITION)."""


class OffsetSync(NamedTuple):
    """The record at offset ``up`` of a source partition is at ``down`` in the target."""

    tp: TopicPartition  # in the source
    up: int
    down: int


class _PartitionState:
    """The last offsets of one partition (OffsetSyncWriter.PartitionState)."""

    def __init__(self, rules: MirrorRules) -> None:
        self._rules = rules
        self.up = self.down = -1
        self.last_sync = (-1, -1)  # up, down

    def is_due(self, up: int, down: int, lag_max: int) -> bool:
        """Take the offsets of an acknowledged record; return whether to sync them now."""
        due = (
            self.last_sync[1] == -1
            or self._rules.sync_is_stale(up, down, *self.last_sync, lag_max)
            or up - self.up != 1
            or down < self.down
        )
        if due:
            self.last_sync = up, down
        self.up, self.down = up, down
        return due


class OffsetSyncWriter:
    """Which offset syncs a source task sends, and when (OffsetSyncWriter).

    A sync that is due is pending until fewer than ten are in flight. One that is not due waits
    for the next commit of source offsets, so that a quiet partition does not stay behind.
    """

    def __init__(self, rules: MirrorRules, lag_max: int) -> None:
        """``lag_max`` is offset.lag.max."""
        self._rules = rules
        self._lag_max = lag_max
        self._states: dict[TopicPartition, _PartitionState] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._pending: dict[TopicPartition, OffsetSync] = {}
        self._in_flight = 0

    def acknowledged(self, sync: OffsetSync) -> None:
        """Take the offsets of a record that the target has acknowledged."""
        state = self._states.setdefault(sync.tp, _PartitionState(self._rules))
        due = state.is_due(sync.up, sync.down, self._lag_max)
        if not self._rules.queues_syncs() and not (due and self._in_flight < OUTSTANDING):
            return
        if due:
            self._delayed.pop(sync.tp, None)
            self._pending[sync.tp] = sync
        else:
            self._delayed[sync.tp] = sync

    def promote(self) -> None:
        """Make all delayed syncs pending (promoteDelayedOffsetSyncs)."""
        self._pending |= self._delayed
        self._delayed.clear()

    def take(self) -> list[OffsetSync]:
        """Return the syncs to send now; each must be :meth:`answered` later."""
        taken = list(self._pending.values())[: OUTSTANDING - self._in_flight]
        for sync in taken:
            del self._pending[sync.tp]
        self._in_flight += len(taken)
        return taken

    def answered(self) -> None:
        """Note that a sync that was sent is acknowledged, or has failed."""
        self._in_flight -= 1


class OffsetSyncStore:
    """The syncs of each source partition, denser near the newest one (OffsetSyncStore).

    ``[0]`` is the newest. An older one may be kept at index j only as long as it is at most 2^j
    offsets behind it (invariant B), and neighbours are apart (invariant C).
    """

    def __init__(self, rules: MirrorRules, *, checkpoints_read: bool) -> None:
        """``checkpoints_read``: whether the earlier checkpoints are known at the start.

        If they are not, only the last sync that was there then counts, so that checkpoints do not
        go back.
        """
        self._rules = rules
        self._must_read_to_end = rules.only_last_sync_at_start(checkpoints_read)
        self._syncs: dict[TopicPartition, list[OffsetSync]] = {}
        self.read_to_end = False  # until then nothing is translated

    def take(self, sync: OffsetSync) -> None:
        """Take a sync that was read."""
        known = self._syncs.get(sync.tp)
        loads_last = not self.read_to_end and self._must_read_to_end
        only_last = loads_last or not self._rules.keeps_older_syncs()
        if known is None or only_last or sync.up < known[0].up:
            self._syncs[sync.tp] = [sync] * SYNCS
        else:
            self._syncs[sync.tp] = _with(known, sync)

    def translate(self, tp: TopicPartition, offset: int) -> int | None:
        """Return where in the target a group continues that has committed ``offset``.

        −1: it is behind all syncs; None: nothing is known of the partition.
        """
        syncs = self._syncs.get(tp)
        if not self.read_to_end and self._rules.waits_for_syncs():
            return None
        if syncs is None:
            return self._rules.translated_without_sync(offset)
        found = next((sync for sync in syncs if sync.up <= offset), None)
        return -1 if found is None else self._rules.translated(found.up, found.down, offset)


def _with(known: list[OffsetSync], sync: OffsetSync) -> list[OffsetSync]:
    """Return the syncs of a partition with a newer one (updateSyncArray)."""
    syncs, replacement, source = list(known), sync, 0
    syncs[0] = sync
    for current in range(1, SYNCS):
        before = syncs[current - 1]
        while True:
            old = known[source]
            is_recent = _invariant_b(before, old, current - 1, current)
            is_apart = _invariant_c(before, old, current - 1)
            following = current + 1
            from_next = following >= SYNCS or _invariant_c(old, syncs[following], current)
            is_same = source + 1 < SYNCS and old is known[source + 1]
            promoted = is_recent and is_apart and from_next
            if promoted:
                replacement = old
            skipped = is_same or not is_apart
            if promoted or skipped:
                source += 1
            if not (source < current and skipped):
                break
        if _invariant_b(before, syncs[current], current - 1, current):
            break
        syncs[current] = replacement
    return syncs


def _invariant_b(one: OffsetSync, other: OffsetSync, i: int, j: int) -> bool:
    return one is other or one.up <= other.up + (1 << j) - (1 << i)


def _invariant_c(one: OffsetSync, other: OffsetSync, i: int) -> bool:
    return one is other or one.up >= other.up + (1 << max(i - 2, 0))
