"""The judge of share groups, on the cases that the Spark checks are held to."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.shares.judge import Shares
from kafkasim.analysis.judging.shares.late import LATE_INITIALIZATION
from kafkasim.analysis.judging.shares.unwritten import UNWRITTEN
from kafkasim.analysis.judging.source import Loss, PartitionKey
from tests.analysis.analysis_rows import Case
from tests.analysis.share_cases import (
    SHARE_CASES,
    SHARE_EXCUSES,
    SHARE_LATE,
    SHARE_LOSSES,
    SHARE_UNWRITTEN,
)
from tests.scenarios.fact_makers import FakeTrace

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
