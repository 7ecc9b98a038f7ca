"""One run of a stored fleet as a directory of its own, as ``kafkasim run --out`` leaves it.

Commands that look into a single run read such a directory with Arrow; so they take the runs of
fleets, sweeps and comparisons too, and need no Spark for them. The fleet must lie on this machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkasim.analysis.runs import MANIFEST, TRACE, BadInput, check_version, chosen
from kafkasim.analysis.source.schema import FINDINGS, RUNS, arrow, manifest_of
from kafkasim.model.facts import COLUMNS, FACTS

BATCH = "batch"
FINDINGS_PLACE = "findings"
NAMES = ("run", "verdict", "schema_version", BATCH)


@contextmanager
def extracted(place: Path, wanted: str = "") -> Iterator[tuple[str, Path]]:
    """Yield the name of a run of a fleet, and a directory with its trace and manifest.

    ``wanted`` is the run's name or its seed; without it the first run that did not crash. The
    directory is gone afterwards.

    Raises:
        BadInput: there is no such run, a file is damaged, or another version wrote it.
    """
    row, batch = _row(place, wanted)
    with TemporaryDirectory(prefix="kafkasim-extract-") as scratch:
        directory = Path(scratch)
        trace = _facts(place / "facts" / f"{BATCH}={batch}", row["run"])
        if trace.num_rows != row["rows"]:
            raise BadInput(
                f"{place}: {row['run']} has {trace.num_rows} facts, its row says {row['rows']}"
            )
        pq.write_table(trace, directory / TRACE)
        found = _found(place / FINDINGS_PLACE / f"{BATCH}={batch}", row["run"])
        text = json.dumps(manifest_of(row, found), sort_keys=True)
        (directory / MANIFEST).write_text(text, encoding="utf-8")
        yield row["run"], directory


def _row(place: Path, wanted: str) -> tuple[dict[str, Any], str]:
    """Return the latest row of ``runs`` about a run, and its batch."""
    files = sorted((place / "runs").glob("*.parquet"))
    latest: dict[str, tuple[str, Path]] = {}
    for path in files:
        for found in _read(path, NAMES).to_pylist():
            check_version(place, found["run"], found["schema_version"])
            if found["verdict"] != "crash":
                latest[found["run"]] = max(
                    (found[BATCH], path), latest.get(found["run"], ("", path))
                )
    name = chosen(sorted(latest), wanted, place)
    batch, path = latest[name]
    whole = _read(path, list(RUNS), [("run", "==", name)]).cast(arrow(RUNS))
    return whole.to_pylist()[0], batch


def _facts(batch: Path, run: str) -> pa.Table:
    """Return the facts of a run in their order, with the columns of a trace."""
    schema = arrow(COLUMNS)
    tables = []
    for kind in FACTS:
        for path in sorted((batch / f"kind={kind}").glob("*.parquet")):
            names = [name for name in COLUMNS if name != "kind"]
            found = _read(path, names, [("run", "==", run)])
            found = found.append_column("kind", pa.repeat(pa.scalar(kind), found.num_rows))
            tables.append(found.select(list(COLUMNS)).cast(schema))
    if not tables:
        return schema.empty_table()
    return pa.concat_tables(tables).sort_by("seq").combine_chunks()


def _found(batch: Path, run: str) -> list[dict[str, Any]]:
    """Return the findings of a run."""
    files = sorted(batch.glob("*.parquet"))
    return [
        row for path in files for row in _read(path, [*FINDINGS], [("run", "==", run)]).to_pylist()
    ]


def _read(path: Path, names: Sequence[str], filters: Any = None) -> pa.Table:
    """Read columns of a file; those that it lacks are null.

    Raises:
        BadInput: it is no whole Parquet file.
    """
    try:
        known = pq.read_schema(path).names
        table = pq.read_table(
            path, columns=[name for name in names if name in known], filters=filters,
            partitioning=None,
        )  # fmt: skip
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).split("\n")[0][:120]
        raise BadInput(f"{path}: not a whole Parquet file ({reason})") from None
    for name in names:
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows))
    return table.select(list(names))
