"""Verdicts from findings and manifests, and the interval of a rate."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis import verdict
from kafkasim.analysis.interval import wilson
from kafkasim.analysis.judging import delivery, source
from kafkasim.analysis.judging.invariants import traced
from kafkasim.analysis.runs import StoredRun
from kafkasim.analysis.verdict import (
    FROM_EPOCH,
    FROM_OFFSETS,
    CheckFinding,
    Loss,
    Place,
    combine,
    excuse,
)


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
    ("findings", "word", "failure", "code"),
    [
        ([found("lost-write")], "fail", "safety", 10),
        ([found("no-progress")], "fail", "liveness", 11),
        ([found("no-progress"), found("MATCH")], "fail", "safety", 10),
        ([found("lost-write", "permitted")], "expected", "", 0),
        ([found("lost-write", "permitted"), found("unseen")], "fail", "safety", 10),
    ],
)
def test_verdict(findings: list[CheckFinding], word: str, failure: str, code: int) -> None:
    verdicts = combine([a_run()], findings)
    assert (verdicts.runs[0].verdict, verdicts.runs[0].failure) == (word, failure)
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


LAST = "last-replica-standing"


def of(
    anomaly: str, *groups: str, topic: str = "id", partition: int = 0, **place: Any
) -> CheckFinding:
    """Return a finding; ``place`` are fields of :class:`Place`."""
    return CheckFinding(
        "r", anomaly, anomaly, topic, partition, 1, "d", groups=groups, place=Place(**place)
    )


def lossy(reason: str = LAST, topic: str = "id", **more: Any) -> dict[str, Any]:
    """Return the manifest of a run that lost offsets 10 to 19 of partition 0 in row 50."""
    return {"losses": [[topic, 0, 10, 20, 50, 7_000, reason]], **more}


@pytest.mark.parametrize(
    ("finding", "why"),
    [
        (of("lost-write", offset=10), LAST),
        (of("lost-write", offset=19, batch_us=6_999), LAST),
        (of("lost-write", offset=19, batch_us=7_000), ""),  # it was not there yet
        (of("lost-write", offset=20), ""),
        (of("lost-write", offset=9), ""),
        (of("lost-write", offset=-1), LAST),  # unknown
        (of("lost-write", offset=10, partition=1), ""),
        (of("lost-write", offset=10, topic="other"), ""),
        (of("unseen", offset=12), LAST),
        (of("inconsistent-offsets", offset=12, shown=51), LAST),
        (of("inconsistent-offsets", offset=12, shown=49), ""),
        (of("nonmonotonic-send", offset=25, shown=51), ""),
        (of("ACKED", shown=50), LAST),
        (of("ACKED", shown=51), ""),  # another election
        (of("duplicate", "g", shown=60, reset=55), LAST),
        (of("duplicate", "g", shown=60, reset=45), ""),
        (of("duplicate", "g", shown=49, reset=55), ""),
        (of("duplicate", shown=60, reset=55), ""),  # stored twice
        (of("skipped-by-commit", "g", reset=55), LAST),
        (of("poll-skip"), ""),
        (of("ONELEADER"), ""), (of("MATCH"), ""), (of("HWMONO"), ""),
    ],
)  # fmt: skip
def test_a_loss_explains_what_follows_from_its_records(finding: CheckFinding, why: str) -> None:
    assert excuse(finding, lossy()) == why


def test_a_loss_explains_what_rested_on_its_records() -> None:
    spots = {
        ("id", 0, 19, 25, 49, 51, ""): LAST, ("id", 0, 20, 25, 49, 51, ""): "",
        ("id", 0, 0, 10, -1, 99, ""): "", ("id", 1, 0, 99, -1, 99, ""): "",
        ("id", 0, 0, 99, 50, 99, ""): "", ("id", 0, 0, 99, -1, 50, ""): "",
    }  # fmt: skip
    found = {spot: of("torn-transaction", topic="other", spots=[spot]) for spot in spots}
    assert {spot: excuse(one, lossy()) for spot, one in found.items()} == spots
    assert excuse(of("torn-transaction", offset=12), lossy()) == ""


def test_losses_must_explain_each_part_of_a_finding() -> None:
    lost, kept = ("id", 0, 19, 25, 49, 51), ("id", 0, 20, 25, 49, 51)
    none = (None, None, 0, 99, -1, 99)
    cases = {
        ((*lost, "a"), (*kept, "a")): LAST, ((*lost, "a"), (*lost, "b")): LAST,
        ((*lost, "a"), (*kept, "b")): "", ((*lost, "a"), (*none, "b")): "",
    }  # fmt: skip
    found = {spots: of("audit-missing", topic=None, spots=spots) for spots in cases}
    assert {spots: excuse(one, lossy()) for spots, one in found.items()} == cases


def test_a_scenario_permits_the_loss_of_records_only_for_a_cause() -> None:
    permits = {"permits": ["lost-write", "poll-skip", "duplicate"]}
    acked_by_all, weak = of("lost-write", offset=12), of("lost-write", offset=12, weak=True)
    assert excuse(acked_by_all, permits) == ""
    assert excuse(weak, permits) == "permitted"
    assert excuse(weak, {"permits": ["lost-write:id"]}) == "permitted"
    assert excuse(weak, {"permits": ["lost-write:other"]}) == ""
    assert excuse(of("duplicate", "g"), permits) == "permitted"
    unclean = lossy("unclean-election", **permits)
    assert excuse(acked_by_all, unclean) == "permitted"
    assert excuse(of("lost-write", offset=20), unclean) == ""
    assert excuse(of("poll-skip"), unclean) == "permitted"
    assert excuse(acked_by_all, lossy("unclean-election")) == ""


def test_logs_disagree_where_a_zookeeper_leader_went_on_after_a_loss() -> None:
    manifest = {"reopened_partitions": [["id", 0, "last-replica-standing"]]}
    found = [
        CheckFinding("r", name, name, "id", partition, 1, "d")
        for name in ("MATCH", "lost-write") for partition in (0, 1)
    ]  # fmt: skip
    assert [excuse(one, manifest) for one in found] == ["last-replica-standing", "", "", ""]


def test_a_group_whose_offsets_were_lost_is_excused_what_follows_from_offsets() -> None:
    manifest = lossy(topic="offsets", offsets_partitions=[["g", "offsets", 0], ["h", "offsets", 1]])
    cases = {
        of("duplicate", "g"): LAST, of("double-owner", "g"): LAST, of("double-owner", "h"): "",
        of("unseen", "g", "h"): "", of("duplicate"): "", of("lost-write", "g"): "",
        of("offset-regression", "g", promise=49, shown=51): LAST,
        of("offset-regression", "g", promise=51, shown=60): "",
        of("offset-regression", "g", promise=10, shown=49): "",
    }  # fmt: skip
    assert {one: excuse(one, manifest) for one in cases} == cases
    assert excuse(of("duplicate", "g"), lossy("unclean-election", "offsets")) == ""


def test_a_stall_excuses_the_records_that_all_groups_could_not_read() -> None:
    line = "group {} is at {} of 42 in orders-0 (last read by consumer-1)"
    reason = "; ".join([line.format("g", 20), "broker-3 is not unfenced", line.format("h", 30)])
    manifest = {"stall_excuse": "static-leader-returned", "reason": reason,
                "topics": {"id": "orders"}}  # fmt: skip
    cases = {
        of("unseen", "g", offset=20): "static-leader-returned", of("unseen", "g", offset=19): "",
        of("unseen", "g", "h", offset=30): "static-leader-returned",
        of("unseen", "g", "h", offset=29): "", of("unseen", "i", offset=30): "",
        of("duplicate", "g", offset=20): "",
    }  # fmt: skip
    assert {one: excuse(one, manifest) for one in cases} == cases
    assert excuse(of("unseen", "g", offset=20), {**manifest, "stall_excuse": ""}) == ""
    assert excuse(of("unseen", "g", offset=20), {**manifest, "topics": {"id": "other"}}) == ""


def test_each_group_that_did_not_get_a_record_may_have_a_reason_of_its_own() -> None:
    reason = "group g is at 20 of 42 in orders-0 (last read by consumer-1)"
    manifest = lossy(topic="offsets", offsets_partitions=[["h", "offsets", 1], ["i", "offsets", 0]])
    manifest |= {"stall_excuse": "static-leader-returned", "reason": reason,
                 "topics": {"id": "orders"}}  # fmt: skip
    cases = {
        of("unseen", "g", "i", offset=20): "static-leader-returned",
        of("unseen", "i", "g", offset=20): LAST, of("unseen", "g", "h", offset=20): "",
        of("unseen", "g", "i", offset=19): "",
    }  # fmt: skip
    assert {one: excuse(one, manifest) for one in cases} == cases


def test_a_stall_excuses_the_transactions_that_it_leaves_open() -> None:
    reason = "broker-2 is down; orders-0 has an open transaction of producer id 0 from offset 3 on"
    manifest = {"stall_excuse": "lost-voters", "reason": reason, "topics": {"id": "orders"}}
    cases = {
        of("hanging-transaction", offset=3): "lost-voters",
        of("hanging-transaction", offset=2): "",
        of("hanging-transaction", partition=1, offset=3): "",
        of("hanging-transaction", topic="other", offset=3): "",
        of("torn-transaction", offset=3): "",
        of("hanging-transaction", offset=3, excused="skipped-marker"): "skipped-marker",
    }
    assert {one: excuse(one, manifest) for one in cases} == cases
    assert excuse(of("hanging-transaction", offset=3), {**manifest, "stall_excuse": ""}) == ""


def test_both_judges_excuse_the_same() -> None:
    for name in ("FROM_RECORDS", "FROM_POSITIONS", "FROM_ORDER", "CAUSED"):
        assert getattr(verdict, name) == getattr(delivery, name)
    of_groups = {
        "double-owner", "early-handover", "stale-coordinator", "vanished-offset",
        "needless-eviction", "long-rebalance", "needless-rebalance", "stale-commit",
    }  # fmt: skip
    assert set(FROM_OFFSETS) == {*delivery.FROM_OFFSETS, *of_groups}
    assert set(FROM_EPOCH) == set(traced.FROM_EPOCH) - {"ISRDATA"}  # Spark has no such check
    assert Loss._fields[2:] == tuple(field.name for field in fields(source.Loss))


def test_rates_count_runs() -> None:
    runs = [a_run("a"), a_run("b"), a_run("c"), a_run("d")]
    findings = [
        found("lost-write", run="a"), found("lost-write", "permitted", run="a"),
        found("lost-write", "permitted", run="b"),
    ]  # fmt: skip
    rate = next(r for r in combine(runs, findings).rates if r.check == "lost-write")
    assert (rate.runs, rate.violations, rate.expected, rate.rate) == (4, 1, 1, 0.25)
    assert rate.expected_rate == 0.25
    assert rate.cells()[2:] == ("1", "25.0% (4.6% to 69.9%)") * 2


@pytest.mark.parametrize(
    ("partition", "reason", "excused"),
    [
        (0, "forgotten-expansion", "forgotten-expansion"),
        (1, "forgotten-expansion", ""),
        (0, "last-replica-standing", ""),
    ],
)
def test_a_cleaner_may_remove_a_record_for_one_that_a_forgotten_expansion_lost(
    partition: int, reason: str, excused: str
) -> None:
    found = CheckFinding("run", "cleaner-keeps-latest", "LATEST", "t1", 0, 1, "", place=Place())
    assert excuse(found, {"losses": [["t1", partition, 3, 5, 9, 100, reason]]}) == excused
