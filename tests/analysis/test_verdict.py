"""Verdicts from findings and manifests, and the interval of a rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.interval import wilson
from kafkasim.analysis.runs import StoredRun
from kafkasim.analysis.verdict import (
    FROM_EPOCH,
    FROM_OFFSETS,
    FROM_RECORDS,
    CheckFinding,
    combine,
    excuse,
)
from kafkasim.scenarios.judging import delivery
from kafkasim.scenarios.judging.invariants import traced


def a_run(name: str = "r", **manifest: Any) -> StoredRun:
    whole = {"scenario": "s", "seed": 1, "digest": "x", "verdict": "pass", **manifest}
    return StoredRun(name, Path(), whole)


def found(anomaly: str, expected: str = "", run: str = "r") -> CheckFinding:
    return CheckFinding(run, anomaly, anomaly, "orders", 0, 1, "detail", expected)


@pytest.mark.parametrize(
    ("hits", "total", "low", "high"),
    [(0, 0, 0.0, 1.0), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634),
     (1, 1000, 0.0002, 0.0056)],
)  # fmt: skip
def test_wilson_interval(hits: int, total: int, low: float, high: float) -> None:
    assert wilson(hits, total) == pytest.approx((low, high), abs=5e-5)


def test_nothing_found_passes() -> None:
    verdicts = combine([a_run()], [])
    assert [(v.verdict, v.failure, v.anomalies) for v in verdicts.runs] == [("pass", "", [])]
    assert verdicts.exit_code == 0


@pytest.mark.parametrize(
    ("findings", "verdict", "failure", "code"),
    [
        ([found("lost-write")], "fail", "safety", 10),
        ([found("no-progress")], "fail", "liveness", 11),
        ([found("no-progress"), found("MATCH")], "fail", "safety", 10),
        ([found("lost-write", "permitted")], "expected", "", 0),
        ([found("lost-write", "permitted"), found("unseen")], "fail", "safety", 10),
    ],
)
def test_verdict(findings: list[CheckFinding], verdict: str, failure: str, code: int) -> None:
    verdicts = combine([a_run()], findings)
    assert (verdicts.runs[0].verdict, verdicts.runs[0].failure) == (verdict, failure)
    assert verdicts.exit_code == code


def test_one_unexcused_finding_makes_the_anomaly_fail() -> None:
    run = combine([a_run()], [found("unseen", "permitted"), found("unseen")]).runs[0]
    assert (run.anomalies, run.expected) == (["unseen"], [])


def test_a_crash_is_a_verdict_of_its_own() -> None:
    verdicts = combine([a_run(verdict="crash", reason="AssertionError: hw")], [])
    assert (verdicts.runs[0].verdict, verdicts.exit_code) == ("crash", 1)
    assert verdicts.found[0].detail == "AssertionError: hw"


def test_what_the_run_itself_found_counts() -> None:
    manifest = {"verdict": "fail", "anomalies": ["missing:isr-shrink"], "expected": ["unseen"]}
    run = combine([a_run(**manifest)], []).runs[0]
    assert (run.verdict, run.anomalies, run.expected) == (
        "fail", ["missing:isr-shrink"], ["unseen"],
    )  # fmt: skip


@pytest.mark.parametrize("key", ["excused_partitions", "forgiven"])
def test_permits_and_lost_partitions_excuse(key: str) -> None:
    """Runs that were stored before the key was renamed are read, too."""
    manifest = {"permits": ["duplicate"], key: [["id", 0, "last-replica-standing"]]}
    loss = CheckFinding("r", "lost-write", "lost-write", "id", 0, 1, "d")
    other = CheckFinding("r", "lost-write", "lost-write", "id", 1, 1, "d")
    never = [
        CheckFinding("r", name, name, "id", 0, 1, "d")
        for name in ("ONELEADER", "MATCH", "HWMONO", "poll-skip", "duplicate")
    ]
    twice = CheckFinding("r", "duplicate", "duplicate", "id", 1, 1, "d")
    assert [excuse(one, manifest) for one in (loss, other, twice)] == [
        "last-replica-standing", "", "permitted",
    ]  # fmt: skip
    assert {excuse(one, {**manifest, "permits": []}) for one in never} == {""}


def test_logs_disagree_where_a_zookeeper_leader_went_on_after_a_loss() -> None:
    manifest = {"reopened_partitions": [["id", 0, "last-replica-standing"]]}
    found = [
        CheckFinding("r", name, name, "id", partition, 1, "d")
        for name in ("MATCH", "lost-write") for partition in (0, 1)
    ]  # fmt: skip
    assert [excuse(one, manifest) for one in found] == ["last-replica-standing", "", "", ""]


@pytest.mark.parametrize("key", ["excused_groups", "forgiven_groups"])
def test_a_group_whose_offsets_were_lost_is_excused_what_follows_from_offsets(key: str) -> None:
    manifest = {key: {"g": "last-replica-standing"}}

    def of(anomaly: str, *groups: str) -> CheckFinding:
        return CheckFinding("r", anomaly, anomaly, "id", 0, 1, "d", groups=groups)

    lost = "last-replica-standing"
    cases = {
        of("duplicate", "g"): lost, of("double-owner", "g"): lost, of("double-owner", "h"): "",
        of("unseen", "g", "h"): "", of("duplicate"): "", of("lost-write", "g"): "",
    }  # fmt: skip
    assert {one: excuse(one, manifest) for one in cases} == cases


def test_both_judges_excuse_the_same() -> None:
    assert set(FROM_RECORDS) == {"ACKED", *delivery.FROM_RECORDS}
    assert set(FROM_OFFSETS) == {*delivery.FROM_OFFSETS, "double-owner"}
    assert set(FROM_EPOCH) == set(traced.FROM_EPOCH) - {"ISRDATA"}  # Spark has no such check


def test_rates_count_runs() -> None:
    runs = [a_run("a"), a_run("b"), a_run("c"), a_run("d")]
    findings = [
        found("lost-write", run="a"), found("lost-write", "permitted", run="a"),
        found("lost-write", "permitted", run="b"),
    ]  # fmt: skip
    rate = next(r for r in combine(runs, findings).rates if r.check == "lost-write")
    assert (rate.runs, rate.violations, rate.expected, rate.rate) == (4, 1, 1, 0.25)
