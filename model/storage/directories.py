"""One log directory of a broker: its id, its checkpoints, whether it is online (Kafka: LogManager).

If a broker has several directories, each has a view of the disk (:class:`DirectoryFiles`). After
the first error the view refuses every access, as LocalLog.maybeHandleIOException does with
LogDirFailureChannel.hasOfflineLogDir. A broker's only directory needs no view: its failure ends the
process.

Left out: directory locks; meta.properties, whose cluster id is ``messages/base.py:CLUSTER_ID``.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.directories import random_id
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CheckpointFile,
    OffsetCheckpoint,
    logs_on_disk,
    take_clean_marker,
)
from kafkasim.model.storage.files import DiskError, Files

META_PROPERTIES = "meta.properties"
METADATA_TOPIC = "__cluster_metadata"  # the Raft client's log (loadLogs passes it over)


class DirectoryFiles:
    """The files of one directory. Every access raises DiskError once ``failed`` is set."""

    __slots__ = ("_files", "failed")

    def __init__(self, files: Files) -> None:
        self._files = files
        self.failed = False

    def _check(self, path: str) -> Files:
        if self.failed:
            raise DiskError(path, "the log directory is offline")
        return self._files

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        return self._check(path).exists(path)

    def paths(self, prefix: str) -> list[str]:
        """Return the sorted paths that start with ``prefix``."""
        return self._check(prefix).paths(prefix)

    def append(self, path: str, item: Any, size: int) -> None:
        """Append one item."""
        self._check(path).append(path, item, size)

    def write(self, path: str, item: Any, size: int) -> None:
        """Replace the content."""
        self._check(path).write(path, item, size)

    def read(self, path: str, first: int = 0, last: int | None = None) -> list[Any]:
        """Return items."""
        return self._check(path).read(path, first, last)

    def count(self, path: str) -> int:
        """Return the number of items."""
        return self._check(path).count(path)

    def size(self, path: str) -> int:
        """Return the size in bytes."""
        return self._check(path).size(path)

    def truncate(self, path: str, count: int) -> None:
        """Keep the first items."""
        self._check(path).truncate(path, count)

    def rename(self, old: str, new: str) -> None:
        """Rename a file or a directory."""
        self._check(old).rename(old, new)

    def delete(self, path: str, delay_ms: int = 0) -> None:
        """Delete a file."""
        self._check(path).delete(path, delay_ms)


class LogDirectory:
    """A log directory. ``path`` is its entry in log.dirs, ``root`` the prefix of its files.

    The offsets of the checkpoints are kept as they were when the broker started
    (LazyOffsetCheckpoints): a log may be opened much later, and by then the checkpoints on disk
    have been written again without it.
    """

    def __init__(self, files: Files, path: str, root: str) -> None:
        self.path = path
        self.root = root
        self.view = DirectoryFiles(files) if root else None
        self.files: Files = self.view or files
        self.id = ""  # of meta.properties; "" if the broker has one directory
        self.error: DiskError | None = None  # why it is offline
        self.clean_epoch: int | None = None  # the broker epoch of a clean stop
        self.high_watermarks = OffsetCheckpoint(self.files, root + HIGH_WATERMARK_CHECKPOINT)
        self.recovery_points = OffsetCheckpoint(self.files, root + RECOVERY_POINT_CHECKPOINT)
        self.log_starts = OffsetCheckpoint(self.files, root + LOG_START_CHECKPOINT)
        self.cleaner_offsets = OffsetCheckpoint(self.files, root + CLEANER_CHECKPOINT)
        self.cleaner_points: dict[TopicPartition, int] = {}  # first dirty offsets, as on disk
        self.known_high_watermarks: dict[TopicPartition, int] | None = None  # None: read it again
        self.known_recovery_points: dict[TopicPartition, int] = {}
        self.known_log_starts: dict[TopicPartition, int] = {}
        self.on_disk: dict[TopicPartition, str] = {}  # topic ids of logs that are not open yet

    def __repr__(self) -> str:
        return f"LogDirectory({self.path}, {self.id}, {'online' if self.online else 'offline'})"

    def load(self, rng: random.Random) -> tuple[str, ...]:
        """Read what a broker's start needs; return the files to flush before anything else.

        Raises:
            DiskError: the directory cannot be read.
        """
        pending: tuple[str, ...] = ()
        if self.view is not None:
            properties = CheckpointFile(self.files, self.root + META_PROPERTIES)
            self.id = properties.read() or ""
            if not self.id:  # an empty directory is formatted (KafkaRaftServer.initializeLogDirs)
                self.id = random_id(rng)
                pending = (properties.write(self.id, 100),)
        self.clean_epoch = take_clean_marker(self.files, self.root)
        if self.clean_epoch is not None:  # a crash from now on is unclean, whatever the power does
            pending = (*pending, self.root + CLEAN_SHUTDOWN)
        self.known_recovery_points = self.recovery_points.read()
        self.known_log_starts = self.log_starts.read()
        self.cleaner_points = self.cleaner_offsets.read()
        self.on_disk = {
            tp: topic_id
            for _, tp, topic_id in logs_on_disk(self.files, self.root)
            if tp.topic != METADATA_TOPIC
        }
        return pending

    @property
    def online(self) -> bool:
        """Whether the directory has not failed since the process started."""
        return self.error is None

    def fail(self, error: DiskError) -> None:
        """Take the directory offline: every access to it fails from now on."""
        self.error = error
        if self.view is not None:
            self.view.failed = True

    def log_path(self, tp: TopicPartition) -> str:
        """Return the path of a partition's log."""
        return f"{self.root}{tp}"

    def holds(self, path: str) -> bool:
        """Return whether a file lies in this directory."""
        return path.startswith(self.root)

    def high_watermark(self, tp: TopicPartition) -> int:
        """Return a partition's checkpointed high watermark."""
        known = self.known_high_watermarks
        if known is None:
            known = self.known_high_watermarks = self.high_watermarks.read()
        return known.get(tp, 0)
