"""The verdict: a finding is expected only if all its occurrences are excused or permitted."""

from __future__ import annotations

from typing import Any

import pytest

import kafkasim
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.verdict import Evidence, Verdict, judge
from kafkasim.scenarios.language.tables import ExpectTable

T = "topic-id"
LOST = Finding("lost-write", T, 0, "record 7 acknowledged at 3")
WEAK = Finding("lost-write", T, 0, "record 7 acknowledged at 3", cause="acks")
EXCUSED = Finding("lost-write", T, 1, "record 8 acknowledged at 4", 1, "last-replica-standing")
STILL = Finding("no-progress", T, 0, "orders-0 has no leader")
HELD = Finding("no-progress", T, 1, "orders-1 has no leader", 1, "late-session")
BROKEN = Finding("ISRDATA", T, 0, "broker-1 lacks records", seq=5, t_us=1_000)


def evidence(**given: Any) -> Evidence:
    nothing: dict[str, Any] = {
        "findings": [], "topics": {T: "orders"}, "seen": {},
        "faults_end_us": 10_000,
    }  # fmt: skip
    return Evidence(**{**nothing, **given})


def expect(**given: Any) -> ExpectTable:
    return ExpectTable.model_validate(given)


@pytest.mark.parametrize(
    ("found", "expected", "verdict"),
    [
        ({}, {}, ([], [])),
        ({"findings": [LOST]}, {}, (["lost-write"], [])),
        ({"findings": [EXCUSED]}, {}, ([], ["lost-write"])),
        ({"findings": [EXCUSED, LOST]}, {}, (["lost-write"], [])),
        ({"findings": [LOST]}, {"permits": ["lost-write"]}, (["lost-write"], [])),
        ({"findings": [WEAK]}, {}, (["lost-write"], [])),
        ({"findings": [WEAK]}, {"permits": ["lost-write"]}, ([], ["lost-write"])),
        ({"findings": [WEAK]}, {"permits": ["lost-write:orders"]}, ([], ["lost-write"])),
        ({"findings": [WEAK]}, {"permits": ["lost-write:bills"]}, (["lost-write"], [])),
        ({"findings": [BROKEN]}, {"permits": ["lost-write"]}, (["ISRDATA"], [])),
        ({"findings": [STILL]}, {}, (["no-progress"], [])),
        ({"findings": [HELD]}, {}, ([], ["no-progress"])),
        ({"findings": [HELD, STILL]}, {}, (["no-progress"], [])),
        ({}, {"must-see": ["fenced"]}, (["missing:fenced"], [])),
        ({"seen": {"fenced": 11_000}}, {"must-see": ["fenced"]}, ([], [])),
        ({"seen": {"fenced": 11_000}}, {"in-time": ["fenced"]}, (["missing:fenced"], [])),
        ({"seen": {"fenced": 10_000}}, {"in-time": ["fenced"]}, ([], [])),
        ({"seen": {"fenced": 9_000}}, {"never": ["fenced"]}, (["seen:fenced"], [])),
    ],
)
def test_what_fails_and_what_is_expected(
    found: dict[str, Any], expected: dict[str, Any], verdict: tuple[list[str], list[str]]
) -> None:
    told = judge(evidence(**found), expect(**expected))
    assert (told.failed, told.expected) == verdict


STALLED = Finding("no-progress", "", -1, "broker-1 is down")


@pytest.mark.parametrize(
    ("findings", "words"),
    [
        ([], ("pass", "")),
        ([EXCUSED], ("expected", "")),
        ([STALLED, EXCUSED], ("fail", "liveness")),
        ([BROKEN, STALLED], ("fail", "safety")),
    ],
)
def test_a_verdict_in_words(findings: list[Finding], words: tuple[str, str]) -> None:
    verdict = Verdict(findings)
    assert (verdict.word, verdict.failure) == words


def test_what_was_permitted_or_expected_of_a_run_is_a_row() -> None:
    told = judge(
        evidence(findings=[WEAK, BROKEN, STALLED], seen={"fenced": 11_000}),
        expect(permits=["lost-write"], **{"must-see": ["failover"], "in-time": ["fenced"]}),
    )
    assert [(each.name, each.expected_by, each.t_us) for each in told.findings] == [
        ("lost-write", "permitted", -1), ("ISRDATA", "", 1_000), ("no-progress", "", -1),
        ("missing:failover", "", -1), ("missing:fenced", "", 11_000),
    ]  # fmt: skip
    assert told.findings[-1].text == (
        "fenced did not happen in time, but the scenario says that it must"
    )


def test_what_two_workloads_of_one_share_group_lack_is_told_once() -> None:
    late = {"kind": "share-group", "group": "g", "start": "100s"}
    scenario = {
        "name": "two", "claim": "c", "duration": "2s", "topics": [{"name": "t"}],
        "cluster": {"kafka-version": "4.1", "features": {"share.version": 1}},
        "workload": [{"kind": "producer", "rate": "10/s", "stop": "1s"}, late, late],
        "expect": {"within": "3s"},
    }  # fmt: skip
    assert kafkasim.run(scenario, seed=0).result.missing == ["share group g is at 0 of 10 in t-0"]
