"""The trace: all that happened in a run, totally ordered.

:meth:`Trace.record` is the hottest call of a simulation. It numbers the fact, keeps its row
``(seq, t_us, node, kind, fields)`` in a buffer and calls the subscribers of its type. Full buffers
go into the digest and, if the run has a directory, into its Parquet table, so that memory stays
flat. The table begins with the first HELD_ROWS rows or at the end, so that a short run whose trace
nobody wants does not import Arrow.

The digest is sha256 over the ``repr`` of the rows, one a line, whatever the size of the buffers.
Rows are made of int, str, bool, None and tuples, whose ``repr`` is the same in every Python, while
Arrow's buffers of equal arrays differ.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafkasim.model import facts
from kafkasim.model.facts import ROW
from kafkasim.sim.trace.store import TRACE_FILE

if TYPE_CHECKING:
    from kafkasim.sim.trace.table import FactWriter

Row: TypeAlias = tuple[int, int, str, str, tuple[Any, ...]]
Subscriber: TypeAlias = Callable[[int, int, str, Any], None]

BATCH_ROWS = 16_384
HELD_ROWS = 4 * BATCH_ROWS
UNDER_TEST = "pytest" in sys.modules


class Facts(Protocol):
    """A trace that is being made, or what one part of the world tells of it."""

    def record(self, t_us: int, node: str, fact: Any) -> None:
        """Append a fact of ``node`` at simulated time ``t_us`` and tell its subscribers."""
        ...

    def subscribe(self, fact_type: type, callback: Subscriber) -> None:
        """Call ``callback(seq, t_us, node, fact)`` at every later fact of this type."""
        ...

    def unsubscribe(self, fact_type: type, callback: Subscriber) -> None:
        """Undo a :meth:`subscribe`; a callback that is not subscribed is no error."""
        ...


class Sink(Protocol):
    """Takes the rows of a trace as they are digested, in the order of ``seq``."""

    def write_rows(self, rows: list[Row]) -> None:
        """Take some rows."""
        ...


class Trace:
    """Records facts; a context manager that closes.

    Args:
        directory: where ``trace.parquet`` goes; None keeps the digest only.
        sink: who is given the rows as well.
        batch_rows: rows that are buffered before they are digested and converted.
        check_types: whether every field's type is checked (always under pytest).
    """

    def __init__(
        self,
        directory: Path | None = None,
        sink: Sink | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
        check_types: bool = UNDER_TEST,
    ) -> None:
        self._rows: list[Row] = []
        self._next_seq = 0
        self._batch_rows = batch_rows
        self._flush_at = batch_rows - 1  # the seq that fills the buffer
        self._check_types = check_types
        # By type of fact: its name, the function that makes its row, its subscribers.
        self._kinds: dict[type, tuple[str, Callable[[Any], Any], tuple[Subscriber, ...]]] = {
            kind: (kind.__name__, row, ()) for kind, row in ROW.items()
        }
        self._hash = hashlib.sha256()
        self._directory = directory
        self._sink = sink
        self._held: list[Row] = []  # digested, and not yet in the table
        self._writer: FactWriter | None = None
        self.closed = False

    @property
    def rows(self) -> int:
        """The number of facts recorded so far, which is the next ``seq``."""
        return self._next_seq

    @property
    def digest(self) -> str:
        """The digest of all rows so far, as hexadecimal digits."""
        self._flush()
        return self._hash.hexdigest()

    def record(self, t_us: int, node: str, fact: Any) -> None:
        """Append a fact of ``node`` at simulated time ``t_us`` and tell its subscribers."""
        seq = self._next_seq
        self._next_seq = seq + 1
        kind, row, subscribers = self._kinds[type(fact)]
        self._rows.append((seq, t_us, node, kind, row(fact)))
        for callback in subscribers:
            callback(seq, t_us, node, fact)
        if seq >= self._flush_at:
            self._flush()

    def subscribe(self, fact_type: type, callback: Subscriber) -> None:
        """Call ``callback(seq, t_us, node, fact)`` at every later fact of this type.

        Callbacks run in the order in which they subscribed, after the fact has its place in the
        trace. A callback may record facts itself: they come behind.

        Raises:
            KeyError: ``fact_type`` is no type of fact.
        """
        kind, row, subscribers = self._kinds[fact_type]
        self._kinds[fact_type] = (kind, row, (*subscribers, callback))

    def unsubscribe(self, fact_type: type, callback: Subscriber) -> None:
        """Undo a :meth:`subscribe`; a callback that is not subscribed is no error."""
        kind, row, subscribers = self._kinds[fact_type]
        kept = tuple([known for known in subscribers if known != callback])
        self._kinds[fact_type] = (kind, row, kept)

    def close(self) -> None:
        """Write the buffered rows and end the file. Nothing can be recorded afterwards."""
        if self.closed:
            return
        self._flush()
        if self._directory is not None:
            self._write(self._directory).close()
        self.closed = True

    def drop(self) -> None:
        """Keep the digest only, and remove what has been written."""
        if self._directory is not None and self._writer is not None:
            self._writer.close()
            (self._directory / TRACE_FILE).unlink()
        self._directory = self._writer = None
        self._held = []

    def __enter__(self) -> Trace:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _flush(self) -> None:
        rows = self._rows
        if not rows:
            return
        assert not self.closed, f"recorded after the trace was closed: {rows[0]}"
        self._rows = []
        self._flush_at = self._next_seq + self._batch_rows - 1
        if self._check_types:
            _check(rows)
        self._hash.update("\n".join(map(repr, rows)).encode())
        self._hash.update(b"\n")
        if self._sink is not None:
            self._sink.write_rows(rows)
        if self._directory is not None:
            self._held += rows
            if self._writer is not None or self._next_seq >= HELD_ROWS:
                self._write(self._directory)

    def _write(self, directory: Path) -> FactWriter:
        from kafkasim.sim.trace.table import FactWriter

        if self._writer is None:
            self._writer = FactWriter(directory / TRACE_FILE)
        rows, self._held = self._held, []
        for first in range(0, len(rows), self._batch_rows):
            self._writer.write_rows(rows[first : first + self._batch_rows])
        return self._writer


_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "int64": (int,),
    "string": (str, type(None)),
    "bool": (bool,),
    "list<int64>": (tuple,),
    "list<string>": (tuple,),
}
_ELEMENTS: dict[str, type] = {"list<int64>": int, "list<string>": str}


def _check(rows: list[Row]) -> None:
    """Assert that Arrow converts no value, and that ``repr`` shows it alike in every Python."""
    for seq, t_us, node, kind, fields in rows:
        assert type(t_us) is int, f"row {seq}: t_us of {kind} is {t_us!r}"
        assert type(node) is str, f"row {seq}: node of {kind} is {node!r}"
        for name, found in zip(facts.FACTS[kind].__dataclass_fields__, fields):  # type: ignore[attr-defined]
            declared = facts.COLUMNS[name]
            where = f"row {seq} of {node}: {kind}.{name} must be {declared}, is {found!r}"
            assert type(found) in _PYTHON_TYPES[declared], where
            if declared in _ELEMENTS:
                element = _ELEMENTS[declared]  # or a kind of it: the id of a record without value
                assert all(isinstance(item, element) for item in found), where
                assert not any(isinstance(item, bool) for item in found), where
