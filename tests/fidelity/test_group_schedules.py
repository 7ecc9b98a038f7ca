"""The model's log of the group coordinators after each schedule is real Kafka's.

``DIFFERENT`` lists the schedules whose histories differ, each with its reason. A schedule that is
equal again must leave the list.
"""

from __future__ import annotations

import pytest

from tests.fidelity.playing import GROUPS, HERE, differences, load, names
from tests.fidelity.playing.groups.simulated import SimulatedGroupPlay

DIFFERENT = {
    "coordinator-restarted": "Without any broker the clients rebootstrap (KIP-899), and Kafka's "
    "leader compares what it assigned with the metadata as it was when poll() began, without "
    "topics (maybeUpdateSubscriptionMetadata comes before the wait for the coordinator): it joins "
    "again. The model compares when the coordinator is known, which metadata with topics names.",
    "consumer-topic-deleted": "A controller that votes alone counts a record before it answers the "
    "fetches that wait for it (KafkaRaftClient.updateLeaderEndOffsetAndTimestamp), so brokers get "
    "it with the high watermark that covers it. The model answers before the flush and counts "
    "after it: brokers commit the record with their next fetch, up to 500 ms later. Meanwhile the "
    "member's heartbeat tells the group that the topic is gone.",
}


@pytest.mark.parametrize("name", names(GROUPS))
def test_the_model_s_group_log_is_kafka_s(name: str) -> None:
    play = SimulatedGroupPlay(load(name, GROUPS))
    found = differences(GROUPS, name, play.play())
    assert bool(found) == (name in DIFFERENT), f"\n{found}"
    assert play.result is not None
    assert play.result.verdict != "fail", play.result.verdict


def test_every_history_has_its_schedule() -> None:
    files = [file.stem for file in HERE.glob(f"histories/{GROUPS}/*.txt")]
    assert sorted(files) == names(GROUPS)
    assert set(DIFFERENT) <= set(files)
