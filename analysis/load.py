"""Read the traces of many runs as one DataFrame, with an explicit schema.

A fleet's compacted trace is read where it is there, complete and current, else the directories of
the runs. What a run is, and which are refused, stands in runs.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from analysis.runs import TRACE, Run, compacted
from model.facts import COLUMNS

_SPARK_TYPES: dict[str, T.DataType] = {
    "int64": T.LongType(),
    "string": T.StringType(),
    "bool": T.BooleanType(),
    "list<int64>": T.ArrayType(T.LongType()),
    "list<string>": T.ArrayType(T.StringType()),
}

TRACE_SCHEMA = T.StructType(
    [T.StructField(name, _SPARK_TYPES[kind]) for name, kind in COLUMNS.items()]
)
"""The wide trace table as Spark sees it."""

RUN_SCHEMA = T.StructType([T.StructField("run", T.StringType()), *TRACE_SCHEMA.fields])
"""The trace of many runs."""


def traces(spark: SparkSession, directory: Path, runs: Sequence[Run]) -> DataFrame:
    """Return the rows of all runs with the column ``run`` in front."""
    parts = compacted(directory, runs)
    if parts:
        frame = spark.read.schema(RUN_SCHEMA).parquet(*map(str, parts))
        return frame.select("run", *COLUMNS)
    whole = [run for run in runs if not run.crashed]
    if not whole:
        return spark.createDataFrame([], RUN_SCHEMA)
    by_depth: dict[str, list[Run]] = {}
    for run in whole:
        plain = re.fullmatch(r"[\w./=-]+", run.name, re.ASCII) is not None
        depth = len(Path(run.name).parts) if plain else 0
        alone = depth == 0 or not str(run.directory).endswith(run.name)
        by_depth.setdefault(run.name if alone else f"/{depth}", []).append(run)
    frames = [_read(spark, key, group) for key, group in sorted(by_depth.items())]
    return reduce(DataFrame.unionByName, frames)


def _read(spark: SparkSession, key: str, runs: Sequence[Run]) -> DataFrame:
    """Read runs whose names are the last ``/N`` parts of their paths, or one run named ``key``."""
    frame = spark.read.schema(TRACE_SCHEMA).parquet(*[str(run.directory / TRACE) for run in runs])
    if not key.startswith("/"):
        return frame.select(F.lit(key).alias("run"), *COLUMNS)
    tail = "/".join(["[^/]+"] * int(key[1:]))
    name = F.regexp_extract(F.col("_metadata.file_path"), f"({tail})/{TRACE}$", 1)
    return frame.select(name.alias("run"), *COLUMNS)
