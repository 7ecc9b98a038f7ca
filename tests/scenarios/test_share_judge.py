"""The judge of share groups, on the cases that the Spark checks are held to."""

from __future__ import annotations

import pytest

from kafkasim.scenarios.judging.shares.judge import Shares
from kafkasim.scenarios.judging.source import Loss, PartitionKey
from kafkasim.scenarios.judging.transactions.holes import Holes
from tests.analysis.analysis_rows import Case
from tests.analysis.share_cases import SHARE_CASES, SHARE_EXCUSES, SHARE_LOSSES
from tests.scenarios.fact_makers import FakeTrace


def _judge(rows: Case, lost: list[tuple[PartitionKey, Loss]]) -> list[tuple[str, str]]:
    """Return the names of the anomalies and why each is excused."""
    trace = FakeTrace()
    judge = Shares(trace, lambda key: [loss for of, loss in lost if of == key], Holes(trace))
    trace.record(list(rows))
    return [(anomaly.name, anomaly.expected) for anomaly in judge.finish()]


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


@pytest.mark.parametrize("name", SHARE_LOSSES)
def test_a_record_whose_offset_was_lost_is_another_one(name: str) -> None:
    rows, lost, expected = SHARE_LOSSES[name]
    assert dict.fromkeys([each for each, _ in _judge(rows, lost)], 1) == expected
