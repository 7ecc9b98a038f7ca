"""Registration, heartbeats, fencing and controlled shutdown (KAFKA.md, 1.8 and 2.3)."""

from __future__ import annotations

from types import SimpleNamespace

from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerRegistration, ControllerActive, PartitionChanged
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from kafkasim.scenarios.variants.releases import Controller39
from tests.model.controller_harness import SECOND, Harness

NONE = Errors.NONE


def registration(broker_id: int, incarnation: str) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(broker_id, incarnation, f"broker-{broker_id}", None)


def test_an_inactive_controller_answers_not_controller() -> None:
    h = Harness()
    h.send(registration(1, "x"))
    assert h.answers == {1: BrokerRegistrationResponse(Errors.NOT_CONTROLLER, -1)}


def test_a_new_leader_is_active_once_its_own_epoch_is_committed() -> None:
    h = Harness()
    h.raft.lead(1)
    h.drain()
    assert not h.controller.active
    h.commit()
    assert h.controller.active
    assert [f for f in h.facts if type(f) is ControllerActive] == [ControllerActive(1, True)]


def test_the_broker_epoch_is_the_offset_of_the_registration_record() -> None:
    h = Harness().activate()
    epoch = h.register(5)
    assert h.facts_of(BrokerRegistration) == [
        BrokerRegistration(epoch, 5, epoch, "registered", True, False, None)
    ]
    assert h.raft.log[-1].base_offset == epoch


def test_the_answer_waits_for_the_high_watermark() -> None:
    h = Harness().activate()
    sent = h.send(registration(1, "x"))
    assert sent not in h.answers
    h.commit()
    assert h.answers[sent].error == NONE


def test_a_second_incarnation_is_refused_while_the_session_is_valid() -> None:
    h = Harness().activate().up(1)
    refused = h.ask(registration(1, "other"))
    h.now += 9 * SECOND
    accepted = h.ask(registration(1, "other"))
    assert (refused.error, accepted.error) == (Errors.DUPLICATE_BROKER_REGISTRATION, NONE)


def test_after_a_controlled_shutdown_the_session_stays_valid_until_its_end() -> None:
    """ClusterControlManager.registerBroker asks BrokerHeartbeatTracker.hasValidSession, which does
    not ask whether the broker is fenced; maybeFenceStaleBroker fences it once more."""
    h = Harness().activate().up(1, 2)
    assert h.heartbeat(2, want_shut_down=True).should_shut_down
    refused = h.ask(registration(2, "2-b"))
    h.heartbeat(1)
    h.advance(9 * SECOND - 1)
    still = h.ask(registration(2, "2-b"))
    h.heartbeat(1)
    h.advance(2 * SECOND)
    changes = [(f.broker, f.change) for f in h.facts_of(BrokerRegistration)]
    accepted = h.ask(registration(2, "2-b"))
    assert [refused.error, still.error, accepted.error] == [
        Errors.DUPLICATE_BROKER_REGISTRATION,
        Errors.DUPLICATE_BROKER_REGISTRATION,
        NONE,
    ]
    assert changes[-2:] == [(2, "fenced"), (2, "fenced")]


def test_a_broker_that_came_back_is_not_fenced_for_its_old_session() -> None:
    """maybeFenceStaleBroker drops a session whose broker epoch is a previous incarnation's."""
    h = Harness(broker_session_timeout_ms="800").activate().up(1)
    h.heartbeat(1, want_shut_down=True)
    h.now += 800_000
    assert h.ask(registration(1, "1-b")).error == NONE
    h.facts.clear()
    h.advance(2 * SECOND)
    assert h.facts_of(BrokerRegistration) == []


def test_a_new_active_controller_begins_a_session_for_every_registered_broker() -> None:
    """ClusterControlManager.activate does not ask whether a broker is fenced either."""
    h = Harness().activate().up(1)
    h.heartbeat(1, want_shut_down=True)
    h.advance(20 * SECOND)
    h.raft.lead(2, h.now)
    h.drain()
    h.activate()
    refused = h.ask(registration(1, "1-b"))
    h.now += 9 * SECOND
    assert [refused.error, h.ask(registration(1, "1-b")).error] == [
        Errors.DUPLICATE_BROKER_REGISTRATION,
        NONE,
    ]


def test_a_registration_alone_begins_no_session() -> None:
    h = Harness().activate()
    h.register(1, "a")
    assert h.ask(registration(1, "b")).error == NONE


def test_sessions_are_checked_eight_times_a_session() -> None:
    """QuorumController.maybeFenceStaleBrokerPeriodNs: a fence comes up to 9/8 sessions late."""
    h = Harness(broker_session_timeout_ms="8000").activate()
    h.advance(SECOND // 2)
    h.up(1)
    h.facts.clear()
    start = h.now
    while not h.facts_of(BrokerRegistration):
        h.advance(SECOND // 10)
    assert (start, h.now) == (SECOND // 2, 9 * SECOND)


def test_before_4_0_the_fence_ends_the_session() -> None:
    h = Harness(Controller39()).activate().up(1, 2)
    h.heartbeat(2, want_shut_down=True)
    accepted = h.ask(registration(2, "2-b"))
    h.heartbeat(2)
    h.heartbeat(1)
    h.facts.clear()
    h.advance(9 * SECOND)
    assert accepted.error == NONE
    assert [(f.broker, f.change) for f in h.facts_of(BrokerRegistration)] == [
        (1, "fenced"),
        (2, "fenced"),
    ]


def test_the_same_incarnation_keeps_its_epoch() -> None:  # KAFKA-16952
    h = Harness().activate()
    epoch = h.register(1)
    h.heartbeat(1)
    assert h.register(1) == epoch
    assert not h.controller.image.brokers[1].fenced


def test_a_new_incarnation_first_leaves_isr_and_leadership() -> None:  # B84
    h = Harness().activate().up(1, 2)
    topic = h.create("t", (1, 2))
    h.now += 9 * SECOND
    epoch = h.ask(registration(1, "new")).broker_epoch
    assert h.partition(topic) == (2, 1, 1, (2,))
    # No fence record: the registration record replaces the broker (handleBrokerShutdown).
    assert [(f.change, f.broker_epoch) for f in h.facts_of(BrokerRegistration)][-2:] == [
        ("unfenced", h.facts_of(BrokerRegistration)[2].broker_epoch),
        ("registered", epoch),
    ]


def test_a_broker_that_was_unregistered_restarts_uncleanly() -> None:
    request = registration(1, "new")
    assert ControllerRules().is_unclean_restart(None, request)
    known = SimpleNamespace(epoch=request.previous_broker_epoch)
    assert not ControllerRules().is_unclean_restart(known, request)


def test_b84_variant_keeps_leadership_over_a_registration() -> None:
    class Keeps(ControllerRules):
        def fences_previous_incarnation(self, previous: object) -> bool:
            return False

    h = Harness(Keeps()).activate().up(1, 2)
    topic = h.create("t", (1, 2))
    h.now += 9 * SECOND
    h.ask(registration(1, "new"))
    assert h.partition(topic) == (1, 0, 0, (1, 2))


def test_a_broker_is_unfenced_once_it_has_replayed_its_registration() -> None:  # B44
    h = Harness().activate()
    epoch = h.register(1)
    behind = h.heartbeat(1, offset=epoch - 1)
    unwilling = h.heartbeat(1, want_fence=True)
    ready = h.heartbeat(1, offset=epoch)
    assert [behind, unwilling, ready] == [
        BrokerHeartbeatResponse(NONE, False, True, False),
        BrokerHeartbeatResponse(NONE, True, True, False),
        BrokerHeartbeatResponse(NONE, True, False, False),
    ]


def test_an_amended_registration_is_replayed_before_the_broker_is_unfenced() -> None:
    """It keeps its broker epoch; ClusterControlManager.registerBrokerRecordOffset does not."""
    h = Harness().activate()
    epoch = h.register(1)
    seen = h.controller.image.offset
    assert h.register(1) == epoch
    behind = h.heartbeat(1, offset=seen)
    ready = h.heartbeat(1, offset=seen + 1)
    assert [behind, ready] == [
        BrokerHeartbeatResponse(NONE, False, True, False),
        BrokerHeartbeatResponse(NONE, True, False, False),
    ]


def test_a_heartbeat_of_another_epoch_is_stale() -> None:
    h = Harness().activate().up(1)
    unknown = h.ask(BrokerHeartbeatRequest(9, 1, 0, False, False))
    older = h.ask(BrokerHeartbeatRequest(1, 0, 0, False, False))
    assert (unknown.error, older.error) == (Errors.STALE_BROKER_EPOCH, Errors.STALE_BROKER_EPOCH)


def test_a_silent_broker_is_fenced_after_its_session() -> None:
    h = Harness().activate().up(1, 2)
    topic = h.create("t", (1, 2))
    for _ in range(5):
        h.advance(2 * SECOND)
        h.heartbeat(2)
    assert h.partition(topic) == (2, 1, 1, (2,))
    assert h.facts_of(PartitionChanged)[-1].reason == "fenced"
    assert [b.fenced for b in h.controller.image.brokers.values()] == [True, False]


def test_one_check_fences_one_broker() -> None:
    h = Harness().activate().up(1, 2, 3)
    h.now += 20 * SECOND  # as after a pause of the controller
    fenced = []
    for _ in range(4):
        h.now += SECOND // 100  # the check that found a stale broker is repeated after 10 ms
        due = h.controller.timers.pop_due(h.now)
        while due is not None and due[0] != "stale-check":
            due = h.controller.timers.pop_due(h.now)
        if due is not None:
            h.controller.timers.fire(due[0], due[1], h.now)
            h.commit()
        fenced.append(sum(b.fenced for b in h.controller.image.brokers.values()))
    assert fenced == [1, 2, 3, 3]


def test_the_last_isr_member_stays_without_leader_and_is_elected_on_its_return() -> None:
    h = Harness().activate().up(1, 2)
    topic = h.create("t", (1, 2))
    h.heartbeat(2, want_fence=True)
    h.heartbeat(1, want_fence=True)
    offline = h.partition(topic)
    h.heartbeat(2)
    still = h.partition(topic)
    h.heartbeat(1)
    assert [offline, still, h.partition(topic)] == [
        (-1, 1, 2, (1,)),
        (-1, 1, 2, (1,)),
        (1, 2, 3, (1,)),
    ]
    assert h.facts_of(PartitionChanged)[-1].reason == "unfenced"


def test_a_pure_follower_shuts_down_at_once() -> None:
    h = Harness().activate().up(1, 2)
    topic = h.create("t", (1, 2))
    answer = h.heartbeat(2, want_shut_down=True)
    assert answer == BrokerHeartbeatResponse(NONE, True, True, True)
    assert h.partition(topic) == (1, 0, 1, (1,))


def test_a_leader_shuts_down_when_all_active_brokers_have_the_change() -> None:
    h = Harness().activate().up(1, 2, 3)
    topic = h.create("t", (1, 2, 3))
    before = h.controller.image.offset
    first = h.heartbeat(1, want_shut_down=True)
    moved = h.controller.image.offset
    assert h.partition(topic) == (2, 1, 1, (2, 3))
    h.heartbeat(2, offset=moved)
    h.heartbeat(3, offset=before)
    waiting = h.heartbeat(1, want_shut_down=True)
    h.heartbeat(3, offset=moved)
    done = h.heartbeat(1, want_shut_down=True)
    assert [(a.is_fenced, a.should_shut_down) for a in (first, waiting, done)] == [
        (False, False),
        (False, False),
        (True, True),
    ]
    assert [f.change for f in h.facts_of(BrokerRegistration)][-2:] == ["shutting-down", "fenced"]


def test_a_broker_that_was_just_unfenced_delays_a_shutdown_until_its_next_heartbeat() -> None:
    """The replay of its record forgets its offset (BrokerHeartbeatManager.register)."""
    h = Harness().activate().up(1, 2)
    h.create("t", (1, 2))
    h.heartbeat(1, want_shut_down=True)
    h.register(3)
    h.heartbeat(2)
    h.heartbeat(3)  # unfences it, at an offset behind the change
    waiting = h.heartbeat(1, want_shut_down=True)
    h.heartbeat(3)
    done = h.heartbeat(1, want_shut_down=True)
    assert (waiting.should_shut_down, done.should_shut_down) == (False, True)


def test_a_shutdown_that_another_controller_began_delays_one_until_its_next_heartbeat() -> None:
    """A new controller has it among the active brokers (ClusterControlManager.activate)."""
    h = Harness().activate().up(1, 2, 3)
    h.create("t", (1, 3))
    h.create("u", (2, 3))
    h.heartbeat(1, want_shut_down=True)
    h.raft.lead(2, h.now)
    h.drain()
    h.activate()
    h.heartbeat(2, want_shut_down=True)
    h.heartbeat(3)
    waiting = h.heartbeat(2, want_shut_down=True)
    leaderless = h.heartbeat(1, want_shut_down=True)
    done = h.heartbeat(2, want_shut_down=True)
    answers = [waiting.should_shut_down, leaderless.should_shut_down, done.should_shut_down]
    assert answers == [False, True, True]


def test_producer_ids_come_in_blocks_of_a_thousand() -> None:
    h = Harness().activate()
    epoch = h.register(1)
    answers = [h.ask(AllocateProducerIdsRequest(1, epoch)) for _ in range(2)]
    stale = h.ask(AllocateProducerIdsRequest(1, epoch + 1))
    assert [*answers, stale.error] == [
        AllocateProducerIdsResponse(NONE, 0, 1000),
        AllocateProducerIdsResponse(NONE, 1000, 1000),
        Errors.STALE_BROKER_EPOCH,
    ]
