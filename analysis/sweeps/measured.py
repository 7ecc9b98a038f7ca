"""The measures of sweeps: their names, units and how runs are summed up, and a row for each run.

A measure is an *amount* of each run (:mod:`kafkasim.analysis.figures.measures`), summed up by the
median, or by the mean where most runs have none of it; or it is the *probability* of an anomaly, by
its own name, whether the scenario permits it or not.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkasim.analysis.judging.finding import ANOMALIES, CRASH, NO_PROGRESS
from kafkasim.analysis.sweeps import statistics
from kafkasim.analysis.sweeps.axes import SweepError
from kafkasim.analysis.sweeps.statistics import Estimate, Summary

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkasim.analysis.stored import Stored

Row = Mapping[str, Any]
"""A run with its measures."""

PROBABILITY = "probability"
BY_REASON = "isr-changes:"


@dataclass(frozen=True)
class Measure:
    """A figure of a run: its name, what it counts and in what unit, and how runs are summed up."""

    name: str
    title: str
    unit: str
    summary: Summary = "median"

    @property
    def column(self) -> str:
        """The column of the measure in the rows of runs."""
        return self.name.replace("-", "_")

    @property
    def is_probability(self) -> bool:
        """Whether it is the probability of an anomaly."""
        return self.unit == PROBABILITY

    @property
    def axis(self) -> str:
        """What is written beside an axis or a scale."""
        if self.is_probability:
            return f"{self.title} (share of runs)"
        return f"{self.title} ({self.summary}{', ' + self.unit if self.unit else ''})"


AMOUNTS = (
    Measure("isr-changes-per-minute", "ISR changes a minute", "1/min"),
    Measure("under-replicated-s", "under-replicated", "partition seconds"),
    Measure("under-min-isr-s", "under min ISR", "partition seconds"),
    Measure("leaderless-s", "without leader", "partition seconds"),
    Measure("unavailable-s", "leaderless or under min ISR", "partition seconds"),
    Measure("unclean-elections", "unclean elections", "", "mean"),
    Measure("controller-failovers", "controller failovers", "", "mean"),
    Measure("controllerless-s", "without active controller", "s"),
    Measure("latency-p50-ms", "produce latency p50", "ms"),
    Measure("latency-p99-ms", "produce latency p99", "ms"),
    Measure("latency-p999-ms", "produce latency p99.9", "ms"),
    Measure("latency-max-ms", "longest produce latency", "ms"),
    Measure("share-latency-p50-ms", "append to acceptance by a share group, p50", "ms"),
    Measure("share-latency-p99-ms", "append to acceptance by a share group, p99", "ms"),
    Measure("share-latency-max-ms", "longest append to acceptance by a share group", "ms"),
    Measure("acked-records", "acknowledged records", "records"),
    Measure("lost-records", "acknowledged records lost", "records", "mean"),
    Measure("lost-per-million", "lost of a million acknowledged", "records", "mean"),
    Measure("duplicate-records", "records stored twice", "records", "mean"),
    Measure("redelivered-records", "records given to a group again", "records", "mean"),
    Measure("stranded-records", "acknowledged, and nowhere at the end (RPO)", "records"),
    Measure("read-again-records", "records given to a group again, in any cluster", "records"),
    Measure("skipped-records", "mirrored records skipped at a failover", "records", "mean"),
    Measure("processing-gap-s", "longest time in which a group processed nothing (RTO)", "s"),
    Measure("failed-records", "records whose send failed", "records", "mean"),
    Measure("rebalances", "rebalances", ""),
    Measure("rebalance-downtime-s", "without owner in a group", "partition seconds"),
    Measure("task-downtime-s", "tasks of Kafka Streams that nobody runs", "task seconds"),
    Measure("restored-bytes", "restored by Kafka Streams", "bytes"),
    Measure("exchanges-per-second", "requests and responses", "1/s"),
    Measure("sim-seconds", "simulated time", "s"),
)  # fmt: skip
"""What every sweep measures."""

PROBABLE = (*ANOMALIES, NO_PROGRESS, CRASH)
"""Of what a sweep gives the probability: anomalies, a cluster that does not recover, a crash."""

DEFAULT = ("isr-changes-per-minute", "unavailable-s", "latency-p99-ms", "lost-per-million")
"""What is shown if neither scenario nor command names measures."""


def measure(name: str) -> Measure:
    """Return the measure of a name: an amount, an anomaly, or ``isr-changes:REASON``.

    Raises:
        SweepError: there is none of that name.
    """
    for one in AMOUNTS:
        if one.name == name:
            return one
    if name in PROBABLE:
        return Measure(name, name, PROBABILITY)
    if name.startswith(BY_REASON) and name != BY_REASON:
        reason = name.removeprefix(BY_REASON)
        return Measure(name, f"ISR changes a minute for {reason}", "1/min")
    known = [one.name for one in AMOUNTS]
    near = difflib.get_close_matches(name, [*known, *PROBABLE], n=3, cutoff=0.6)
    if near:
        raise SweepError(f"no measure {name!r}; did you mean {' or '.join(near)}?")
    raise SweepError(
        f"no measure {name!r}; allowed: {', '.join(known)}, {BY_REASON}REASON, or an anomaly, whose"
        " probability it is"
    )


def measured_runs(
    spark: SparkSession, stored: Stored, labels: Collection[str], seeds: range
) -> DataFrame:
    """Return a row for each of the runs: label, seed, verdict, anomalies, and its amounts.

    ``anomalies`` has those that were permitted or excused too, and none of what a scenario claims
    to see or not to see: a sweep asks what happens, not whether the claim of one point holds.
    """
    from pyspark.sql import functions as F

    from kafkasim.analysis.figures.measures import MEASURES, measuring

    runs = stored.runs_table().where(F.col("label").isin(list(labels)))
    runs = runs.where(F.col("seed").between(seeds.start, seeds.stop - 1))
    seen = F.array_union("anomalies", "expected")
    seen = F.filter(seen, lambda one: ~one.startswith("missing:") & ~one.startswith("seen:"))
    told = runs.select(
        "run", "label", "seed", "verdict", "sim_seconds", "exchanges", seen.alias("anomalies")
    )
    with measuring(stored):
        amounts = spark.sql(MEASURES)
        joined = told.join(amounts, "run", "left")
        joined = joined.withColumn("exchanges_per_second", F.expr("exchanges / sim_seconds"))
        return joined.localCheckpoint()


def estimates(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the estimates of the runs of one label, one for each measure.

    ``rows`` are as :func:`measured_runs` returns them, in the order of their seeds.
    """
    whole = [row for row in rows if row["verdict"] != "crash"]
    reasons = sorted({reason for row in whole for reason, _ in by_reason(row)})
    for one in (*AMOUNTS, *(measure(BY_REASON + reason) for reason in reasons)):
        yield _told(one, amounts(whole, one))
    for name in PROBABLE:
        yield _told(measure(name), amounts(rows, measure(name)))


def estimate(values: Sequence[float], one: Measure) -> Estimate:
    """Return the estimate of a measure from its value in each run, as :func:`amounts` has them."""
    if one.is_probability:
        return statistics.proportion(sum(value > 0 for value in values), len(values))
    return statistics.amount(values, one.summary)


def amounts(rows: Sequence[Row], one: Measure) -> list[float]:
    """Return a measure of each row; NaN where the run has none."""
    if one.is_probability:
        return [float(one.name in (row["anomalies"] or ())) for row in rows]
    if one.name.startswith(BY_REASON):
        reason = one.name.removeprefix(BY_REASON)
        return [float(dict(by_reason(row)).get(reason, 0.0)) for row in rows]
    return [math.nan if row[one.column] is None else float(row[one.column]) for row in rows]


def by_reason(row: Row) -> list[tuple[str, float]]:
    """Return the ISR changes a minute of a run for each reason."""
    return list((row["isr_changes_by_reason"] or {}).items())


def _told(one: Measure, values: Sequence[float]) -> dict[str, Any]:
    found = estimate(values, one)
    known = [value for value in values if not math.isnan(value)]
    return {
        "measure": one.name, "unit": one.unit,
        "summary": PROBABILITY if one.is_probability else one.summary, "runs": found.n,
        "value": found.value, "low": found.low, "high": found.high,
        "least": min(known, default=math.nan), "most": max(known, default=math.nan),
    }  # fmt: skip


def estimated(runs: DataFrame) -> list[dict[str, Any]]:
    """Return the estimates of every label: a row for each label and measure, computed by Spark."""

    def of_label(group: tuple[str, Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
        label, rows = group
        ordered = sorted(rows, key=lambda row: int(row["seed"]))
        return [{"label": label, **row} for row in estimates(ordered)]

    keyed = runs.rdd.map(lambda row: (row["label"], row.asDict()))
    return keyed.groupByKey().flatMap(of_label).collect()
