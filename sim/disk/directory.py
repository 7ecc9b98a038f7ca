"""The names of a disk's files, and the directory operations that a power loss would undo.

Create, rename and delete are operations of one journal, in which they become durable in order. The
journal commits by itself after 5 s, as ext4's does, and earlier when a file is flushed: up to the
last operation that names the file. Two tables make look-ups cheap: the entries of every directory,
and the last pending operation of every path.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkasim.sim.disk.inode import Inode

JOURNAL_COMMIT_US = 5_000_000


class Operation(NamedTuple):
    """A pending directory operation: ``create``, ``rename`` or ``delete``."""

    number: int
    at_us: int
    kind: str
    path: str  # of a directory if it ends in ``/``
    new_path: str  # of a rename, else ""
    inode: Inode | None  # what a delete or a rename removed


class Directory:
    """Which inode every path names, now and, as far as it is durable, after a power loss.

    A directory's name ends in ``/``; the root is "". Directories exist while they have entries.
    """

    def __init__(self) -> None:
        self.inodes: dict[str, Inode] = {}
        self._entries: dict[str, dict[str, None]] = {}  # directory -> its files and directories
        self._pending: deque[Operation] = deque()
        self._number = 0  # of the last operation
        self._last: dict[str, int] = {}  # path or directory -> its last pending operation

    def paths(self, prefix: str) -> list[str]:
        """Return the sorted paths that start with ``prefix``."""
        found: list[str] = []
        self._collect(prefix[: prefix.rfind("/") + 1], prefix, found)
        found.sort()
        return found

    def create(self, path: str, now_us: int) -> Inode:
        """Create an empty file."""
        inode = Inode()
        self._bind(path, inode)
        self._log(now_us, "create", path, "", None)
        return inode

    def rename(self, path: str, new_path: str, now_us: int) -> Inode | None:
        """Rename a file; return the inode that had the new name before, if any."""
        replaced = self.inodes.get(new_path)
        self._bind(new_path, self._unbind(path))
        self._log(now_us, "rename", path, new_path, replaced)
        return replaced

    def rename_directory(self, path: str, new_path: str, now_us: int) -> None:
        """Rename a directory, at once for all files below it; there is none of the new name."""
        assert new_path not in self._entries, new_path
        self._move(path, new_path)
        self._log(now_us, "rename", path, new_path, None)

    def delete(self, path: str, now_us: int) -> Inode:
        """Delete a file and return its inode."""
        inode = self._unbind(path)
        self._log(now_us, "delete", path, "", inode)
        return inode

    # ------------------------------------------------------------------------------ durability

    def last_operation(self, files: Iterable[str]) -> int:
        """Return the number of the last pending operation on one of the files, or 0.

        A file that ends in ``/`` is a directory, and stands for all files below it.
        """
        return max([self._last.get(name, 0) for name in files], default=0)

    def commit(self, number: int) -> None:
        """Make all operations up to a number durable."""
        while self._pending and self._pending[0].number <= number:
            self._forget(self._pending.popleft())

    def commit_old(self, now_us: int) -> None:
        """Make durable what the journal has committed by itself."""
        oldest = now_us - JOURNAL_COMMIT_US
        while self._pending and self._pending[0].at_us < oldest:
            self._forget(self._pending.popleft())

    def lose(self, rng: random.Random) -> None:
        """Lose power: keep a drawn prefix of the pending operations, undo the others."""
        keep = int(rng.random() * (len(self._pending) + 1))
        while len(self._pending) > keep:
            self._undo(self._pending.pop())
        self._pending.clear()
        self._last.clear()

    def _undo(self, operation: Operation) -> None:
        if operation.kind == "create":
            self._unbind(operation.path)
            return
        if operation.path.endswith("/"):
            self._move(operation.new_path, operation.path)
            return
        if operation.kind == "rename":
            self._bind(operation.path, self._unbind(operation.new_path))
            if operation.inode is not None:
                self._bind(operation.new_path, operation.inode)
            return
        assert operation.inode is not None, operation
        self._bind(operation.path, operation.inode)

    def _log(self, now_us: int, kind: str, path: str, new_path: str, inode: Inode | None) -> None:
        self._number = number = self._number + 1
        operation = Operation(number, now_us, kind, path, new_path, inode)
        self._pending.append(operation)
        for name in _named(operation):
            self._last[name] = number
        self.commit_old(now_us)

    def _forget(self, operation: Operation) -> None:
        for name in _named(operation):
            if self._last.get(name) == operation.number:
                del self._last[name]

    # --------------------------------------------------------------------------------- entries

    def _move(self, directory: str, new: str) -> None:
        for path in self.paths(directory):
            self._bind(new + path[len(directory) :], self._unbind(path))

    def _bind(self, path: str, inode: Inode) -> None:
        self.inodes[path] = inode
        self._enter(path)

    def _unbind(self, path: str) -> Inode:
        self._leave(path)
        return self.inodes.pop(path)

    def _enter(self, entry: str) -> None:
        parent = _parent(entry)
        entries = self._entries.get(parent)
        if entries is not None:
            entries[entry] = None
            return
        self._entries[parent] = {entry: None}
        if parent:
            self._enter(parent)

    def _leave(self, entry: str) -> None:
        parent = _parent(entry)
        entries = self._entries[parent]
        del entries[entry]
        if not entries:
            del self._entries[parent]
            if parent:
                self._leave(parent)

    def _collect(self, directory: str, prefix: str, found: list[str]) -> None:
        for entry in self._entries.get(directory, ()):
            if entry.startswith(prefix):
                if entry.endswith("/"):
                    self._collect(entry, "", found)
                else:
                    found.append(entry)


def _parent(entry: str) -> str:
    """Return the directory that holds a file or a directory, "" for the root."""
    return entry[: entry.rfind("/", 0, -1) + 1]


def _named(operation: Operation) -> Iterator[str]:
    """Yield the paths whose flush makes an operation durable, and the directories above the first.

    A directory's flush does not cover what was renamed into it from elsewhere.
    """
    yield operation.path
    if operation.new_path:
        yield operation.new_path
    directory = _parent(operation.path)
    while directory:
        yield directory
        directory = _parent(directory)
