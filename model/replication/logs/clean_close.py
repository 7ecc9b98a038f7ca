"""The clean close of one log directory (LogManager.shutdown).

All logs are flushed, then the checkpoints are written, then the clean-shutdown marker. Each step
begins when the one before is durable, so that no power loss leaves the marker beside logs or
checkpoints that are older.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.effects import Flush
from kafkasim.model.storage.checkpoints import write_clean_marker
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.replication.logs.logs import LogManager
    from kafkasim.model.storage.directories import LogDirectory
    from kafkasim.model.storage.log.unified_log import UnifiedLog


class CleanClose:
    """One directory's; ``done(error, now)``: None, or what went wrong."""

    def __init__(
        self,
        manager: LogManager,
        directory: LogDirectory,
        broker_epoch: int,
        done: Callable[[DiskError | None, int], None],
    ) -> None:
        self.manager = manager
        self.directory = directory
        self.broker_epoch = broker_epoch
        self.done = done
        self.logs: list[UnifiedLog] = []
        self.ends: list[int] = []

    def begin(self, now: int) -> None:
        """Flush the logs, and go on from there."""
        manager, directory = self.manager, self.directory
        self.logs = [partition.log for partition in manager.hosted(directory)]
        if directory.clean_epoch is None:
            try:
                self.logs += manager.recover_unopened(directory, now)
            except DiskError as error:
                self.done(error, now)
                return
        self.ends = [log.log_end_offset for log in self.logs]
        self._in_turn([self._flush_logs, self._write_checkpoints, self._write_marker], now)

    def _flush_logs(self) -> tuple[str, ...]:
        return tuple([path for log in self.logs for path in log.close_clean()])

    def _write_checkpoints(self) -> tuple[str, ...]:
        for log, end in zip(self.logs, self.ends, strict=True):
            log.flushed(end)
        manager, directory = self.manager, self.directory
        return (*manager.write_offsets(directory), *manager.write_high_watermarks(directory))

    def _write_marker(self) -> tuple[str, ...]:
        directory = self.directory
        return (write_clean_marker(directory.files, directory.root, self.broker_epoch),)

    def _in_turn(self, steps: list[Callable[[], tuple[str, ...]]], now: int) -> None:
        """Run the steps, each once the files that the one before returned are durable."""
        if not steps:
            self.done(None, now)
            return
        try:
            paths = steps[0]()
        except DiskError as error:
            self.done(error, now)
            return

        def flushed(error: str | None, at: int) -> None:
            if error is None:
                self._in_turn(steps[1:], at)
            else:
                self.done(DiskError("clean shutdown", error), at)

        if paths:
            self.manager.process.out.append(Flush(paths, flushed))
        else:
            flushed(None, now)
