"""The cleaner threads of a broker: each cleans the dirtiest log, or rests (Kafka: LogCleaner).

LogCleanerManager is here, too: which logs are being cleaned, which cannot be, and the checkpoint
cleaner-offset-checkpoint. A thread that has cleaned a log looks for the next one at once. If none
is due, it rests for log.cleaner.backoff.ms. Either way it applies the retention of compacted logs,
which the task of LogManager leaves to it.

    thread   chooses a log, writes one new segment
               │ fsync of the segment (Flush); meanwhile the log may grow, be truncated or deleted
             swaps the segment in; tells the fact Cleaned
               │ fsync of the directory (Flush)
             the next segment, or: the checkpoint, retention, the next log

A truncation below the active segment, and the deletion of a log, abort its cleaning.

Left out: the time that the reading takes, log.cleaner.io.max.bytes.per.second. A change of
log.cleaner.threads takes effect when a thread next looks for work (reconfigure restarts all).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.facts import Cleaned, CleaningFailed
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.cleaner.cleanable import LogToClean, log_to_clean
from kafkasim.model.storage.cleaner.cleaner import CleanedSegment, Cleaning
from kafkasim.model.storage.cleaner.filter import LogCleaningError
from kafkasim.model.storage.cleaner.offset_map import OffsetMap
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.replication.dynamic_config import DynamicBrokerConfig
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.storage.directories import LogDirectory

MAX_BUFFER = 2**31 - 1  # bytes of one thread's map


class CleanerThread:
    """One thread, and the cleaning that it has under way."""

    __slots__ = ("aborted", "cleaning", "key", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.key = f"kafka-log-cleaner-thread-{number}"  # of its timer; also its lane
        self.cleaning: Cleaning | None = None
        self.aborted = False


class LogCleaner:
    """The threads of one broker. ``hosted`` returns its online partitions."""

    def __init__(
        self,
        process: BrokerProcess,
        settings: DynamicBrokerConfig,
        hosted: Callable[[], list[Partition]],
        directory_of: Callable[[TopicPartition], LogDirectory | None],
    ) -> None:
        self._process = process
        self._settings = settings
        self._hosted = hosted
        self._directory_of = directory_of
        self._threads: dict[int, CleanerThread] = {}
        self._in_progress: dict[TopicPartition, CleanerThread] = {}
        self._uncleanable: dict[TopicPartition, None] = {}

    # ------------------------------------------------------------------------------ the threads

    def start(self, now: int) -> None:
        """Start the threads, once the logs are loaded."""
        if self._settings.current.log_cleaner_enable:
            self._start_missing(now)

    def stop(self) -> None:
        """Stop all threads; what they have not swapped in yet is deleted at the next start."""
        for thread in self._threads.values():
            self._process.timers.cancel(thread.key)
            thread.aborted = True
        self._threads = {}
        self._in_progress = {}

    def _start_missing(self, now: int) -> None:
        for number in range(self._settings.current.log_cleaner_threads):
            if number not in self._threads:
                self._threads[number] = thread = CleanerThread(number)
                self._arm(thread, now)

    def _arm(self, thread: CleanerThread, at: int) -> None:
        self._process.timers.arm(thread.key, at, thread.key, partial(self._work, thread))

    def _work(self, thread: CleanerThread, now: int) -> None:
        """Clean the dirtiest log, or rest (CleanerThread.doWork)."""
        config = self._settings.current
        if thread.number >= config.log_cleaner_threads:
            del self._threads[thread.number]
            return
        self._start_missing(now)
        found = self._filthiest(self._process.wall_ms(now), now)
        if found is None:
            self._delete_old_segments(now)
            self._arm(thread, now + config.log_cleaner_backoff_ms * 1000)
            return
        self._in_progress[found.log.tp] = thread
        thread.aborted = False
        memory = config.log_cleaner_dedupe_buffer_size // config.log_cleaner_threads
        offsets = OffsetMap(min(memory, MAX_BUFFER))
        load_factor = config.log_cleaner_io_buffer_load_factor

        def begin() -> None:
            wall_ms = self._process.wall_ms(now)
            thread.cleaning = Cleaning(found, offsets, load_factor, wall_ms)
            self._write_next(thread, now)

        self._guarded(thread, found, begin, now)

    def _filthiest(self, wall_ms: int, now: int) -> LogToClean | None:
        """Return the log with the largest dirty share of those that are due
        (grabFilthiestCompactedLog)."""
        best: LogToClean | None = None
        for partition in self._hosted():
            log = partition.log
            tp = log.tp
            if not log.config.compacted or tp in self._in_progress or tp in self._uncleanable:
                continue
            directory = self._directory_of(tp)
            if directory is None:
                continue
            point = directory.cleaner_points.get(tp)
            if point is None and len(log.segments) == 1:
                continue  # the active segment is never cleaned
            found = log_to_clean(log, point, wall_ms)
            if found.checkpoint_invalid:
                self._checkpoint(directory, tp, found.first_dirty_offset, now)
            if found.due and (best is None or found.cleanable_ratio > best.cleanable_ratio):
                best = found
        return best

    # ----------------------------------------------------------------------------- one cleaning

    def _guarded(
        self, thread: CleanerThread, of: LogToClean, step: Callable[[], None], now: int
    ) -> None:
        """Do a step of a cleaning; a damaged log and a failing disk end the cleaning."""
        log = of.log
        try:
            step()
        except LogCleaningError as error:
            self._uncleanable[log.tp] = None
            self._process.out.append(CleaningFailed(log.topic_id, log.tp.partition, str(error)))
        except DiskError as error:
            self._process.log_dir_failed(error, now)
        else:
            return
        self._release(thread, log.tp)
        self._arm(thread, now + self._settings.current.log_cleaner_backoff_ms * 1000)

    def _release(self, thread: CleanerThread, tp: TopicPartition) -> None:
        thread.cleaning = None
        if self._in_progress.get(tp) is thread:
            del self._in_progress[tp]

    def _write_next(self, thread: CleanerThread, now: int) -> None:
        """Write the next new segment; or end the cleaning."""
        cleaning = thread.cleaning
        assert cleaning is not None, thread.key
        if thread.aborted or cleaning.done:
            self._done(thread, cleaning, now)
            return
        cleaned = cleaning.write_group()
        flushed = partial(self._on_written, thread, cleaning, cleaned)
        self._process.out.append(Flush(cleaned.segment.paths, flushed))

    def _on_written(
        self,
        thread: CleanerThread,
        cleaning: Cleaning,
        cleaned: CleanedSegment,
        error: str | None,
        now: int,
    ) -> None:
        """Swap in a new segment, which is durable now."""
        if thread.number not in self._threads:
            return

        def swap() -> None:
            if error is not None:
                raise DiskError(cleaned.segment.log_path, error)
            if thread.aborted:
                if self._directory_of(cleaning.log.tp) is not None:  # else it was deleted
                    cleaned.segment.delete()
                self._done(thread, cleaning, now)
                return
            cleaning.swap(cleaned)
            self._process.out.append(_told(cleaning, cleaned))
            swapped = partial(self._on_swapped, thread, cleaning)
            self._process.out.append(Flush((cleaning.log.directory + "/",), swapped))

        self._guarded(thread, cleaning.to_clean, swap, now)

    def _on_swapped(
        self, thread: CleanerThread, cleaning: Cleaning, error: str | None, now: int
    ) -> None:
        if thread.number not in self._threads:
            return

        def go_on() -> None:
            if error is not None:
                raise DiskError(cleaning.log.directory, error)
            self._write_next(thread, now)

        self._guarded(thread, cleaning.to_clean, go_on, now)

    def _done(self, thread: CleanerThread, cleaning: Cleaning, now: int) -> None:
        """Write the checkpoint unless the cleaning was aborted; look for the next log."""
        tp = cleaning.log.tp
        aborted = thread.aborted
        self._release(thread, tp)
        directory = self._directory_of(tp)
        if not aborted and directory is not None:
            self._checkpoint(directory, tp, cleaning.end_offset, now)
        self._delete_old_segments(now)
        self._arm(thread, now)

    def _delete_old_segments(self, now: int) -> None:
        """Apply the retention of compacted logs (deletableLogs): it does not meet a cleaning."""
        wall_ms = self._process.wall_ms(now)
        for partition in self._hosted():
            log = partition.log
            if not log.config.compacted or self.is_cleaning(log.tp) or log.tp in self._uncleanable:
                continue
            try:
                if log.delete_old_segments(wall_ms):
                    partition.delayed.mark_dirty()
            except DiskError as error:
                self._process.log_dir_failed(error, now)

    # ------------------------------------------------------------------------------- the manager

    def is_cleaning(self, tp: TopicPartition) -> bool:
        """Return whether a log is being cleaned."""
        return tp in self._in_progress

    def truncated(self, tp: TopicPartition, active_base_offset: int) -> None:
        """Abort the cleaning of a log that was truncated below its active segment.

        The checkpoint goes back to the base of the segment that is active now
        (maybeTruncateCheckpoint): what is appended there is dirty.
        """
        self._abort(tp)
        directory = self._directory_of(tp)
        if directory is not None and directory.cleaner_points.get(tp, 0) > active_base_offset:
            directory.cleaner_points[tp] = active_base_offset
            path = directory.cleaner_offsets.write(directory.cleaner_points)
            self._process.out.append(Barrier((path,)))

    def deleted(self, tp: TopicPartition, directory: LogDirectory, now: int) -> None:
        """Abort the cleaning of a log that was deleted, and forget what is known of it."""
        self._abort(tp)
        self._uncleanable.pop(tp, None)
        if directory.online and tp in directory.cleaner_points:
            del directory.cleaner_points[tp]
            self._write(directory, now)

    def _abort(self, tp: TopicPartition) -> None:
        thread = self._in_progress.get(tp)
        if thread is not None:
            thread.aborted = True

    def _checkpoint(
        self, directory: LogDirectory, tp: TopicPartition, offset: int, now: int
    ) -> None:
        directory.cleaner_points[tp] = offset
        self._write(directory, now)

    def _write(self, directory: LogDirectory, now: int) -> None:
        try:
            path = directory.cleaner_offsets.write(directory.cleaner_points)
        except DiskError as error:
            self._process.log_dir_failed(error, now)
        else:
            self._process.out.append(Flush((path,), partial(self._on_checkpointed, path)))

    def _on_checkpointed(self, path: str, error: str | None, now: int) -> None:
        if error is not None:
            self._process.log_dir_failed(DiskError(path, error), now)


def _told(cleaning: Cleaning, cleaned: CleanedSegment) -> Cleaned:
    log, replaced = cleaning.log, cleaned.replaces
    return Cleaned(
        log.topic_id,
        log.tp.partition,
        replaced[0].base_offset,
        replaced[-1].next_offset,
        cleaning.to_clean.first_dirty_offset,
        cleaning.end_offset,
        cleaning.now_ms,
        cleaned.delete_retention_ms,
        tuple([offset for low_high in cleaned.removed for offset in low_high]),
    )
