"""Taking snapshots of the replicated state, and deleting the log below them (KIP-630).

Models KafkaMetadataLog.createNewSnapshot and maybeClean, and RaftMetadataLogCleanerManager. A
snapshot is made durable as ``.part``, renamed, and its name is made durable; only then does
anything rely on it. A snapshot of a replica's own state moves nothing by itself. Every minute the
oldest snapshot is deleted while log and snapshots are larger or older than the retention, and with
it the log below the next snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.effects import Flush
from kafkasim.model.facts import MetadataSnapshot
from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.log.replicated_log import ReplicatedLog
from kafkasim.model.raft.log.snapshot_store import SnapshotHeader, SnapshotId
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.voters import VoterSets
from kafkasim.model.storage.files import DiskError

CLEAN_TIMER = (LANE, "clean")
CLEAN_INTERVAL_US = 60_000_000
CHUNK = 100  # values in one chunk


class Snapshots:
    """Writes, installs and cleans the snapshots of one replica."""

    def __init__(
        self, context: RaftContext, quorum: QuorumState, voters: VoterSets, log: ReplicatedLog
    ) -> None:
        self._context = context
        self._quorum = quorum
        self._voters = voters
        self._log = log
        self.store = log.snapshots

    def create(self, message: tuple[int, int, list[Any]], now: int) -> None:
        """Write a snapshot (end offset, epoch, values) of committed state, unless there is one."""
        end_offset, epoch, values = message
        snapshot = (end_offset, epoch)
        log = self._log
        if self._quorum.halted or end_offset < log.log.log_start_offset:
            return
        if snapshot in self.store.ids:
            return
        assert end_offset <= log.high_watermark, (end_offset, log.high_watermark)
        header = SnapshotHeader(self._context.process.wall_ms(now), self._voters.at(end_offset))
        chunks = [tuple(values[at : at + CHUNK]) for at in range(0, len(values), CHUNK)]
        try:
            self.store.begin(snapshot)
            for chunk in (header, *chunks):
                self.store.append(snapshot, chunk)
        except DiskError as error:
            self._quorum.halt(str(error))
            return
        self.install(snapshot, partial(self._created, snapshot), now)

    def install(self, snapshot: SnapshotId, done: Callable[[int], None], now: int) -> None:
        """Make a finished file durable, rename it, make the name durable; then call ``done``."""
        part = self.store.part(snapshot)
        self._context.out.append(Flush((part,), partial(self._freeze, snapshot, done)))

    def _freeze(
        self, snapshot: SnapshotId, done: Callable[[int], None], error: str | None, now: int
    ) -> None:
        if self._quorum.halted:
            return
        if error is not None:
            self._quorum.halt(error)
            return
        try:
            self.store.freeze(snapshot)
        except DiskError as failure:
            self._quorum.halt(str(failure))
            return
        path = self.store.path(snapshot)
        self._context.out.append(Flush((path,), partial(self._frozen, done)))

    def _frozen(self, done: Callable[[int], None], error: str | None, now: int) -> None:
        if error is not None:
            self._quorum.halt(error)
        elif not self._quorum.halted:
            self.arm_cleaning(now)
            done(now)

    def _created(self, snapshot: SnapshotId, now: int) -> None:
        self._context.out.append(MetadataSnapshot("created", *snapshot))

    # ----------------------------------------------------------------------------- cleaning

    def arm_cleaning(self, now: int) -> None:
        """Clean every minute from now on; for a replica that has a snapshot."""
        timers = self._context.timers
        if not timers.armed(CLEAN_TIMER):
            timers.arm(CLEAN_TIMER, now + CLEAN_INTERVAL_US, LANE, self._on_clean)

    def _on_clean(self, now: int) -> None:
        if self._quorum.halted:
            return
        self.arm_cleaning(now)
        try:
            self.clean(now)
        except DiskError as error:
            self._quorum.halt(str(error))

    def clean(self, now: int) -> None:
        """Delete old snapshots, and the log below those that remain (KafkaMetadataLog.maybeClean).

        Raises:
            DiskError: the disk refused.
        """
        config, store = self._context.config, self.store
        total = sum([store.size(each) for each in store.ids])
        now_ms = self._context.process.wall_ms(now)
        for old, following in zip(list(store.ids), store.ids[1:], strict=False):
            too_large = 0 <= config.metadata_max_retention_bytes < self._log.log.size + total
            if not too_large and not self._is_old(old, now_ms):
                return
            total -= store.size(old)
            if not self._log.delete_before_snapshot(following, now_ms):
                return
            self._context.out.append(MetadataSnapshot("cleaned", *following))

    def _is_old(self, snapshot: SnapshotId, now_ms: int) -> bool:
        retention_ms = self._context.config.metadata_max_retention_ms
        age_ms = now_ms - self.store.header(snapshot).last_contained_log_timestamp_ms
        return 0 <= retention_ms < age_ms
