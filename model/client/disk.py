"""The disk of a client's host, for an application that keeps files.

The files are those of its process. An append or a replacement sits in the page cache until it is
synced: a crash of the process loses nothing, a power loss what was not synced.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.effects import Flush, Process, Reply
from kafkasim.model.storage.files import DiskError


class ClientDisk:
    """The methods ``disk.…`` of a client process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.methods: dict[str, Callable[[int, tuple[Any, ...], int], None]] = {
            "disk.read": self._read,
            "disk.append": self._append,
            "disk.truncate": self._truncate,
            "disk.replace": self._replace,
            "disk.delete": self._delete,
            "disk.list": self._list,
        }

    def _read(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Reply with the items of the file (path); with none if there is no such file."""
        (path,) = args
        files = self._process.files
        try:
            items = files.read(path) if files.exists(path) else []
        except DiskError as error:
            self._reply(call, None, error)
        else:
            self._reply(call, items, None)

    def _append(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Append (path, item, bytes, sync); with ``sync`` reply once the file is durable."""
        path, item, size, sync = args
        try:
            self._process.files.append(path, item, size)
        except DiskError as error:
            self._reply(call, None, error)
            return
        if sync:
            self._process.out.append(Flush((path,), partial(self._synced, call, path)))
        else:
            self._reply(call, None, None)

    def _truncate(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Keep the first items of a file: (path, count)."""
        try:
            self._process.files.truncate(*args)
        except DiskError as error:
            self._reply(call, None, error)
        else:
            self._reply(call, None, None)

    def _replace(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Replace a file by (path, item, bytes) at once: a synced file of another name is renamed.

        Reply when the new one has its name.
        """
        path, item, size = args
        beside = f"{path}.tmp"

        def synced(error: str | None, _at: int) -> None:
            try:
                if error is None:
                    self._process.files.rename(beside, path)
                self._synced(call, path, error, _at)
            except DiskError as failed:
                self._reply(call, None, failed)

        try:
            self._process.files.write(beside, item, size)
        except DiskError as error:
            self._reply(call, None, error)
        else:
            self._process.out.append(Flush((beside,), synced))

    def _delete(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Delete the files whose paths begin with (prefix,)."""
        files = self._process.files
        try:
            for path in files.paths(args[0]):
                files.delete(path)
        except DiskError as error:
            self._reply(call, None, error)
        else:
            self._reply(call, None, None)

    def _list(self, call: int, args: tuple[Any, ...], _now: int) -> None:
        """Reply the paths that begin with (prefix,)."""
        self._reply(call, self._process.files.paths(args[0]), None)

    def _synced(self, call: int, path: str, error: str | None, _now: int) -> None:
        self._reply(call, None, None if error is None else DiskError(path, error))

    def _reply(self, call: int, result: Any, error: Exception | None) -> None:
        self._process.out.append(Reply(call, result, error))
