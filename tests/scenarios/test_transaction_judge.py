"""The run's judge of transactions, on stories that the checks of Spark are told, too."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.delivery import Delivery
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.source import Loss
from kafkasim.analysis.judging.transactions.judge import Transactions
from kafkasim.analysis.judging.transactions.known.given_again import GivenBack
from kafkasim.scenarios.language.vocabulary import ANOMALIES
from tests.scenarios.carried_cases import CARRIED
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.invariant_stories.judged import LIMITS
from tests.scenarios.transaction_cases import (
    ATTEMPTS,
    BACK,
    EXCUSES,
    EXPIRED_OFFSETS,
    LATE_BATCHES,
    LATE_ENDS,
    LEFT_OPEN,
    MISSED_MARKERS,
    RESTING,
    SKIPPED_MARKERS,
    STORIES,
    UNLISTED_IDS,
    Rows,
    excused,
)
from tests.scenarios.unverified_cases import UNVERIFIED_BATCHES

KNOWN = (
    CARRIED | EXPIRED_OFFSETS | LATE_BATCHES | LATE_ENDS | MISSED_MARKERS | SKIPPED_MARKERS
    | UNLISTED_IDS | UNVERIFIED_BATCHES
)  # fmt: skip

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

    judged = Transactions(trace, Contents(trace), losses, GivenBack(trace), LIMITS.retention_us)
    trace.record(rows)
    judged.left_open.learn(left_open or {}, stall)
    return {found.name: found.count for found in judged.finish() if not found.expected_by}


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


@pytest.mark.parametrize("name", BACK)
def test_a_sequence_that_was_given_back_explains_the_records_that_repeat_it_alone(
    name: str,
) -> None:
    rows, expected = BACK[name]
    trace = FakeTrace()
    delivery = Delivery(trace, lambda _key: [])
    trace.record(rows)
    lost = {each.name: each.count for each in delivery.finish() if not each.expected_by}
    assert judge(rows) | lost == expected
