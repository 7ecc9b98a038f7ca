"""The model's history of each schedule is the one that real Kafka 4.0.0 had (histories/4.0.0).

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. One that is equal
again must leave the list, and nothing may enter it without a reason.
"""

from __future__ import annotations

import difflib

import pytest

from tests.fidelity.playing import load, names, stored
from tests.fidelity.playing.simulated import SimulatedPlay

DIFFERENT: dict[str, str] = {}


@pytest.mark.parametrize("name", names())
def test_the_model_s_history_is_kafka_s(name: str) -> None:
    play = SimulatedPlay(load(name))
    model = play.play()
    real = stored("4.0.0", name).read_text().splitlines()
    rows = list(difflib.unified_diff(real, model, "Kafka 4.0.0", "the model", n=1, lineterm=""))
    assert bool(rows) == (name in DIFFERENT), "\n".join(["", *rows])
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


def test_every_history_has_its_schedule() -> None:
    histories = sorted(file.stem for file in stored("4.0.0", "x").parent.glob("*.txt"))
    assert histories == names()
    assert set(DIFFERENT) <= set(names())
