"""poll-skip, nonmonotonic-poll, nonmonotonic-send: did records come in order, without holes?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analysis.checks.base import PARTITION, rows, text, violations
from analysis.checks.delivery import polled_records


def poll_order(trace: DataFrame) -> DataFrame:
    """Within what one member covered, each poll goes on where the last one ended.

    A Positioned row starts a new covered range (reason ``none`` ends one). Every offset of a topic
    without transactions and compaction holds a record, so the next index is the next offset.
    """
    places = rows(
        trace, "Positioned", "group", "member_id", "topic_id", "partition", "offset"
    ).select(
        *PARTITION, "seq", "group", "member_id",
        F.col("offset"), F.lit(True).alias("positioned"), F.lit(-1).alias("place"),
    )  # fmt: skip
    polled = polled_records(trace).select(
        *PARTITION, "seq", "group", "member_id", "offset",
        F.lit(False).alias("positioned"), F.col("offset").alias("place"),
    )  # fmt: skip
    reader = Window.partitionBy(*PARTITION, "group", "member_id").orderBy("seq", "place")
    follows = F.when(F.lag("positioned").over(reader), F.lag("offset").over(reader)).otherwise(
        F.lag("offset").over(reader) + 1
    )
    steps = (
        places.unionByName(polled)
        .withColumn("expected", follows)
        .where(~F.col("positioned") & F.col("expected").isNotNull())
        .where((F.col("offset") != F.col("expected")) & (F.col("expected") >= 0))
    )
    anomaly = F.when(F.col("offset") > F.col("expected"), F.lit("poll-skip")).otherwise(
        F.lit("nonmonotonic-poll")
    )
    detail = text("%s got offset %d, not %d", "member_id", "offset", "expected")
    return violations(steps, "poll-order", anomaly, detail)


def nonmonotonic_send(trace: DataFrame) -> DataFrame:
    """An idempotent producer's acknowledged sends to a partition landed out of order."""
    acked = rows(
        trace, "Acked", "topic_id", "partition", "base_offset", "record_ids", "producer_id"
    ).where((F.col("producer_id") >= 0) & (F.col("base_offset") >= 0))
    sender = Window.partitionBy(*PARTITION, "node", "producer_id").orderBy("seq")
    first = F.element_at("record_ids", 1)
    pairs = (
        acked.withColumn("first", first)
        .withColumn("last_record", F.lag("first").over(sender))
        .withColumn("last_offset", F.lag("base_offset").over(sender))
        .where(
            (F.col("first") > F.col("last_record")) != (F.col("base_offset") > F.col("last_offset"))
        )
    )
    detail = text("%s: record %d at offset %d", "node", "first", "base_offset")
    return violations(pairs, "nonmonotonic-send", "nonmonotonic-send", detail)
