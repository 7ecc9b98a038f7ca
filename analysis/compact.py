"""Gather the traces of a fleet: a table per kind of fact, ``<out>/trace/kind=K/part-N.parquet``.

Spark pays more for thousands of small files than for their rows, and for a hundred columns of which
a kind of fact has ten. A table has the columns run, seq, t_us, node and those of its kind, and the
runs in the order of their names; a kind that no run recorded has an empty table. ``index.json`` is
written last. It names the parts and the digest of every run, by which a reader knows whether the
tables are current.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.analysis.runs import (
    COMPACTED,
    INDEX,
    TRACE,
    StoredRun,
    compacted,
    digests,
    find_runs,
    kind_columns,
)
from kafkasim.model.facts import FACTS, SCHEMA_VERSION

PART_ROWS = 4_000_000
"""From how many rows on a kind goes on in another file."""

HELD_ROWS = 131_072
"""How many rows of all kinds, and how many of each, are in memory before they are written."""


def compact(out: Path) -> int:
    """Write the compacted trace of all whole runs below ``out``, unless it is current.

    Returns the number of files, 0 when no run has a trace.
    """
    found, _ = find_runs(out, skip_bad=True)
    runs = [run for run in found if not run.crashed]
    current = compacted(out, runs)
    if current or not runs:
        return sum(map(len, current.values()))
    target = out / COMPACTED
    temporary = out / f".tmp-{COMPACTED}"
    shutil.rmtree(temporary, ignore_errors=True)
    parts = split(runs, temporary, tuple(FACTS))
    index = {"schema_version": SCHEMA_VERSION, "parts": parts, "runs": digests(runs)}
    (temporary / INDEX).write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    shutil.rmtree(target, ignore_errors=True)
    os.replace(temporary, target)
    return len(parts)


def rows_per_run(directory: Path, runs: Sequence[StoredRun], kind: str) -> dict[str, int]:
    """Return how many rows of a kind of fact each run has, by name.

    Raises:
        BadInput: a run is not whole.
    """
    counts = dict.fromkeys((run.name for run in runs), 0)
    whole = [run for run in runs if not run.crashed]
    for path in compacted(directory, whole).get(kind, []):
        column = pq.read_table(path, columns=["run"], partitioning=None).column("run")
        for one in pc.value_counts(column).to_pylist():
            counts[one["values"]] += one["counts"]
    return counts


def split(runs: Sequence[StoredRun], target: Path, kinds: Sequence[str]) -> dict[str, int]:
    """Write the rows of ``kinds`` of all runs below ``target``; return row counts by file."""
    columns = list(dict.fromkeys(name for kind in kinds for name in kind_columns(kind)))
    return write_kinds((_labelled(run, columns) for run in runs), target, kinds)


def write_kinds(tables: Iterable[pa.Table], target: Path, kinds: Sequence[str]) -> dict[str, int]:
    """Split wide tables, which have the column ``run``, by kind; return row counts by file."""
    writers = [_KindWriter(target, kind) for kind in kinds]
    for table in _gathered(tables):
        names = table.column("kind")
        for writer in writers:
            rows = table.select(writer.columns).filter(pc.equal(names, writer.kind))
            writer.write(rows)
    return {name: rows for writer in writers for name, rows in writer.close().items()}


def _gathered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        if sum(table.num_rows for table in held) >= HELD_ROWS:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _labelled(run: StoredRun, columns: Sequence[str]) -> pa.Table:
    mine = ["kind", *(name for name in columns if name != "run")]
    path = run.directory / TRACE
    with pq.ParquetFile(path, pre_buffer=False) as file:  # half the time of read_table
        table = file.read(mine)
    return table.append_column("run", pa.repeat(pa.scalar(run.name), table.num_rows))


class _KindWriter:
    """The files of one kind of fact."""

    def __init__(self, target: Path, kind: str) -> None:
        self.kind = kind
        self.columns = kind_columns(kind)
        self._target = target
        self._held: list[pa.Table] = []
        self._parts: dict[str, int] = {}
        self._writer: pq.ParquetWriter | None = None

    def write(self, table: pa.Table) -> None:
        """Add rows."""
        self._held.append(table)
        if sum(table.num_rows for table in self._held) >= HELD_ROWS:
            self._flush()

    def close(self) -> dict[str, int]:
        """Write the remaining rows; return row counts by file."""
        if self._held:
            self._flush()
        if self._writer is not None:
            self._writer.close()
        return self._parts

    def _flush(self) -> None:
        table = pa.concat_tables(self._held)
        self._held = []
        if self._writer is None:
            name = f"kind={self.kind}/part-{len(self._parts):05d}.parquet"
            self._parts[name] = 0
            path = self._target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(path, table.schema, compression="zstd")
        name = next(reversed(self._parts))
        self._writer.write_table(table)
        self._parts[name] += table.num_rows
        if self._parts[name] >= PART_ROWS:
            self._writer.close()
            self._writer = None
