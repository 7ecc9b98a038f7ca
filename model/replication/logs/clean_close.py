"""The clean close of one log directory (LogManager.shutdown).

All logs are flushed, then the checkpoints are written, then the clean-shutdown marker. Each step
begins when the one before is durable, so that no power loss leaves the marker beside logs or
checkpoints that are older.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasim.model.effects import Flush
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.storage.log.unified_log import UnifiedLog

Step: TypeAlias = Callable[[], tuple[str, ...]]
"""Writes files and returns those that must be durable before the next step.

Raises:
    DiskError: the directory failed.
"""


class CleanClose:
    """Closes the logs of one directory, then calls ``done(error, now)`` once."""

    def __init__(
        self, out: list[Any], logs: list[UnifiedLog], done: Callable[[DiskError | None, int], None]
    ) -> None:
        self._out = out
        self._logs = logs
        self._ends = [log.log_end_offset for log in logs]
        self._done = done

    def begin(self, write_checkpoints: Step, write_marker: Step, now: int) -> None:
        """Flush the logs, then take the two steps in this order."""
        self._in_order([self._flush_logs, self._logs_flushed, write_checkpoints, write_marker], now)

    def _flush_logs(self) -> tuple[str, ...]:
        return tuple([path for log in self._logs for path in log.close_clean()])

    def _logs_flushed(self) -> tuple[str, ...]:
        for log, end in zip(self._logs, self._ends, strict=True):
            log.local.flushed(end)
        return ()

    def _in_order(self, steps: list[Step], now: int) -> None:
        """Take the steps, each once the files that the one before returned are durable."""
        if not steps:
            self._done(None, now)
            return
        try:
            paths = steps[0]()
        except DiskError as error:
            self._done(error, now)
            return

        def flushed(error: str | None, at: int) -> None:
            if error is None:
                self._in_order(steps[1:], at)
            else:
                self._done(DiskError("clean shutdown", error), at)

        if paths:
            self._out.append(Flush(paths, flushed))
        else:
            flushed(None, now)
