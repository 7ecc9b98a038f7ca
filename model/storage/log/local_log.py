"""The physical log below :class:`kafkasim.model.storage.log.log.Log` (LocalLog): segments, reads, flushes.

It knows where the log ends and what of it is durable, and nothing of high watermarks, leader
epochs or producers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kafkasim.model.config import TopicConfig
from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import DiskError, Files
from kafkasim.model.storage.log.segment import Segment
from kafkasim.model.storage.rules import StorageRules


class LocalLog:
    """Segments up to ``log_end_offset``; all below ``recovery_point`` is durable.

    ``on_disk_error`` is called when a background flush fails; set it to what takes the log
    directory offline.
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
    ) -> None:
        self.files = files
        self.out = out
        self.directory = directory
        self.config = config
        self.rules = rules
        self.segments: list[Segment] = []
        self.log_end_offset = 0
        self.recovery_point = recovery_point
        self.on_disk_error: Callable[[DiskError], None] = raise_disk_error
        self._truncations = 0  # a flush that began before a truncation says nothing afterwards
        self._barrier_offset = 0  # all below it has been flushed by flush.messages
        self._last_flush_ms = now_ms

    @property
    def size(self) -> int:
        """Size in bytes."""
        return sum([segment.size for segment in self.segments])

    # --------------------------------------------------------------------------------- reading

    def read(
        self, offset: int, max_bytes: int, upper_bound: int, min_one: bool = True
    ) -> tuple[RecordBatch, ...]:
        """Return batches from the one that contains ``offset`` on, of one segment at most.

        All end at or below ``upper_bound``. Up to ``max_bytes``, but at least one batch with
        ``min_one``. A gap at ``offset`` is skipped. A :class:`CorruptBatch` is served as it is.
        """
        if offset >= upper_bound:
            return ()
        segments = self.segments
        segment = segments[-1]
        if offset >= segment.base_offset:
            bases = segment.bases
            if bases and bases[-1] == offset:  # the last batch: what most fetches are about
                batch = segment.batches[-1]
                fits = batch.size <= max_bytes or min_one
                return (batch,) if fits and batch.last_offset < upper_bound else ()
            return segment.read(offset, max_bytes, upper_bound, min_one)
        index = self.segment_index(offset)
        while segments[index].next_offset <= offset:  # a gap up to the next segment
            index += 1
            if index == len(segments):
                return ()
        return segments[index].read(offset, max_bytes, upper_bound, min_one)

    @property
    def last_batch(self) -> RecordBatch | None:
        """The batch at the log end; None if the active segment is empty."""
        batches = self.segments[-1].batches
        return batches[-1] if batches else None

    def batches_from(self, offset: int) -> Iterator[RecordBatch]:
        """Iterate over the batches from the one that contains ``offset`` up to the log end."""
        for segment in self.segments[self.segment_index(offset) :]:
            for batch in segment.batches:
                if batch.last_offset >= offset:
                    yield batch

    def segment_index(self, offset: int) -> int:
        """Return the index of the segment that ``offset`` falls into."""
        bases = [segment.base_offset for segment in self.segments]
        return max(bisect_right(bases, offset) - 1, 0)

    # ------------------------------------------------------------------------------- durability

    def flush_files(self) -> tuple[str, ...]:
        """Return the files to flush so that all up to the log end is durable."""
        return self.files_from(self.recovery_point)

    def flushed(self, offset: int) -> None:
        """Advance the recovery point: all below ``offset`` is durable now."""
        if offset > self.recovery_point:
            self.recovery_point = min(offset, self.log_end_offset)

    def flush(self) -> None:
        """Flush all of the log in the background, then advance the recovery point."""
        self.flush_then_advance(self.flush_files(), self.log_end_offset)

    def flush_if_due(self, now_ms: int) -> None:
        """Flush when flush.ms has passed since the last time (LogManager.flushDirtyLogs)."""
        if now_ms - self._last_flush_ms >= self.config.flush_ms:
            self._last_flush_ms = now_ms
            if self.recovery_point < self.log_end_offset:
                self.flush()

    def files_from(self, offset: int) -> tuple[str, ...]:
        """Return the files of the segments from the one that ``offset`` falls into on."""
        segments = self.segments[self.segment_index(offset) :]
        return tuple([path for segment in segments for path in segment.paths])

    def flush_then_advance(self, paths: tuple[str, ...], offset: int) -> None:
        """Flush ``paths`` in the background, after which all below ``offset`` is durable."""
        self.out.append(Flush(paths, partial(self._on_flushed, offset, self._truncations)))

    def _on_flushed(self, offset: int, truncations: int, error: str | None, now: int) -> None:
        if error is not None:
            self.on_disk_error(DiskError(self.directory, error))
        elif truncations == self._truncations:
            self.flushed(offset)

    # --------------------------------------------------------------------------------- segments

    def new_segment(self, base_offset: int) -> Segment:
        """Start an empty segment at the end."""
        interval = self.config.index_interval_bytes
        segment = Segment(self.files, self.directory, base_offset, interval)
        segment.create()
        self.segments.append(segment)
        return segment

    def cut(self, offset: int) -> None:
        """Cut the segments so that the log ends at ``offset``."""
        paths: tuple[str, ...] = self.segments[self.segment_index(offset)].paths
        while self.segments[-1].base_offset > offset:
            segment = self.segments.pop()
            segment.delete()
            paths += segment.paths
        self.segments[-1].truncate_to(offset)
        self._set_end(offset, paths)

    def restart(self, offset: int) -> None:
        """Delete all segments and start again, empty, at ``offset``."""
        paths: tuple[str, ...] = ()
        for segment in self.segments:
            segment.delete()
            paths += segment.paths
        self.segments.clear()
        self._set_end(offset, self.new_segment(offset).paths + paths)

    def _set_end(self, offset: int, paths: tuple[str, ...]) -> None:
        """End at ``offset``. Kafka does not fsync here, but a journalling file system never undoes
        a cut while it keeps what was fsynced later, such as the next leader epoch."""
        self.out.append(Barrier(paths))
        self._truncations += 1
        self.log_end_offset = offset
        self.recovery_point = self.rules.recovery_point_after_truncation(
            self.recovery_point, offset
        )
        self._barrier_offset = min(self._barrier_offset, offset)


def raise_disk_error(error: DiskError) -> None:
    """What happens to a failed background flush unless the owner of the log says otherwise."""
    raise error
