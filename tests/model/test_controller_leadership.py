"""Losing and winning the leadership of the quorum: parked, reverted and kept state."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import NoOpRecord
from kafkasim.model.controller.kraft.ports import Listeners
from kafkasim.model.effects import Exit, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ControllerActive, MetadataCommitted
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreatableTopic,
    CreateTopicsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    VoteRequest,
)
from tests.model.controller_harness import SECOND, Harness

REFUSED = Errors.NOT_CONTROLLER


def test_lost_leadership_reverts_to_the_committed_image_and_fails_what_is_parked() -> None:
    h = Harness().activate().up(1)
    committed = h.controller.image.contents()
    sent = h.send(BrokerRegistrationRequest(2, "x", "broker-2", None))
    h.raft.lead(3)
    h.drain()
    assert h.answers[sent] == BrokerRegistrationResponse(Errors.NOT_CONTROLLER, -1)
    assert h.controller.image.contents() == committed
    assert [f.active for f in h.facts_of(ControllerActive)] == [False]


def test_a_commit_before_the_loss_is_still_answered() -> None:
    h = Harness().activate()
    sent = h.send(BrokerRegistrationRequest(2, "x", "broker-2", None))
    h.raft.commit()
    h.raft.lead(3)
    h.drain()
    assert h.answers[sent].error == Errors.NONE


def test_a_write_after_the_quorum_moved_on_is_refused_without_a_trace() -> None:
    h = Harness().activate()
    before = h.controller.image.contents()
    h.raft.epoch += 1  # raft knows, the controller lane has not heard
    sent = h.send(BrokerRegistrationRequest(2, "x", "broker-2", None))
    assert h.answers[sent].error == Errors.NOT_CONTROLLER
    assert h.controller.image.contents() == before


def test_a_read_of_uncommitted_state_waits_for_it() -> None:
    h = Harness().activate()
    h.send(BrokerRegistrationRequest(1, "x", "broker-1", None))
    epoch = h.controller.image.brokers[1].epoch
    read = h.send(BrokerHeartbeatRequest(1, epoch, 0, True, False))
    assert read not in h.answers
    h.commit()
    assert h.answers[read].is_fenced


def test_leading_again_in_a_later_epoch_starts_over() -> None:
    h = Harness().activate().up(1)
    h.raft.lead(3)
    h.raft.lead(1)
    h.drain()
    assert not h.controller.active
    h.commit()
    assert [(f.epoch, f.active) for f in h.facts_of(ControllerActive)] == [(1, False), (3, True)]


def test_heartbeat_times_restart_with_the_activation() -> None:
    h = Harness().activate().up(1)
    h.advance(8 * SECOND)
    h.raft.lead(3, h.now)
    h.raft.lead(1, h.now)
    h.commit()
    h.advance(8 * SECOND)
    unfenced = not h.controller.image.brokers[1].fenced
    h.advance(2 * SECOND)
    assert (unfenced, h.controller.image.brokers[1].fenced) == (True, True)


def test_followers_replay_to_the_same_image_and_digest() -> None:
    leader = Harness().activate().up(1, 2)
    leader.create("t", (1, 2))
    follower = Harness(node_id=2)
    for batch in leader.raft.log:
        follower.controller.on_commit((batch,), batch.next_offset, 0)
    follower.drain()
    last = leader.facts_of(MetadataCommitted)[-1]
    assert follower.facts_of(MetadataCommitted)[-1] == last
    assert [f for f in follower.facts if type(f) is not MetadataCommitted] == []
    assert follower.controller.image.contents() == leader.controller.image.contents()


def test_the_image_ahead_equals_a_replay_of_the_log() -> None:
    h = Harness().activate().up(1, 2, 3)
    h.create("t", (1, 2, 3), (2, 3, 1))
    h.heartbeat(1, want_shut_down=True)
    replayed = MetadataImage()
    for batch in h.raft.log:
        for index, record in enumerate(() if batch.control else batch.records):
            replayed.apply(record.value, batch.base_offset + index, batch.leader_epoch)
    assert replayed.contents() == h.controller.image.contents()
    assert replayed.contents() == h.controller.committed.image.contents()


def test_an_idle_log_gets_a_no_op_every_500_ms() -> None:
    h = Harness().activate()
    start = len(h.raft.log)
    h.advance(2 * SECOND)
    assert [b.records[0].value for b in h.raft.log[start:]] == [NoOpRecord()] * 4


def test_raft_requests_go_to_raft() -> None:
    h = Harness()
    h.controller.handle(Request(1, 1, VoteRequest(1, 2, 0, 0), 0), 0)
    assert h.raft.calls == ["VoteRequest"]
    assert h.controller.request_lanes[VoteRequest] == "raft"


def test_a_clean_stop_hands_over_first() -> None:
    h = Harness()
    h.controller.start(0)
    h.controller.shutdown(0)
    assert (h.raft.calls, h.controller.out) == (["start", "shutdown"], [Exit("shutdown", True)])


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (AlterPartitionRequest(1, 1, ()), AlterPartitionResponse(REFUSED, ())),
        (AllocateProducerIdsRequest(1, 1), AllocateProducerIdsResponse(REFUSED, -1, 0)),
        (ElectLeadersRequest(0, None), ElectLeadersResponse(REFUSED, ())),
        (
            BrokerHeartbeatRequest(1, 1, 1, False, False),
            BrokerHeartbeatResponse(REFUSED, False, True, False),
        ),
    ],
)
def test_an_inactive_controller_refuses_in_the_messages_own_field(
    request_: Any, answer: Any
) -> None:
    h = Harness()
    assert h.answers[h.send(request_)] == answer


def test_an_inactive_controller_refuses_every_topic() -> None:
    h = Harness()
    sent = h.send(CreateTopicsRequest((CreatableTopic("a", 1, 1), CreatableTopic("b", 1, 1)), 0))
    assert [each[:2] for each in h.answers[sent].results] == [("a", REFUSED), ("b", REFUSED)]


def test_periodic_events_stop_with_the_leadership_raft_lost() -> None:
    h = Harness().activate().up(1)
    before = h.controller.image.contents()
    h.raft.epoch += 1
    h.advance(301 * SECOND)
    assert h.controller.image.contents() == before
    refused = h.send(BrokerHeartbeatRequest(1, h.controller.image.brokers[1].epoch, 1, True, False))
    assert h.answers[refused].error == REFUSED


def test_other_listeners_are_told_after_the_controller_in_the_order_they_joined() -> None:
    told: list[tuple[str, int]] = []

    class Other:
        def __init__(self, name: str) -> None:
            self.name = name

        def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
            told.append((self.name, leader_id))

        def on_commit(self, batches: object, high_watermark: int, now: int) -> None:
            told.append((self.name, high_watermark))

        def on_snapshot(self, end_offset: int, epoch: int, values: object, now: int) -> None:
            told.append((self.name, end_offset))

    listeners = Listeners(Other("controller"))
    listeners.add(Other("broker"))
    listeners.on_leader_change(2, 1, 0)
    listeners.on_commit((), 7, 0)
    listeners.on_snapshot(9, 1, [], 0)
    assert told == [(name, value) for value in (2, 7, 9) for name in ("controller", "broker")]
