"""Eligible leader replicas (KIP-966) at the KRaft controller (KAFKA.md, 1.8)."""

from __future__ import annotations

from kafkasim.model.controller.common.records import ClearElrRecord, ConfigRecord
from kafkasim.model.errors import Errors
from kafkasim.model.facts import PartitionChanged
from kafkasim.model.messages import (
    AlterableConfig,
    BrokerRegistrationRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
from kafkasim.model.messages.clients.admin import BROKER, TOPIC
from tests.model.controller_harness import SECOND, Harness

MIN_ISR = "min.insync.replicas"


def eligible(**topic: str) -> tuple[Harness, str]:
    """A cluster with ELR and a topic on 1, 2, 3 with min.insync.replicas=2."""
    h = Harness()
    h.controller.features["eligible.leader.replicas.version"] = 1
    h.activate().up(1, 2, 3)
    return h, h.create("t", (1, 2, 3), min_insync_replicas="2", **topic)


def elr(h: Harness, topic: str) -> tuple[tuple[int, ...], ...]:
    state = h.controller.image.partition(topic, 0)
    return state.isr, state.elr, state.last_known_elr


def test_who_leaves_the_isr_below_min_isr_stays_eligible_and_is_elected() -> None:
    h, topic = eligible()
    h.heartbeat(3, want_fence=True)
    assert elr(h, topic) == ((1, 2), (), ())
    h.heartbeat(2, want_fence=True)
    assert elr(h, topic) == ((1,), (2,), ())
    h.heartbeat(1, want_fence=True)
    assert elr(h, topic) == ((), (1, 2), (1,))  # ascending, not in the order of leaving
    assert h.partition(topic)[0] == -1
    h.heartbeat(3)  # not eligible
    assert h.partition(topic)[0] == -1
    h.heartbeat(2)
    assert h.partition(topic)[0] == 2
    assert elr(h, topic) == ((2,), (1,), ())  # maybeUpdateLastKnownLeader, in the same record
    assert not h.facts_of(PartitionChanged)[-1].unclean


def test_an_unclean_restart_leaves_isr_and_elr_and_the_last_known_leader_waits_to_be_alive() -> (
    None
):
    h, topic = eligible()
    for broker in (3, 2, 1):
        h.heartbeat(broker, want_fence=True)
    h.now += 9 * SECOND
    for broker in (2, 1):
        h.register(broker, "unclean")  # its clean shutdown file is not there: epoch −1
    assert elr(h, topic) == ((), (), (1,))
    h.heartbeat(3)
    assert h.partition(topic)[0] == -1  # B31: the last known leader is not alive
    h.heartbeat(1)
    assert h.partition(topic)[0] == 1
    assert h.facts_of(PartitionChanged)[-1].unclean
    assert elr(h, topic) == ((1,), (), ())


def test_a_clean_restart_stays_eligible() -> None:
    h, topic = eligible()
    for broker in (3, 2, 1):
        h.heartbeat(broker, want_fence=True)
    h.now += 9 * SECOND
    epoch = h.controller.image.brokers[2].epoch
    clean = BrokerRegistrationRequest(2, "2-b", "broker-2", None, epoch)
    assert h.ask(clean).error is Errors.NONE
    assert elr(h, topic)[1] == (1, 2)


def test_a_change_of_min_isr_clears_the_elr_in_the_same_batch() -> None:
    """createClearElrRecordsAsNeeded; the replay raises the partition epoch (TopicDelta.replay)."""
    h, topic = eligible()
    other = h.create("u", (1, 2, 3), min_insync_replicas="2")
    for broker in (3, 2):
        h.heartbeat(broker, want_fence=True)
    before = (elr(h, topic), h.partition(topic)[2])
    alter(h, TOPIC, "t", "1")
    batch = [record.value for record in h.raft.log[-1].records]
    assert batch == [ConfigRecord("t", "min.insync.replicas", "1"), ClearElrRecord("t")]
    assert (before, elr(h, topic), h.partition(topic)[2]) == (
        (((1,), (2,), ()), 2), ((1,), (), ()), 3,
    )  # fmt: skip
    cleared = h.facts_of(PartitionChanged)[-1]
    assert (cleared.reason, cleared.partition_epoch, cleared.elr) == ("min-isr", 3, ())
    assert elr(h, other) == ((1,), (2,), ())
    alter(h, BROKER, "", "3")
    assert elr(h, other) == ((1,), (), ())


def test_an_unchanged_min_isr_of_a_topic_writes_nothing() -> None:
    """incrementalAlterConfigResource: only a broker's unchanged setting is written again."""
    h, topic = eligible()
    for broker in (3, 2):
        h.heartbeat(broker, want_fence=True)
    end = h.raft.log_end_offset
    assert alter(h, TOPIC, "t", "2") == (Errors.NONE, "")
    assert (h.raft.log_end_offset, elr(h, topic)) == (end, ((1,), (2,), ()))


def test_with_elr_the_brokers_have_one_min_isr() -> None:
    """isDisallowedBrokerMinIsrTransition and isDisallowedClusterMinIsrTransition."""
    h, _ = eligible()
    assert h.controller.image.broker_configs == {-1: {"min.insync.replicas": "1"}}
    assert [alter(h, BROKER, "1", "2"), alter(h, BROKER, "", None), alter(h, BROKER, "", "2")] == [
        (Errors.INVALID_CONFIG, f"Broker-level {MIN_ISR} cannot be altered while ELR is enabled."),
        (Errors.INVALID_CONFIG, f"Cluster-level {MIN_ISR} cannot be removed while ELR is enabled."),
        (Errors.NONE, ""),
    ]  # fmt: skip


def test_turning_elr_on_fixes_one_min_isr_for_all_brokers() -> None:
    """maybeGenerateElrSafetyRecords."""
    h = Harness().activate()
    alter(h, BROKER, "1", "2")
    levels = (("metadata.version", 25), ("eligible.leader.replicas.version", 1))
    assert h.ask(UpdateFeaturesRequest(levels)).error is Errors.NONE
    assert h.controller.image.broker_configs == {-1: {"min.insync.replicas": "1"}, 1: {}}


def alter(h: Harness, kind: str, name: str, least: str | None) -> tuple[Errors, str]:
    """Change min.insync.replicas of a topic or broker; return error and message."""
    resource = AlterableConfig(kind, name, (("min.insync.replicas", least),))
    return h.ask(IncrementalAlterConfigsRequest((resource,))).results[0][2:]
