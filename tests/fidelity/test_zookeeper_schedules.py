"""The model's history of each schedule in ZooKeeper mode is the one that Kafka 3.9.1 had.

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. One that is equal
again must leave the list, and nothing may enter it without a reason.
"""

from __future__ import annotations

import pytest

from tests.fidelity.playing import ZOOKEEPER, differences, load, names, stored
from tests.fidelity.playing.zookeeper import SimulatedZooKeeperPlay

DIFFERENT: dict[str, str] = {}


@pytest.mark.parametrize("name", names(ZOOKEEPER))
def test_the_history_of_the_model_is_that_of_kafka(name: str) -> None:
    play = SimulatedZooKeeperPlay(load(name, ZOOKEEPER))
    found = differences(ZOOKEEPER, name, play.play())
    assert bool(found) == (name in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


def test_every_history_has_its_schedule_in_zookeeper_mode() -> None:
    histories = sorted(file.stem for file in stored(ZOOKEEPER, "x").parent.glob("*.txt"))
    assert histories == names(ZOOKEEPER)
    assert set(DIFFERENT) <= set(histories)
