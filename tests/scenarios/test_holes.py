"""What a reader may pass over, when leaders of several epochs have written markers."""

from __future__ import annotations

from typing import Any

from kafkasim.model import facts
from kafkasim.scenarios.judging.transactions.holes import Holes
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
