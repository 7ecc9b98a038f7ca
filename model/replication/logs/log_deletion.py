"""The deletion of logs (LogManager.asyncDelete, deleteLogs).

A log is deleted by renaming its directory to …-delete. Its files go after file.delete.delay.ms, or,
if the process ends before, log.segment.delete.delay.ms after the next start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.effects import Barrier
from kafkasim.model.facts import LogDeleted
from kafkasim.model.storage.checkpoints import DELETED
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.storage.directories import LogDirectory
    from kafkasim.model.storage.log.unified_log import UnifiedLog
    from kafkasim.model.storage.rules import StorageRules

LANE = "scheduler"


class LogDeletion:
    """Deletes logs. ``write_offsets`` writes a directory's recovery points and log starts."""

    def __init__(
        self,
        process: BrokerProcess,
        rules: StorageRules,
        write_offsets: Callable[[LogDirectory], tuple[str, ...]],
    ) -> None:
        self._process = process
        self._rules = rules
        self._write_offsets = write_offsets
        self._deleted_from: dict[LogDirectory, None] = {}  # since the last checkpoint

    def delete(self, log: UnifiedLog, placed: LogDirectory, now: int) -> bool:
        """Rename a log's directory, which has failed if this returns False.

        What the caller does next waits until the new name is durable (Utils.atomicMoveWithFallback,
        KAFKA-3968), so no power loss brings the log back beside a new one.
        """
        process = self._process
        directory = f"{log.directory}.{process.rng.getrandbits(128):032x}{DELETED}"
        try:
            process.files.rename(f"{log.directory}/", f"{directory}/")
        except DiskError as error:
            process.log_dir_failed(error, now)
            return False
        process.out.append(LogDeleted(log.topic_id, log.tp.partition, log.log_end_offset))
        if self._rules.flushes_renamed_directory():
            process.out.append(Barrier((f"{log.directory}/",)))
        self._deleted_from[placed] = None
        self._delete_later(directory, log.config.file_delete_delay_ms, now)
        return True

    def checkpoint(self, now: int) -> None:
        """Write the offsets of the directories that logs were deleted from, once for all of these.

        Otherwise the next start would take those of a deleted log for those of a new one of the
        same partition.
        """
        directories, self._deleted_from = [*self._deleted_from], {}
        for directory in directories:
            try:
                paths = self._write_offsets(directory)
            except DiskError as error:
                self._process.log_dir_failed(error, now)
            else:
                self._process.out.append(Barrier(paths))

    def resume(self, delay_ms: int, now: int) -> None:
        """Delete, after a delay, the files that an earlier process has left."""
        found = [path.rpartition("/")[0] for path in self._process.files.paths("")]
        for directory in dict.fromkeys(found):
            if directory.endswith(DELETED):
                self._delete_later(directory, delay_ms, now)

    def _delete_later(self, directory: str, delay_ms: int, now: int) -> None:
        files = self._process.files

        def delete(at: int) -> None:
            try:
                for path in files.paths(directory + "/"):
                    files.delete(path)
            except DiskError as error:
                self._process.log_dir_failed(error, at)

        self._process.timers.arm(("delete-log", directory), now + delay_ms * 1000, LANE, delete)
