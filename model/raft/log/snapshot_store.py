"""The snapshot files of one replica (KIP-630; KafkaMetadataLog, FileRawSnapshotWriter).

A snapshot ``<end offset>-<epoch>.checkpoint`` holds everything that the log below its end offset
says. The file is a header and chunks of values. It is written as ``.part`` and renamed once it is
complete; a ``.part`` that a restart finds is deleted.

Left out: the bootstrap snapshot of ``kafka-storage format``, footers.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.storage.files import Corrupt, DiskError, Files
from kafkasim.model.values import value

RECORD_SIZE = 100  # bytes that one record counts for, in the log and in a snapshot
SUFFIX = ".checkpoint"
PART = ".part"

SnapshotId = tuple[int, int]
"""(end offset, epoch): the snapshot covers the offsets below the first."""


@value
class SnapshotHeader:
    """The control records that open a snapshot: SnapshotHeaderRecord and VotersRecord.

    ``voters`` is a tuple of voters, None for the static set.
    """

    last_contained_log_timestamp_ms: int
    voters: Any = None


def chunk_size(chunk: Any) -> int:
    """Return the bytes of a chunk of values, or of the header."""
    return RECORD_SIZE * (len(chunk) if type(chunk) is tuple else 1)


class SnapshotStore:
    """The snapshots of one log; ``ids`` are those of the complete ones, oldest first."""

    __slots__ = ("_directory", "_files", "ids")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.ids: list[SnapshotId] = []
        for path in files.paths(directory + "/"):
            if path.endswith(SUFFIX + PART):
                files.delete(path)
            elif path.endswith(SUFFIX):
                end_offset, _, epoch = path[len(directory) + 1 : -len(SUFFIX)].partition("-")
                self.ids.append((int(end_offset), int(epoch)))

    @property
    def latest(self) -> SnapshotId | None:
        """The newest complete snapshot."""
        return self.ids[-1] if self.ids else None

    def path(self, snapshot: SnapshotId) -> str:
        """Return the path of a complete snapshot."""
        return f"{self._directory}/{snapshot[0]:020d}-{snapshot[1]:010d}{SUFFIX}"

    def part(self, snapshot: SnapshotId) -> str:
        """Return the path of a snapshot that is being written."""
        return self.path(snapshot) + PART

    def begin(self, snapshot: SnapshotId) -> None:
        """Start writing a snapshot, without anything that was written of it before."""
        self._files.delete(self.part(snapshot))

    def append(self, snapshot: SnapshotId, chunk: Any) -> None:
        """Write the next chunk."""
        self._files.append(self.part(snapshot), chunk, chunk_size(chunk))

    def written(self, snapshot: SnapshotId) -> int:
        """Return how many bytes of an unfinished snapshot are written."""
        part = self.part(snapshot)
        return self._files.size(part) if self._files.exists(part) else 0

    def freeze(self, snapshot: SnapshotId) -> None:
        """Rename the finished file; the snapshot is complete from then on."""
        self._files.rename(self.part(snapshot), self.path(snapshot))
        self.ids = sorted([*[each for each in self.ids if each != snapshot], snapshot])

    def size(self, snapshot: SnapshotId) -> int:
        """Return the size of a complete snapshot in bytes."""
        return self._files.size(self.path(snapshot))

    def read(self, snapshot: SnapshotId) -> list[Any]:
        """Return the header and the chunks of a complete snapshot.

        Raises:
            DiskError: the device lost a chunk, or refused to read.
        """
        chunks = self._files.read(self.path(snapshot))
        if not chunks or any(type(chunk) is Corrupt for chunk in chunks):
            raise DiskError(self.path(snapshot), "corrupt snapshot")
        return chunks

    def header(self, snapshot: SnapshotId) -> SnapshotHeader:
        """Return the header of a complete snapshot; raises as :meth:`read` does."""
        header: SnapshotHeader = self.read(snapshot)[0]
        return header

    def delete(self, snapshot: SnapshotId) -> None:
        """Delete one snapshot."""
        self._files.delete(self.path(snapshot))
        self.ids.remove(snapshot)

    def delete_before(self, snapshot: SnapshotId) -> None:
        """Delete the snapshots older than ``snapshot``."""
        for old in [each for each in self.ids if each < snapshot]:
            self._files.delete(self.path(old))
        self.ids = [each for each in self.ids if each >= snapshot]
