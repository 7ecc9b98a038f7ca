"""The model's log of the group coordinators after each schedule is real Kafka's.

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. A schedule that is
equal again must leave the list.
"""

from __future__ import annotations

import pytest

from tests.fidelity.playing import GROUPS, differences, load, names, recorded
from tests.fidelity.playing.groups.simulated import SimulatedGroupPlay

DIFFERENT = {
    ("4.0.0-groups", "coordinator-restarted"): "Without any broker the clients rebootstrap "
    "(KIP-899), and Kafka's leader compares what it assigned with the metadata as it was when "
    "poll() began, without topics (maybeUpdateSubscriptionMetadata comes before the wait for the "
    "coordinator): it joins again. The model compares when the coordinator is known, which "
    "metadata with topics names.",
}


@pytest.mark.parametrize(("version", "name"), recorded(GROUPS))
def test_the_model_s_group_log_is_kafka_s(version: str, name: str) -> None:
    play = SimulatedGroupPlay(load(name, version))
    found = differences(version, name, play.play())
    assert bool(found) == ((version, name) in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


def test_every_history_has_its_schedule() -> None:
    found = recorded(GROUPS)
    assert [name for version, name in found if version == GROUPS[0]] == names(GROUPS[0])
    assert {name for _, name in found} == {*names(GROUPS[0])}
    assert {name for _, name in DIFFERENT} <= {name for _, name in found}
