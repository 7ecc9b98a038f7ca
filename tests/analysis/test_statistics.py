"""Estimates and paired differences, beside figures worked out elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kafkasim.analysis.judging.finding import ANOMALIES
from kafkasim.analysis.sweeps.measured import PROBABLE, Measure, by_reason, estimates, measure
from kafkasim.analysis.sweeps.statistics import (
    amount,
    paired_amounts,
    paired_proportions,
    proportion,
)
from kafkasim.analysis.sweeps.sweep import GROWTH, SweepError, Until, more_runs, parse_until

WIDTH = Measure("latency-p99-ms", "", "ms")


def test_a_rate_has_wilsons_interval() -> None:
    found = proportion(3, 50)  # R: binom.confint(3, 50, methods = "wilson")
    assert (found.value, found.low, found.high) == pytest.approx((0.06, 0.02062, 0.16218), abs=1e-4)
    assert proportion(0, 20).low == 0.0
    assert math.isnan(proportion(0, 0).value)


def test_a_bootstrap_interval_covers_the_median_of_its_population() -> None:
    covered = 0
    for seed in range(200):
        sample = np.random.default_rng(seed).exponential(size=60)
        found = amount(list(sample), "median")
        covered += found.low <= math.log(2) <= found.high
    assert 0.90 <= covered / 200 <= 0.99  # 95 % wanted


def test_equal_runs_have_no_spread_and_one_run_no_interval() -> None:
    assert (amount([2.0] * 9, "mean").low, amount([2.0] * 9, "mean").high) == (2.0, 2.0)
    single = amount([2.0], "median")
    assert single.value == 2.0
    assert math.isinf(single.width)


def test_runs_without_the_value_are_left_out() -> None:
    assert amount([1.0, math.nan, 3.0], "mean").n == 2
    assert amount([math.nan], "mean").n == 0


def test_pairs_show_what_groups_hide() -> None:
    spread = np.random.default_rng(1).normal(100, 50, size=40)
    found = paired_amounts(list(spread), list(spread + 1), "median")
    assert (found.lower, found.higher) == (0, 40)
    assert found.p_value == pytest.approx(2 / 2**40)
    assert found.estimate.value == pytest.approx(1.0)


def test_mcnemar_counts_only_the_pairs_that_differ() -> None:
    a = [True] * 10 + [False] * 90
    b = [True] * 2 + [False] * 98
    found = paired_proportions(a, b)
    assert (found.lower, found.higher) == (8, 0)
    assert found.p_value == pytest.approx(2 * 0.5**8)  # binom.test(0, 8)
    assert found.estimate.value == pytest.approx(-0.08)
    assert paired_proportions(a, a).p_value == 1.0


def test_the_next_round_has_as_many_runs_as_the_width_needs() -> None:
    until = Until(WIDTH, 1.0, 1000)
    assert more_runs(50, 1.5, until) == math.ceil(50 * 1.5**2 * 1.1)
    assert more_runs(50, 100.0, until) == 50 * GROWTH
    assert more_runs(50, math.inf, until) == 50 * GROWTH
    assert more_runs(50, 1.0001, until) > 50
    assert more_runs(900, 9.0, until) == 1000


@pytest.mark.parametrize("text", ["lost-write", "lost-write=0", "lost-write=x", "nothing=1"])
def test_what_is_no_width(text: str) -> None:
    with pytest.raises(SweepError):
        parse_until(text, 100)


def test_a_measure_is_an_amount_a_reason_or_an_anomaly() -> None:
    assert all(measure(name).is_probability for name in ANOMALIES)
    assert PROBABLE[: len(ANOMALIES)] == ANOMALIES
    assert measure("isr-changes:lag").unit == "1/min"
    with pytest.raises(SweepError, match="no measure 'latency'"):
        measure("latency")


def test_a_crashed_run_counts_as_a_crash_and_measures_nothing() -> None:
    from kafkasim.analysis.sweeps.measured import AMOUNTS

    run = {one.column: 2.0 for one in AMOUNTS} | {
        "seed": 1, "verdict": "pass", "anomalies": ["duplicate"],
        "isr_changes_by_reason": {"lag": 3.0},
    }  # fmt: skip
    crash = dict.fromkeys(run) | {"seed": 2, "verdict": "crash", "anomalies": ["crash"]}
    found = {one["measure"]: one for one in estimates([run, crash])}
    assert found["latency-p99-ms"]["runs"] == 1
    assert found["crash"]["value"] == 0.5
    assert found["duplicate"]["value"] == 0.5
    assert found["isr-changes:lag"]["value"] == 3.0
    assert by_reason(run) == [("lag", 3.0)]
