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
        ({}, {}, Verdict([], [])),
        ({"findings": [LOST]}, {}, Verdict(["lost-write"], [])),
        ({"findings": [EXCUSED]}, {}, Verdict([], ["lost-write"])),
        ({"findings": [EXCUSED, LOST]}, {}, Verdict(["lost-write"], [])),
        ({"findings": [LOST]}, {"permits": ["lost-write"]}, Verdict(["lost-write"], [])),
        ({"findings": [WEAK]}, {}, Verdict(["lost-write"], [])),
        ({"findings": [WEAK]}, {"permits": ["lost-write"]}, Verdict([], ["lost-write"])),
        ({"findings": [WEAK]}, {"permits": ["lost-write:orders"]}, Verdict([], ["lost-write"])),
        ({"findings": [WEAK]}, {"permits": ["lost-write:bills"]}, Verdict(["lost-write"], [])),
        ({"findings": [BROKEN]}, {"permits": ["lost-write"]}, Verdict(["ISRDATA"], [])),
        ({"findings": [STILL]}, {}, Verdict(["no-progress"], [])),
        ({"findings": [HELD]}, {}, Verdict([], ["no-progress"])),
        ({"findings": [HELD, STILL]}, {}, Verdict(["no-progress"], [])),
        ({}, {"must-see": ["fenced"]}, Verdict(["missing:fenced"], [])),
        ({"seen": {"fenced": 11_000}}, {"must-see": ["fenced"]}, Verdict([], [])),
        ({"seen": {"fenced": 11_000}}, {"in-time": ["fenced"]}, Verdict(["missing:fenced"], [])),
        ({"seen": {"fenced": 10_000}}, {"in-time": ["fenced"]}, Verdict([], [])),
        ({"seen": {"fenced": 9_000}}, {"never": ["fenced"]}, Verdict(["seen:fenced"], [])),
    ],
)
def test_what_fails_and_what_is_expected(
    found: dict[str, Any], expected: dict[str, Any], verdict: Verdict
) -> None:
    assert judge(evidence(**found), expect(**expected)) == verdict


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict([], []), ("pass", "")),
        (Verdict([], ["duplicate"]), ("expected", "")),
        (Verdict(["no-progress"], ["duplicate"]), ("fail", "liveness")),
        (Verdict(["ISRDATA", "no-progress"], []), ("fail", "safety")),
    ],
)
def test_a_verdict_in_words(verdict: Verdict, words: tuple[str, str]) -> None:
    assert (verdict.word, verdict.failure) == words


def test_what_two_workloads_of_one_share_group_lack_is_told_once() -> None:
    late = {"kind": "share-group", "group": "g", "start": "100s"}
    scenario = {
        "name": "two", "claim": "c", "duration": "2s", "topics": [{"name": "t"}],
        "cluster": {"kafka-version": "4.1", "features": {"share.version": 1}},
        "workload": [{"kind": "producer", "rate": "10/s", "stop": "1s"}, late, late],
        "expect": {"within": "3s"},
    }  # fmt: skip
    assert kafkasim.run(scenario, seed=0).result.missing == ["share group g is at 0 of 10 in t-0"]
