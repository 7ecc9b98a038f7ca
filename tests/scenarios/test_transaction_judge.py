"""The judges of transactions: torn, hanging, seen too early, outputs lost or written twice."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.atomicity import Atomicity, NeedlessEpochs
from kafkasim.analysis.judging.finding import ANOMALIES
from kafkasim.analysis.judging.inputs import Inputs
from kafkasim.analysis.judging.outputs import Outputs
from kafkasim.analysis.judging.source import Loss
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.histories import history_of
from tests.scenarios.transaction_cases import (
    ATTEMPTS,
    EXCUSES,
    KNOWN,
    LEFT_OPEN,
    RESTING,
    STORIES,
    Rows,
    excused,
)

OTHERS = ("duplicate", "offset-regression")
"""Anomalies that other judges find."""


def judge(
    rows: Rows,
    *lost: tuple[tuple[str, int], Loss],
    left_open: dict[tuple[str, int], int] | None = None,
    stall: str = "",
) -> dict[str, int]:
    trace = FakeTrace()

    def losses(key: tuple[str, int]) -> list[Loss]:
        return [loss for of, loss in lost if of == key]

    history = history_of(trace, losses)
    atomicity = Atomicity(trace, history)
    judges = (NeedlessEpochs(trace), atomicity, Outputs(trace, history, Inputs(trace, history)))
    trace.record(rows)
    atomicity.learn_stall(left_open or {}, stall)
    found: dict[str, int] = {}
    for finding in [each for one in judges for each in one.finish() if not each.expected_by]:
        found[finding.name] = found.get(finding.name, 0) + finding.count
    return found


@pytest.mark.parametrize("name", [*STORIES, *ATTEMPTS, *RESTING, *KNOWN])
def test_a_story_shows_its_anomalies(name: str) -> None:
    rows, expected = (STORIES | ATTEMPTS | RESTING | KNOWN)[name]
    assert judge(rows) == {name: n for name, n in expected.items() if name not in OTHERS}


@pytest.mark.parametrize("name", LEFT_OPEN)
def test_an_excused_stall_explains_the_transactions_that_it_leaves_open(name: str) -> None:
    rows, first, stall, expected = LEFT_OPEN[name]
    assert judge(rows, left_open=first, stall=stall) == expected


def test_every_anomaly_can_be_permitted() -> None:
    named = {name for _, expected in STORIES.values() for name in expected}
    assert named <= set(ANOMALIES)


@pytest.mark.parametrize("name", EXCUSES)
def test_a_legal_loss_explains_what_rested_on_it_alone(name: str) -> None:
    rows, (good, bad) = excused(name), EXCUSES[name]
    assert [judge(rows, each) for each in good] == [{}] * len(good)
    assert all(judge(rows, each) for each in bad)
