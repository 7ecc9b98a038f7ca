"""The tasks of a fleet, and what they make: Parquet files of facts, findings and rows of runs.

A fact has the columns of its kind, some ten of the more than a hundred that all kinds have. Rows of
all columns would cost Spark's JVM more than the runs cost Python: so a task makes the files itself,
one for each kind and one each for findings and rows of ``runs``, and Spark stores them as they are
(:mod:`kafkasim.analysis.fleet`). The files grow in the worker's temporary directory; in memory are,
in Arrow's columns, one run and what is not yet a row group of 131 072 facts of a kind.

A run in which the simulator crashes has no facts, the verdict ``crash`` and a traceback: it is a
result, not the fleet's end.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkasim.analysis.source.jobs import FleetJob
from kafkasim.analysis.source.schema import (
    FACTS_TABLE,
    FINDINGS,
    RUNS,
    arrow,
    arrow_row,
    finding_rows,
    stored_row,
)
from kafkasim.analysis.source.work import crashed, named
from kafkasim.scenarios.running import runner
from kafkasim.sim.trace.table import TableWriter, kind_tables

FINDING_PART = "Finding"
RUN_PART = "Run"
"""The files beside those of kinds of fact."""

END = "PAR1"
"""What every Parquet file ends with."""

FILES = "kind STRING, content BINARY"
"""The rows that a task returns, one for each of its files, whose content lacks :data:`END`."""

Chunk = Sequence[tuple[int, int]]
"""The runs of a task: each the index of its job, and a seed."""


def before_fork() -> None:
    """Collect garbage and exempt what is imported from collections, once for all workers."""
    runner.freeze_modules()


def files_of(
    jobs: Sequence[FleetJob], chunks: Sequence[Chunk]
) -> Callable[[int], Iterator[tuple[str, bytes]]]:
    """Return what Spark maps over the numbers of chunks: it runs one and yields :data:`FILES`."""

    def made(number: int) -> Iterator[tuple[str, bytes]]:
        with tempfile.TemporaryDirectory(prefix="kafkasim-task-") as place:
            for kind, content in run_chunk(jobs, chunks[number], Path(place)):
                yield kind, content.removesuffix(END.encode())

    return made


def run_chunk(jobs: Sequence[FleetJob], chunk: Chunk, place: Path) -> Iterator[tuple[str, bytes]]:
    """Run seeds, one after the other; yield the kind and the content of each file."""
    writers: dict[str, TableWriter] = {}
    rows, found = [], []
    for index, seed in chunk:
        job, facts = jobs[index], _RunFacts()
        try:
            manifest = runner.run_into(facts, job.scenario, seed, job.variants)
        except Exception as error:
            manifest, facts = crashed(job, error), _RunFacts()
        manifest |= named(job, seed)
        for kind, table in facts.tables(job.run_name(seed)):
            if kind not in writers:
                columns = {name: FACTS_TABLE[name] for name in table.column_names}
                writers[kind] = TableWriter(place / kind, columns)
            writers[kind].write(table)
        rows.append(arrow_row(stored_row(manifest)))
        found += finding_rows(manifest)
    for kind, writer in writers.items():
        writer.close()
        yield kind, writer.path.read_bytes()
    yield FINDING_PART, _parquet(found, FINDINGS)
    yield RUN_PART, _parquet(rows, RUNS)


class _RunFacts:
    """The facts of one run in Arrow's columns, kind by kind."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.Table]] = {}

    def write_rows(self, rows: list[Any]) -> None:
        """Take rows of the trace, in their order."""
        for kind, table in kind_tables(rows).items():
            self._parts.setdefault(kind, []).append(table)

    def tables(self, run: str) -> Iterator[tuple[str, pa.Table]]:
        """Yield each kind with its facts, the name of the run before them."""
        for kind, parts in self._parts.items():
            table = pa.concat_tables(parts)
            names = pa.repeat(pa.scalar(run), table.num_rows)
            yield kind, table.add_column(0, pa.field("run", pa.string()), names)


def _parquet(rows: list[dict[str, Any]], columns: dict[str, str]) -> bytes:
    target = io.BytesIO()
    table = pa.Table.from_pylist(rows, schema=arrow(columns))
    pq.write_table(table, target, compression="zstd", store_schema=False)
    return target.getvalue()
