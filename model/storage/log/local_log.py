"""The segments of one log (Kafka: LocalLog and LogSegments): appends, reads, flushes, truncation.

A :class:`LocalLog` knows where the log ends and how much of it is durable. High watermarks, leader
epochs and producers are the business of the
:class:`~kafkasim.model.storage.log.unified_log.UnifiedLog` that has it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from typing import Any

from kafkasim.model.config import TopicConfig
from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import FLUSH_POOL, DiskError, Files
from kafkasim.model.storage.log.segment import Segment
from kafkasim.model.storage.log.transaction_index import AbortedTxn
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.storage.segment_swap import finish_swaps

BASE_OFFSET = attrgetter("base_offset")


class LocalLog:
    """Segments up to ``log_end_offset``; everything below ``recovery_point`` is durable.

    There is at least one segment once the log is loaded; the last one is the active segment.
    ``on_disk_error`` hears of a background flush that failed.
    """

    def __init__(
        self,
        files: Files,
        out: list[Any],
        directory: str,
        config: TopicConfig,
        rules: StorageRules,
        recovery_point: int,
        now_ms: int,
        on_disk_error: Callable[[DiskError], None],
    ) -> None:
        self.files = files
        self.out = out
        self.directory = directory
        self.config = config
        self.rules = rules
        self.segments: list[Segment] = []
        self.log_end_offset = 0
        self.recovery_point = recovery_point
        self._on_disk_error = on_disk_error
        self._truncations = 0  # a flush that began before a truncation proves nothing afterwards
        self._forced_offset = 0  # flush.messages has forced everything below it to disk
        self._last_flush_ms = now_ms
        finish_swaps(files, directory)

    def loaded(self, recovery_point: int) -> None:
        """Set the recovery point that the start of the log found."""
        self.recovery_point = self._forced_offset = recovery_point

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum([segment.size for segment in self.segments])

    # ------------------------------------------------------------------------------- appending

    def append(self, batch: RecordBatch, now_ms: int) -> None:
        """Append a batch to the active segment.

        The log end moves as soon as the batch is in the file (KAFKA-10778, B79): if the disk fails
        at the index afterwards, the log still knows what it holds.
        """
        self.segments[-1].append(batch, now_ms)
        self.log_end_offset = batch.last_offset + 1

    def force_if_due(self) -> None:
        """Hold what follows for an fsync once flush.messages records have not been flushed."""
        if self.log_end_offset - self._forced_offset >= self.config.flush_messages:
            self.out.append(Barrier(self.files_from(self._forced_offset)))
            self._forced_offset = self.log_end_offset

    # --------------------------------------------------------------------------------- reading

    def read(
        self, offset: int, max_bytes: int, upper_bound: int, min_one: bool = True
    ) -> tuple[RecordBatch, ...]:
        """Return batches of one segment, from the one that contains ``offset`` on.

        Every batch ends at or below ``upper_bound``. Together they have at most ``max_bytes``; with
        ``min_one`` the first batch is returned whatever its size. An ``offset`` inside a gap reads
        from the next batch. A :class:`CorruptBatch` is returned as it is.
        """
        if offset >= upper_bound:
            return ()
        segments = self.segments
        segment = segments[-1]
        if offset >= segment.base_offset:
            bases = segment.base_offsets
            if bases and bases[-1] == offset:  # the last batch: most fetches ask for it
                batch = segment.batches[-1]
                fits = batch.size <= max_bytes or min_one
                return (batch,) if fits and batch.last_offset < upper_bound else ()
            return segment.read(offset, max_bytes, upper_bound, min_one)
        index = self.segment_index(offset)
        # A gap up to the next segment, or a segment of which a cleaner has left nothing.
        while not segments[index].batches or segments[index].next_offset <= offset:
            index += 1
            if index == len(segments):
                return ()
        return segments[index].read(offset, max_bytes, upper_bound, min_one)

    def batches_from(self, offset: int) -> Iterator[RecordBatch]:
        """Iterate over the batches from the one that contains ``offset`` up to the log end."""
        for segment in self.segments[self.segment_index(offset) :]:
            for batch in segment.batches:
                if batch.last_offset >= offset:
                    yield batch

    def segment_index(self, offset: int) -> int:
        """Return the index of the segment that holds ``offset``."""
        return max(bisect_right(self.segments, offset, key=BASE_OFFSET) - 1, 0)

    def offset_for_timestamp(self, timestamp_ms: int, start: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first record that is not older and at or above
        ``start``; None without one.

        Only the first segment with a record as young is searched, although its own may all lie
        below ``start`` (UnifiedLog.searchOffsetInLocalLog).
        """
        for segment in self.segments:
            if segment.largest_timestamp_ms >= timestamp_ms:
                return segment.find_timestamp(timestamp_ms, start)
        return None

    def aborted_transactions(self, offset: int, upper_bound: int) -> list[AbortedTxn]:
        """Return the aborted transactions that overlap [``offset``, ``upper_bound``)
        (LocalLog.collectAbortedTransactions)."""
        found: list[AbortedTxn] = []
        for segment in self.segments[self.segment_index(offset) :]:
            if segment.transactions.collect(offset, upper_bound, found):
                break
        return found

    # ------------------------------------------------------------------------------- durability

    def flush_files(self) -> tuple[str, ...]:
        """Return the files that must be flushed to make the whole log durable."""
        return self.files_from(self.recovery_point)

    def flushed(self, offset: int) -> None:
        """Advance the recovery point: everything below ``offset`` is durable."""
        if offset > self.recovery_point:
            self.recovery_point = min(offset, self.log_end_offset)

    def flush(self) -> None:
        """Flush the whole log in the background, then advance the recovery point."""
        self.flush_then_advance(self.flush_files(), self.log_end_offset)

    def flush_if_due(self, now_ms: int) -> None:
        """Flush if flush.ms has passed since the last flush (LogManager.flushDirtyLogs)."""
        if now_ms - self._last_flush_ms >= self.config.flush_ms:
            self._last_flush_ms = now_ms
            if self.recovery_point < self.log_end_offset:
                self.flush()

    def files_from(self, offset: int) -> tuple[str, ...]:
        """Return the files of the segment that holds ``offset`` and of all later segments."""
        segments = self.segments[self.segment_index(offset) :]
        return tuple([path for segment in segments for path in segment.paths])

    def flush_then_advance(self, paths: tuple[str, ...], offset: int) -> None:
        """Flush ``paths`` in the background, then advance the recovery point to ``offset``."""
        handler = partial(self._on_flushed, offset, self._truncations)
        self.out.append(Flush(paths, handler, FLUSH_POOL))

    def _on_flushed(self, offset: int, truncations: int, error: str | None, now: int) -> None:
        if error is not None:
            self._on_disk_error(DiskError(self.directory, error))
        elif truncations == self._truncations:
            self.flushed(offset)

    # --------------------------------------------------------------------------------- segments

    def new_segment(self, base_offset: int) -> Segment:
        """Add an empty active segment."""
        interval = self.config.index_interval_bytes
        segment = Segment(self.files, self.directory, base_offset, interval)
        segment.create()
        self.segments.append(segment)
        return segment

    def delete_oldest(self, count: int) -> None:
        """Delete the ``count`` oldest segments; at least one must remain."""
        assert count < len(self.segments), (count, len(self.segments))
        for segment in self.segments[:count]:
            segment.delete(self.config.file_delete_delay_ms)
        del self.segments[:count]

    def truncate_to(self, offset: int) -> None:
        """Delete segments and cut the last one so that the log ends at ``offset``."""
        paths: tuple[str, ...] = self.segments[self.segment_index(offset)].paths
        while self.segments[-1].base_offset > offset:
            segment = self.segments.pop()
            paths += segment.paths
            segment.delete(self.config.file_delete_delay_ms)
        self.segments[-1].truncate_to(offset)
        self._set_end(offset, paths)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Delete all segments and start again, empty, at ``offset``."""
        paths: tuple[str, ...] = ()
        for segment in self.segments:
            paths += segment.paths
            segment.delete(self.config.file_delete_delay_ms)
        self.segments.clear()
        self._set_end(offset, self.new_segment(offset).paths + paths)

    def _set_end(self, offset: int, paths: tuple[str, ...]) -> None:
        """End the log at ``offset``, durably.

        Kafka does not fsync a truncation. A journalling file system never undoes it while keeping
        what was fsynced later, such as the next leader epoch; the Barrier stands for that order.
        """
        self.out.append(Barrier(paths))
        self._truncations += 1
        self.log_end_offset = offset
        self.recovery_point = self.rules.recovery_point_after_truncation(
            self.recovery_point, offset
        )
        self._forced_offset = min(self._forced_offset, offset)
