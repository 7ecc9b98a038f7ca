"""aiosqlite's names over :class:`.database.Database`, for users' applications.

A database is a file of the host's disk and obeys its crashes and power losses; ":memory:" is a
database of the process alone. Left out: backup, iterdump, progress and trace handlers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from types import ModuleType
from typing import Any

from kafkasim.scenarios.applications.database.clock import bind
from kafkasim.scenarios.applications.database.database import Database
from kafkasim.scenarios.applications.session import session
from kafkasim.scenarios.applications.stand_ins import where
from kafkasim.sim.apps.refusals import NotSimulated


class Cursor:
    """The result of a statement."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    @property
    def rowcount(self) -> int:
        """How many rows the statement changed, −1 unknown."""
        return int(self._cursor.rowcount)

    @property
    def lastrowid(self) -> int | None:
        """The row id of the last inserted row."""
        found: int | None = self._cursor.lastrowid
        return found

    @property
    def description(self) -> Any:
        """The columns, as in DB-API."""
        return self._cursor.description

    async def fetchone(self) -> Any:
        """Return the next row, or None."""
        return self._cursor.fetchone()

    async def fetchmany(self, size: int = 1) -> list[Any]:
        """Return the next rows."""
        return list(self._cursor.fetchmany(size))

    async def fetchall(self) -> list[Any]:
        """Return all rows that are left."""
        return list(self._cursor.fetchall())

    async def close(self) -> None:
        """Close the cursor."""
        self._cursor.close()

    async def __aiter__(self) -> AsyncIterator[Any]:
        for row in self._cursor:
            yield row


class _Result:
    """What ``execute`` gives: await it, or enter it with ``async with``."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._cursor: Cursor | None = None

    def __await__(self) -> Generator[Any, None, Cursor]:
        found: Cursor = yield from self._made.__await__()
        return found

    async def __aenter__(self) -> Cursor:
        self._cursor = await self._made
        return self._cursor

    async def __aexit__(self, *_: object) -> None:
        assert self._cursor is not None
        await self._cursor.close()


class Connection:
    """A connection: await it, or enter it with ``async with``."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._database: Database | None = None

    async def _open(self) -> Connection:
        place = session()
        self._database = await Database.open(place.port, self._name, place.rng)
        return self

    def __await__(self) -> Generator[Any, None, Connection]:
        return self._open().__await__()

    async def __aenter__(self) -> Connection:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def _opened(self) -> Database:
        if self._database is None:
            raise ValueError("no active connection")
        return self._database

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._opened.connection.in_transaction

    @property
    def total_changes(self) -> int:
        """How many rows were changed since the connection was opened."""
        return self._opened.connection.total_changes

    @property
    def row_factory(self) -> Any:
        """What makes rows of tuples, e.g. aiosqlite.Row."""
        return self._opened.connection.row_factory

    @row_factory.setter
    def row_factory(self, factory: Any) -> None:
        self._opened.connection.row_factory = factory

    def execute(self, sql: str, parameters: Any = ()) -> _Result:
        """Run a statement."""
        return _Result(self._run(sql, parameters))

    def executemany(self, sql: str, many: Iterable[Any]) -> _Result:
        """Run a statement for each of many parameters."""
        return _Result(self._run_many(sql, many))

    async def execute_fetchall(self, sql: str, parameters: Any = ()) -> list[Any]:
        """Run a statement and return its rows."""
        return await (await self._run(sql, parameters)).fetchall()

    async def commit(self) -> None:
        """Commit the transaction."""
        await self._opened.commit()

    async def rollback(self) -> None:
        """Roll the transaction back."""
        self._opened.connection.rollback()

    async def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        if self._database is not None:
            self._database.close()
            self._database = None

    async def _run(self, sql: str, parameters: Any) -> Cursor:
        return Cursor(await self._opened.execute(sql, parameters))

    async def _run_many(self, sql: str, many: Iterable[Any]) -> Cursor:
        cursor: Any = None
        for parameters in many:
            cursor = await self._opened.execute(sql, parameters)
        return Cursor(cursor)


def connect(database: Any) -> Connection:
    """Connect to the database of that name on the host's disk, which is made if it is missing."""
    return Connection(str(database))


def modules() -> dict[str, ModuleType]:
    """Return ``aiosqlite``, and a sqlite3 that opens databases in memory only."""
    aiosqlite, plain = ModuleType("aiosqlite"), ModuleType("sqlite3")
    plain.__dict__.update({key: value for key, value in vars(sqlite3).items() if key[:2] != "__"})
    plain.__dict__["connect"] = _in_memory
    errors: dict[str, Any] = {
        name: thing for name, thing in vars(sqlite3).items() if name.endswith("Error")
    }
    aiosqlite.__dict__.update(
        connect=connect, Connection=Connection, Cursor=Cursor, Row=sqlite3.Row, **errors
    )
    return {"aiosqlite": aiosqlite, "sqlite3": plain}


def _in_memory(database: str, *arguments: Any, **settings: Any) -> sqlite3.Connection:
    if str(database) != ":memory:":
        raise NotSimulated(
            f"sqlite3.connect({str(database)!r}) ({where()}): await aiosqlite.connect(), whose"
            " commits take the time of the simulated disk"
        )
    made: Callable[..., sqlite3.Connection] = sqlite3.connect
    connection = made(":memory:", *arguments, **settings)
    place = session()
    bind(connection, lambda: place.port.wall_us, place.rng)
    return connection
