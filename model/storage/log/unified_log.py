"""One replica's log (Kafka: UnifiedLog): offsets, leader epochs, producers and their order.

The partitions of a broker and the metadata quorum use the same class. The segments themselves are
a :class:`~kafkasim.model.storage.log.local_log.LocalLog` (``local``), as in Kafka.

All calls are synchronous. Where Kafka fsyncs before it goes on, the log appends a Barrier to
``out``; where Kafka fsyncs in the background, it appends a Flush. A :class:`DiskError` propagates
to the caller, who takes the log directory offline; nothing may be appended to the log after that.

The log reports one fact itself, LogStart. Appended, Truncated, HighWatermark and LogLoaded need
knowledge that only the partition has, so the partition reports them.
Left out: tiered storage, down-conversion of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kafkasim.model.compression import STATED_RATIOS, Compressor
from kafkasim.model.config import MAX_LONG, TopicConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import LogStart
from kafkasim.model.records import NO_TIMESTAMP, RecordBatch, TopicPartition, assigned
from kafkasim.model.storage.checkpoints import write_topic_id
from kafkasim.model.storage.files import DiskError, Files
from kafkasim.model.storage.log import recovery, retention
from kafkasim.model.storage.log.epochs import LeaderEpochCache
from kafkasim.model.storage.log.local_log import LocalLog
from kafkasim.model.storage.log.producers.state_manager import ProducerStateManager
from kafkasim.model.storage.log.producers.transactions import NO_UNSTABLE_OFFSET
from kafkasim.model.storage.log.producers.verification import VerificationStateEntry
from kafkasim.model.storage.log.segment import Segment
from kafkasim.model.storage.log.validation import (
    AppendOrigin,
    AppendResult,
    invalid,
    out_of_range,
    recompressed,
    stamped,
)
from kafkasim.model.storage.rules import StorageRules

MAX_EPOCH = 2**31 - 1
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


class UnifiedLog:
    """A log. ``log_start_offset <= high_watermark <= log_end_offset`` at all times, and
    ``log_start_offset <= last_stable_offset <= high_watermark``.

    ``on_disk_error`` is called when a background flush fails; the owner of the log sets it to what
    takes the log directory offline. It also sets ``compressor``, which counts in a topic with a
    compression.type of its own. ``on_log_start`` is called when the log start has moved; who copies
    the log from a leader sets it.
    """

    compressor: Compressor = STATED_RATIOS
    on_log_start: Callable[[], None] | None = None

    def __init__(
        self,
        files: Files,
        out: list[Any],
        directory: str,
        tp: TopicPartition,
        topic_id: str,
        config: TopicConfig,
        rules: StorageRules,
        *,
        clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        high_watermark: int = 0,
        now_ms: int = 0,
        producer_id_expiration_ms: int = 86400000,
        verifies_transactions: bool = False,
    ) -> None:
        """Load what ``files`` has below ``directory``, or create an empty log there.

        ``clean`` says that the broker stopped cleanly; the offsets are those of the checkpoints.
        """
        self.tp = tp
        self.topic_id = topic_id
        self.files = files
        self.out = out
        self.directory = directory
        self.rules = rules
        self.on_disk_error: Callable[[DiskError], None] = raise_disk_error
        self.local = local = LocalLog(
            files, out, directory, config, rules, recovery_point, now_ms, self._disk_failed
        )
        self.update_config(config)
        epoch_path = f"{directory}/{EPOCH_CHECKPOINT}"
        self.epochs = LeaderEpochCache(files, out, epoch_path, rules, self._disk_failed)
        self.producers = ProducerStateManager(
            files, directory, producer_id_expiration_ms, rules, verifies_transactions
        )
        self.transactions = self.producers.transactions
        self._counts_early = rules.counts_batches_before_append()
        metadata = write_topic_id(files, directory, topic_id, tp)
        if metadata is not None:
            local.flush_then_advance((metadata,), 0)
        self.log_start_offset = recovery.load(
            local, self.epochs, self.producers, log_start_offset, clean, now_ms
        )
        self.high_watermark = rules.high_watermark_after_load(
            high_watermark, self.log_start_offset, local.log_end_offset
        )
        self.transactions.on_high_watermark(self.high_watermark)

    def update_config(self, config: TopicConfig) -> None:
        """Use new topic settings from now on."""
        self.config = self.local.config = config
        self._max_message_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_size
        self._segment_ms = config.max_segment_ms
        self.compacted = config.compacted
        self._compression = config.compression_type
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._timestamp_after_ms = config.message_timestamp_after_max_ms
        self._has_oldest = config.message_timestamp_before_max_ms < MAX_LONG

    # ---------------------------------------------------------------------- what the segments say

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.local.log_end_offset

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is durable."""
        return self.local.recovery_point

    @property
    def segments(self) -> list[Segment]:
        """The segments, oldest first; the last one is active."""
        return self.local.segments

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return self.local.size

    @property
    def last_stable_offset(self) -> int:
        """The first offset that a read_committed consumer may not read: all below are decided."""
        unstable = self.transactions.first_unstable_offset
        if unstable >= self.high_watermark:
            return self.high_watermark
        return unstable if unstable > self.log_start_offset else self.log_start_offset

    @property
    def last_batch(self) -> RecordBatch | None:
        """The batch at the log end; None if the active segment is empty."""
        batches = self.local.segments[-1].batches
        return batches[-1] if batches else None

    def read(
        self, offset: int, max_bytes: int, upper_bound: int, min_one: bool = True
    ) -> tuple[RecordBatch, ...]:
        """Return batches from ``offset`` on; see :meth:`LocalLog.read`."""
        return self.local.read(offset, max_bytes, upper_bound, min_one)

    def batches_from(self, offset: int) -> Iterator[RecordBatch]:
        """Iterate over the batches from the one that contains ``offset`` up to the log end."""
        return self.local.batches_from(offset)

    # ------------------------------------------------------------------------------- appending

    def append_as_leader(
        self,
        batch: RecordBatch,
        leader_epoch: int,
        now_ms: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        version: int = 0,
        guard: VerificationStateEntry | None = None,
    ) -> AppendResult:
        """Validate a new batch, give it the next offset and ``leader_epoch``, and append it.

        A client's batch is validated in full, a coordinator's by its size and producer epoch
        (analyzeAndValidateRecords). ``version`` is that of a marker's transaction, ``guard`` comes
        from a verification. An error changes nothing.

        Raises:
            DiskError: the disk refused the write.
        """
        size, client = batch.size, origin is AppendOrigin.CLIENT
        if origin is not AppendOrigin.RAFT_LEADER and size > self._max_message_bytes:
            return AppendResult(Errors.MESSAGE_TOO_LARGE, None, -1, -1)
        if client:
            error, batch = self._validated(batch, now_ms)
            if error is not NONE:
                return AppendResult(error, None, -1, -1)
            size = batch.size
        if size > self._segment_bytes:
            return AppendResult(Errors.RECORD_LIST_TOO_LARGE, None, -1, -1)
        if self._log_append_time:
            batch = stamped(batch, now_ms)
        base_offset = self.local.log_end_offset
        batch = assigned(batch, base_offset, leader_epoch)
        if not self._counts_early:
            self._make_room((batch,), size, now_ms)  # even if the producer is refused below
        if batch.producer_id >= 0:
            entry = self.producers.entries.get(batch.producer_id)
            if client and entry is not None:
                known = self.rules.find_duplicate(entry, batch)
                if known is not None:
                    first = known[2] - known[3]
                    return AppendResult(NONE, None, first, known[2], True, known[4])
            error = self.producers.check(batch, client, version, guard)
            if error is not NONE:
                return AppendResult(error, None, -1, -1)
        self._write((batch,), size, now_ms)
        time_ms = now_ms if self._log_append_time else NO_TIMESTAMP
        return AppendResult(NONE, batch, base_offset, batch.last_offset, False, time_ms)

    def _validated(self, batch: RecordBatch, now_ms: int) -> tuple[Errors, RecordBatch]:
        """Return the error of a client's batch, or NONE, and the batch with the topic's codec
        (LogValidator)."""
        error = invalid(batch, self.compacted)
        if error is NONE and (
            batch.max_timestamp_ms > now_ms + self._timestamp_after_ms or self._has_oldest
        ):
            error = out_of_range(batch, now_ms, self.config)
        if error is NONE and self._compression != "producer":
            batch = recompressed(batch, self._compression, self.compressor)
            if batch.size > self._max_message_bytes:
                error = Errors.MESSAGE_TOO_LARGE
        return error, batch

    def append_as_follower(
        self, batches: Sequence[RecordBatch], leader_epoch: int = MAX_EPOCH, now_ms: int = 0
    ) -> AppendResult:
        """Append batches of a leader with the offsets and epochs that they have. Gaps are legal.

        ``leader_epoch`` is the epoch of the fetch: the first batch of a later epoch and all behind
        it are left out (KAFKA-18723). Two errors, both with nothing appended: CORRUPT_MESSAGE (the
        follower fetches again) and UNKNOWN_SERVER_ERROR, if a batch lies below the log end (the
        partition has failed).

        Raises:
            DiskError: the disk refused the write.
        """
        size = 0
        accepted = 0
        next_offset = self.local.log_end_offset
        restart = -1
        for batch in batches:
            if type(batch) is not RecordBatch:
                return AppendResult(Errors.CORRUPT_MESSAGE, None, -1, -1)
            if batch.leader_epoch > leader_epoch and not self.rules.follower_accepts(
                batch.leader_epoch, leader_epoch
            ):
                break
            if batch.base_offset < next_offset:
                if accepted or not self._straddles(batch):
                    return AppendResult(Errors.UNKNOWN_SERVER_ERROR, None, -1, -1)
                restart = batch.base_offset
            next_offset = batch.last_offset + 1
            size += batch.size
            accepted += 1
        if not accepted:
            return AppendResult(NONE, None, -1, -1)
        if accepted < len(batches):
            batches = batches[:accepted]
        if restart >= 0:
            self.truncate_fully_and_start_at(restart)
        if not self._counts_early:
            self._make_room(batches, size, now_ms)
        self._write(batches, size, now_ms)
        last = batches[-1]
        return AppendResult(NONE, last, batches[0].base_offset, last.last_offset)

    def _straddles(self, batch: RecordBatch) -> bool:
        """Return whether the log is empty and its start lies inside the leader's first batch
        (Partition.appendRecordsToFollowerOrFutureReplica)."""
        end = self.local.log_end_offset
        return end == self.log_start_offset and batch.base_offset < end <= batch.last_offset

    def _make_room(self, batches: Sequence[RecordBatch], size: int, now_ms: int) -> None:
        """Note the epochs of valid batches, and roll a segment that has no room or time for them.

        Source: UnifiedLog.append (assignEpochStartOffset, maybeRoll). ``size`` is in bytes.
        """
        last = batches[-1]
        latest_epoch = self.epochs.latest_epoch
        if last.leader_epoch != latest_epoch or batches[0].leader_epoch != latest_epoch:
            for batch in batches:
                epoch = batch.leader_epoch
                if self.rules.assigns_epoch_on_append(epoch, self.epochs.latest_epoch):
                    self.epochs.assign(epoch, batch.base_offset)
        segment = self.local.segments[-1]
        if segment.size and segment.should_roll(
            last, size, self._segment_bytes, self._segment_ms, now_ms
        ):
            self.roll(batches[0].base_offset)

    def _write(self, batches: Sequence[RecordBatch], size: int, now_ms: int) -> None:
        """Append batches: records, log end, producers, indexes, flush."""
        last = batches[-1]
        local, producers = self.local, self.producers
        early = None
        if self._counts_early:
            early = [producers.update(batch) for batch in batches]
            self._make_room(batches, size, now_ms)
            producers.map_end_offset = last.last_offset + 1  # the roll has moved it back
        segment = local.segments[-1]
        position = segment.size
        for batch in batches:
            local.append(batch, now_ms)
            completed = producers.update(batch) if early is None else early.pop(0)
            if completed is not None:
                self.transactions.index(completed, segment.transactions)
        segment.index(last.last_offset, position, size)
        local.force_if_due()

    def roll(self, base_offset: int) -> Segment:
        """Start a new segment at ``base_offset``; flush the old ones in the background."""
        local = self.local
        assert base_offset >= local.log_end_offset, (base_offset, local.log_end_offset)
        self.producers.map_end_offset = base_offset
        snapshot = self.producers.take_snapshot()
        paths = local.flush_files()
        segment = local.new_segment(base_offset)
        paths = paths if snapshot is None else (*paths, snapshot)
        local.flush_then_advance(paths, base_offset)
        return segment

    # -------------------------------------------------------------------------------- offsets

    def update_high_watermark(self, high_watermark: int) -> bool:
        """Set the high watermark, clamped to the log; return whether it changed."""
        log_end_offset = self.local.log_end_offset
        if high_watermark > log_end_offset:
            high_watermark = log_end_offset
        elif high_watermark < self.log_start_offset:
            high_watermark = self.log_start_offset
        if high_watermark == self.high_watermark:
            return False
        self.high_watermark = high_watermark
        if self.transactions.first_unstable_offset != NO_UNSTABLE_OFFSET:
            self.transactions.on_high_watermark(high_watermark)
        return True

    def raise_log_start(self, offset: int, reason: str = "leader") -> bool:
        """Raise the log start, at most to the high watermark; return whether it moved.

        The next retention pass deletes the segments below.
        """
        assert offset <= self.high_watermark, (offset, self.high_watermark, self.tp)
        if offset <= self.log_start_offset:
            return False
        self._set_log_start(offset, reason)
        self.epochs.truncate_from_start(offset)
        return True

    def _set_log_start(self, offset: int, reason: str, config: str = "") -> None:
        """Move the log start; the fact has the high watermark before, which must not be lower."""
        hw, self.log_start_offset = self.high_watermark, offset
        self.high_watermark = max(hw, offset)  # UnifiedLog.updateLogStartOffset
        self.local.recovery_point = max(self.local.recovery_point, offset)
        self.producers.on_log_start(offset, self.rules.forgets_producers_of_deleted_records())
        end = self.local.log_end_offset
        place = (self.topic_id, self.tp.partition)
        self.out.append(LogStart(*place, offset, reason, hw, end, config))
        if self.on_log_start is not None:
            self.on_log_start()

    # ------------------------------------------------------------------------------- truncation

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut the log so that it ends at ``offset``; return whether anything was cut.

        A cut may lower the recovery point: the owner then writes its checkpoint again.
        """
        assert offset >= 0, offset
        if offset >= self.local.log_end_offset:
            if self.rules.trims_epochs_beyond_end():
                self.epochs.truncate_from_end(offset)
            return False
        if offset < self.local.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self.local.truncate_to(offset)
        self.epochs.truncate_from_end(offset)
        self.high_watermark = self.rules.high_watermark_after_truncation(
            self.high_watermark, offset
        )
        if offset < self.log_start_offset:
            self._set_log_start(offset, "truncation")
        recovery.rebuild_producers(self.local, self.producers, self.log_start_offset, now_ms)
        self.transactions.on_high_watermark(self.high_watermark)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete everything and start again, empty, at ``offset``."""
        self.local.truncate_fully_and_start_at(offset)
        self.epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)
        self.high_watermark = self.rules.high_watermark_after_reset(self.high_watermark, offset)
        if offset != self.log_start_offset:
            self._set_log_start(offset, "reset")

    # ------------------------------------------------------------------------------- durability

    def flush_files(self) -> tuple[str, ...]:
        """Return the files that must be flushed to make the whole log durable."""
        return self.local.flush_files()

    def flush_if_due(self, now_ms: int) -> None:
        """Flush if flush.ms has passed since the last flush (LogManager.flushDirtyLogs)."""
        self.local.flush_if_due(now_ms)

    def close_clean(self) -> tuple[str, ...]:
        """Write the producer snapshot; return the files to flush before a clean-shutdown marker.

        The owner flushes these files of all logs, calls ``flushed(log_end_offset)``, writes and
        flushes the checkpoints, and writes the marker last.
        """
        snapshot = self.producers.take_snapshot()
        paths = self.local.flush_files()
        return paths if snapshot is None else (*paths, snapshot)

    # --------------------------------------------------------------------------------- deletion

    def delete(self) -> None:
        """Delete all files of the log."""
        for path in self.files.paths(self.directory + "/"):
            self.files.delete(path)

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete the segments that retention no longer keeps; return their number."""
        deleted = self._delete(self.log_start_offset)
        config, end = self.config, self.log_end_offset
        if "delete" not in config.cleanup_policy:
            return deleted
        if 0 <= config.retention_bytes < self.size:
            excess = self.size - config.retention_bytes
            deleted += self._delete(end, retention.beyond_size(excess), "retention.bytes")
        if config.retention_ms >= 0:
            due = retention.older_than(now_ms - config.retention_ms)
            deleted += self._delete(end, due, "retention.ms")
        return deleted

    def _delete(self, limit: int, due: retention.Due | None = None, config: str = "") -> int:
        """Delete the oldest segments that are due, up to ``limit`` and the high watermark.

        If every segment is due, a new active one is rolled first: a log always has a segment.
        ``config`` is the setting by which they are due.
        """
        local = self.local
        end = local.log_end_offset
        bound = min(limit, self.rules.retention_bound(self.high_watermark, end))
        count = retention.deletable(local.segments, end, bound, due)
        if not count:
            return 0
        if count == len(local.segments):
            self.roll(end)
        local.delete_oldest(count)
        start = local.segments[0].base_offset
        self.producers.delete_snapshots_before(start)
        if start > self.log_start_offset:
            self._set_log_start(start, "retention", config)
            self.epochs.truncate_from_start(start)
        return count

    def _disk_failed(self, error: DiskError) -> None:
        self.on_disk_error(error)


def raise_disk_error(error: DiskError) -> None:
    """Raise the error of a background flush: what happens unless the owner says otherwise."""
    raise error
