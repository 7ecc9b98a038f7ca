"""The model's instances of Kafka Streams do and leave behind what real ones do.

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. A schedule that is
equal again must leave the list.
"""

from __future__ import annotations

import pytest

from kafkasim.model.streams.assignment.info import NEVER_MS
from kafkasim.model.streams.task_id import TaskId
from tests.fidelity.playing import STREAMS, differences, load, names, recorded
from tests.fidelity.playing.streams.log import Batch, DataLog, assignment_info
from tests.fidelity.playing.streams.simulated import SimulatedStreamsPlay

DIFFERENT: dict[str, str] = {}


@pytest.mark.parametrize(("version", "name"), recorded(STREAMS))
def test_the_model_s_instances_do_what_kafka_s_do(version: str, name: str) -> None:
    play = SimulatedStreamsPlay(load(name, version))
    found = differences(version, name, play.play())
    assert bool(found) == (name in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


def test_every_history_has_its_schedule() -> None:
    found = recorded(STREAMS)
    assert [name for version, name in found if version == STREAMS[0]] == names(STREAMS[0])
    assert len(found) >= 13
    assert set(DIFFERENT) <= {name for _, name in found}


def test_kafka_4_1_0_keeps_the_checkpoint_that_a_restore_wrote() -> None:
    """KAFKA-20685: the schedule has the variant, and by the model's own rules it would differ."""
    (version,), name = STREAMS, "exactly-once-killed"
    scenario = load(name, version)
    assert scenario.cluster.variants == ["S02-eos-checkpoint-left-after-restore"]
    cluster = scenario.cluster.model_copy(update={"variants": []})
    play = SimulatedStreamsPlay(scenario.model_copy(update={"cluster": cluster}))
    found = differences(version, name, play.play())
    assert "+streams-1 0_0: no checkpoint" in found
    assert "'0_0 0, 0_1 0, 0_2 0, 0_3 0'" in found  # so 4.1.0 joins again with what it had


@pytest.mark.parametrize("name", ["killed", "exactly-once-killed"])
def test_before_kip_1094_no_leader_epochs_are_committed(name: str) -> None:
    scenario = load(name, STREAMS[0])
    older = scenario.cluster.model_copy(update={"kafka_version": "3.9", "features": {}})
    lines = SimulatedStreamsPlay(scenario.model_copy(update={"cluster": older})).play()
    commits = [line for line in lines if line.startswith("counting: offsets ")]
    assert commits
    assert not [line for line in commits if "(epoch 0)" in line]


def test_a_log_is_told_without_its_markers() -> None:
    counted = ((b"a", b"1"),)
    log = DataLog(
        [
            Batch(0, 7, "", counted),
            Batch(1, 7, "ABORT", ()),
            Batch(2, 7, "", counted),
            Batch(3, 7, "COMMIT", ()),
            Batch(4, 8, "", counted),
        ]
    )
    assert (log.committed, log.aborted, log.open) == ([*counted], [*counted], {8: [*counted]})
    assert [log.fold(offset) for offset in range(6)] == [0, 1, 1, 2, 2, 3]


def test_an_assignment_s_user_data_are_read_as_kafka_encodes_them() -> None:
    encoded = bytes.fromhex(
        "0000000b 0000000b"  # versions
        "00000001 000000000000000300000000"  # the active tasks: 0_3
        "00000001 000000010000000200000000"  # the standbys: 1_2,
        "00000001 0003 6c6f67 00000002"  # of the partition log-2
        "000000000000000000000000"  # neither topics nor hosts, twice
        "00000000 7fffffffffffffff"  # no error, no time
    )
    found = assignment_info(encoded)
    assert (found.active, dict(found.standby)) == ([TaskId(0, 3)], {TaskId(1, 2): ()})
    assert (found.error, found.next_rebalance_ms) == (0, NEVER_MS)
