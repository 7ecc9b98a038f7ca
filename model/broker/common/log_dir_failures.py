"""What a broker does when a disk refuses: LogDirFailureHandler and its consequences.

A broker with one log directory halts. A broker with several goes on without the one that failed
(KIP-112, KIP-858) and announces the failure to the controller, but it cannot go on without the
directory of the metadata log. A failure is handled on lane ``scheduler``, as Kafka handles it on a
thread of its own, so the handler that met the error runs to its end first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Exit, Post
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.storage.directories import LogDirectory

SCHEDULER = "scheduler"


class LogDirFailureHandler:
    """Takes log directories offline.

    ``metadata_log`` is the path of the metadata log, None in ZooKeeper mode.
    ``announce(directory, now)`` tells the controller that a directory failed.
    """

    def __init__(
        self,
        out: list[Any],
        replicas: ReplicaManager,
        metadata_log: str | None,
        announce: Callable[[LogDirectory, int], None],
    ) -> None:
        self.out = out
        self.replicas = replicas
        self.metadata_log = metadata_log
        self.announce = announce
        self.halting = False  # the broker cannot go on: its process is about to exit

    def check_started(self) -> bool:
        """Return whether a log directory could be loaded; if none could, exit the process."""
        logs = self.replicas.logs
        if not logs.online:
            self._exit(logs.directories[0].error)
        return not self.halting

    def log_dir_failed(self, error: DiskError, now: int) -> None:
        """Take the directory of the failed file offline, or halt if it is the only one."""
        logs = self.replicas.logs
        if logs.several:
            directory = logs.fail(error)
            if directory is not None:
                self.out.append(Post(SCHEDULER, self._take_offline, directory))
        elif not self.halting:
            self.halting = True
            self.out.append(Post(SCHEDULER, self._halt, error))

    def on_barrier_failed(self, files: list[str], error: str, now: int) -> bool:
        """Take the directories of these files offline; return whether the broker goes on.

        Kafka's handler thread gets a KafkaStorageException instead. Here the lane was held by a
        Barrier, so the partitions in those directories stop leading at once.
        """
        logs = self.replicas.logs
        log = self.metadata_log
        if not logs.several or (log is not None and any(path.startswith(log) for path in files)):
            return False
        for path in files:
            self.log_dir_failed(DiskError(path, error), now)
        for partition in list(self.replicas.partitions.values()):
            if not partition.offline and logs.directory_of(partition.tp) is None:
                partition.mark_offline()
        return True

    def _take_offline(self, directory: LogDirectory, now: int) -> None:
        """Stop serving the replicas of a directory (ReplicaManager.handleLogDirFailure)."""
        error = directory.error
        assert error is not None, directory
        self.replicas.directories.fail(directory, error.reason, now)
        log = self.metadata_log
        needed = log is not None and log.startswith(directory.root)
        if self.replicas.logs.online and not needed:
            self.announce(directory, now)
        elif not self.halting:
            self._exit(error)

    def _halt(self, error: DiskError, now: int) -> None:
        self.replicas.directories.fail_all(error.reason, now)
        self._exit(error)

    def _exit(self, error: DiskError | None) -> None:
        self.halting = True
        self.out.append(Exit(f"log directory failed: {error}", False))
