"""The files port: what a disk offers to the model, and an in-memory fake of it.

A file is a sequence of items (a record batch, an index entry, the content of a checkpoint), each
with a size in bytes. Calls are synchronous, so that a handler sees a failure where Kafka sees it. A
write sits in the page cache until a ``Flush`` or ``Barrier`` effect has made it durable. The crash
of a process loses nothing. After a power loss each file has the content of its last flush plus a
prefix of the operations since, and the last surviving item may be torn.

Items are shared with the rest of the simulation and are never changed in place. A damaged item is
read as :class:`Corrupt`.
"""

from __future__ import annotations

from typing import Any, Protocol

from kafkasim.model.values import value

FLUSH_POOL = "background"
"""The threads of KafkaScheduler, as far as they flush logs and epochs: background.threads."""


class DiskError(Exception):
    """The disk refused an operation on a file (Kafka: IOException, KafkaStorageException)."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = str(reason)  # facts have plain texts; a disk may tell more with it

    def __str__(self) -> str:
        return f"{self.reason}: {self.path}"


class DiskFull(DiskError):
    """No space left on the device."""


class ReadError(DiskError):
    """The device could not read an item that was written."""


@value
class Corrupt:
    """A damaged item as it is read: torn by a power loss, or hit by bit rot."""

    item: Any


class Files(Protocol):
    """Named files of one disk. Paths are plain strings such as ``orders-0/0000.log``.

    Every call may raise :class:`DiskError`; reading or truncating a file that does not exist
    raises :class:`FileNotFoundError`.
    """

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        ...

    def paths(self, prefix: str) -> list[str]:
        """Return the sorted paths that start with ``prefix``."""
        ...

    def append(self, path: str, item: Any, size: int) -> None:
        """Append one item of ``size`` bytes, creating the file if it is missing."""
        ...

    def write(self, path: str, item: Any, size: int) -> None:
        """Replace the whole content by one item. Not atomic: use ``write`` then ``rename``."""
        ...

    def read(self, path: str, first: int = 0, last: int | None = None) -> list[Any]:
        """Return the items ``first`` to ``last`` (exclusive; None is the end)."""
        ...

    def count(self, path: str) -> int:
        """Return the number of items of the file."""
        ...

    def size(self, path: str) -> int:
        """Return the size of the file in bytes."""
        ...

    def truncate(self, path: str, count: int) -> None:
        """Keep the first ``count`` items."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing ``new`` if it exists. Atomic.

        Names that end in ``/`` are those of a directory, which takes all files below it along;
        there is none of the name ``new``.
        """
        ...

    def delete(self, path: str, delay_ms: int = 0) -> None:
        """Delete a file; a missing one is no error.

        The name goes at once, and its room on the disk after ``delay_ms``: Kafka renames the file
        to ``.deleted`` and deletes it later.
        """
        ...


class MemoryFiles:
    """Files without a disk below them, for tests of the model: all is durable at once."""

    def __init__(self) -> None:
        self._files: dict[str, list[tuple[Any, int]]] = {}
        self._below: dict[str, dict[str, None]] = {}  # directory -> the paths below it

    def exists(self, path: str) -> bool:
        return path in self._files

    def paths(self, prefix: str) -> list[str]:
        below = self._below.get(prefix[: prefix.rfind("/") + 1], {})
        return sorted([path for path in below if path.startswith(prefix)])

    def append(self, path: str, item: Any, size: int) -> None:
        if path not in self._files:
            self._create(path)
        self._files[path].append((item, size))

    def write(self, path: str, item: Any, size: int) -> None:
        self._create(path)
        self._files[path].append((item, size))

    def read(self, path: str, first: int = 0, last: int | None = None) -> list[Any]:
        return [item for item, _ in self._file(path)[first:last]]

    def count(self, path: str) -> int:
        return len(self._file(path))

    def size(self, path: str) -> int:
        return sum(size for _, size in self._file(path))

    def truncate(self, path: str, count: int) -> None:
        del self._file(path)[count:]

    def rename(self, old: str, new: str) -> None:
        if old.endswith("/"):
            for path in self.paths(old):
                self.rename(path, new + path[len(old) :])
            return
        items = self._file(old)
        self._remove(old)
        self._create(new)
        self._files[new] = items

    def delete(self, path: str, delay_ms: int = 0) -> None:
        self._remove(path)

    def go_back_to(self, files: dict[str, list[tuple[Any, int]]]) -> None:
        """Have only these files, each with its items and their sizes."""
        for path in list(self._files):
            self._remove(path)
        for path, items in files.items():
            self._create(path)
            self._files[path] = list(items)

    def _remove(self, path: str) -> None:
        if self._files.pop(path, None) is not None:
            for directory in _directories(path):
                del self._below[directory][path]

    def _create(self, path: str) -> None:
        self._files[path] = []
        for directory in _directories(path):
            self._below.setdefault(directory, {})[path] = None

    def _file(self, path: str) -> list[tuple[Any, int]]:
        file = self._files.get(path)
        if file is None:
            raise FileNotFoundError(path)
        return file


def _directories(path: str) -> list[str]:
    """Return the directories above a file, the root "" first."""
    return ["", *[path[: at + 1] for at, letter in enumerate(path) if letter == "/"]]
