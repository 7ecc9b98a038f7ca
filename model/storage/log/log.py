"""One replica's log (UnifiedLog and LocalLog): segments, offsets, epochs, producers, durability.

The broker's partitions and the metadata quorum both use it. All calls are synchronous; what Kafka
fsyncs before going on becomes a Barrier in ``out``, what it fsyncs in the background a Flush. A
:class:`DiskError` of the disk propagates to the caller, who takes the log directory offline; a log
that raised is not to be appended to again.

The parts: :mod:`segment`, :mod:`epochs`, :mod:`producers`, :mod:`recovery` (start),
:mod:`retention`, :mod:`checkpoints`, :mod:`rules` (decisions a variant may override).

Facts: the log reports its own LogStart; Appended, Truncated, HighWatermark and LogLoaded need what
only the owner knows and are the owner's.

Omitted: the log cleaner (offset gaps, as it leaves them, are legal everywhere), transactions (the
last stable offset is the high watermark), tiered storage, message down-conversion, the delay before
deleted files disappear.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkasim.model.config import MAX_LONG, TopicConfig
from kafkasim.model.effects import Barrier
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import FinalReplica, LogStart
from kafkasim.model.records import RecordBatch, TopicPartition, assigned
from kafkasim.model.storage.checkpoints import write_topic_id
from kafkasim.model.storage.files import DiskError, Files
from kafkasim.model.storage.log import recovery, retention
from kafkasim.model.storage.log.epochs import LeaderEpochCache
from kafkasim.model.storage.log.local_log import LocalLog
from kafkasim.model.storage.log.producers import ProducerStateManager
from kafkasim.model.storage.log.segment import MAX_RELATIVE_OFFSET, Segment
from kafkasim.model.storage.log.validation import invalid, out_of_range, stamped
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.values import value

MAX_EPOCH = 2**31 - 1
EPOCH_CHECKPOINT = "leader-epoch-checkpoint"


@value
class AppendResult:
    """The outcome of an append. Offsets are −1 and ``batch`` is None when nothing was appended;
    of a duplicate, the offsets are those of the batch already in the log."""

    error: Errors
    batch: RecordBatch | None
    base_offset: int
    last_offset: int
    duplicate: bool = False


class Log(LocalLog):
    """A log. ``log_start_offset <= high_watermark <= log_end_offset`` at all times."""

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
    ) -> None:
        """Load what ``files`` has below ``directory``, or create an empty log there."""
        super().__init__(files, out, directory, config, rules, recovery_point, now_ms)
        self.tp = tp
        self.topic_id = topic_id
        self.log_start_offset = log_start_offset
        self.high_watermark = high_watermark
        self.update_config(config)
        epoch_path = f"{directory}/{EPOCH_CHECKPOINT}"
        self.epochs = LeaderEpochCache(files, out, epoch_path, rules, self._disk_failed)
        self.producers = ProducerStateManager(files, directory, producer_id_expiration_ms)
        metadata = write_topic_id(files, directory, topic_id, tp)
        if metadata is not None:
            self.flush_then_advance((metadata,), 0)
        recovery.load(self, clean, now_ms)
        self._barrier_offset = self.recovery_point

    def update_config(self, config: TopicConfig) -> None:
        """Take new topic settings."""
        self.config = config
        self._max_message_bytes = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._segment_ms = config.segment_ms
        self._flush_messages = config.flush_messages
        self._compacted = "compact" in config.cleanup_policy
        self._log_append_time = config.message_timestamp_type == "LogAppendTime"
        self._timestamp_after_ms = config.message_timestamp_after_max_ms
        self._has_oldest = config.message_timestamp_before_max_ms < MAX_LONG

    @property
    def last_stable_offset(self) -> int:
        """The first offset a read_committed consumer may not read."""
        return self.high_watermark

    # ------------------------------------------------------------------------------- appending

    def append_as_leader(
        self, batch: RecordBatch, leader_epoch: int, now_ms: int, origin: str = "client"
    ) -> AppendResult:
        """Validate a new batch, give it the next offset and ``leader_epoch``, and append it.

        ``origin``: client (full validation), coordinator (a group's or transaction's records) or
        raft (the metadata log). An error leaves the log as it was.
        """
        size = batch.size
        client = origin == "client"
        if client and size > self._max_message_bytes:
            return AppendResult(Errors.MESSAGE_TOO_LARGE, None, -1, -1)
        if size > self._segment_bytes:
            return AppendResult(Errors.RECORD_LIST_TOO_LARGE, None, -1, -1)
        if client:
            error = invalid(batch, self._compacted)
            if error is NONE and (
                batch.max_timestamp_ms > now_ms + self._timestamp_after_ms or self._has_oldest
            ):
                error = out_of_range(batch, now_ms, self.config)
            if error is not NONE:
                return AppendResult(error, None, -1, -1)
        producer_id = batch.producer_id
        if producer_id >= 0:
            entry = self.producers.entries.get(producer_id)
            rules = self.rules
            if client:
                if entry is not None:
                    known = rules.find_duplicate(entry, batch)
                    if known is not None:
                        return AppendResult(NONE, None, known[2] - known[3], known[2], True)
                error = rules.check_sequence(entry, batch)
            else:
                error = rules.check_epoch(entry, batch)
            if error is not NONE:
                return AppendResult(error, None, -1, -1)
        if self._log_append_time:
            batch = stamped(batch, now_ms)
        base_offset = self.log_end_offset
        batch = assigned(batch, base_offset, leader_epoch)
        self._write((batch,), size, now_ms)
        return AppendResult(NONE, batch, base_offset, batch.last_offset)

    def append_as_follower(
        self, batches: Sequence[RecordBatch], leader_epoch: int = MAX_EPOCH, now_ms: int = 0
    ) -> AppendResult:
        """Append what a leader sent; offsets and epochs are kept. Gaps are legal.

        ``leader_epoch`` is the epoch of the fetch: newer batches and all behind them are left out
        (KAFKA-18723). Errors, with nothing appended: CORRUPT_MESSAGE (retry), and
        UNKNOWN_SERVER_ERROR when the first batch lies below the log end (the partition failed).
        """
        size = 0
        accepted = 0
        next_offset = self.log_end_offset
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
        self._write(batches, size, now_ms)
        last = batches[-1]
        return AppendResult(NONE, last, batches[0].base_offset, last.last_offset)

    def _straddles(self, batch: RecordBatch) -> bool:
        """An empty log whose start lies inside the leader's first batch (Partition:1353)."""
        end = self.log_end_offset
        return end == self.log_start_offset and batch.base_offset < end <= batch.last_offset

    def _write(self, batches: Sequence[RecordBatch], size: int, now_ms: int) -> None:
        """Append valid batches: epochs, roll, records, log end, producers, index, flush."""
        last = batches[-1]
        latest_epoch = self.epochs.latest_epoch
        if last.leader_epoch != latest_epoch or batches[0].leader_epoch != latest_epoch:
            for batch in batches:
                epoch = batch.leader_epoch
                if self.rules.assigns_epoch_on_append(epoch, self.epochs.latest_epoch):
                    self.epochs.assign(epoch, batch.base_offset)
        segment = self.segments[-1]
        written = segment.size
        if written:
            timestamp = last.max_timestamp_ms
            if (
                written + size > self._segment_bytes
                or (timestamp if timestamp >= 0 else now_ms) - segment.first_timestamp_ms
                > self._segment_ms
                or segment.full
                or last.last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            ):
                segment = self.roll(batches[0].base_offset)
                written = 0
        producers = self.producers
        for batch in batches:
            segment.append(batch, now_ms)
            self.log_end_offset = batch.last_offset + 1  # as soon as it is in the file (B79)
            producers.update(batch)
        if segment.unindexed > segment.interval:
            segment.index(last.last_offset, written, size)
        else:
            segment.unindexed += size
        if self.log_end_offset - self._barrier_offset >= self._flush_messages:
            self.out.append(Barrier(self.files_from(self._barrier_offset)))
            self._barrier_offset = self.log_end_offset

    def roll(self, base_offset: int) -> Segment:
        """Start a new segment at ``base_offset``; flush the old ones in the background."""
        assert base_offset >= self.log_end_offset, (base_offset, self.log_end_offset)
        self.producers.map_end_offset = base_offset
        snapshot = self.producers.take_snapshot()
        paths = self.flush_files()
        segment = self.new_segment(base_offset)
        paths = paths if snapshot is None else (*paths, snapshot)
        self.flush_then_advance(paths, base_offset)
        return segment

    # -------------------------------------------------------------------------------- offsets

    def update_high_watermark(self, high_watermark: int) -> bool:
        """Set the high watermark, clamped to the log; return whether it changed."""
        if high_watermark > self.log_end_offset:
            high_watermark = self.log_end_offset
        elif high_watermark < self.log_start_offset:
            high_watermark = self.log_start_offset
        if high_watermark == self.high_watermark:
            return False
        self.high_watermark = high_watermark
        return True

    def raise_log_start(self, offset: int, reason: str = "leader") -> bool:
        """Raise the log start (DeleteRecords, a leader's start, retention), up to the HW.

        Segments below it go with the next retention pass.
        """
        assert offset <= self.high_watermark, (offset, self.high_watermark, self.tp)
        if offset <= self.log_start_offset:
            return False
        self.set_log_start(offset, reason)
        self.epochs.truncate_from_start(offset)
        return True

    def set_log_start(self, offset: int, reason: str) -> None:
        """Move the log start and report it (updateLogStartOffset). For the log's parts only."""
        self.log_start_offset = offset
        self.high_watermark = max(self.high_watermark, offset)
        self.recovery_point = max(self.recovery_point, offset)
        self.out.append(LogStart(self.topic_id, self.tp.partition, offset, reason))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first record with at least that timestamp."""
        for segment in self.segments:
            if segment.largest_timestamp_ms < timestamp_ms:
                continue
            for batch in segment.batches:
                if batch.max_timestamp_ms < timestamp_ms:
                    continue
                deltas = batch.offset_deltas or range(len(batch.records))
                for delta, record in zip(deltas, batch.records, strict=True):
                    offset = batch.base_offset + delta
                    if record.timestamp_ms >= timestamp_ms and offset >= self.log_start_offset:
                        return record.timestamp_ms, offset
        return None

    # ------------------------------------------------------------------------------- truncation

    def truncate_to(self, offset: int, now_ms: int = 0) -> bool:
        """Cut the log so that it ends at ``offset``; return whether anything was cut.

        The recovery point may have gone down: the owner rewrites its checkpoint when True.
        """
        assert offset >= 0, offset
        if offset >= self.log_end_offset:
            if self.rules.trims_epochs_beyond_end():
                self.epochs.truncate_from_end(offset)
            return False
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset)
            return True
        self.cut(offset)
        self.epochs.truncate_from_end(offset)
        if offset < self.log_start_offset:
            self.set_log_start(offset, "truncation")
        self.rebuild_producers(now_ms)
        self.high_watermark = self.rules.high_watermark_after_truncation(
            self.high_watermark, offset
        )
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete everything and start again, empty, at ``offset``."""
        self.restart(offset)
        self.epochs.clear()
        self.producers.truncate_fully_and_start_at(offset)
        if offset != self.log_start_offset:
            self.set_log_start(offset, "reset")
        self.high_watermark = offset

    def rebuild_producers(self, now_ms: int) -> None:
        """Bring the producer state to the log end from the newest snapshot (rebuildProducerState).

        Nothing to replay when it was empty at or beyond the new end.
        """
        producers = self.producers
        end = self.log_end_offset
        was_empty = not producers.entries and producers.map_end_offset >= end
        producers.truncate_and_reload(self.log_start_offset, end, now_ms)
        if was_empty and not producers.entries:
            producers.map_end_offset = end
        elif producers.map_end_offset < end:
            start = max(producers.map_end_offset, self.log_start_offset)
            producers.replay(self.batches_from(start), end)

    # ------------------------------------------------------------------------------- durability

    def close_clean(self) -> tuple[str, ...]:
        """Write the producer snapshot; return what must be flushed before a clean marker.

        The owner flushes these files of all logs, then calls ``flushed(log_end_offset)``, writes
        and flushes the checkpoints, and last the clean-shutdown marker.
        """
        snapshot = self.producers.take_snapshot()
        paths = self.flush_files()
        return paths if snapshot is None else (*paths, snapshot)

    def delete(self) -> None:
        """Delete all files of the log."""
        for path in self.files.paths(self.directory + "/"):
            self.files.delete(path)

    def delete_old_segments(self, now_ms: int) -> int:
        """Apply retention; return the number of segments deleted."""
        return retention.delete_old_segments(self, now_ms)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget producers that were silent for producer.id.expiration.ms."""
        self.producers.remove_expired(now_ms)

    # ------------------------------------------------------------------------------ ground truth

    def ground_truth(self, leading: bool, leader_epoch: int) -> FinalReplica:
        """Return the whole log as the fact that ends a run."""
        batches = [batch for segment in self.segments for batch in segment.batches]
        ids = [
            [record.value for record in batch.records if isinstance(record.value, int)]
            for batch in batches
        ]
        return FinalReplica(
            self.topic_id,
            self.tp.partition,
            leading,
            leader_epoch,
            self.log_start_offset,
            self.high_watermark,
            self.last_stable_offset,
            self.log_end_offset,
            tuple([number for entry in self.epochs.entries for number in entry]),
            tuple([batch.base_offset for batch in batches]),
            tuple([batch.last_offset + 1 for batch in batches]),
            tuple([batch.leader_epoch for batch in batches]),
            tuple([batch.producer_id for batch in batches]),
            tuple([batch.base_sequence for batch in batches]),
            tuple([len(of_batch) for of_batch in ids]),
            tuple([record_id for of_batch in ids for record_id in of_batch]),
        )

    def _disk_failed(self, error: DiskError) -> None:
        self.on_disk_error(error)
