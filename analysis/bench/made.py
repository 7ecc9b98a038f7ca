"""Stored fleets of any size: a few real runs, repeated under new names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kafkasim.analysis.fleet import run_fleet
from kafkasim.analysis.source.jobs import Configuration
from kafkasim.analysis.stored import BATCH, FACTS_PLACE, RUNS_TABLE, StoredFleet, open_stored

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCENARIO = Path(__file__).parents[2] / "scenarios" / "bench.toml"
SEEDS = range(20)


def make(spark: SparkSession, directory: Path, sizes: Sequence[int]) -> dict[int, Path]:
    """Write a fleet of at least each number of facts; return where each one lies."""
    base = directory / "base"
    run_fleet(spark, [Configuration(str(SCENARIO))], SEEDS, str(base))
    return {size: repeated(spark, base, directory / f"rows-{size}", size) for size in sizes}


def repeated(spark: SparkSession, base: Path, target: Path, size: int) -> Path:
    """Write the runs of ``base`` so often that there are ``size`` facts, in one batch."""
    stored = open_stored(spark, str(base))
    copies = -(-size // stored.rows)
    times = F.explode(F.sequence(F.lit(1), F.lit(copies))).alias("copy")
    name = F.format_string("%s-copy-%06d", F.col("run"), F.col("copy"))
    facts = target / FACTS_PLACE / f"{BATCH}=000001"
    assert isinstance(stored, StoredFleet), base
    for kind in stored.kinds:
        copied = stored.facts(kind).select("*", times).withColumn("run", name).drop("copy")
        copied.write.option("compression", "zstd").parquet(str(facts / f"kind={kind}"))
    runs = stored.runs_table().drop(BATCH).select("*", times).withColumn("run", name)
    runs = runs.drop("copy").withColumn(BATCH, F.lit("000001"))
    runs.write.parquet(str(target / RUNS_TABLE))
    return target
