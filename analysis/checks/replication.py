"""The ISR and log guarantees of the brokers, from the trace alone."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from analysis.checks.base import PARTITION, rows, text, violations

REASONS = (
    "created", "lag", "caught-up", "fenced", "unfenced", "controlled-shutdown", "reassignment",
    "unclean", "dir-offline", "preferred", "registered",
)  # fmt: skip


def changes(trace: DataFrame) -> DataFrame:
    """Return the committed partition changes, each metadata record once, in order."""
    every = rows(
        trace, "PartitionChanged", "topic_id", "partition", "offset", "leader", "leader_epoch",
        "partition_epoch", "isr", "replicas", "reason", "unclean",
    )  # fmt: skip
    first = Window.partitionBy(*PARTITION, "partition_epoch").orderBy("seq")
    return every.withColumn("_n", F.row_number().over(first)).where(F.col("_n") == 1).drop("_n")


def one_leader(trace: DataFrame) -> DataFrame:
    """At most one replica leads per (partition, leader epoch)."""
    led = (
        rows(trace, "BecameLeader", "topic_id", "partition", "leader_epoch")
        .groupBy(*PARTITION, "leader_epoch")
        .agg(F.collect_set("node").alias("leaders"), F.max("seq").alias("seq"))
        .where(F.size("leaders") > 1)
    )
    detail = text("leader epoch %d: %s", "leader_epoch",
                  F.array_join(F.array_sort("leaders"), ", "))  # fmt: skip
    return violations(led, "one-leader-per-epoch", "ONELEADER", detail)


def clean_leader_holds_exposed(trace: DataFrame) -> DataFrame:
    """A cleanly elected leader's log reaches at least as far as any earlier high watermark.

    An unclean election starts the account anew: later leaders answer for what came since.
    """
    unclean = changes(trace).where("unclean").select(*PARTITION, "leader_epoch").distinct()
    led = rows(
        trace, "BecameLeader", "topic_id", "partition", "leader_epoch", "start_offset"
    ).withColumn("high_watermark", F.lit(None).cast("long"))
    exposed = rows(
        trace, "HighWatermark", "topic_id", "partition", "leader_epoch", "high_watermark"
    ).withColumn("start_offset", F.lit(None).cast("long"))
    account = F.sum(F.when(F.col("unclean") & F.col("start_offset").isNotNull(), 1).otherwise(0))
    order = Window.partitionBy(*PARTITION).orderBy("seq")
    events = (
        led.unionByName(exposed)
        .join(
            unclean.withColumn("unclean", F.lit(True)),
            [*PARTITION, "leader_epoch"],
            how="left",
        )
        .fillna(False, ["unclean"])
        .withColumn("account", account.over(order))
    )
    before = (
        Window.partitionBy(*PARTITION, "account")
        .orderBy("seq")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    short = (
        events.withColumn("promised", F.max("high_watermark").over(before))
        .where(F.col("start_offset").isNotNull() & ~F.col("unclean"))
        .where(F.col("start_offset") < F.col("promised"))
    )
    detail = text("%s leads epoch %d from offset %d, though %d was exposed", "node",
                  "leader_epoch", "start_offset", "promised")  # fmt: skip
    return violations(short, "clean-leader-holds-exposed", "ACKED", detail)


def high_watermark_needs_min_isr(trace: DataFrame) -> DataFrame:
    """At each advance effective min.insync.replicas replicas had told the leader such a LEO."""
    topics = rows(trace, "TopicCreated", "topic_id", "min_isr", "replication_factor").select(
        "run", "topic_id", F.least("min_isr", "replication_factor").alias("needed")
    ).dropDuplicates(["run", "topic_id"])  # fmt: skip
    moved = rows(
        trace, "HighWatermark", "topic_id", "partition", "high_watermark", "acknowledged"
    ).join(topics, ["run", "topic_id"], how="inner")
    early = moved.where(F.size("acknowledged") < F.col("needed"))
    detail = text("%s: high watermark %d with %d of %d replicas", "node", "high_watermark",
                  F.size("acknowledged"), "needed")  # fmt: skip
    return violations(early, "high-watermark-min-isr", "MINISR", detail)


def high_watermark_monotonic(trace: DataFrame) -> DataFrame:
    """Within one leader epoch the high watermark only rises."""
    leader = Window.partitionBy(*PARTITION, "leader_epoch", "node").orderBy("seq")
    back = (
        rows(trace, "HighWatermark", "topic_id", "partition", "leader_epoch", "high_watermark")
        .withColumn("last", F.lag("high_watermark").over(leader))
        .where(F.col("high_watermark") < F.col("last"))
    )
    detail = text("%s: from %d back to %d", "node", "last", "high_watermark")
    return violations(back, "high-watermark-monotonic", "HWMONO", detail)


def isr_eligible(trace: DataFrame) -> DataFrame:
    """ISR members are registered, unfenced and not shutting down; the leader is one of them.

    A last member with leader −1 is excepted: it stays until it returns.
    """
    committed = changes(trace).where(~((F.size("isr") == 1) & (F.col("leader") == -1)))
    outside = committed.where(~F.array_contains("isr", F.col("leader"))).select(
        *PARTITION, "seq", text("leader %d is outside the ISR", "leader").alias("d")
    )
    members = committed.select(
        *PARTITION, "seq", F.explode("isr").alias("broker"), F.lit(None).cast("boolean").alias("ok")
    )
    registered = rows(trace, "BrokerRegistration", "broker", "fenced", "shutting_down").select(
        "run", F.lit(None).cast("string").alias("topic_id"),
        F.lit(None).cast("long").alias("partition"), "seq", "broker",
        (~F.col("fenced") & ~F.col("shutting_down")).alias("ok"),
    )  # fmt: skip
    order = Window.partitionBy("run", "broker").orderBy("seq")
    state = F.last("ok", ignorenulls=True).over(order)
    barred = (
        members.unionByName(registered)
        .withColumn("eligible", F.coalesce(state, F.lit(False)))
        .where(F.col("topic_id").isNotNull() & ~F.col("eligible"))
        .select(*PARTITION, "seq", text("broker %d may not be in the ISR", "broker").alias("d"))
    )
    return violations(outside.unionByName(barred), "isr-members-eligible", "ISRELIG", F.col("d"))


def change_has_reason(trace: DataFrame) -> DataFrame:
    """Every membership change carries one of the reasons that Kafka has."""
    order = Window.partitionBy(*PARTITION).orderBy("partition_epoch")
    moved = changes(trace).withColumn("before", F.lag("isr").over(order))
    odd = moved.where(
        F.col("before").isNotNull() & (F.array_sort("before") != F.array_sort("isr"))
    ).where(~F.col("reason").isin(*REASONS))
    return violations(odd, "isr-change-has-reason", "ISRREASON", text("reason %s", "reason"))


def logs_agree(trace: DataFrame) -> DataFrame:
    """Final logs agree below the lower high watermark and at equal (offset, epoch).

    Compared batch by batch, from the highest log start up: who wrote the batch, under which epoch
    and sequence. A batch that one log lacks below every high watermark disagrees too.
    """
    final = trace.where(F.col("kind") == "FinalReplica")
    bounds = final.groupBy(*PARTITION).agg(
        F.count(F.lit(1)).alias("replicas"),
        F.min("high_watermark").alias("below"),
        F.max("log_start_offset").alias("from"),
    )
    batches = final.select(
        *PARTITION, "node", "seq",
        F.explode(
            F.arrays_zip("base_offsets", "next_offsets", "batch_epochs", "producer_ids",
                         "base_sequences")
        ).alias("b"),
    ).select(*PARTITION, "node", "seq", "b.*")  # fmt: skip
    content = F.struct("next_offsets", "batch_epochs", "producer_ids", "base_sequences")
    at_offset = (
        batches.groupBy(*PARTITION, "base_offsets")
        .agg(
            F.count_distinct(content).alias("contents"),
            F.count(F.lit(1)).alias("holders"),
            F.max("seq").alias("seq"),
        )
        .join(bounds, [*PARTITION], how="inner")
        .where(F.col("base_offsets") >= F.col("from"))
        .where(F.col("base_offsets") < F.col("below"))
        .where((F.col("contents") > 1) | (F.col("holders") < F.col("replicas")))
        .select(*PARTITION, "seq", "base_offsets")
    )
    same_epoch = (
        batches.groupBy(*PARTITION, "base_offsets", "batch_epochs")
        .agg(F.count_distinct(content).alias("contents"), F.max("seq").alias("seq"))
        .where(F.col("contents") > 1)
        .select(*PARTITION, "seq", "base_offsets")
    )
    detail = text("replicas differ at offset %d", "base_offsets")
    return violations(at_offset.unionByName(same_epoch), "logs-agree", "MATCH", detail)
