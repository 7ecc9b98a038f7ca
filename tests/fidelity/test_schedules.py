"""The model's history of each schedule is the one that real Kafka 4.0.0 had (histories/4.0.0).

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. Where Kafka has a
bug that the model has mended on purpose (KAFKA.md, 0.1), the variant that brings the bug back must
make the histories equal. One that is equal again must leave the list, and nothing may enter it
without a reason.
"""

from __future__ import annotations

import difflib
from typing import NamedTuple

import pytest

from tests.fidelity.playing import load, names, stored
from tests.fidelity.playing.simulated import SimulatedPlay


class Difference(NamedTuple):
    """Why a history differs, and the variant with which it does not."""

    variant: str
    reason: str


DIFFERENT = {
    "elr": Difference(
        "B31-dead-last-known-leader",
        "Kafka elects the last known leader while it registers, still fenced: the condition of "
        "PartitionChangeBuilder.canElectLastKnownLeader only logs (KAFKA.md, 0.1 d).",
    ),
}


def differences(name: str, play: SimulatedPlay) -> str:
    """Play a schedule on the model; return how its history differs from Kafka's, "" if not."""
    model = play.play()
    real = stored("4.0.0", name).read_text().splitlines()
    rows = difflib.unified_diff(real, model, "Kafka 4.0.0", "the model", n=1, lineterm="")
    return "\n".join(rows)


@pytest.mark.parametrize("name", names())
def test_the_model_s_history_is_kafka_s(name: str) -> None:
    play = SimulatedPlay(load(name))
    found = differences(name, play)
    assert bool(found) == (name in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


@pytest.mark.parametrize("name", sorted(DIFFERENT))
def test_a_listed_difference_is_the_bug_that_it_names(name: str) -> None:
    play = SimulatedPlay(load(name), variants=(DIFFERENT[name].variant,))
    assert differences(name, play) == ""


def test_every_history_has_its_schedule() -> None:
    histories = sorted(file.stem for file in stored("4.0.0", "x").parent.glob("*.txt"))
    assert histories == names()
    assert set(DIFFERENT) <= set(names())
