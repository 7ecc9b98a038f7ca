"""The model's transaction coordinators and leaders write after each schedule what Kafka's wrote.

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. A schedule that is
equal again must leave the list.
"""

from __future__ import annotations

import pytest

from tests.fidelity.playing import TRANSACTIONS, differences, load, names, recorded
from tests.fidelity.playing.transactions.simulated import SimulatedTransactionPlay

DIFFERENT: dict[str, str] = {}


@pytest.mark.parametrize(("version", "name"), recorded(TRANSACTIONS))
def test_the_model_s_transactions_are_kafka_s(version: str, name: str) -> None:
    play = SimulatedTransactionPlay(load(name, version))
    found = differences(version, name, play.play())
    assert bool(found) == (name in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


def test_every_history_has_its_schedule() -> None:
    found = recorded(TRANSACTIONS)
    assert [name for version, name in found if version == TRANSACTIONS[0]] == names(TRANSACTIONS[0])
    assert {name for _, name in found} == {*names(TRANSACTIONS[0])}
    assert set(DIFFERENT) <= {name for _, name in found}
