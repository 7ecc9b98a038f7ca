"""What every check shares: the shape of violations, and small pieces of DataFrame.

A check is a function from the trace (all runs) to violations, in Spark's built-in functions only:
one row per run, anomaly and partition, with a count and the first detail. It is linear in the trace
and works per run and partition.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

VIOLATION_COLUMNS = ("run", "check", "anomaly", "topic_id", "partition", "count", "detail")
PARTITION = ("run", "topic_id", "partition")

Check = Callable[[DataFrame], DataFrame]


def rows(trace: DataFrame, kind: str, *columns: str) -> DataFrame:
    """Return the facts of one kind: run, seq, t_us, node and the columns named."""
    return trace.where(F.col("kind") == kind).select("run", "seq", "t_us", "node", *columns)


def violations(found: DataFrame, check: str, anomaly: str | Column, detail: Column) -> DataFrame:
    """Sum offending rows up to one violation per run, anomaly and partition.

    ``found`` needs run, topic_id, partition and seq; ``detail`` is the text of one row, and the
    first row's (by seq) is kept.
    """
    named = F.lit(anomaly) if isinstance(anomaly, str) else anomaly
    return (
        found.select(
            "run", "topic_id", "partition", "seq", named.alias("anomaly"), detail.alias("detail")
        )
        .groupBy("run", "anomaly", "topic_id", "partition")
        .agg(F.count(F.lit(1)).alias("count"), F.min_by("detail", "seq").alias("detail"))
        .select(
            "run",
            F.lit(check).alias("check"),
            "anomaly",
            "topic_id",
            "partition",
            "count",
            "detail",
        )
    )


def text(template: str, *columns: str | Column) -> Column:
    """Return a printf-style text of columns."""
    return F.format_string(template, *[F.col(c) if isinstance(c, str) else c for c in columns])


def final_leaders(trace: DataFrame) -> DataFrame:
    """Return the FinalReplica of each partition's leader (the one of the highest leader epoch)."""
    final = trace.where((F.col("kind") == "FinalReplica") & F.col("leading"))
    newest = Window.partitionBy(*PARTITION).orderBy(F.desc("leader_epoch"))
    return final.withColumn("_rank", F.row_number().over(newest)).where(F.col("_rank") == 1)


def final_records(trace: DataFrame) -> DataFrame:
    """Return run, topic_id, partition, record_id, offset: what the final leaders hold.

    ``record_counts`` cuts ``record_ids`` into batches, and a batch is dense from its base offset.
    """
    offsets = F.flatten(
        F.transform(
            F.arrays_zip("base_offsets", "record_counts"),
            lambda batch: F.when(
                batch["record_counts"] > 0,
                F.sequence(
                    batch["base_offsets"], batch["base_offsets"] + batch["record_counts"] - 1
                ),
            ).otherwise(F.array().cast("array<bigint>")),
        )
    )
    records = F.explode(F.arrays_zip(F.col("record_ids"), offsets.alias("offsets")))
    return (
        final_leaders(trace)
        .select(*PARTITION, records.alias("record"))
        .select(
            *PARTITION,
            F.col("record.record_ids").alias("record_id"),
            F.col("record.offsets").alias("offset"),
        )
    )
