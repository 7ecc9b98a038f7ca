"""The model's transaction coordinators and leaders write after each schedule what Kafka's wrote.

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. A schedule that is
equal again must leave the list.
"""

from __future__ import annotations

import pytest

from tests.fidelity.playing import HERE, TRANSACTIONS, differences, load, names
from tests.fidelity.playing.transactions.simulated import SimulatedTransactionPlay

DIFFERENT: dict[str, str] = {}


@pytest.mark.parametrize("name", names(TRANSACTIONS))
def test_the_model_s_transactions_are_kafka_s(name: str) -> None:
    play = SimulatedTransactionPlay(load(name, TRANSACTIONS))
    found = differences(TRANSACTIONS, name, play.play())
    assert bool(found) == (name in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


def test_every_history_has_its_schedule() -> None:
    files = [file.stem for file in HERE.glob(f"histories/{TRANSACTIONS}/*.txt")]
    assert sorted(files) == names(TRANSACTIONS)
    assert set(DIFFERENT) <= set(files)
