"""Read a stored trace: open it, and say in one line what is wrong with it if it cannot be read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.model.facts import COLUMNS
from kafkasim.sim.trace.store import TRACE_FILE, ManifestError

Row = dict[str, Any]

UNREADABLE = (pa.ArrowException, OSError, ValueError)
"""What pyarrow raises for a damaged file; ValueError are texts that are no UTF-8, too."""


def open_trace(directory: Path) -> Any:
    """Open the trace of a run.

    Raises:
        ManifestError: it is missing, not a Parquet file or no trace.
    """
    path = directory / TRACE_FILE
    try:
        trace = pq.ParquetFile(path)
        found = {field.name: _type_name(field.type) for field in trace.schema_arrow}
    except FileNotFoundError:
        raise ManifestError(str(path), "no such file") from None
    except UNREADABLE as error:
        reason = str(error).split("\n")[0]
        raise ManifestError(str(path), f"is not a whole Parquet file: {reason}") from None
    if "t_us" not in found:
        raise ManifestError(str(path), "is no trace of kafkasim (it has no column t_us)")
    odd = [name for name, kind in COLUMNS.items() if found.get(name) != kind]
    if odd:
        here = found.get(odd[0], "missing")
        raise ManifestError(
            str(path), f"is a trace of another schema: {odd[0]} is {here}, not {COLUMNS[odd[0]]}"
        )
    return trace


def _type_name(arrow_type: Any) -> str:
    return f"list<{arrow_type.value_type}>" if pa.types.is_list(arrow_type) else str(arrow_type)


@contextmanager
def readable(directory: Path) -> Iterator[None]:
    """Say of a trace that cannot be read on that it is damaged.

    Raises:
        ManifestError: in place of what pyarrow raises.
    """
    try:
        yield
    except UNREADABLE as error:
        reason = str(error).split("\n")[0]
        raise ManifestError(str(directory / TRACE_FILE), f"is damaged: {reason}") from None


def rows(directory: Path, kinds: Sequence[str], until_us: int | None = None) -> Iterator[Row]:
    """Yield the rows of some kinds in order, up to a time, without loading the whole trace."""
    wanted = pa.array(kinds)
    batches = open_trace(directory).iter_batches(batch_size=65_536)
    while True:
        with readable(directory):
            batch = next(batches, None)
            if batch is None:
                return
            table = pa.Table.from_batches([batch])
            keep = pc.is_in(table["kind"], value_set=wanted)
            if until_us is not None:
                keep = pc.and_(keep, pc.less_equal(table["t_us"], until_us))
            found = table.filter(keep).to_pylist()
        yield from found


def last_moment(directory: Path) -> int:
    """Return the time of the last row of a trace."""
    trace = open_trace(directory)
    groups = trace.metadata.num_row_groups
    if groups == 0:
        return 0
    with readable(directory):
        times = trace.read_row_group(groups - 1, columns=["t_us"])["t_us"]
    return int(times[-1].as_py()) if len(times) else 0
