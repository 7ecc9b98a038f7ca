"""lost-write, unseen, duplicate, inconsistent-offsets: was each record delivered, once, as sent?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analysis.checks.base import PARTITION, final_leaders, final_records, rows, text, violations


def acked_records(trace: DataFrame) -> DataFrame:
    """Return run, topic_id, partition, seq, record_id, offset (−1 unknown) of acknowledged sends."""
    acked = rows(trace, "Acked", "topic_id", "partition", "base_offset", "record_ids")
    return acked.select(
        *PARTITION,
        "seq",
        "base_offset",
        F.posexplode("record_ids").alias("index", "record_id"),
    ).select(
        *PARTITION,
        "seq",
        "record_id",
        F.when(F.col("base_offset") >= 0, F.col("base_offset") + F.col("index"))
        .otherwise(-1)
        .alias("offset"),
    )


def polled_records(trace: DataFrame) -> DataFrame:
    """Return run, topic_id, partition, seq, group, member_id, offset, record_id of all polls."""
    polled = rows(
        trace, "Polled", "group", "member_id", "topic_id", "partition", "offsets", "record_ids"
    )
    return polled.select(
        *PARTITION,
        "seq",
        "group",
        "member_id",
        F.explode(F.arrays_zip("offsets", "record_ids")).alias("r"),
    ).select(
        *PARTITION,
        "seq",
        "group",
        "member_id",
        F.col("r.offsets").alias("offset"),
        F.col("r.record_ids").alias("record_id"),
    )


def lost_write(trace: DataFrame) -> DataFrame:
    """An acknowledged record is absent from the final log of its partition's leader.

    Records below the leader's log start are excused, and so are partitions without a leader.
    """
    starts = final_leaders(trace).select(*PARTITION, "log_start_offset")
    held = final_records(trace).select(*PARTITION, "record_id")
    lost = (
        acked_records(trace)
        .join(starts, [*PARTITION], how="inner")
        .where((F.col("offset") < 0) | (F.col("offset") >= F.col("log_start_offset")))
        .join(held, [*PARTITION, "record_id"], how="left_anti")
    )
    detail = text("record %d acknowledged at offset %d", "record_id", "offset")
    return violations(lost, "lost-write", "lost-write", detail)


def unseen(trace: DataFrame) -> DataFrame:
    """An acknowledged record that is in the final log, inside what a group covered, read by nobody."""
    covered = (
        rows(trace, "Positioned", "topic_id", "partition", "offset", "reason")
        .where(F.col("reason") != "none")
        .groupBy(*PARTITION)
        .agg(F.min("offset").alias("from"))
    )
    read = polled_records(trace).select(*PARTITION, "record_id").distinct()
    held = final_records(trace).withColumnRenamed("offset", "held_at")
    late = (
        acked_records(trace)
        .join(held, [*PARTITION, "record_id"], how="inner")
        .join(covered, [*PARTITION], how="inner")
        .where(F.col("held_at") >= F.col("from"))
        .join(read, [*PARTITION, "record_id"], how="left_anti")
    )
    detail = text("record %d at offset %d was read by nobody", "record_id", "held_at")
    return violations(late, "unseen", "unseen", detail)


def duplicate(trace: DataFrame) -> DataFrame:
    """One value at two offsets (producer-caused), or one offset delivered twice to a group."""
    stored = (
        final_records(trace)
        .groupBy(*PARTITION, "record_id")
        .agg(F.count(F.lit(1)).alias("times"), F.min("offset").alias("offset"))
        .where(F.col("times") > 1)
        .select(
            *PARTITION,
            F.col("record_id").alias("seq"),
            text("record %d is stored %d times (producer-caused)", "record_id", "times").alias("d"),
        )
    )
    redelivered = (
        polled_records(trace)
        .groupBy(*PARTITION, "group", "offset")
        .agg(F.count(F.lit(1)).alias("times"), F.min("seq").alias("seq"))
        .where(F.col("times") > 1)
        .select(
            *PARTITION,
            "seq",
            text("group %s got offset %d %d times", "group", "offset", "times").alias("d"),
        )
    )
    return violations(stored.unionByName(redelivered), "duplicate", "duplicate", F.col("d"))


def inconsistent_offsets(trace: DataFrame) -> DataFrame:
    """One offset of a partition was read with two values."""
    twice = (
        polled_records(trace)
        .groupBy(*PARTITION, "offset")
        .agg(
            F.min("record_id").alias("one"),
            F.max("record_id").alias("other"),
            F.max("seq").alias("seq"),
        )
        .where(F.col("one") != F.col("other"))
    )
    detail = text("offset %d was read as record %d and as %d", "offset", "one", "other")
    return violations(twice, "inconsistent-offsets", "inconsistent-offsets", detail)
