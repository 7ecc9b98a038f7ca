"""What groups go through: records that retention deletes ahead of them, and lag."""

from __future__ import annotations

from typing import Any

import pytest

import kafkasim
from kafkasim.analysis.judging.commits import CommitOrder
from kafkasim.analysis.judging.history.readers import Readers
from kafkasim.analysis.judging.observations import LagObserver
from kafkasim.analysis.judging.reading import LostToRetention, NeedlessResets
from kafkasim.analysis.judging.results import Audit
from kafkasim.analysis.judging.sends import KeyOrder
from kafkasim.analysis.judging.source import Loss, PartitionKey
from kafkasim.model import facts
from tests.analysis.analysis_rows import positioned
from tests.analysis.key_cases import KEY_CASES
from tests.analysis.reader_cases import (
    APART,
    AUDIT_CASES,
    AUDIT_EXCUSES,
    COMMIT_CASES,
    RESET_CASES,
    RETENTION_CASES,
    starts,
)
from tests.scenarios.fact_makers import FakeTrace, T
from tests.scenarios.histories import counted, history_of


@pytest.mark.parametrize("name", RETENTION_CASES)
def test_retention(name: str) -> None:
    rows, expected = RETENTION_CASES[name]
    trace = FakeTrace()
    judge = LostToRetention(trace, history_of(trace), Readers(trace))
    trace.record(list(rows))
    assert {anomaly.name: 1 for anomaly in judge.finish()} == expected


@pytest.mark.parametrize("name", KEY_CASES)
def test_order_per_key(name: str) -> None:
    rows, expected = KEY_CASES[name]
    trace = FakeTrace()
    judge = KeyOrder(trace, history_of(trace))
    trace.record(list(rows))
    found = {anomaly.name: anomaly.count for anomaly in counted(judge.finish())}
    assert found == {name: 1 for name in expected if name == "reordered-key"}


def test_what_is_lost_to_retention_is_counted_once_for_each_record() -> None:
    trace, noted = FakeTrace(), []
    history, readers = history_of(trace), Readers(trace)
    judge = LostToRetention(trace, history, readers, lambda name, _: noted.append(name))
    trace.record([positioned(0), starts(3), positioned(4, "latest")])
    (anomaly,) = counted(judge.finish())
    assert (anomaly.count, anomaly.offset, anomaly.group, anomaly.seq) == (4, 0, "g", 2)
    assert noted == ["overtaken"]


def lag_story(*rows: Any) -> list[str]:
    trace = FakeTrace()
    noted: list[str] = []
    LagObserver(trace, lambda name, _: noted.append(name))
    trace.record(rows)
    return noted


def behind(position: int, known: int) -> tuple[str, facts.Polled]:
    return ("consumer-1", facts.Polled("g", "m1", T, 0, position, known, (), ()))


def test_a_group_has_caught_up_with_the_present_high_watermark_only() -> None:
    grown = ("broker-1", facts.HighWatermark(T, 0, 0, 900, 1, (1,)))
    assert lag_story(behind(0, 199)) == []
    assert lag_story(behind(0, 500), grown, behind(500, 500)) == ["lagging"]
    assert lag_story(behind(0, 500), grown, behind(900, 500)) == ["lagging", "caught-up"]


@pytest.mark.parametrize("name", AUDIT_CASES)
def test_audit(name: str) -> None:
    rows, expected = AUDIT_CASES[name]
    trace = FakeTrace()
    judge = Audit(trace, history_of(trace), ["orders"])
    trace.record(list(rows))
    assert {anomaly.name: 1 for anomaly in judge.finish()} == expected


@pytest.mark.parametrize("name", AUDIT_EXCUSES)
def test_a_legal_loss_explains_the_windows_that_rested_on_it_alone(name: str) -> None:
    rows, good, bad = AUDIT_EXCUSES[name]

    def excuses(key: PartitionKey, loss: Loss) -> list[str]:
        trace = FakeTrace()
        judge = Audit(trace, history_of(trace, lambda of: [loss] if of == key else []), ["orders"])
        trace.record(list(rows))
        return [anomaly.expected_by for anomaly in judge.finish()]

    assert [excuses(*each) for each in good] == [["last-replica-standing"]] * len(good)
    assert [excuses(*each) for each in bad] == [[""]] * len(bad)


@pytest.mark.parametrize("name", RESET_CASES)
def test_a_reset_has_a_reason(name: str) -> None:
    rows, expected, lost = RESET_CASES[name]
    trace = FakeTrace()
    history = history_of(trace, lambda of: [loss for key, loss in lost if key == of])
    judge = NeedlessResets(trace, history, Readers(trace), [APART])
    trace.record(list(rows))
    found = {anomaly.name: anomaly.count for anomaly in counted(judge.finish())}
    assert found == {name: 1 for name in expected if name == "needless-reset"}


@pytest.mark.parametrize("name", COMMIT_CASES)
def test_commits_of_a_member_are_stored_in_order(name: str) -> None:
    rows, expected = COMMIT_CASES[name]
    trace = FakeTrace()
    judge = CommitOrder(trace, history_of(trace), Readers(trace))
    trace.record(list(rows))
    found = {anomaly.name: anomaly.count for anomaly in counted(judge.finish())}
    assert found == {name: 1 for name in expected if name == "reordered-commit"}


def test_an_audit_of_a_crashed_producer_begins_anew() -> None:
    outcome = kafkasim.run("audit", seed=1, settings={
        "duration": "8s", "expect.must-see": [], "workload.0.audit-window": "2s",
        "faults.2.node": "producer-1", "faults.2.for": "1s", "faults.3.at": "7s",
    })  # fmt: skip
    assert outcome.verdict == "pass", outcome.anomalies
    sources = outcome.facts("AuditPublished")["source"].to_pylist()
    assert len(set(sources)) == 2
