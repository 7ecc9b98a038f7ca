"""The judge of share groups, on the cases that the Spark checks are held to."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.shares.judge import Shares
from kafkasim.analysis.judging.shares.late import LATE_INITIALIZATION
from kafkasim.analysis.judging.shares.unwritten import UNWRITTEN
from kafkasim.analysis.judging.source import Loss, PartitionKey
from tests.analysis.analysis_rows import Case, T
from tests.analysis.share_cases import (
    BEGUN,
    OTHER,
    SHARE_CASES,
    SHARE_EXCUSES,
    SHARE_LATE,
    SHARE_LOSSES,
    SHARE_UNWRITTEN,
    given,
    loaded,
    moved,
    started,
    told,
)
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.transaction_cases import loss

Lost = list[tuple[PartitionKey, Loss]]


def _told(rows: Case, lost: Lost) -> Shares:
    trace = FakeTrace()
    judge = Shares(trace, lambda key: [loss for of, loss in lost if of == key], Contents(trace))
    trace.record(list(rows))
    return judge


def _judge(rows: Case, lost: Lost) -> list[tuple[str, str]]:
    """Return the names of the anomalies and why each is excused."""
    return [(anomaly.name, anomaly.expected_by) for anomaly in _told(rows, lost).finish()]


@pytest.mark.parametrize("name", SHARE_CASES)
def test_share_groups(name: str) -> None:
    rows, expected = SHARE_CASES[name]
    assert dict.fromkeys([each for each, _ in _judge(rows, [])], 1) == expected


@pytest.mark.parametrize("name", SHARE_EXCUSES)
def test_a_legal_loss_explains_what_rested_on_it_alone(name: str) -> None:
    rows, expected, good, bad = SHARE_EXCUSES[name]
    named = list(expected)
    assert [_judge(rows, [each]) for each in good] == [
        [(one, "last-replica-standing") for one in named]
    ] * len(good)
    assert [_judge(rows, [each]) for each in bad] == [[(one, "") for one in named]] * len(bad)


@pytest.mark.parametrize("name", SHARE_UNWRITTEN)
def test_an_end_that_was_answered_unwritten_may_be_forgotten(name: str) -> None:
    """SharePartition.releaseAcquisitionLockOnTimeout, acknowledge (model/KAFKA.md, 3.6)."""
    rows, excused = SHARE_UNWRITTEN[name]
    assert _judge(rows, []) == [("accepted-again", UNWRITTEN if excused else "")]


@pytest.mark.parametrize("name", SHARE_LATE)
def test_an_initialization_that_comes_late_resets_what_was_written_before(name: str) -> None:
    """GroupMetadataManager.subscribedTopicsChangeMap, ShareCoordinatorShard
    .maybeGetInitializeStateError (model/KAFKA.md, 3.6)."""
    rows, expected, excused = SHARE_LATE[name]
    why = LATE_INITIALIZATION if excused else ""
    assert _judge(rows, []) == [(each, why) for each in expected]


@pytest.mark.parametrize("name", SHARE_LOSSES)
def test_a_record_whose_offset_was_lost_is_another_one(name: str) -> None:
    rows, lost, expected = SHARE_LOSSES[name]
    assert dict.fromkeys([each for each, _ in _judge(rows, lost)], 1) == expected


BEHIND_THE_GAP = [moved(1, 2, "ACKNOWLEDGED"), told((1, 2), 1, 0)]
NEXT_LEADER = loaded(0, 2, 2)
GAP = [given(0, 0, **OTHER), moved(0, 0, "ACKNOWLEDGED", **OTHER), started(1, broker=2, epoch=2)]


def _lag(rows: Case, high_watermark: int = 3, lost: Lost | None = None) -> list[str]:
    exposed = {(T, 0): high_watermark}
    return _told(rows, lost or []).lag("g", exposed, lambda key: f"orders-{key[1]}")


def test_a_start_offset_that_the_read_gap_holds_back_is_no_lag() -> None:
    """SharePartition.findLastOffsetAcknowledged: the gap ends with the next record that is new."""
    assert _lag([*BEGUN, *BEHIND_THE_GAP, NEXT_LEADER, *GAP]) == []


@pytest.mark.parametrize(
    "rows",
    [
        [*BEGUN, *BEHIND_THE_GAP[:1], NEXT_LEADER, *GAP],  # nobody was told that it is written
        [*BEGUN, NEXT_LEADER, *BEHIND_THE_GAP, *GAP],  # the leader has not read it
        [*BEGUN, *BEHIND_THE_GAP, NEXT_LEADER, *GAP[2:]],  # the leader has done nothing in the gap
        [*BEGUN, moved(1, 2, "AVAILABLE"), told((1, 2), 2, 2), NEXT_LEADER, *GAP],
    ],
    ids=["not-written", "not-read", "no-gap", "released"],
)
def test_a_start_offset_below_what_is_not_done_is_a_lag(rows: Case) -> None:
    assert _lag(rows) == ["share group g is at 1 of 3 in orders-0"]


def test_the_read_gap_excuses_no_record_behind_it_and_none_that_was_lost() -> None:
    rows = [*BEGUN, *BEHIND_THE_GAP, NEXT_LEADER, *GAP]
    assert _lag(rows, 4) == ["share group g is at 1 of 4 in orders-0"]
    lost: Lost = [((T, 0), loss(2, 3, seq=9))]
    assert _lag(rows, lost=lost) == ["share group g is at 1 of 3 in orders-0"]
