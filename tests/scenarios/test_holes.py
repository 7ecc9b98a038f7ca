"""What a reader may pass over, when leaders of several epochs have written markers."""

from __future__ import annotations

from typing import Any

from kafkasim.analysis.judging.transactions.holes import Holes
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, T

KEY = (T, 0)
Rows = list[tuple[str, Any]]


def data(base: int, end: int, epoch: int, producer: int = 7) -> Rows:
    ids = tuple(range(base, end))
    return [("broker", facts.Appended(T, 0, epoch, base, end, producer, 0, 0, ids))]


def marker(offset: int, epoch: int, commit: bool, producer: int = 7) -> Rows:
    return [
        ("broker", facts.Appended(T, 0, epoch, offset, offset + 1, producer, 0, -1, ())),
        ("broker", facts.MarkerWritten(T, 0, producer, 0, commit, offset, epoch, 0)),
    ]


def holes(*rows: Rows) -> Holes:
    trace = FakeTrace()
    judge = Holes(trace)
    for each in rows:
        trace.record(each)
    return judge


def test_a_deposed_leaders_marker_comes_late_and_decides_nothing() -> None:
    """It stands where the next leader has written another batch; later markers stay known."""
    judge = holes(
        data(0, 4, 0),
        marker(4, 1, True),
        data(5, 6, 1),
        marker(6, 1, False),
        marker(4, 0, False),
    )
    assert [judge.is_aborted(KEY, offset) for offset in (0, 3, 5)] == [False, False, True]


def test_a_truncated_marker_decides_nothing() -> None:
    judge = holes(
        data(0, 2, 0),
        marker(2, 0, False),
        data(2, 3, 1),
        marker(3, 1, False, producer=8),
        marker(4, 1, True),
    )
    assert [judge.is_aborted(KEY, offset) for offset in (0, 2)] == [False, False]


def test_markers_are_found_when_they_come_one_by_one() -> None:
    judge = holes(data(0, 1, 0), marker(1, 0, False))
    assert judge.is_aborted(KEY, 0)
    again = holes(marker(1, 0, True), marker(1, 1, False), data(0, 1, 0))
    assert again.is_aborted(KEY, 0)


def begun() -> Rows:
    return [("producer", facts.TransactionBegun("tid", 0, 7, 0))]


def at(node: str, *rows: Rows) -> Rows:
    return [(node, fact) for each in rows for _, fact in each]


def led(node: str, epoch: int, start: int) -> Rows:
    return [(node, facts.BecameLeader(T, 0, epoch, epoch, start, 0, (1, 2)))]


def copied(node: str, base: int, end: int, of: int, epoch: int) -> Rows:
    return [(node, facts.Replicated(T, 0, epoch, of, base, end))]


def test_a_deposed_leader_that_leads_again_has_kept_what_it_wrote() -> None:
    """Its records and markers stand, also those that it wrote before it heard of its successor."""
    first = at("broker-1", data(0, 2, 0), data(2, 3, 0, producer=8))
    second = at("broker-2", data(2, 3, 1), marker(3, 1, True))
    late = at("broker-1", data(3, 4, 0), marker(4, 0, False))
    rows = [begun(), first, led("broker-2", 1, 2), second, late]
    deposed = holes(*rows)
    assert [deposed.epoch(KEY, offset) for offset in range(5)] == [0, 0, 1, 1, 0]
    assert [deposed.is_aborted(KEY, offset) for offset in (0, 2)] == [False, False]
    again = holes(*rows, led("broker-1", 2, 5), at("broker-1", marker(5, 2, True, producer=8)))
    assert [again.epoch(KEY, offset) for offset in range(6)] == [0, 0, 0, 0, 0, 2]
    assert [again.is_aborted(KEY, offset) for offset in (0, 2, 3)] == [True, False, True]
    assert (again.is_marker(KEY, 3), again.is_marker(KEY, 4)) == (False, True)


def test_a_follower_that_leads_has_what_it_copied_last() -> None:
    """Not what it had before it truncated, and nothing beyond the end of its log."""
    first = at("broker-1", data(0, 4, 0))
    second = at("broker-2", data(2, 3, 1), marker(3, 1, True))
    rows = [begun(), first, copied("broker-3", 0, 4, 0, 0), led("broker-2", 1, 2), second]
    stayed = holes(*rows, led("broker-3", 2, 4))
    assert [stayed.epoch(KEY, offset) for offset in range(4)] == [0, 0, 0, 0]
    followed = holes(*rows, copied("broker-3", 2, 4, 1, 1), led("broker-3", 2, 4))
    assert [followed.epoch(KEY, offset) for offset in range(4)] == [0, 0, 1, 1]
    shorter = holes(*rows, led("broker-3", 2, 3))
    assert [shorter.epoch(KEY, offset) for offset in range(4)] == [0, 0, 0, 1]
    assert (stayed.is_aborted(KEY, 0), followed.is_aborted(KEY, 0)) == (False, False)
    asked_between = holes(*rows)
    assert asked_between.epoch(KEY, 2) == 1


def test_a_leader_that_hears_late_of_its_election_changes_nothing_that_a_later_one_wrote() -> None:
    first, second = at("broker-1", data(0, 3, 0)), at("broker-2", data(2, 3, 2))
    judge = holes(begun(), first, led("broker-2", 2, 2), second, led("broker-1", 1, 3))
    assert judge.epoch(KEY, 2) == 2


def test_an_open_transaction_begins_behind_its_producers_last_marker() -> None:
    judge = holes(begun(), data(0, 2, 0), marker(2, 0, True), data(3, 5, 0, 8), data(5, 7, 0))
    found = [judge.first_open(KEY, producer, end) for producer, end in ((7, 7), (7, 5), (8, 7))]
    assert found == [5, -1, 3]


def test_a_judge_that_comes_late_meets_logs_that_it_knows_nothing_of() -> None:
    """A group's offsets are cleaned that were committed before a compacted topic had keys."""
    cleaned = facts.Cleaned(T, 0, 0, 5, 0, 5, 0, 0, (0, 4))
    judge = holes([("broker", cleaned)])
    assert [judge.was_removed_at(KEY, offset) for offset in (3, 4)] == [True, False]
