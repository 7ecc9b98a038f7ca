"""The judge of share groups, on rows by hand that keep its guarantees and that break them."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.shares import ShareDeliveries
from kafkasim.analysis.judging.source import Loss, PartitionKey
from tests.analysis.analysis_rows import Case
from tests.analysis.share_cases import (
    SHARE_CASES,
    SHARE_EXCUSES,
    SHARE_HOLES,
    SHARE_LOSSES,
)
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.histories import counted, history_of

Lost = list[tuple[PartitionKey, Loss]]


def _told(rows: Case, lost: Lost) -> ShareDeliveries:
    trace = FakeTrace()
    history = history_of(trace, lambda key: [loss for of, loss in lost if of == key])
    judge = ShareDeliveries(trace, history)
    trace.record(list(rows))
    return judge


def _judge(rows: Case, lost: Lost) -> list[tuple[str, str]]:
    """Return the names of the anomalies and why each is excused."""
    return [(anomaly.name, anomaly.expected_by) for anomaly in counted(_told(rows, lost).finish())]


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


@pytest.mark.parametrize("name", SHARE_HOLES)
def test_what_kafka_forgets_is_covered_by_its_hole(name: str) -> None:
    rows, hole = SHARE_HOLES[name]
    assert _judge(rows, []) == [("accepted-again", hole)]


@pytest.mark.parametrize("name", SHARE_LOSSES)
def test_a_record_whose_offset_was_lost_is_another_one(name: str) -> None:
    rows, lost, expected = SHARE_LOSSES[name]
    assert dict.fromkeys([each for each, _ in _judge(rows, lost)], 1) == expected
