"""The logs of one log directory: opening, checkpoints, retention, clean close (LogManager).

One log directory per broker (log.dirs with several entries is not modelled), so its failure halts
the broker. The high-watermark checkpoint is ReplicaManager's in Kafka; it lives here, beside its
siblings. Logs of partitions that metadata no longer assigns to this broker stay on disk unused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from model.effects import Barrier, Flush
from model.facts import LogDeleted, LogLoaded
from model.records import TopicPartition
from model.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    DELETED,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
    logs_on_disk,
    take_clean_marker,
    write_clean_marker,
)
from model.storage.files import DiskError
from model.storage.log import Log

if TYPE_CHECKING:
    from model.config import BrokerConfig
    from model.replication.partition import Partition
    from model.replication.ports import BrokerProcess
    from model.storage.rules import StorageRules

METADATA_TOPIC = "__cluster_metadata"  # the Raft client's log (loadLogs passes it over)
LANE = "scheduler"
PERIODIC = (
    "log-retention",
    "log-flusher",
    "recovery-point-checkpoint",
    "producer-expiration",
    "highwatermark-checkpoint",
)
INITIAL_TASK_DELAY_US = 30_000_000


class LogManager:
    """Opens logs, and writes what a restart needs to know about them."""

    def __init__(
        self,
        process: BrokerProcess,
        config: BrokerConfig,
        rules: StorageRules,
        partitions: dict[TopicPartition, Partition],
    ) -> None:
        self.process = process
        self.config = config
        self.rules = rules
        self.partitions = partitions
        files = process.files
        self.clean_epoch = take_clean_marker(files, "")  # the broker epoch of a clean stop, or None
        if self.clean_epoch is not None:  # a crash from now on is unclean, whatever the power does
            process.out.append(Barrier((CLEAN_SHUTDOWN,)))
        self._high_watermarks = OffsetCheckpoint(files, HIGH_WATERMARK_CHECKPOINT)
        self._recovery_points = OffsetCheckpoint(files, RECOVERY_POINT_CHECKPOINT)
        self._log_starts = OffsetCheckpoint(files, LOG_START_CHECKPOINT)
        # As the file is when a log is opened (LazyOffsetCheckpoints): what was written since this
        # start names only what was hosted by then. None: to be read again.
        self._known_high_watermarks: dict[TopicPartition, int] | None = None
        self._known_recovery_points = self._recovery_points.read()
        self._known_log_starts = self._log_starts.read()
        self._on_disk: dict[TopicPartition, tuple[str, str]] = {
            tp: (directory, topic_id)
            for directory, tp, topic_id in logs_on_disk(files, "")
            if tp.topic != METADATA_TOPIC
        }
        self.failed = False

    def open(
        self, tp: TopicPartition, topic_id: str, overrides: Mapping[str, str], now: int
    ) -> Log | None:
        """Load a log or create it; None if the disk fails (the broker halts then)."""
        process = self.process
        known = self._on_disk.pop(tp, None)
        directory = str(tp)
        try:
            if known is not None and known[1] != topic_id:  # another topic of that name: a stray
                for path in process.files.paths(directory + "/"):
                    process.files.delete(path)
                known = None
            # A power loss may leave batches without partition.metadata: a log all the same.
            nameless = known is None and bool(process.files.paths(directory + "/"))
            clean = not nameless and (known is None or self.clean_epoch is not None)
            log = self._load(tp, topic_id, overrides, known is not None or nameless, clean, now)
        except DiskError as error:
            process.log_dir_failed(error, now)
            return None
        log.on_disk_error = self._on_flush_error
        return log

    def _load(
        self,
        tp: TopicPartition,
        topic_id: str,
        overrides: Mapping[str, str],
        existed: bool,
        clean: bool,
        now: int,
    ) -> Log:
        process = self.process
        high_watermarks = self._known_high_watermarks
        if high_watermarks is None:
            high_watermarks = self._known_high_watermarks = self._high_watermarks.read()
        log = Log(
            process.files,
            process.out,
            str(tp),
            tp,
            topic_id,
            self.config.topic_config(overrides),
            self.rules,
            clean=clean,
            recovery_point=self._known_recovery_points.get(tp, 0) if existed else 0,
            log_start_offset=self._known_log_starts.get(tp, 0) if existed else 0,
            high_watermark=high_watermarks.get(tp, 0) if existed else 0,
            now_ms=process.wall_ms(now),
            producer_id_expiration_ms=self.config.producer_id_expiration_ms,
        )
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
        """Rename the log of a partition that is hosted no longer out of the way (asyncDelete); its
        files go after file.delete.delay.ms."""
        unique = f"{self.process.rng.getrandbits(128):032x}"
        directory = f"{partition.log.directory}.{unique}{DELETED}"
        files = self.process.files
        try:
            for path in files.paths(partition.log.directory + "/"):
                files.rename(path, f"{directory}/{path.rpartition('/')[2]}")
        except DiskError as error:
            self.process.log_dir_failed(error, now)
            return
        log = partition.log
        self.process.out.append(LogDeleted(log.topic_id, log.tp.partition, log.log_end_offset))
        self._delete_later(directory, partition.log.config.file_delete_delay_ms, now)

    def _delete_later(self, directory: str, delay_ms: int, now: int) -> None:
        files = self.process.files

        def delete(at: int) -> None:
            try:
                for path in files.paths(directory + "/"):
                    files.delete(path)
            except DiskError as error:
                self.process.log_dir_failed(error, at)

        self.process.timers.arm(("delete-log", directory), now + delay_ms * 1000, LANE, delete)

    def _on_flush_error(self, error: DiskError) -> None:
        self.process.log_dir_failed(error, 0)

    # ---------------------------------------------------------------------------------- periodic

    def start(self, now: int) -> None:
        """Arm the periodic tasks, once the logs are loaded."""
        arm, config = self.process.timers.arm, self.config
        arm("log-retention", now + INITIAL_TASK_DELAY_US, LANE, self._retention)
        arm("log-flusher", now + INITIAL_TASK_DELAY_US, LANE, self._flush_due)
        arm("recovery-point-checkpoint", now + INITIAL_TASK_DELAY_US, LANE, self._checkpoint)
        arm(
            "producer-expiration",
            now + config.producer_id_expiration_check_interval_ms * 1000,
            LANE,
            self._expire_producers,
        )
        self._checkpoint_high_watermarks(now)
        waiting = [path.rpartition("/")[0] for path in self.process.files.paths("")]
        for directory in dict.fromkeys(waiting):
            if directory.endswith(DELETED):
                self._delete_later(directory, config.log_segment_delete_delay_ms, now)

    def _rearm(self, key: str, period_ms: int, task: str, now: int) -> None:
        handler = getattr(self, task)
        self.process.timers.arm(key, now + period_ms * 1000, LANE, handler)

    def _retention(self, now: int) -> None:
        self._rearm("log-retention", self.config.log_retention_check_interval_ms, "_retention", now)
        wall_ms = self.process.wall_ms(now)
        for partition in self._hosted():
            if "delete" in partition.log.config.cleanup_policy:
                try:
                    if partition.log.delete_old_segments(wall_ms):
                        partition.changed()
                except DiskError as error:
                    self.process.log_dir_failed(error, now)
                    return

    def _flush_due(self, now: int) -> None:
        """LogManager.flushDirtyLogs; log.flush.scheduler.interval.ms is effectively one second."""
        wall_ms = self.process.wall_ms(now)
        finite = False
        for partition in self._hosted():
            if partition.log.config.flush_ms < 2**62:
                finite = True
                partition.log.flush_if_due(wall_ms)
        self._rearm("log-flusher", 1000 if finite else 30_000, "_flush_due", now)

    def _expire_producers(self, now: int) -> None:
        period_ms = self.config.producer_id_expiration_check_interval_ms
        self._rearm("producer-expiration", period_ms, "_expire_producers", now)
        wall_ms = self.process.wall_ms(now)
        for partition in self._hosted():
            partition.log.remove_expired_producers(wall_ms)

    def _checkpoint(self, now: int) -> None:
        """Write recovery points and log starts."""
        period_ms = max(self.config.log_flush_offset_checkpoint_interval_ms, 1)
        self._rearm("recovery-point-checkpoint", period_ms, "_checkpoint", now)
        try:
            self._flush(self._write_offsets())
        except DiskError as error:
            self.process.log_dir_failed(error, now)

    def _checkpoint_high_watermarks(self, now: int) -> None:
        self._rearm(
            "highwatermark-checkpoint",
            self.config.replica_high_watermark_checkpoint_interval_ms,
            "_checkpoint_high_watermarks",
            now,
        )
        try:
            self._flush((self._write_high_watermarks(),))
        except DiskError as error:
            self.process.log_dir_failed(error, now)

    def checkpoint_recovery_points(self) -> None:
        """A truncation lowered a recovery point: say so before the log grows again.

        Else recovery trusts segments that were written anew (LogManager.truncateTo).
        """
        self.process.out.append(Barrier((self._write_recovery_points(),)))

    def _write_recovery_points(self) -> str:
        logs = [partition.log for partition in self._hosted()]
        return self._recovery_points.write({log.tp: log.recovery_point for log in logs})

    def _write_offsets(self) -> tuple[str, ...]:
        logs = [partition.log for partition in self._hosted()]
        return (
            self._write_recovery_points(),
            self._log_starts.write({log.tp: log.log_start_offset for log in logs}),
        )

    def _write_high_watermarks(self) -> str:
        self._known_high_watermarks = None
        return self._high_watermarks.write(
            {partition.tp: partition.log.high_watermark for partition in self._hosted()}
        )

    def _flush(self, paths: tuple[str, ...]) -> None:
        self.process.out.append(Flush(paths, self._on_flushed))

    def _on_flushed(self, error: str | None, now: int) -> None:
        if error is not None:
            self.process.log_dir_failed(DiskError("checkpoint", error), now)

    def _hosted(self) -> list[Partition]:
        return [partition for partition in self.partitions.values() if not partition.offline]

    # ------------------------------------------------------------------------------------- stop

    def close_clean(
        self, broker_epoch: int, now: int, done: Callable[[DiskError | None, int], None]
    ) -> None:
        """Flush all logs, then write the checkpoints, then the clean-shutdown marker.

        Each step begins when the one before is durable, so that no power loss leaves the marker
        beside logs or checkpoints that are older. ``done(error, now)``: None, or what went wrong.
        """
        for key in PERIODIC:
            self.process.timers.cancel(key)
        logs = [partition.log for partition in self._hosted()]
        if self.clean_epoch is None:
            try:
                logs += self._recover_unopened(now)
            except DiskError as error:
                done(error, now)
                return
        ends = [log.log_end_offset for log in logs]

        def flush_logs() -> tuple[str, ...]:
            return tuple([path for log in logs for path in log.close_clean()])

        def write_checkpoints() -> tuple[str, ...]:
            for log, end in zip(logs, ends, strict=True):
                log.flushed(end)
            return (*self._write_offsets(), self._write_high_watermarks())

        def write_marker() -> tuple[str, ...]:
            return (write_clean_marker(self.process.files, "", broker_epoch),)

        self._in_turn([flush_logs, write_checkpoints, write_marker], now, done)

    def _recover_unopened(self, now: int) -> list[Log]:
        """Recover what nobody has asked for since an unclean start.

        Kafka does it at the start, with all logs (loadLogs); the marker vouches for these too.
        """
        found: list[Log] = []
        for tp, (_, topic_id) in list(self._on_disk.items()):
            found.append(self._load(tp, topic_id, {}, True, False, now))
            del self._on_disk[tp]
        return found

    def _in_turn(
        self,
        steps: list[Callable[[], tuple[str, ...]]],
        now: int,
        done: Callable[[DiskError | None, int], None],
    ) -> None:
        """Run the steps, each once the files that the one before returned are durable."""
        if not steps:
            done(None, now)
            return
        try:
            paths = steps[0]()
        except DiskError as error:
            done(error, now)
            return

        def flushed(error: str | None, at: int) -> None:
            if error is None:
                self._in_turn(steps[1:], at, done)
            else:
                done(DiskError("clean shutdown", error), at)

        if paths:
            self.process.out.append(Flush(paths, flushed))
        else:
            flushed(None, now)
