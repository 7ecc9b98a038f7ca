"""The replicated log of one replica (Kafka: the interface ReplicatedLog and KafkaMetadataLog).

It is the :class:`~kafkasim.model.storage.log.unified_log.UnifiedLog` with what Raft adds: the
quorum's high watermark, the snapshots, and the voter sets, which follow each append and truncation.
"""

from __future__ import annotations

from kafkasim.model.raft.log.snapshot_store import SnapshotId, SnapshotStore
from kafkasim.model.raft.quorum.voters import VoterSets
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.log.validation import AppendOrigin, AppendResult


class ReplicatedLog:
    """A log, its snapshots, and how much of it the quorum has committed.

    Everything below ``high_watermark`` is committed, as far as this replica knows. It never falls,
    and it starts at 0: a replica learns it anew after each restart.
    """

    __slots__ = ("_voters", "high_watermark", "log", "snapshots")

    def __init__(self, log: UnifiedLog, snapshots: SnapshotStore, voters: VoterSets) -> None:
        self.log = log
        self.snapshots = snapshots
        self._voters = voters
        self.high_watermark = 0

    @property
    def end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record; of the newest snapshot if the log is empty; or 0."""
        latest = self.log.epochs.latest_epoch
        if latest >= 0:
            return latest
        snapshot = self.snapshots.latest
        return 0 if snapshot is None else snapshot[1]

    def read_voters(self, now: int) -> None:
        """Take over the voter sets that the log holds; once, at start."""
        for batch in self.log.batches_from(self.log.log_start_offset):
            self._voters.appended(batch, now)

    def update_high_watermark(self, high_watermark: int) -> None:
        """Note that everything below ``high_watermark`` is committed."""
        self.high_watermark = high_watermark
        self.log.update_high_watermark(high_watermark)

    # ------------------------------------------------------------------------------- appending

    def append_as_leader(
        self, batch: RecordBatch, epoch: int, now_ms: int, now: int
    ) -> AppendResult:
        """Append a batch of the leader's own.

        Raises:
            DiskError: the disk refused the write.
        """
        result = self.log.append_as_leader(batch, epoch, now_ms, AppendOrigin.RAFT_LEADER)
        if result.batch is not None:
            self._voters.appended(result.batch, now)
        return result

    def append_as_follower(
        self, batches: tuple[RecordBatch, ...], epoch: int, now_ms: int, now: int
    ) -> AppendResult:
        """Append batches that the leader of ``epoch`` sent.

        Raises:
            DiskError: the disk refused the write.
        """
        result = self.log.append_as_follower(batches, epoch, now_ms)
        for batch in batches:
            if batch.last_offset <= result.last_offset:
                self._voters.appended(batch, now)
        return result

    # ------------------------------------------------------------------ divergence (KIP-595)

    def diverging(self, offset: int, epoch: int) -> tuple[int, int] | None:
        """Return None if a log that ends at ``offset`` with ``epoch`` is a prefix of this one.

        Otherwise return (epoch, end offset): the largest epoch here that is not above the given
        one, and where it ends here (ReplicatedLog.validateOffsetAndEpoch).
        """
        if offset == 0 and epoch == 0 and self.log.log_start_offset == 0:
            return None
        known, end_offset = self.log.epochs.end_offset_for(epoch, self.end_offset)
        if known != epoch or end_offset < offset:
            return known, end_offset
        return None

    def truncation_offset(self, epoch: int, end_offset: int) -> int:
        """Return where this log leaves the leader's, which says that ``epoch`` ends there at
        ``end_offset`` (ReplicatedLog.truncateToEndOffset)."""
        known, own_end = self.log.epochs.end_offset_for(epoch, self.end_offset)
        if known == epoch:
            return min(own_end, end_offset)
        return max(own_end, self.log.log_start_offset)

    def truncate_to(self, offset: int, now: int) -> None:
        """Cut the log at ``offset``, and go back to the voter set that it still holds."""
        self.log.truncate_to(offset)
        self._voters.truncated(offset, now)

    # ------------------------------------------------------------------- snapshots (KIP-630)

    def snapshot_needed(self, offset: int, epoch: int) -> SnapshotId | None:
        """Return the snapshot that a replica must load before it can fetch, or None.

        ``offset`` is the replica's log end and ``epoch`` that of its last record. It needs one if
        it is empty, lies below the log start, or ends in an epoch that is no longer known here.
        """
        ids = self.snapshots.ids
        if not ids or (offset, epoch) in ids:
            return None
        start = self.log.log_start_offset
        if offset == 0 or offset < start or epoch < ids[0][1]:
            return ids[-1]
        if offset == start and start > 0 and epoch != ids[0][1]:
            return ids[-1]
        return None

    def truncate_to_latest_snapshot(self, now: int) -> SnapshotId | None:
        """Start the log anew at the end of the newest snapshot if that is beyond the log; use the
        snapshot's voters. Return the snapshot, None without one
        (KafkaMetadataLog.truncateToLatestSnapshot).

        Raises:
            DiskError: the snapshot cannot be read.
        """
        latest = self.snapshots.latest
        if latest is not None:
            self.start_at_snapshot(latest, now)
        return latest

    def start_at_snapshot(self, snapshot: SnapshotId, now: int) -> None:
        """Start the log anew at the end of a snapshot that is beyond it; use its voters.

        Raises:
            DiskError: the snapshot cannot be read.
        """
        end_offset, epoch = snapshot
        latest_epoch = max(self.log.epochs.latest_epoch, 0)
        if (epoch, end_offset) > (latest_epoch, self.end_offset):
            self.log.truncate_fully_and_start_at(end_offset)
            self.snapshots.delete_before(snapshot)
        self._voters.loaded(end_offset, self.snapshots.header(snapshot).voters, now)

    def delete_before_snapshot(self, snapshot: SnapshotId, now_ms: int) -> bool:
        """Delete the log and the snapshots below a snapshot; return whether that was possible.

        It is not if the snapshot is not committed yet, or the log starts at its end already.
        """
        log = self.log
        if snapshot[0] > log.high_watermark or not log.raise_log_start(snapshot[0], "snapshot"):
            return False
        log.delete_old_segments(now_ms)
        self.snapshots.delete_before(snapshot)
        return True
