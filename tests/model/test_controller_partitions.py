"""AlterPartition, elections on request and on time, over a controller (KAFKA.md, 1.6 and 1.8)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.facts import PartitionChanged
from kafkasim.model.messages import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    ElectLeadersRequest,
)
from kafkasim.model.records import TopicPartition
from tests.model.controller_harness import SECOND, Harness

NONE = Errors.NONE


def alter(
    h: Harness, topic: str, isr: tuple[int, ...] | tuple[tuple[int, int], ...], **fields: Any
) -> Any:
    """Ask for an ISR of partition 0 as its leader would; fields replace parts of the request."""
    state = h.controller.image.partition(topic, 0)
    brokers = h.controller.image.brokers
    sender = fields.pop("sender", state.leader if state else 1)
    leader_epoch = fields.pop("leader_epoch", state.leader_epoch if state else 0)
    partition_epoch = fields.pop("partition_epoch", state.partition_epoch if state else 0)
    members = tuple([m if isinstance(m, tuple) else (m, -1) for m in isr])
    data = AlterPartitionData(
        topic, fields.pop("partition", 0), leader_epoch, members, partition_epoch, **fields
    )
    response = h.ask(AlterPartitionRequest(sender, brokers[sender].epoch, (data,)))
    assert response.error == NONE
    return response.partitions[0]


@pytest.fixture
def h() -> Harness:
    return Harness().activate().up(1, 2, 3)


def test_a_shrink_keeps_the_leader_epoch(h: Harness) -> None:  # KAFKA-15021
    topic = h.create("t", (1, 2, 3))
    h.facts.clear()
    result = alter(h, topic, (1, 2), reason="lag")
    assert result == AlterPartitionResult(topic, 0, NONE, 1, 0, (1, 2), 1, 0)
    assert [
        (f.leader, f.leader_epoch, f.partition_epoch, f.isr, f.reason, f.unclean)
        for f in h.facts_of(PartitionChanged)
    ] == [(1, 0, 1, (1, 2), "lag", False)]


def test_asking_for_what_is_succeeds_and_changes_nothing(h: Harness) -> None:
    topic = h.create("t", (1, 2, 3))
    assert alter(h, topic, (1, 2, 3)) == AlterPartitionResult(topic, 0, NONE, 1, 0, (1, 2, 3), 0, 0)


def test_a_stale_broker_epoch_refuses_the_whole_request(h: Harness) -> None:
    topic = h.create("t", (1, 2, 3))
    data = AlterPartitionData(topic, 0, 0, ((1, -1),), 0)
    answer = h.ask(AlterPartitionRequest(1, 99, (data,)))
    assert answer == AlterPartitionResponse(Errors.STALE_BROKER_EPOCH, ())


REFUSALS: dict[str, tuple[dict[str, Any], Errors]] = {
    "unknown partition": ({"partition": 7}, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    "leader epoch ahead": ({"leader_epoch": 9, "sender": 2}, Errors.NOT_CONTROLLER),
    "partition epoch ahead": ({"partition_epoch": 9, "leader_epoch": -1}, Errors.NOT_CONTROLLER),
    "leader epoch behind": ({"leader_epoch": -1, "sender": 2}, Errors.FENCED_LEADER_EPOCH),
    "not the leader": ({"sender": 2, "partition_epoch": -1}, Errors.INVALID_REQUEST),
    "partition epoch behind": (
        {"partition_epoch": -1, "isr": (1, 1)},
        Errors.INVALID_UPDATE_VERSION,
    ),
    "duplicates": ({"isr": (1, 1)}, Errors.INVALID_REQUEST),
    "no replica": ({"isr": (1, 9)}, Errors.INVALID_REQUEST),
    "leader missing": ({"isr": (2, 3)}, Errors.INVALID_REQUEST),
    "recovering with two": ({"leader_recovery_state": 1}, Errors.INVALID_REQUEST),
    "recovered to recovering": ({"leader_recovery_state": 1, "isr": (1,)}, Errors.INVALID_REQUEST),
    "other incarnation": ({"isr": ((1, -1), (2, 99))}, Errors.INELIGIBLE_REPLICA),
}


@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_alter_partition_is_refused_in_kafkas_order(h: Harness, name: str) -> None:
    fields, error = REFUSALS[name]
    topic = h.create("t", (1, 2, 3))
    fields = dict(fields)
    result = alter(h, topic, fields.pop("isr", (1, 2)), **fields)
    assert result == AlterPartitionResult(topic, fields.get("partition", 0), error)
    assert h.partition(topic) == (1, 0, 0, (1, 2, 3))


def test_an_unknown_topic_id_is_refused(h: Harness) -> None:
    assert alter(h, "nowhere", (1,)).error == Errors.UNKNOWN_TOPIC_ID


def test_fenced_and_stopping_replicas_are_not_eligible(h: Harness) -> None:  # KIP-841, B24
    topic = h.create("t", (1, 2, 3))
    other = h.create("u", (3, 1))
    h.heartbeat(2, want_fence=True)
    h.heartbeat(3, want_shut_down=True)
    fenced = alter(h, topic, (1, 2)).error
    stopping = alter(h, topic, (1, 3)).error
    assert (fenced, stopping) == (Errors.INELIGIBLE_REPLICA, Errors.INELIGIBLE_REPLICA)
    assert h.partition(other)[0] == 1


def test_b23_variant_says_fenced_to_a_leader_that_is_ahead() -> None:
    class Zombie(ControllerRules):
        def alter_partition_epoch_order(self, broker_id: int, data: Any, partition: Any) -> Errors:
            if data.leader_epoch != partition.leader_epoch:
                return Errors.FENCED_LEADER_EPOCH
            return super().alter_partition_epoch_order(broker_id, data, partition)

    h = Harness(Zombie()).activate().up(1, 2)
    topic = h.create("t", (1, 2))
    assert alter(h, topic, (1,), leader_epoch=5).error == Errors.FENCED_LEADER_EPOCH


def test_preferred_election_moves_the_leader_back(h: Harness) -> None:
    topic = h.create("t", (1, 2, 3))
    h.heartbeat(1, want_fence=True)
    h.heartbeat(1)
    alter(h, topic, (2, 3, 1))
    tp, unknown = TopicPartition("t", 0), TopicPartition("t", 5)
    first = h.ask(ElectLeadersRequest(0, (tp, unknown)))
    again = h.ask(ElectLeadersRequest(0, (tp,)))
    everything = h.ask(ElectLeadersRequest(0, None))
    assert [first.results, again.results, everything.results] == [
        ((tp, NONE), (unknown, Errors.UNKNOWN_TOPIC_OR_PARTITION)),
        ((tp, Errors.ELECTION_NOT_NEEDED),),
        (),
    ]
    assert h.partition(topic) == (1, 2, 3, (2, 3, 1))


def test_a_preferred_leader_that_is_not_in_sync_is_not_available(h: Harness) -> None:
    h.create("t", (1, 2))
    h.heartbeat(1, want_fence=True)
    tp = TopicPartition("t", 0)
    answer = h.ask(ElectLeadersRequest(0, (tp,)))
    assert answer.results == ((tp, Errors.PREFERRED_LEADER_NOT_AVAILABLE),)


def test_unclean_is_off_by_default_and_held_on_request(h: Harness) -> None:  # B30
    topic = h.create("t", (1, 2))
    h.heartbeat(2, want_fence=True)
    h.heartbeat(1, want_fence=True)
    tp = TopicPartition("t", 0)
    nobody = h.ask(ElectLeadersRequest(1, (tp,))).results
    h.heartbeat(2)
    offline = h.partition(topic)
    held = h.ask(ElectLeadersRequest(1, (tp,))).results
    assert (nobody, held) == (((tp, Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE),), ((tp, NONE),))
    assert (offline, h.partition(topic)) == ((-1, 1, 2, (1,)), (2, 2, 3, (2,)))
    state = h.controller.image.partition(topic, 0)
    assert state is not None
    assert state.leader_recovery_state == 1
    assert (h.facts[-2].reason, h.facts[-2].unclean) == ("unclean", True)


@pytest.mark.parametrize("where", ["topic", "broker"])
def test_with_unclean_on_the_election_is_immediate(where: str) -> None:
    setting = {"unclean_leader_election_enable": "true"}
    h = Harness(**(setting if where == "broker" else {})).activate().up(1, 2)
    topic = h.create("t", (1, 2), **(setting if where == "topic" else {}))
    h.heartbeat(2, want_fence=True)
    h.heartbeat(2)
    h.heartbeat(1, want_fence=True)
    assert h.partition(topic) == (2, 1, 2, (2,))


def test_leaders_are_balanced_every_300_s(h: Harness) -> None:
    topic = h.create("t", (1, 2))
    h.heartbeat(1, want_fence=True)
    h.heartbeat(1)
    alter(h, topic, (1, 2))
    h.controller.timers.cancel("stale-check")
    h.advance(299 * SECOND)
    before = h.partition(topic)
    h.advance(2 * SECOND)
    assert (before, h.partition(topic)) == ((2, 1, 2, (1, 2)), (1, 2, 3, (1, 2)))


def test_one_misplaced_leader_of_twenty_is_moved(h: Harness) -> None:
    """maybeBalancePartitionLeaders asks for no percentage (ReplicationControlManager)."""
    topic = h.create("t", (2, 1), *[(1, 2)] * 19)
    h.create("u", (1, 2))
    h.heartbeat(2, want_fence=True)
    h.heartbeat(2)
    alter(h, topic, (1, 2))
    elected = h.controller.active.managers.replication.balance_leaders()
    assert [(r.topic_id, r.partition, r.leader) for r in elected] == [(topic, 0, 2)]


def test_the_unclean_scan_serves_leaderless_partitions(h: Harness) -> None:
    topic = h.create("t", (1, 2))
    h.heartbeat(2, want_fence=True)
    h.heartbeat(1, want_fence=True)
    h.heartbeat(2)
    h.controller.timers.cancel("stale-check")
    h.advance(301 * SECOND)
    untouched = h.partition(topic)
    h.controller.image.configs["t"] = {"unclean.leader.election.enable": "true"}
    h.advance(300 * SECOND)
    assert (untouched, h.partition(topic)) == ((-1, 1, 2, (1,)), (2, 2, 3, (2,)))
