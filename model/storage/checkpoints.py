"""Small files that hold either the old or the new content after a power loss, never a mix.

Kafka writes a temporary file, fsyncs it, renames it over the old one and fsyncs the directory
(CheckpointFile, CheckpointFileWithFailureHandler). A handler of this model cannot wait for an fsync
in between. :class:`CheckpointFile` therefore keeps a journal: each write appends the whole content,
and the last intact item counts. The outcome is Kafka's: old or new. The journal alternates between
two files of at most ``MAX_ITEMS`` items.

Also here: :class:`OffsetCheckpoint` (recovery-point-offset-checkpoint,
log-start-offset-checkpoint, replication-offset-checkpoint, cleaner-offset-checkpoint), the
clean-shutdown marker (CleanShutdownFileHandler) and the topic id of a log (PartitionMetadataFile).
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import Files

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
PARTITION_METADATA = "partition.metadata"
MAX_ITEMS = 64


class CheckpointFile:
    """One value on disk, replaced atomically. A write is durable once its path is flushed."""

    __slots__ = ("_active", "_files", "_paths", "_sequence")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._paths = (path, path + ".tmp")
        self._active = 0
        self._sequence = 0

    def read(self) -> Any:
        """Return the value that was written last, or None."""
        found: Any = None
        for index, path in enumerate(self._paths):
            items = self._files.read(path) if self._files.exists(path) else []
            for item in items:
                if isinstance(item, tuple) and item[0] > self._sequence:
                    self._active = index
                    self._sequence, found = item
        return found

    def write(self, content: Any, size: int) -> str:
        """Replace the value; return the path that a Flush or Barrier must name."""
        path = self._paths[self._active]
        if self._files.exists(path) and self._files.count(path) >= MAX_ITEMS:
            self._active = 1 - self._active
            path = self._paths[self._active]
            if self._files.exists(path):
                self._files.truncate(path, 0)
        self._sequence += 1
        self._files.append(path, (self._sequence, content), size)
        return path

    def write_in_place(self, content: Any, size: int) -> str:
        """Overwrite the file, as Kafka did before KAFKA-16541: a power loss may damage it."""
        path, other = self._paths[self._active], self._paths[1 - self._active]
        self._sequence += 1
        self._files.write(path, (self._sequence, content), size)
        self._files.delete(other)
        return path

    def delete(self) -> None:
        """Remove the file."""
        for path in self._paths:
            self._files.delete(path)
        self._active = 0


class OffsetCheckpoint:
    """The offsets of all partitions of a directory in one file (OffsetCheckpointFile)."""

    def __init__(self, files: Files, path: str) -> None:
        self._file = CheckpointFile(files, path)

    def read(self) -> dict[TopicPartition, int]:
        """Return the offsets that were written last; for the start of a broker."""
        return dict(self._file.read() or ())

    def write(self, offsets: dict[TopicPartition, int]) -> str:
        """Replace all offsets; return the path that a Barrier or Flush must name."""
        return self._file.write(tuple(offsets.items()), 16 + 24 * len(offsets))


def write_clean_marker(files: Files, root: str, broker_epoch: int) -> str:
    """Write the clean-shutdown file and return its path. Every log must be flushed before."""
    path = root + CLEAN_SHUTDOWN
    files.write(path, broker_epoch, 40)
    return path


def take_clean_marker(files: Files, root: str) -> int | None:
    """Delete the clean-shutdown file; return the broker epoch in it, None without the file.

    The caller makes the deletion durable (a Barrier on ``root + CLEAN_SHUTDOWN``) before it appends
    anything: if a power loss undid it, an unclean stop would look clean.
    """
    path = root + CLEAN_SHUTDOWN
    if not files.exists(path):
        return None
    items = files.read(path)
    files.delete(path)
    return items[0] if items and isinstance(items[0], int) else None


def write_topic_id(files: Files, directory: str, topic_id: str, tp: TopicPartition) -> str | None:
    """Write a log's partition.metadata; return the path to flush, None if the file exists."""
    file = CheckpointFile(files, f"{directory}/{PARTITION_METADATA}")
    return None if file.read() is not None else file.write((tp, topic_id), 50)


DELETED = "-delete"
"""The suffix of a log's directory between its renaming and its deletion
(LogFileUtils.DELETE_DIR_SUFFIX)."""


def logs_on_disk(files: Files, root: str) -> list[tuple[str, TopicPartition, str]]:
    """Return (directory, partition, topic id) of each log below ``root``, a path prefix.

    Logs that wait for their deletion are left out.
    """
    suffix = "/" + PARTITION_METADATA
    found = []
    for path in files.paths(root):
        if path.endswith(suffix) and not path.endswith(DELETED + suffix):
            content = CheckpointFile(files, path).read()
            if content is not None:
                tp, topic_id = content
                found.append((path[: -len(suffix)], tp, topic_id))
    return found
