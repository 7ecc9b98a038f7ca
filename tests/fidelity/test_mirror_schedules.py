"""The model's mirrors write in each schedule what connect-mirror-maker wrote on real Kafka.

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. A schedule that is
equal again must leave the list.
"""

from __future__ import annotations

import pytest

from kafkasim.model.connect.offset_syncs import OffsetSync
from kafkasim.model.records import TopicPartition
from tests.fidelity.playing import MIRRORS, differences, load, names, recorded
from tests.fidelity.playing.mirrors.history import rests, told_syncs
from tests.fidelity.playing.mirrors.simulated import SimulatedMirrorPlay

DIFFERENT: dict[str, str] = {}


@pytest.mark.slow
@pytest.mark.parametrize(("version", "name"), recorded(MIRRORS))
def test_the_model_s_mirrors_write_what_kafka_s_write(version: str, name: str) -> None:
    play = SimulatedMirrorPlay(load(name, version))
    found = differences(version, name, play.play())
    assert bool(found) == (name in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


@pytest.mark.slow
@pytest.mark.parametrize(("version", "name"), recorded(MIRRORS))
def test_a_node_that_is_in_no_group_writes_the_same(version: str, name: str) -> None:
    scenario = load(name, version)
    alone = [table.model_copy(update={"workers": None}) for table in scenario.mirrors]
    play = SimulatedMirrorPlay(scenario.model_copy(update={"mirrors": alone}))
    assert differences(version, name, play.play()) == ""


def test_every_history_has_its_schedule() -> None:
    found = recorded(MIRRORS)
    assert [name for _, name in found] == names(MIRRORS[0])
    assert set(DIFFERENT) <= {name for _, name in found}


def test_a_partition_rests_at_the_end_of_each_burst() -> None:
    (a, _) = load("at-rest", MIRRORS[0]).clusters
    assert rests(a.workload) == {"orders": [105, 255], "payments": [20]}


def test_a_sync_of_a_commit_amid_a_burst_is_left_out() -> None:
    """Those that offset.lag.max causes are told, and the last one before each rest."""
    at = TopicPartition("orders", 0)
    syncs = [OffsetSync(at, offset, offset) for offset in (0, 4, 11, 14, 20, 22, 29)]
    told = told_syncs(syncs, 10, {"orders": [15, 30]})
    assert [sync.up for sync in told] == [0, 11, 14, 22, 29]
