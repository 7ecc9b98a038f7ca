"""offset-regression, skipped-by-commit, double-owner: did the group keep its promises?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analysis.checks.base import PARTITION, final_leaders, rows, text, violations


def _topics(trace: DataFrame) -> DataFrame:
    return (
        rows(trace, "TopicCreated", "topic", "topic_id")
        .select("run", "topic", "topic_id")
        .dropDuplicates(["run", "topic", "topic_id"])
    )


def offset_regression(trace: DataFrame) -> DataFrame:
    """A committed offset went backwards (client-caused), or the current coordinator answered an
    OffsetFetch with less than was acknowledged (server-caused)."""
    committed = rows(
        trace, "OffsetCommitted", "group", "topic", "partition", "offset", "coordinator_epoch"
    ).withColumn("fetched", F.lit(False))
    fetched = rows(
        trace, "OffsetFetched", "group", "topic", "partition", "offset", "coordinator_epoch"
    ).withColumn("fetched", F.lit(True))
    history = Window.partitionBy("run", "group", "topic", "partition").orderBy("seq")
    before = history.rowsBetween(Window.unboundedPreceding, -1)
    promised = F.last(F.when(~F.col("fetched"), F.col("offset")), ignorenulls=True).over(before)
    epoch = F.max("coordinator_epoch").over(before)
    back = (
        committed.unionByName(fetched)
        .withColumn("promised", promised)
        .withColumn("known_epoch", epoch)
        .where(F.col("offset") < F.col("promised"))
        .where(F.col("coordinator_epoch") >= F.col("known_epoch"))
        .join(_topics(trace), ["run", "topic"], how="inner")
    )
    who = F.when(F.col("fetched"), F.lit("answered")).otherwise(F.lit("was set to"))
    detail = text("group %s: %s %d after %d", "group", who, "offset", "promised")
    return violations(back, "offset-regression", "offset-regression", detail)


def skipped_by_commit(trace: DataFrame) -> DataFrame:
    """A group's committed offset passed records that no member ever finished processing."""
    committed = (
        rows(trace, "OffsetCommitted", "group", "topic", "partition", "offset")
        .groupBy("run", "group", "topic", "partition")
        .agg(F.max("offset").alias("committed"), F.max("seq").alias("seq"))
        .join(_topics(trace), ["run", "topic"], how="inner")
    )
    first = (
        rows(trace, "Positioned", "group", "topic_id", "partition", "offset", "reason")
        .where(F.col("reason") != "none")
        .groupBy(*PARTITION, "group")
        .agg(F.min("offset").alias("from"))
    )
    done = rows(trace, "Processed", "group", "topic_id", "partition", "base_offset", "offset")
    ends = Window.partitionBy(*PARTITION, "group").orderBy("base_offset", "offset")
    reached = F.max("offset").over(ends.rowsBetween(Window.unboundedPreceding, -1))
    tail = done.groupBy(*PARTITION, "group").agg(F.max("offset").alias("base_offset"))
    gaps = (
        done.select(*PARTITION, "group", "base_offset", reached.alias("reached"))
        .unionByName(
            # Behind the last range comes the rest, up to whatever was committed.
            tail.select(*PARTITION, "group", F.lit(2**62).alias("base_offset"),
                        F.col("base_offset").alias("reached"))
        )
    )  # fmt: skip
    led = final_leaders(trace).select(*PARTITION)
    scope = committed.join(first, [*PARTITION, "group"], how="inner").join(
        led, [*PARTITION], how="left_semi"
    )
    skipped = (
        scope.join(gaps, [*PARTITION, "group"], how="left")
        .withColumn("low", F.greatest(F.coalesce("reached", "from"), "from"))
        .withColumn("high", F.least(F.coalesce("base_offset", "committed"), "committed"))
        .where(F.col("low") < F.col("high"))
    )
    detail = text("group %s committed past offsets %d to %d unprocessed", "group", "low",
                  F.col("high") - 1)  # fmt: skip
    return violations(skipped, "skipped-by-commit", "skipped-by-commit", detail)


def double_owner(trace: DataFrame) -> DataFrame:
    """In the coordinator's view two members own one partition in one generation."""
    owned = (
        rows(trace, "GroupAssigned", "group", "generation", "member_id", "assignment")
        .select(
            "run", "seq", "group", "generation", "member_id", F.explode("assignment").alias("tp")
        )
        .groupBy("run", "group", "generation", "tp")
        .agg(F.countDistinct("member_id").alias("owners"), F.max("seq").alias("seq"))
        .where(F.col("owners") > 1)
        .select(
            "run",
            "seq",
            "group",
            "generation",
            "tp",
            "owners",
            F.lit(None).cast("string").alias("topic_id"),
            F.regexp_extract("tp", r"-(\d+)$", 1).cast("long").alias("partition"),
        )
    )
    detail = text("%s has %d owners in generation %d of group %s", "tp", "owners", "generation",
                  "group")  # fmt: skip
    return violations(owned, "double-owner", "double-owner", detail)
