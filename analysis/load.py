"""Give Spark the traces of many runs: a temporary view for each kind of fact, with its schema.

If a fleet's compacted trace is complete and current, the views read it. Otherwise the runs' own
files are first split by kind into a scratch directory, so the views always read the same layout.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from kafkasim.analysis.checks.base import JUDGED_KINDS, SHARED
from kafkasim.analysis.compact import split
from kafkasim.analysis.runs import StoredRun, by_kind, compacted, kind_columns
from kafkasim.model.facts import COLUMNS

SMALL_ROWS = 5_000_000
"""Up to so many rows each view is one partition: then no check shuffles, and each is one task."""

COMPILED_ROWS = 1_000_000
"""From so many rows on Spark compiles the query. For a few hundred short runs the compilation of
seventeen checks takes longer than their interpretation (200 runs: 187 CPU s against 137)."""

CODEGEN = "spark.sql.codegen.wholeStage"

_SQL_TYPES = {
    "int64": "BIGINT",
    "string": "STRING",
    "bool": "BOOLEAN",
    "list<int64>": "ARRAY<BIGINT>",
    "list<string>": "ARRAY<STRING>",
}


@contextmanager
def traces(spark: SparkSession, directory: Path, runs: Sequence[StoredRun]) -> Iterator[None]:
    """Provide the views that checks read, for as long as the context lasts."""
    whole = [run for run in runs if not run.crashed]
    rows = sum(int(run.manifest.get("rows", 0)) for run in whole)
    with tempfile.TemporaryDirectory(prefix="kafkasim-kinds-") as scratch:
        parts = compacted(directory, whole)
        if not parts:
            target = Path(scratch)
            parts = by_kind(target, split(whole, target, JUDGED_KINDS))
        before = str(spark.conf.get(CODEGEN))
        if rows < COMPILED_ROWS:
            spark.conf.set(CODEGEN, "false")
        try:
            with views(spark, parts, small=rows <= SMALL_ROWS):
                yield
        finally:
            spark.conf.set(CODEGEN, before)


@contextmanager
def views(
    spark: SparkSession, parts: Mapping[str, Sequence[Path]], *, small: bool = True
) -> Iterator[None]:
    """Provide the views over the files of each kind, for as long as the context lasts."""
    try:
        for kind in JUDGED_KINDS:
            frame = table(spark, kind, parts[kind])
            (frame.coalesce(1) if small else frame).createOrReplaceTempView(kind)
        for name, text in SHARED.items():
            spark.sql(text).createOrReplaceTempView(name)
        yield
    finally:
        for name in (*JUDGED_KINDS, *SHARED):
            spark.catalog.dropTempView(name)


def table(spark: SparkSession, kind: str, files: Sequence[Path]) -> DataFrame:
    """Return the rows of a kind of fact.

    A kind without rows becomes an empty query, which Spark plans away: many a fleet has no
    consumers, or no ZooKeeper.
    """
    types = {**COLUMNS, "run": "string"}
    columns = [(f"`{name}`", _SQL_TYPES[types[name]]) for name in kind_columns(kind)]
    if any(pq.read_metadata(file).num_rows for file in files):
        schema = ", ".join(f"{name} {kept_as}" for name, kept_as in columns)
        return spark.read.schema(schema).parquet(*map(str, files))
    nulls = ", ".join(f"CAST(NULL AS {kept_as}) AS {name}" for name, kept_as in columns)
    return spark.sql(f"SELECT {nulls} WHERE false")
