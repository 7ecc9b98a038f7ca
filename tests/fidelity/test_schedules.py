"""The model's history of each schedule is the one that real Kafka had (histories/VERSION).

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. Where Kafka has a
bug that the model has mended on purpose (KAFKA.md, 0.1), the variant that brings the bug back must
make the histories equal. One that is equal again must leave the list, and nothing may enter it
without a reason.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.fidelity.playing import HERE, differences, load, names, stored
from tests.fidelity.playing.simulated import SimulatedPlay
from tests.fidelity.real_kafka import VERSIONS


class Difference(NamedTuple):
    """Why a history differs, and the variant with which it does not."""

    variant: str
    reason: str


DIFFERENT = {
    ("4.0.0", "elr"): Difference(
        "B31-dead-last-known-leader",
        "Kafka elects the last known leader while it registers, still fenced: the condition of "
        "PartitionChangeBuilder.canElectLastKnownLeader only logs (KAFKA.md, 0.1 d).",
    ),
}


HISTORIES = [
    (version, name) for version in VERSIONS for name in names() if stored(version, name).exists()
]


@pytest.mark.parametrize(("version", "name"), HISTORIES)
def test_the_model_s_history_is_kafka_s(version: str, name: str) -> None:
    play = SimulatedPlay(load(name, version))
    found = differences(version, name, play.play())
    assert bool(found) == ((version, name) in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


@pytest.mark.parametrize(("version", "name"), sorted(DIFFERENT))
def test_a_listed_difference_is_the_bug_that_it_names(version: str, name: str) -> None:
    play = SimulatedPlay(load(name, version), variants=(DIFFERENT[version, name].variant,))
    assert differences(version, name, play.play()) == ""


def test_every_history_has_its_schedule() -> None:
    assert sorted({name for _, name in HISTORIES}) == names()
    files = [(version, file.stem) for version in VERSIONS
             for file in HERE.glob(f"histories/{version}/*.txt")]  # fmt: skip
    assert sorted(files) == sorted(HISTORIES)
    assert set(DIFFERENT) <= set(HISTORIES)
