"""Run the points of a sweep on the same seeds, and estimate every measure at each point.

A sweep is a fleet (:mod:`kafkasim.analysis.fleet`) with a configuration for each point, so it
resumes and runs wherever Spark does. With ``until`` it adds seeds to all points until the interval
of one measure is narrow enough everywhere, or the runs of a point are spent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafkasim.analysis.fleet import Progress, Summary, run_fleet
from kafkasim.analysis.source.jobs import Configuration
from kafkasim.analysis.stored import open_stored
from kafkasim.analysis.sweeps.axes import Axis, Point, SweepError
from kafkasim.analysis.sweeps.measured import Measure, estimated, measure, measured_runs
from kafkasim.analysis.sweeps.statistics import Estimate
from kafkasim.analysis.words import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GROWTH = 4.0
"""At most so many times as many seeds in the next round: widths of few seeds mislead."""


@dataclass(frozen=True)
class Sweep:
    """What is swept: a scenario with settings and variants, its axes, and the points between."""

    scenario: str
    axes: tuple[Axis, ...]
    points: tuple[Point, ...]
    settings: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    question: str = ""
    answer: str = ""  # what the scenario claims
    sampled: bool = False

    @property
    def name(self) -> str:
        """The scenario's name."""
        return self.scenario.rpartition("/")[2].removesuffix(".toml")

    def labels(self) -> list[str]:
        """Return the label of each point, under which its runs are stored."""
        return [f"{self.name}[{point.label(self.axes)}]" for point in self.points]

    def configurations(self) -> list[Configuration]:
        """Return the configuration of each point; its levels override other settings."""
        return [
            Configuration(
                self.scenario, (*self.settings, *point.settings), False, self.variants, label
            )
            for point, label in zip(self.points, self.labels(), strict=True)
        ]


@dataclass(frozen=True)
class Until:
    """When a sweep has seeds enough: the interval of a measure is at most ``width`` wide."""

    measure: Measure
    width: float
    most: int  # runs of a point


@dataclass
class Swept:
    """The outcome of a sweep: an estimate for each point and measure, and how it ended."""

    sweep: Sweep
    runs: int  # of each point
    found: dict[tuple[int, str], Estimate] = field(default_factory=dict)
    extremes: dict[tuple[int, str], tuple[float, float]] = field(default_factory=dict)
    ended: str = ""
    fleet: Summary | None = None

    def estimate(self, point: int, one: Measure) -> Estimate:
        """Return the estimate of a measure at a point; what never occurred is 0 there."""
        none = Estimate(self.runs, 0.0, 0.0, 0.0)
        return self.found.get((point, one.name), none)

    def about(self, shown: Sequence[Measure]) -> dict[str, Any]:
        """Return what was asked, and which measures answer it, for whoever reads the rows."""
        return {
            "question": self.sweep.question, "answer": self.sweep.answer,
            "axes": [axis.name for axis in self.sweep.axes],
            "measures": [one.name for one in shown], "ended": self.ended,
        }  # fmt: skip

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each point and measure, the levels of the axes in columns."""
        told = []
        for (index, name), one in sorted(self.found.items()):
            kind, (least, most) = measure(name), self.extremes[index, name]
            levels = zip(self.sweep.axes, self.sweep.points[index].levels, strict=True)
            told.append(
                {
                    "point": index, **{axis.name: level.name for axis, level in levels},
                    "measure": name, "unit": kind.unit,
                    "summary": "probability" if kind.is_probability else kind.summary,
                    "runs": one.n, "value": one.value, "low": one.low, "high": one.high,
                    "least": least, "most": most,
                }
            )  # fmt: skip
        return told


def run_sweep(
    spark: SparkSession,
    sweep: Sweep,
    runs: int,
    out: str,
    *,
    first_seed: int = 0,
    until: Until | None = None,
    progress: Progress | None = None,
) -> Swept:
    """Run ``runs`` seeds of every point, more with ``until``, and return the estimates.

    Raises:
        ScenarioError: the scenario is wrong, or wrong at a point.
        BadInput: what the executors wrote cannot be seen by all.
    """
    while True:
        seeds = range(first_seed, first_seed + runs)
        summary = run_fleet(spark, sweep.configurations(), seeds, out, progress)
        measures = measured_runs(spark, open_stored(spark, out), sweep.labels(), seeds)
        swept = _estimate(estimated(measures), sweep, runs)
        swept.fleet = summary
        if until is None:
            swept.ended = f"{counted(runs, 'run')} of each of {counted(len(sweep.points), 'point')}"
            return swept
        widest = max(
            swept.estimate(index, until.measure).width for index in range(len(sweep.points))
        )
        told = f"{until.measure.name}: widest interval {widest:.3g}"
        told += f" at {counted(runs, 'run')} of a point"
        if widest <= until.width:
            swept.ended = f"{told}: narrow enough (at most {until.width:g})"
            return swept
        if runs >= until.most:
            swept.ended = f"{told}: no runs are left, wanted at most {until.width:g}"
            return swept
        runs = more_runs(runs, widest, until)


def more_runs(runs: int, widest: float, until: Until) -> int:
    """Return how many runs the next round has: an interval narrows with the root of their number.

    At least a tenth more than now and at most :data:`GROWTH` times as many.
    """
    needed = runs * (widest / until.width) ** 2 if math.isfinite(widest) else math.inf
    return min(until.most, math.ceil(max(runs * 1.1, min(needed * 1.1, runs * GROWTH))))


def _estimate(rows: Sequence[Mapping[str, Any]], sweep: Sweep, runs: int) -> Swept:
    swept = Swept(sweep, runs)
    places: Mapping[str, int] = {label: index for index, label in enumerate(sweep.labels())}
    for row in rows:
        key = (places[row["label"]], row["measure"])
        swept.found[key] = Estimate(row["runs"], row["value"], row["low"], row["high"])
        swept.extremes[key] = (row["least"], row["most"])
    return swept


def chosen(names: Sequence[str], declared: Sequence[str], default: Sequence[str]) -> list[Measure]:
    """Return the measures to show: those of the command, of the scenario, or the default.

    Raises:
        SweepError: a name is no measure.
    """
    return [measure(name) for name in (names or declared or default)]


def parse_until(text: str, most: int) -> Until:
    """Return when to stop, from ``MEASURE=W``.

    Raises:
        SweepError: no measure, or no width above 0.
    """
    name, equals, width = text.partition("=")
    try:
        wide = float(width) if equals else 0.0
    except ValueError:
        wide = 0.0
    if not wide > 0 or not math.isfinite(wide):
        raise SweepError(f"--until-width {text!r}: give MEASURE=W, W above 0")
    return Until(measure(name.strip()), wide, most)
