"""Compare two configurations on the same seeds: paired differences, and where they differ most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkasim.analysis.fleet import Progress, Summary, run_fleet
from kafkasim.analysis.source.jobs import Configuration
from kafkasim.analysis.stored import open_stored
from kafkasim.analysis.sweeps import statistics
from kafkasim.analysis.sweeps.measured import (
    AMOUNTS,
    PROBABLE,
    Measure,
    Row,
    amounts,
    estimate,
    measure,
    measured_runs,
)
from kafkasim.analysis.sweeps.statistics import Difference, Estimate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLEAR = 0.05
"""A difference whose probability by chance is below this is called clear."""


@dataclass(frozen=True)
class Compared:
    """A measure of A, of B, and the paired difference B less A.

    ``gaps`` has the difference of each pair in which both runs have the measure.
    """

    measure: Measure
    a: Estimate
    b: Estimate
    difference: Difference
    gaps: tuple[float, ...]

    @property
    def differs(self) -> bool:
        """Whether any pair differs."""
        return self.difference.lower + self.difference.higher > 0

    @property
    def clear(self) -> bool:
        """Whether chance is an unlikely reason of the difference."""
        return self.differs and self.difference.p_value < CLEAR


@dataclass(frozen=True)
class Outlier:
    """A seed in which A and B differ much: by which measure, and by how much."""

    seed: int
    measure: Measure
    a: float
    b: float


@dataclass
class Comparison:
    """The outcome: what was compared, all measures, and the seeds where they differ most."""

    a: Configuration
    b: Configuration
    pairs: int
    measures: list[Compared]
    outliers: list[Outlier]
    fleet: Summary

    def about(self) -> dict[str, Any]:
        """Return what was compared, for whoever reads the rows."""
        sides = {"a": self.a, "b": self.b}
        return {name: " ".join((side.name, *side.settings)) for name, side in sides.items()} | {
            "pairs": self.pairs
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each measure."""
        return [
            {
                "measure": one.measure.name, "unit": one.measure.unit,
                "summary": "probability" if one.measure.is_probability else one.measure.summary,
                "pairs": self.pairs,
                **_columns("a", one.a), **_columns("b", one.b),
                **_columns("difference", one.difference.estimate),
                "pairs_lower": one.difference.lower, "pairs_higher": one.difference.higher,
                "p_value": one.difference.p_value,
            }
            for one in self.measures
        ]  # fmt: skip


def compare(
    spark: SparkSession, a: Configuration, b: Configuration, seeds: range, out: str,
    progress: Progress | None = None,
) -> Comparison:  # fmt: skip
    """Run both configurations on the same seeds and compare every measure.

    Raises:
        ScenarioError: a configuration is wrong.
        BadInput: what the executors wrote cannot be seen by all.
    """
    fleet = run_fleet(spark, [a, b], seeds, out, progress)
    table = measured_runs(spark, open_stored(spark, out), [a.label, b.label], seeds)
    rows = [row.asDict() for row in table.collect()]
    first, second = _paired(rows, a.label), _paired(rows, b.label)
    both = sorted(seed for seed in first if seed in second)
    of_a, of_b = [first[seed] for seed in both], [second[seed] for seed in both]
    found = [_compared(one, of_a, of_b) for one in AMOUNTS]
    found += [_compared(measure(name), of_a, of_b) for name in PROBABLE]
    return Comparison(a, b, len(both), found, outliers(found, of_a, of_b), fleet)


def outliers(found: Sequence[Compared], a: Sequence[Row], b: Sequence[Row]) -> list[Outlier]:
    """Return the seeds of the largest difference: by the worst anomaly, then by each amount.

    A seed in which one configuration shows an anomaly and the other does not comes first; of the
    amounts those with a clear difference are looked at, most significant first. Each seed is named
    once.
    """
    named: dict[int, Outlier] = {}
    ranked = sorted(
        (one for one in found if one.differs),
        key=lambda one: (not one.measure.is_probability, one.difference.p_value),
    )
    for one in ranked:
        of_a, of_b = amounts(a, one.measure), amounts(b, one.measure)
        gaps = [
            (abs(y - x), int(row["seed"]), x, y)
            for row, x, y in zip(a, of_a, of_b, strict=True)
            if not math.isnan(y - x) and x != y
        ]
        for _, seed, x, y in sorted(gaps, key=lambda gap: (-gap[0], gap[1]))[:2]:
            named.setdefault(seed, Outlier(seed, one.measure, x, y))
    return list(named.values())


def _paired(rows: Sequence[Row], label: str) -> dict[int, Row]:
    """Return the runs of a label by seed; a crashed run measures nothing and has no pair."""
    return {
        int(row["seed"]): row for row in rows if row["label"] == label and row["verdict"] != "crash"
    }


def _compared(one: Measure, a: Sequence[Row], b: Sequence[Row]) -> Compared:
    of_a, of_b = amounts(a, one), amounts(b, one)
    if one.is_probability:
        hits_a, hits_b = [value > 0 for value in of_a], [value > 0 for value in of_b]
        difference = statistics.paired_proportions(hits_a, hits_b)
    else:
        difference = statistics.paired_amounts(of_a, of_b, one.summary)
    both = tuple(y - x for x, y in zip(of_a, of_b, strict=True) if not math.isnan(y - x))
    return Compared(one, estimate(of_a, one), estimate(of_b, one), difference, both)


def _columns(name: str, one: Estimate) -> dict[str, float]:
    return {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
