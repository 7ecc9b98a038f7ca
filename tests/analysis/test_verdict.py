"""Verdicts and rates from the table of findings, and the interval of a rate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkasim.analysis.interval import wilson
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.runs import StoredRun
from kafkasim.analysis.verdict import Found, combine, describe
from tests.analysis.analysis_rows import T, end, write_fleet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def a_run(name: str = "r", **manifest: Any) -> StoredRun:
    whole = {"scenario": "s", "seed": 1, "digest": "x", "verdict": "pass", **manifest}
    return StoredRun(name, Path(), whole)


def found(name: str, expected: str = "", run: str = "r") -> Found:
    return Found(run, name, not expected, 1, "orders", 0, "text", expected)


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634),
     (1, 1000, 0.0002, 0.0056)],
)  # fmt: skip
def test_wilson_interval(hits: int, total: int, low: float, high: float) -> None:
    assert wilson(hits, total) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(
    ("findings", "word", "failure", "code"),
    [
        ([], "pass", "", 0),
        ([found("lost-write")], "fail", "safety", 10),
        ([found("no-progress")], "fail", "liveness", 11),
        ([found("no-progress"), found("MATCH")], "fail", "safety", 10),
        ([found("lost-write", "permitted")], "expected", "", 0),
        ([found("lost-write", "permitted"), found("unseen")], "fail", "safety", 10),
    ],
)
def test_verdict(findings: list[Found], word: str, failure: str, code: int) -> None:
    verdicts = combine([a_run()], findings)
    assert (verdicts.runs[0].verdict, verdicts.runs[0].failure) == (word, failure)
    assert verdicts.exit_code == code


def test_a_crash_is_a_verdict_of_its_own() -> None:
    verdicts = combine([a_run(verdict="crash")], [found("crash")])
    assert (verdicts.runs[0].verdict, verdicts.exit_code) == ("crash", 1)


def test_rates_count_runs() -> None:
    runs = [a_run("a"), a_run("b"), a_run("c"), a_run("d")]
    verdicts = combine(runs, [found("lost-write", run="a"), found("lost-write", "acks", run="b")])
    [rate] = verdicts.rates
    assert (rate.name, rate.runs, rate.violations, rate.expected) == ("lost-write", 4, 1, 1)
    assert rate.cells()[2:] == ("1", "25.0% (4.6% to 69.9%)") * 2
    assert list(verdicts.table(["MATCH", "lost-write"]).columns[0].cells) == [
        "lost-write", "MATCH",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.spark
def test_the_table_of_findings_is_summed_up(spark: SparkSession, tmp_path: Path) -> None:
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge
    from kafkasim.sim.trace.store import judges_version

    loss = Finding("lost-write", T, 0, "record 1", 2, "last-replica-standing", seq=-1)
    cases = {
        "a": [loss, Finding("lost-write", T, 1, "record 9", seq=7),
              Finding("lost-write", T, 1, "record 8", seq=5)],
        "b": [loss, Finding("missing:fenced", "", -1, "fenced did not happen")],
        "c": [],
    }  # fmt: skip
    write_fleet(tmp_path, {name: [end()] for name in cases}, cases)
    verdicts = judge(open_stored(spark, str(tmp_path)), judges_version())
    assert [(run.run, run.anomalies, run.expected) for run in verdicts.runs] == [
        ("a", ["lost-write"], []), ("b", ["missing:fenced"], ["lost-write"]), ("c", [], []),
    ]  # fmt: skip
    assert [describe(one) for one in verdicts.found] == [
        f"lost-write {T}-1: record 8 (4 times)",
        f"lost-write {T}-0: record 1 (2 times) [expected: last-replica-standing]",
        "missing:fenced: fenced did not happen",
    ]
    assert verdicts.notes == []
