"""Stored fleets of any size: a few real runs, repeated under new names.

A fleet is written as fleets are: batch by batch, the facts of a batch sorted by run. Each batch
holds all runs of the base once.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.analysis.fleet import run_fleet
from kafkasim.analysis.source.jobs import Configuration
from kafkasim.analysis.stored import BATCH, FACTS_PLACE, RUNS_TABLE, StoredFleet, open_stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO = Path(__file__).parents[2] / "scenarios" / "bench.toml"
SEEDS = range(20)


def make(spark: SparkSession, directory: Path, sizes: Sequence[int]) -> None:
    """Write a fleet of at least each number of facts, unless it is there already.

    Raises:
        BadInput: something is there that this version cannot judge.
    """
    places = {size: directory / f"rows-{size}" for size in sizes}
    base = directory / "base"
    missing = {size: place for size, place in places.items() if not place.exists()}
    for place in (base, *places.values()):
        if (place / RUNS_TABLE).exists() or (place.exists() and place != base):
            open_stored(spark, str(place))
    if missing:
        run_fleet(spark, [Configuration(str(SCENARIO))], SEEDS, str(base))
    for size, place in missing.items():
        repeated(spark, base, place, size)


def repeated(spark: SparkSession, base: Path, target: Path, size: int) -> None:
    """Write the runs of ``base`` so often that there are ``size`` facts."""
    stored = open_stored(spark, str(base))
    assert isinstance(stored, StoredFleet), base
    unfinished = target.with_name(f"{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for copy in range(1, -(-size // stored.rows) + 1):
        batch = {BATCH: f"{copy:06d}"}
        facts = unfinished / FACTS_PLACE / f"{BATCH}={copy:06d}"
        for kind in stored.kinds:
            for path in sorted(base.glob(f"{FACTS_PLACE}/{BATCH}=*/kind={kind}/*.parquet")):
                _copy(path, facts / f"kind={kind}" / path.name, copy, {})
        for path in sorted(base.glob(f"{RUNS_TABLE}/*.parquet")):
            _copy(path, unfinished / RUNS_TABLE / f"{copy:06d}-{path.name}", copy, batch)
    os.replace(unfinished, target)


def _copy(source: Path, target: Path, copy: int, columns: Mapping[str, str]) -> None:
    """Write a file again with other names of its runs, and other texts in ``columns``."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (
        pq.ParquetFile(source) as file,
        pq.ParquetWriter(target, file.schema_arrow, compression="zstd") as writer,
    ):
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            named = pc.binary_join_element_wise(table["run"], f"copy-{copy:06d}", "-")
            texts = {"run": named} | {
                name: pa.repeat(text, len(table)) for name, text in columns.items()
            }
            for name, values in texts.items():
                place = table.schema.get_field_index(name)
                table = table.set_column(place, table.schema.field(name), values)
            writer.write_table(table)
