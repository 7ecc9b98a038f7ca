"""The run's judge of transactions, on stories that the checks of Spark are told, too."""

from __future__ import annotations

import pytest

from kafkasim.scenarios.judging.transactions.judge import Transactions
from kafkasim.scenarios.language.vocabulary import ANOMALIES
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.transaction_cases import ATTEMPTS, STORIES, Rows

OTHERS = ("duplicate",)
"""Anomalies that other judges find."""


def judge(rows: Rows, lost: str = "") -> dict[str, int]:
    trace = FakeTrace()
    judged = Transactions(trace, lambda: lost)
    trace.record(rows)
    return {found.name: found.count for found in judged.finish() if not found.expected}


@pytest.mark.parametrize("name", [*STORIES, *ATTEMPTS])
def test_a_story_shows_its_anomalies(name: str) -> None:
    rows, expected = (STORIES | ATTEMPTS)[name]
    assert judge(rows) == {name: n for name, n in expected.items() if name not in OTHERS}


def test_every_anomaly_can_be_permitted() -> None:
    named = {name for _, expected in STORIES.values() for name in expected}
    assert named <= set(ANOMALIES)


def test_a_legal_loss_explains_what_it_may_have_cost() -> None:
    hanging = STORIES["hanging"][0]
    assert judge(hanging, "last-replica-standing") == {}
    read = STORIES["an aborted record is read"][0]
    assert judge(read, "last-replica-standing") == {"aborted-read": 1}
