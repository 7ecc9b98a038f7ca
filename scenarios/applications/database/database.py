"""A SQLite database in a file of a simulated host's disk.

The engine is sqlite3 of Python's standard library, on a database in memory. Each commit appends
the pages that it has changed to the write-ahead log ``NAME-wal``, as SQLite does with
journal_mode=WAL; with synchronous=FULL the commit waits until the disk has them. An opened database
is what the whole commits of that file give; a commit that a power loss has torn is not there.

Left out: checkpoints, so synchronous=NORMAL, which syncs at checkpoints alone, syncs nothing here
and is as OFF; several connections to one file; journal modes other than WAL.
"""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kafkasim.model.storage.files import Corrupt, DiskError
from kafkasim.scenarios.applications.database.clock import bind
from kafkasim.sim.apps.client_port import ClientPort

FRAME_HEADER = 24
"""Bytes before each page in a write-ahead log."""

_SYNCHRONOUS = re.compile(r"\s*PRAGMA\s+synchronous\s*=\s*(\w+)", re.IGNORECASE)
_READS = re.compile(r"\s*(SELECT|WITH|EXPLAIN|VALUES)\b", re.IGNORECASE)
_DURABLE = ("FULL", "2", "EXTRA", "3")


@dataclass(frozen=True, slots=True)
class Commit:
    """The pages that a commit has changed, by number from 0, and how many there are then."""

    pages: tuple[tuple[int, bytes], ...]
    count: int
    page_size: int


def wal(name: str) -> str:
    """Return the path of a database's write-ahead log."""
    return f"{name}-wal"


def image(items: Iterable[Any]) -> bytes:
    """Return the database that a write-ahead log gives, up to the first commit that is damaged."""
    pages: list[bytes] = []
    for item in items:
        if isinstance(item, Corrupt):
            break
        pages += [b""] * (item.count - len(pages))
        del pages[item.count :]
        for number, page in item.pages:
            pages[number] = page
    return b"".join(pages)


class Database:
    """One open database. Open it with :meth:`open`."""

    def __init__(self, port: ClientPort, name: str, stored: bytes, rng: random.Random) -> None:
        self._port = port
        self._name = name
        self._stored = stored  # as of the last commit
        self._synchronous = True  # SQLite's default is FULL
        self._lock = asyncio.Lock()
        self.connection = sqlite3.connect(":memory:", check_same_thread=False)
        if stored:
            self.connection.deserialize(stored)
        bind(self.connection, lambda: port.wall_us, rng)

    @classmethod
    async def open(cls, port: ClientPort, name: str, rng: random.Random) -> Database:
        """Read the database of that name, or begin an empty one.

        What follows a damaged commit in the log is cut: the next commits take its place.

        Raises:
            sqlite3.OperationalError: the disk cannot be read.
        """
        try:
            items = await port.call("disk.read", wal(name))
            damaged = [isinstance(item, Corrupt) for item in items]
            if any(damaged):
                await port.call("disk.truncate", wal(name), damaged.index(True))
        except DiskError as error:
            raise sqlite3.OperationalError("disk I/O error") from error
        return cls(port, name, image(items), rng)

    async def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Any:
        """Run one statement and return its cursor; outside a transaction it is committed at once.

        Raises:
            sqlite3.Error: as sqlite3 does.
        """
        pragma = _SYNCHRONOUS.match(sql)
        if pragma is not None:
            self._synchronous = pragma[1].upper() in _DURABLE
        cursor = self.connection.execute(sql, parameters)
        if not self.connection.in_transaction and not _READS.match(sql):
            await self._store()
        return cursor

    async def commit(self) -> None:
        """Commit the open transaction; with synchronous=FULL it is durable afterwards.

        Raises:
            sqlite3.OperationalError: the disk has refused it, and nothing is committed.
        """
        self.connection.commit()
        await self._store()

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        self.connection.close()

    async def _store(self) -> None:
        """Append what the last commit has changed to the log."""
        async with self._lock:
            after = _serialized(self.connection)
            commit = _difference(self._stored, after)
            if commit is None:
                return
            before, self._stored = self._stored, after
            size = len(commit.pages) * (commit.page_size + FRAME_HEADER)
            try:
                path = wal(self._name)
                await self._port.call("disk.append", path, commit, size, self._synchronous)
            except DiskError as error:
                self._stored = before
                if before:
                    self.connection.deserialize(before)
                raise sqlite3.OperationalError("disk I/O error") from error


def _serialized(connection: sqlite3.Connection) -> bytes:
    """Return the database as a file has it; SQLite refuses to serialize one without a page."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    return connection.serialize() if pages else b""


def _difference(before: bytes, after: bytes) -> Commit | None:
    """Return the pages in which a database differs, or None."""
    if before == after:
        return None
    raw = int.from_bytes(after[16:18], "big")
    size = 65536 if raw == 1 else raw
    changed = [
        (number, after[at : at + size])
        for number, at in enumerate(range(0, len(after), size))
        if before[at : at + size] != after[at : at + size]
    ]
    return Commit(tuple(changed), len(after) // size, size)


def rows(stored: bytes, columns: str, table: str) -> list[tuple[Any, ...]] | None:
    """Return columns of a table of a database, in the order of its rows; None for no such table."""
    connection = sqlite3.connect(":memory:")
    if stored:
        connection.deserialize(stored)
    try:
        return list(connection.execute(f"SELECT {columns} FROM {table} ORDER BY rowid"))
    except sqlite3.OperationalError:
        return None
    finally:
        connection.close()
