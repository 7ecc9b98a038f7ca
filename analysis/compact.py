"""Gather the traces of a fleet's runs in a few large files: ``<out>/trace/part-NNNNN.parquet``.

Thousands of small files cost Spark more than their rows do. A part holds whole runs, in the order
of their names, with the columns run, seed and scenario in front. ``index.json`` is written last; it
names the parts and the digest of every run inside, by which a reader knows that they are current.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.runs import COMPACTED, INDEX, TRACE, Run, compacted, digests, find_runs
from model.facts import SCHEMA_VERSION

PART_ROWS = 4_000_000
GROUP_ROWS = 262_144


def compact(out: Path) -> int:
    """Write the compacted trace of all whole runs below ``out`` unless it is current.

    Returns the number of parts, 0 when no run has a trace.
    """
    found, _ = find_runs(out, skip_bad=True)
    runs = [run for run in found if not run.crashed]
    current = compacted(out, runs)
    if current or not runs:
        return len(current)
    target = out / COMPACTED
    temporary = out / f".tmp-{COMPACTED}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    parts: dict[str, int] = {}
    for group in _groups(runs):
        name = f"part-{len(parts):05d}.parquet"
        parts[name] = _write(temporary / name, group)
    index = {"schema_version": SCHEMA_VERSION, "parts": parts, "runs": digests(runs)}
    (temporary / INDEX).write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    shutil.rmtree(target, ignore_errors=True)
    os.replace(temporary, target)
    return len(parts)


def _groups(runs: Sequence[Run]) -> list[list[Run]]:
    groups: list[list[Run]] = []
    room = 0
    for run in runs:
        rows = int(run.manifest.get("rows", 0))
        if not groups or rows > room:
            groups.append([])
            room = PART_ROWS
        groups[-1].append(run)
        room -= rows
    return groups


def _write(path: Path, runs: Sequence[Run]) -> int:
    rows = 0
    writer: pq.ParquetWriter | None = None
    try:
        for run in runs:
            table = _labelled(run)
            rows += table.num_rows
            if writer is None:
                writer = pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table, row_group_size=GROUP_ROWS)
    finally:
        if writer is not None:
            writer.close()
    return rows


def _labelled(run: Run) -> pa.Table:
    table = pq.read_table(run.directory / TRACE, partitioning=None)
    labels = {
        "run": pa.scalar(run.name, pa.string()),
        "seed": pa.scalar(int(run.manifest["seed"]), pa.int64()),
        "scenario": pa.scalar(str(run.manifest["scenario"]), pa.string()),
    }
    for place, (name, value) in enumerate(labels.items()):
        table = table.add_column(place, name, pa.repeat(value, table.num_rows))
    return table
