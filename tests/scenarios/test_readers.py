"""What groups go through: records that retention deletes ahead of them, and lag."""

from __future__ import annotations

from typing import Any

import pytest

import kafkasim
from kafkasim.model import facts
from kafkasim.scenarios.judging.readers.commits import CommitOrder
from kafkasim.scenarios.judging.readers.key_order import KeyOrder
from kafkasim.scenarios.judging.readers.observations import LagObserver
from kafkasim.scenarios.judging.readers.outside.audit import Audit
from kafkasim.scenarios.judging.readers.overtaken import LostToRetention
from kafkasim.scenarios.judging.readers.resets import NeedlessResets
from kafkasim.scenarios.judging.source import Loss, PartitionKey
from kafkasim.scenarios.judging.transactions.holes import Holes
from tests.analysis.analysis_rows import committed, polled, positioned, topic
from tests.analysis.key_cases import KEY_CASES
from tests.analysis.reader_cases import AUDIT_CASES, AUDIT_EXCUSES, RETENTION_CASES, starts
from tests.scenarios.fact_makers import FakeTrace, T


@pytest.mark.parametrize("name", RETENTION_CASES)
def test_retention(name: str) -> None:
    rows, expected = RETENTION_CASES[name]
    trace = FakeTrace()
    judge = LostToRetention(trace, Holes(trace))
    trace.record(list(rows))
    assert {anomaly.name: 1 for anomaly in judge.finish()} == expected


@pytest.mark.parametrize("name", KEY_CASES)
def test_order_per_key(name: str) -> None:
    rows, expected = KEY_CASES[name]
    trace = FakeTrace()
    judge = KeyOrder(trace, Holes(trace))
    trace.record(list(rows))
    found = {anomaly.name: anomaly.count for anomaly in judge.finish()}
    assert found == {name: 1 for name in expected if name == "reordered-key"}


def test_what_is_lost_to_retention_is_counted_once_for_each_record() -> None:
    trace, noted = FakeTrace(), []
    judge = LostToRetention(trace, Holes(trace), lambda name, _: noted.append(name))
    trace.record([positioned(0), starts(3), positioned(4, "latest")])
    (anomaly,) = judge.finish()
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
    judge = Audit(trace, lambda _key: [], ["orders"])
    trace.record(list(rows))
    assert {anomaly.name: 1 for anomaly in judge.finish()} == expected


@pytest.mark.parametrize("name", AUDIT_EXCUSES)
def test_a_legal_loss_explains_the_windows_that_rested_on_it_alone(name: str) -> None:
    rows, _, good, bad = AUDIT_EXCUSES[name]

    def excuses(key: PartitionKey, loss: Loss) -> list[str]:
        trace = FakeTrace()
        judge = Audit(trace, lambda of: [loss] if of == key else [], ["orders"])
        trace.record(list(rows))
        return [anomaly.expected for anomaly in judge.finish()]

    assert [excuses(*each) for each in good] == [["last-replica-standing"]] * len(good)
    assert [excuses(*each) for each in bad] == [[""]] * len(bad)


LOST = Loss(3, 9, 3, 0, "unclean-election")  # in row 3
NOTHING = ("world", facts.Phase("safety", ""))
READ = [positioned(0, "committed"), polled([0, 1, 2, 3, 4], [0] * 5)]  # up to 5

RESETS: dict[str, tuple[list[Any], list[Loss], int]] = {
    "nothing was lost": ([*READ, positioned(0)], [], 1),
    "to the end": ([*READ, positioned(9, "latest")], [], 1),
    "a truncation of which no log knows": ([*READ, positioned(3, "truncation")], [], 1),
    "another member had read so far": (
        [*READ, positioned(5, "committed", "m2"), positioned(0, member="m2")], [], 1),
    "the records were lost afterwards": ([*READ, positioned(0), NOTHING], [LOST], 1),
    "records above the position were lost": (
        [*READ, positioned(3, "seek"), NOTHING, positioned(0)], [LOST], 1),
    "not needless: records below the position were lost": (
        [*READ, NOTHING, NOTHING, positioned(0)], [LOST], 0),
    "not needless: the log start is above": ([*READ, starts(6), positioned(6)], [], 0),
    "not needless: it had no position": ([*READ, positioned(0, "none"), positioned(0)], [], 0),
    "not judged: nobody had read so far": ([*READ, positioned(7, "seek"), positioned(0)], [], 0),
    "not judged: the topic was deleted": (
        [*READ, ("controller-1", facts.TopicDeleted(1, T, "orders")), positioned(0)], [], 0),
    "not judged: an old consumer": (
        [*READ, ("consumer-1", facts.PartitionOwner("g", "m1", "orders", 0, "claimed", "m1")),
         positioned(0)], [], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", RESETS)
def test_a_reset_has_a_reason(name: str) -> None:
    rows, losses, count = RESETS[name]
    trace = FakeTrace()
    judge = NeedlessResets(trace, lambda _key: losses)
    trace.record(list(rows))
    assert [(each.name, each.count) for each in judge.finish()] == [("needless-reset", 1)] * count


def test_a_users_application_may_seek_to_an_end() -> None:
    trace = FakeTrace()
    judge = NeedlessResets(trace, lambda _key: [], ["g"])
    trace.record([*READ, positioned(0)])
    assert judge.finish() == []


def told(offset: int, error: str = "NONE") -> tuple[str, facts.CommitResult]:
    """The client tells its application what became of a commit."""
    return ("consumer-1", facts.CommitResult("g", "m1", T, 0, offset, 1, "async", error))


AHEAD = [topic(), positioned(0), polled([0, 1, 2, 3, 4], [0] * 5)]

COMMITS: dict[str, tuple[list[Any], int]] = {
    "a commit that failed was sent again": (
        [*AHEAD, told(3, "NOT_COORDINATOR"), committed(5), told(5), committed(3), told(3)], 1),
    "not out of order: it went forward": (
        [*AHEAD, committed(3), told(3), committed(5), told(5)], 0),
    "not out of order: the client had given it up": (
        [*AHEAD, told(3, "REQUEST_TIMED_OUT"), committed(5), told(5), committed(3)], 0),
    "not out of order: one of two requests was given up": (
        [*AHEAD, committed(3), told(3), committed(5), told(5), committed(3)], 0),
    "not out of order: the position went back": (
        [*AHEAD, committed(5), told(5), positioned(2, "seek"), committed(3), told(3)], 0),
    "not out of order: a position without a poll went back": (
        [topic(), positioned(4), committed(4), told(4), positioned(0, "latest"), committed(0),
         told(0)], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", COMMITS)
def test_commits_of_a_member_are_stored_in_order(name: str) -> None:
    rows, count = COMMITS[name]
    trace = FakeTrace()
    judge = CommitOrder(trace)
    trace.record(list(rows))
    assert [(each.name, each.count) for each in judge.finish()] == [("reordered-commit", 1)] * count


def test_an_audit_of_a_crashed_producer_begins_anew() -> None:
    outcome = kafkasim.run("audit", seed=1, settings={
        "duration": "8s", "expect.must-see": [], "workload.0.audit-window": "2s",
        "faults.2.node": "producer-1", "faults.2.for": "1s", "faults.3.at": "7s",
    })  # fmt: skip
    assert outcome.verdict == "pass", outcome.anomalies
    sources = outcome.facts("AuditPublished")["source"].to_pylist()
    assert len(set(sources)) == 2
