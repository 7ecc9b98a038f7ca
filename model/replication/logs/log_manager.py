"""LogManager: opens and deletes the logs of a broker, writes checkpoints, closes cleanly.

Models kafka.log.LogManager. A new log goes to the online directory with the fewest logs. A
directory that fails is offline until the process ends and is not written any more; the others stay
in use. The high-watermark checkpoint is here, beside the other two; Kafka's ReplicaManager has it.

Left out: moves between directories (future logs). A log stays on disk, unused, if metadata no
longer assigns its partition to this broker (a stray log) or if another directory has a log of the
same partition (Kafka does not start with such duplicates).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafkasim.model.config import MAX_LONG
from kafkasim.model.directories import UNASSIGNED, roots
from kafkasim.model.effects import Barrier, Flush, Handler
from kafkasim.model.facts import LogDirOffline, LogLoaded, LogPlaced, ProducerIdExpired
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.logs.clean_close import CleanClose
from kafkasim.model.replication.logs.log_cleaner import LogCleaner
from kafkasim.model.replication.logs.log_deletion import LogDeletion
from kafkasim.model.storage.checkpoints import write_clean_marker
from kafkasim.model.storage.directories import LogDirectory
from kafkasim.model.storage.files import DiskError
from kafkasim.model.storage.log.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kafkasim.model.replication.dynamic_config import DynamicBrokerConfig
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.storage.rules import StorageRules

LANE = "scheduler"
PERIODIC_TASKS = (
    "log-retention",
    "log-flusher",
    "recovery-point-checkpoint",
    "producer-expiration",
    "highwatermark-checkpoint",
)


class LogManager:
    """The logs of one broker. ``partitions`` is the live table of hosted partitions."""

    def __init__(
        self,
        process: BrokerProcess,
        settings: DynamicBrokerConfig,
        rules: StorageRules,
        partitions: dict[TopicPartition, Partition],
        knows_verification: bool = True,
    ) -> None:
        self.process = process
        self.settings = settings
        self.rules = rules
        self.partitions = partitions
        config = settings.current
        self._verifies = knows_verification and config.transaction_partition_verification_enable
        log_dirs = settings.current.log_dirs
        paths = log_dirs or ("",)
        self.directories = tuple([
            LogDirectory(process.files, path, root)
            for path, root in zip(paths, roots(log_dirs), strict=True)
        ])  # fmt: skip
        self.several = len(self.directories) > 1
        self._placed: dict[TopicPartition, LogDirectory] = {}  # the directory of each opened log
        self._deletion = LogDeletion(process, rules, self._write_offsets)
        self.cleaner = LogCleaner(process, settings, self._hosted, self.directory_of)
        for directory in self.directories:
            try:
                pending = directory.load(process.rng)
            except DiskError as error:
                self._offline(directory, error)
            else:
                if pending:
                    process.out.append(Barrier(pending))

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that have not failed (liveLogDirs)."""
        return [directory for directory in self.directories if directory.online]

    @property
    def offline(self) -> list[LogDirectory]:
        """The directories that have failed since the process began (offlineLogDirs)."""
        return [directory for directory in self.directories if not directory.online]

    @property
    def clean_epoch(self) -> int | None:
        """The broker epoch of the last clean stop; None if the stop was not clean everywhere.

        Models LogManager.readBrokerEpochFromCleanShutdownFiles.
        """
        first = self.directories[0].clean_epoch
        same = all(each.online and each.clean_epoch == first for each in self.directories)
        return first if same else None

    def directory_ids(self) -> tuple[str, ...]:
        """Return the ids of the online directories; the only one may have none."""
        return tuple(sorted([each.id for each in self.online if each.id]))

    def name_only_directory(self, directory_id: str) -> None:
        """Take the id of the directory if there is one only; several have theirs on disk."""
        if not self.several:
            self.directories[0].id = directory_id

    def directory_of(self, tp: TopicPartition) -> LogDirectory | None:
        """Return the directory of a hosted log, None if it is offline or the log is not open."""
        directory = self._placed.get(tp)
        return directory if directory and directory.online else None

    def placed_in(self, directory: LogDirectory) -> list[TopicPartition]:
        """Return the partitions whose logs were opened in a directory."""
        return [tp for tp, placed in self._placed.items() if placed is directory]

    def fail(self, error: DiskError) -> LogDirectory | None:
        """Take the directory of the failed file offline; return None if it was offline before."""
        for directory in self.online:
            if directory.holds(error.path):
                self._offline(directory, error)
                return directory
        return None

    def _offline(self, directory: LogDirectory, error: DiskError) -> None:
        directory.fail(error)
        if self.several:
            self.process.out.append(LogDirOffline(directory.path, directory.id, error.reason))

    # ------------------------------------------------------------------------------------ opening

    def open(
        self,
        tp: TopicPartition,
        topic_id: str,
        overrides: Mapping[str, str],
        now: int,
        assigned: str | None = None,
    ) -> UnifiedLog | None:
        """Load or create a log; return None if it is, or may be, in a directory that failed.

        ``overrides`` are the topic's own settings. ``assigned`` is the id of the directory that the
        metadata names, None if any directory will do.
        """
        process = self.process
        directory = self._choose(tp, topic_id, assigned)
        if directory is None:
            return None
        try:
            known = directory.on_disk.pop(tp, None)
            path, files = directory.log_path(tp), directory.files
            if known is not None and known != topic_id:  # a deleted topic's of that name
                for each in files.paths(path + "/"):
                    files.delete(each)
                known = None
            # A power loss may leave batches without partition.metadata: that is a log, too.
            unidentified = known is None and bool(files.paths(path + "/"))
            clean = not unidentified and (known is None or directory.clean_epoch is not None)
            existed = known is not None or unidentified
            log = self._load(directory, tp, topic_id, overrides, existed, clean, now)
        except DiskError as error:
            process.log_dir_failed(error, now)
            return None
        self._placed[tp] = directory
        log.on_disk_error = self._on_flush_error
        if self.several:
            process.out.append(LogPlaced(topic_id, tp.partition, directory.path))
        return log

    def _choose(
        self, tp: TopicPartition, topic_id: str, assigned: str | None
    ) -> LogDirectory | None:
        """Return the directory that has the log or shall have it; None: that may be a failed one.

        Models Partition.createLogInAssignedDirectoryId and LogManager.getOrCreateLog.
        """
        if not self.several:
            return self.directories[0]
        online = self.online
        wanted = [directory for directory in online if directory.id == assigned]
        holding = [each for each in online if each.on_disk.get(tp) == topic_id] or [
            each for each in online if each.files.paths(each.log_path(tp) + "/")
            and tp not in each.on_disk
        ]  # fmt: skip
        for directory in wanted:
            if directory in holding:
                return directory
        if holding:
            return holding[0]
        if not wanted and assigned not in (None, UNASSIGNED) and online != [*self.directories]:
            return None  # the log may be in a directory that is offline
        count = {each: len(self.placed_in(each)) + len(each.on_disk) for each in online}
        return wanted[0] if wanted else min(online, key=count.__getitem__, default=None)

    def _load(
        self,
        directory: LogDirectory,
        tp: TopicPartition,
        topic_id: str,
        overrides: Mapping[str, str],
        existed: bool,
        clean: bool,
        now: int,
    ) -> UnifiedLog:
        process = self.process
        high_watermark = directory.high_watermark(tp)
        log = UnifiedLog(
            directory.files,
            process.out,
            directory.log_path(tp),
            tp,
            topic_id,
            self.settings.topic_config(overrides),
            self.rules,
            clean=clean,
            recovery_point=directory.known_recovery_points.get(tp, 0) if existed else 0,
            log_start_offset=directory.known_log_starts.get(tp, 0) if existed else 0,
            high_watermark=high_watermark if existed else 0,
            now_ms=process.wall_ms(now),
            producer_id_expiration_ms=self.settings.current.producer_id_expiration_ms,
            verifies_transactions=self._verifies,
        )
        log.compressor = process.compressor
        if not existed:
            return log
        process.out.append(
            LogLoaded(
                topic_id,
                tp.partition,
                log.log_start_offset,
                log.log_end_offset,
                log.high_watermark,
                clean,
            )
        )
        return log

    def delete(self, partition: Partition, now: int) -> None:
        """Delete a log (asyncDelete); the caller calls :meth:`checkpoint_deletions` afterwards.

        A new log of the same partition can be created at once.
        """
        placed = self._placed[partition.tp]
        if self._deletion.delete(partition.log, placed, now):
            del self._placed[partition.tp]
            self.cleaner.deleted(partition.tp, placed, now)

    def delete_unhosted(self, tp: TopicPartition, now: int) -> None:
        """Delete the log of a partition that is on disk and has no role since the start, if any.

        As after :meth:`delete`, the caller calls :meth:`checkpoint_deletions`.
        """
        for directory in self.online:
            topic_id = directory.on_disk.pop(tp, None)
            if topic_id is None:
                continue
            try:
                clean = directory.clean_epoch is not None
                log = self._load(directory, tp, topic_id, {}, True, clean, now)
            except DiskError as error:
                self.process.log_dir_failed(error, now)
            else:
                self._deletion.delete(log, directory, now)

    def checkpoint_deletions(self, now: int) -> None:
        """Let the checkpoints no longer name the logs that were deleted."""
        self._deletion.checkpoint(now)

    def _on_flush_error(self, error: DiskError) -> None:
        self.process.log_dir_failed(error, 0)

    # ---------------------------------------------------------------------------------- periodic

    def start(self, now: int) -> None:
        """Arm the periodic tasks, once the logs are loaded."""
        arm, config = self.process.timers.arm, self.settings.current
        begin = now + config.log_initial_task_delay_ms * 1000
        arm("log-retention", begin, LANE, self._retention)
        arm("log-flusher", begin, LANE, self._flush_due)
        arm("recovery-point-checkpoint", begin, LANE, self._checkpoint)
        arm(
            "producer-expiration",
            now + config.producer_id_expiration_check_interval_ms * 1000,
            LANE,
            self._expire_producers,
        )
        self._checkpoint_high_watermarks(now)
        self.cleaner.start(now)
        self._deletion.resume(config.log_segment_delete_delay_ms, now)

    def _rearm(self, key: str, period_ms: int, handler: Handler, now: int) -> None:
        self.process.timers.arm(key, now + period_ms * 1000, LANE, handler)

    def _retention(self, now: int) -> None:
        """Delete old segments; the cleaner does that of compacted logs (LogManager.cleanupLogs)."""
        period_ms = self.settings.current.log_retention_check_interval_ms
        self._rearm("log-retention", period_ms, self._retention, now)
        wall_ms = self.process.wall_ms(now)
        for partition in self._hosted():
            log = partition.log
            if not log.config.compacted and not self.cleaner.is_cleaning(log.tp):
                try:
                    if log.delete_old_segments(wall_ms):
                        partition.delayed.mark_dirty()
                except DiskError as error:
                    self.process.log_dir_failed(error, now)
                    if not self.several:
                        return

    def _flush_due(self, now: int) -> None:
        """Flush the logs whose flush.ms is over (LogManager.flushDirtyLogs).

        By default this happens once, after log.initial.task.delay.ms: a flush.ms counts only with
        log.flush.scheduler.interval.ms.
        """
        period_ms = self.settings.current.log_flush_scheduler_interval_ms
        if 0 < period_ms < MAX_LONG:
            self._rearm("log-flusher", period_ms, self._flush_due, now)
        wall_ms = self.process.wall_ms(now)
        for partition in self._hosted():
            partition.log.flush_if_due(wall_ms)

    def _expire_producers(self, now: int) -> None:
        period_ms = self.settings.current.producer_id_expiration_check_interval_ms
        self._rearm("producer-expiration", period_ms, self._expire_producers, now)
        wall_ms = self.process.wall_ms(now)
        for partition in self._hosted():
            log, tp = partition.log, partition.tp
            limit_ms = log.producers.expiration_ms
            for producer_id, silent_ms in log.producers.remove_expired(wall_ms):
                place = (log.topic_id, tp.partition)
                self.process.out.append(ProducerIdExpired(*place, producer_id, silent_ms, limit_ms))

    def _checkpoint(self, now: int) -> None:
        """Write recovery points and log starts."""
        period_ms = max(self.settings.current.log_flush_offset_checkpoint_interval_ms, 1)
        self._rearm("recovery-point-checkpoint", period_ms, self._checkpoint, now)
        for directory in self.online:
            self._flush(directory, self._write_offsets, now)

    def _checkpoint_high_watermarks(self, now: int) -> None:
        period_ms = self.settings.current.replica_high_watermark_checkpoint_interval_ms
        self._rearm("highwatermark-checkpoint", period_ms, self._checkpoint_high_watermarks, now)
        for directory in self.online:
            self._flush(directory, self._write_high_watermarks, now)

    def checkpoint_recovery_points(self, tp: TopicPartition) -> None:
        """Make recovery points durable after a truncation, before the log of ``tp`` grows again.

        Otherwise a recovery would trust segments that were rewritten since (LogManager.truncateTo).
        """
        self.process.out.append(Barrier((self._write_recovery_points(self._placed[tp]),)))

    def truncated_segments(self, tp: TopicPartition, active_base_offset: int) -> None:
        """Abort the cleaning of a log that was truncated below the segment that was active."""
        self.cleaner.truncated(tp, active_base_offset)

    def _write_recovery_points(self, directory: LogDirectory) -> str:
        logs = [partition.log for partition in self._hosted(directory)]
        return directory.recovery_points.write({log.tp: log.recovery_point for log in logs})

    def _write_offsets(self, directory: LogDirectory) -> tuple[str, ...]:
        """Write recovery points and log starts; return the files to flush."""
        logs = [partition.log for partition in self._hosted(directory)]
        return (
            self._write_recovery_points(directory),
            directory.log_starts.write({log.tp: log.log_start_offset for log in logs}),
        )

    def _write_high_watermarks(self, directory: LogDirectory) -> tuple[str, ...]:
        """Write the high watermarks; return the file to flush."""
        directory.known_high_watermarks = None
        hosted = self._hosted(directory)
        return (
            directory.high_watermarks.write({each.tp: each.log.high_watermark for each in hosted}),
        )

    def _flush(
        self, directory: LogDirectory, write: Callable[[LogDirectory], tuple[str, ...]], now: int
    ) -> None:
        try:
            paths = write(directory)
        except DiskError as error:
            self.process.log_dir_failed(error, now)
        else:
            self.process.out.append(Flush(paths, partial(self._on_flushed, directory)))

    def _on_flushed(self, directory: LogDirectory, error: str | None, now: int) -> None:
        if error is not None:
            self.process.log_dir_failed(DiskError(f"{directory.root}checkpoint", error), now)

    def _hosted(self, directory: LogDirectory | None = None) -> list[Partition]:
        """Return the online partitions, all or those of one directory."""
        online = [partition for partition in self.partitions.values() if not partition.offline]
        if directory is None or not self.several:
            return online
        return [each for each in online if self._placed[each.tp] is directory]

    # ------------------------------------------------------------------------------------- stop

    def close_clean(
        self, broker_epoch: int, now: int, done: Callable[[DiskError | None, int], None]
    ) -> None:
        """Close all directories cleanly, then call ``done(error, now)``.

        The error is None unless the only directory failed; of several, one that fails now is left
        without a marker.
        """
        for key in PERIODIC_TASKS:
            self.process.timers.cancel(key)
        self.cleaner.stop()
        closing = self.online

        def closed(directory: LogDirectory, error: DiskError | None, at: int) -> None:
            closing.remove(directory)
            if not closing:
                done(None if self.several else error, at)

        for directory in list(closing):
            self._close(directory, broker_epoch, partial(closed, directory), now)

    def _close(
        self,
        directory: LogDirectory,
        broker_epoch: int,
        done: Callable[[DiskError | None, int], None],
        now: int,
    ) -> None:
        logs = [partition.log for partition in self._hosted(directory)]
        if directory.clean_epoch is None:
            try:
                logs += self._recover_unopened(directory, now)
            except DiskError as error:
                done(error, now)
                return

        def write_checkpoints() -> tuple[str, ...]:
            return (*self._write_offsets(directory), *self._write_high_watermarks(directory))

        def write_marker() -> tuple[str, ...]:
            return (write_clean_marker(directory.files, directory.root, broker_epoch),)

        CleanClose(self.process.out, logs, done).begin(write_checkpoints, write_marker, now)

    def _recover_unopened(self, directory: LogDirectory, now: int) -> list[UnifiedLog]:
        """Recover the logs that were not opened since an unclean start.

        Kafka recovers all logs at the start (loadLogs); the clean-shutdown marker covers them.
        """
        found: list[UnifiedLog] = []
        for tp, topic_id in list(directory.on_disk.items()):
            found.append(self._load(directory, tp, topic_id, {}, True, False, now))
            del directory.on_disk[tp]
        return found
