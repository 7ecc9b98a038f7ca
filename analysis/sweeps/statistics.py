"""Estimates with intervals, by scipy: of one configuration, and of paired differences.

All intervals are 95 %. A proportion has Wilson's interval; a median or mean has a percentile
bootstrap over the runs. Runs of two configurations with one seed are a pair: differences of
proportions are tested by McNemar's exact test, of amounts by the exact sign test. The bootstrap
has a fixed seed, so equal runs give equal intervals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from kafkasim.analysis.interval import wilson

RESAMPLES = 2_000
CONFIDENCE = 0.95

Summary = Literal["median", "mean"]


@dataclass(frozen=True)
class Estimate:
    """A figure of ``n`` runs with its 95 % interval; NaN where the runs do not tell."""

    n: int
    value: float
    low: float
    high: float

    @property
    def width(self) -> float:
        """How wide the interval is; infinite if there is none."""
        return math.inf if math.isnan(self.low) else self.high - self.low


@dataclass(frozen=True)
class Difference:
    """B less A over pairs of runs: the estimate, and the probability of chance alone (exact)."""

    estimate: Estimate
    lower: int  # pairs in which B is lower than A
    higher: int
    p_value: float


def proportion(hits: int, total: int) -> Estimate:
    """Return the rate of ``hits`` in ``total`` with Wilson's interval."""
    if total == 0:
        return Estimate(0, math.nan, math.nan, math.nan)
    return Estimate(total, hits / total, *wilson(hits, total))


def amount(values: Sequence[float], summary: Summary) -> Estimate:
    """Return the median or mean of one value a run with its bootstrap interval.

    NaN stands for a run without the value (no acknowledgement has no latency) and is left out.
    """
    known = np.asarray(values, dtype=float)
    known = known[~np.isnan(known)]
    if known.size == 0:
        return Estimate(0, math.nan, math.nan, math.nan)
    statistic: Any = {"median": np.median, "mean": np.mean}[summary]
    value = float(statistic(known))
    if known.size == 1:
        return Estimate(1, value, math.nan, math.nan)
    found = stats.bootstrap(
        (known,), statistic, n_resamples=RESAMPLES, confidence_level=CONFIDENCE,
        method="percentile", rng=np.random.default_rng(0),
    ).confidence_interval  # fmt: skip
    return Estimate(int(known.size), value, float(found.low), float(found.high))


def paired_amounts(a: Sequence[float], b: Sequence[float], summary: Summary) -> Difference:
    """Return how much more B has than A; pairs in which one has no value are left out."""
    first, second = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    differences = second - first
    differences = differences[~np.isnan(differences)]
    lower, higher = int((differences < 0).sum()), int((differences > 0).sum())
    return Difference(amount(differences, summary), lower, higher, _sign(lower, higher))


def paired_proportions(a: Sequence[bool], b: Sequence[bool]) -> Difference:
    """Return how much more often B shows something than A (McNemar's exact test)."""
    first, second = np.asarray(a, dtype=bool), np.asarray(b, dtype=bool)
    lower, higher = int((first & ~second).sum()), int((second & ~first).sum())
    estimate = amount(second.astype(float) - first.astype(float), "mean")
    return Difference(estimate, lower, higher, _sign(lower, higher))


def _sign(lower: int, higher: int) -> float:
    """Return the two-sided probability of so uneven a split of the pairs that differ."""
    if lower + higher == 0:
        return 1.0
    return float(stats.binomtest(higher, lower + higher, 0.5).pvalue)
