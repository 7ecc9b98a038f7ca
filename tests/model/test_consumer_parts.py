"""The consumer's parts without a consumer: poll(), heartbeats and commits, and what they cause."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.consumer.group.commits import OffsetCommits
from kafkasim.model.client.consumer.group.heartbeat import Heartbeat
from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
from kafkasim.model.client.consumer.group.membership import Membership, MemberState
from kafkasim.model.client.consumer.poll import Poll
from kafkasim.model.client.consumer.subscription import SubscriptionState
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.effects import Process, Reply, Send
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import MemoryFiles

T0 = TopicPartition("t", 0)
RULES = ClientRules()
CONFIG = ConsumerConfig(group_id="g", enable_auto_commit=False)


class Member:
    """A MemberEvents that writes down what happened: a membership of any protocol could be it."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def request_rejoin(self, reason: str) -> None:
        self.log.append("rejoin")

    def reset_generation(self, reason: str, keep_member_id: bool = False) -> None:
        self.log.append(("reset", keep_member_id))

    def on_fenced(self, now: int) -> None:
        self.log.append("fenced")

    def on_poll_timeout(self, now: int) -> None:
        self.log.append("poll timeout")


class Parts:
    """Lookup, heartbeat and commits of a stable member of generation 3."""

    def __init__(self) -> None:
        self.process = Process("client-1", MemoryFiles(), random.Random(1), 0)
        connections = Connections(self.process, "c", CONFIG, ("broker-0",), "fetch", RULES)
        metadata = Metadata(connections, RULES, auto_create=False)
        self.log: list[Any] = []
        self.poll = Poll(self.process, "c", lambda now: self.log.append(("pass", now)))
        self.membership = Membership()
        self.membership.state = MemberState.STABLE
        self.membership.generation_id = 3
        self.membership.member_id = "m"
        self.lookup = CoordinatorLookup(connections, "g", self.poll, metadata)
        member = Member(self.log)
        self.heartbeat = Heartbeat(CONFIG, self.lookup, self.membership, member, self.poll)
        subscription = SubscriptionState()
        subscription.auto_assigned = True
        self.commits = OffsetCommits(
            CONFIG,
            RULES,
            self.lookup,
            self.membership,
            member,
            subscription,
            metadata,
            self.poll,
        )
        self.now = 0
        self.lookup.find(0)
        self.answer(FindCoordinatorRequest, FindCoordinatorResponse(NONE, 0, "broker-0"))

    def answer(self, kind: type, response: Any) -> None:
        """Open what is connecting, and answer the last request of a type."""
        for channel in list(self.process.channels.values()):
            if not channel.open:  # type: ignore[attr-defined]
                channel.on_opened(self.now)
        sent = [e for e in self.process.out if type(e) is Send and type(e.message) is kind]
        self.process.channels[sent[-1].connection].on_response(
            sent[-1].correlation, response, self.now
        )

    def run(self, until: int) -> None:
        while (due := self.process.timers.pop_due(until)) is not None:
            self.now = max(self.now, until)
            self.process.timers.fire(due[0], due[1], self.now)

    def commit(self, error: Errors) -> None:
        """Commit in the current generation, and have the coordinator answer ``error``."""
        self.commits.commit({T0: (5, 0)}, "async", 0, self.now, lambda e, _: self.log.append(e))
        self.answer(OffsetCommitRequest, OffsetCommitResponse(((T0, error),)))


def test_a_coordinator_that_is_found_and_lost_is_told_in_order() -> None:
    parts = Parts()
    channel = parts.lookup.channel
    assert channel is not None
    parts.lookup.lost.append(lambda _now: parts.log.append("lost"))
    channel.send("x", 0, lambda answer, _: parts.log.append(answer))
    parts.lookup.mark_unknown(0)
    assert parts.log == ["lost", Failed("closed")]
    assert parts.lookup.channel is None


def test_a_heartbeat_tells_the_member_that_the_group_rebalances() -> None:
    parts = Parts()
    parts.heartbeat.enable(0)
    parts.run(3_000_000)
    parts.answer(HeartbeatRequest, HeartbeatResponse(Errors.REBALANCE_IN_PROGRESS))
    assert parts.log == ["rejoin"]


def test_a_heartbeat_of_an_older_generation_means_nothing() -> None:
    parts = Parts()
    parts.heartbeat.enable(0)
    parts.run(3_000_000)
    parts.membership.generation_id = 4
    parts.answer(HeartbeatRequest, HeartbeatResponse(Errors.UNKNOWN_MEMBER_ID))
    assert parts.log == []


def test_heartbeats_end_when_the_application_does_not_poll() -> None:
    parts = Parts()
    parts.heartbeat.enable(0)
    parts.heartbeat.on_poll(-CONFIG.max_poll_interval_ms * 1000)
    parts.run(3_000_000)
    assert parts.log == ["poll timeout"]


def test_a_refused_commit_tells_the_member_and_then_the_caller() -> None:
    told = {}
    for error in (
        Errors.REBALANCE_IN_PROGRESS,
        Errors.ILLEGAL_GENERATION,
        Errors.UNKNOWN_MEMBER_ID,
        Errors.FENCED_INSTANCE_ID,
    ):
        parts = Parts()
        parts.commit(error)
        told[error] = parts.log
    assert told == {
        Errors.REBALANCE_IN_PROGRESS: ["rejoin", Errors.REBALANCE_IN_PROGRESS],
        Errors.ILLEGAL_GENERATION: [("reset", True), Errors.ILLEGAL_GENERATION],
        Errors.UNKNOWN_MEMBER_ID: [("reset", False), Errors.UNKNOWN_MEMBER_ID],
        Errors.FENCED_INSTANCE_ID: ["fenced", Errors.FENCED_INSTANCE_ID],
    }


def test_no_commit_is_sent_while_the_member_is_not_stable() -> None:
    errors = {}
    for state in (MemberState.PREPARING_REBALANCE, MemberState.UNJOINED):
        parts = Parts()
        parts.membership.state = state
        sent = len(parts.process.out)
        parts.commits.commit({T0: (5, 0)}, "async", 0, 0, lambda e, _, p=parts: p.log.append(e))
        assert [e for e in parts.process.out[sent:] if type(e) is Send] == []
        errors[state] = parts.log
    assert errors == {
        MemberState.PREPARING_REBALANCE: [Errors.REBALANCE_IN_PROGRESS],
        MemberState.UNJOINED: [Errors.UNKNOWN_MEMBER_ID],
    }


def test_a_member_without_generation_or_id_has_lost_its_partitions() -> None:
    membership = Parts().membership
    assert not membership.lost
    membership.reset(keep_member_id=True)
    assert (membership.lost, membership.member_id, membership.state) == (
        True,
        "m",
        MemberState.UNJOINED,
    )


def test_a_poll_takes_one_pass_for_what_it_sets_off_itself() -> None:
    process = Process("client-1", MemoryFiles(), random.Random(1), 0)
    log: list[int] = []

    def advance(now: int) -> None:
        log.append(now)
        if len(log) == 1:
            poll.wake(now)
            poll.wake(now)

    poll = Poll(process, "c", advance)
    poll.wake(1)  # nobody polls
    poll.begin(7, 100, 5)
    assert log == [5, 5]


def test_a_poll_ends_without_records_when_a_position_has_advanced() -> None:
    process = Process("client-1", MemoryFiles(), random.Random(1), 0)
    poll = Poll(process, "c", lambda now: poll.end_or_wait({}, now >= 9, now))
    poll.begin(7, 100, 5)
    assert process.out == []
    poll.wake(9)
    assert process.out == [Reply(7, ("records", {}), None)]


def test_an_error_waits_for_the_next_poll() -> None:
    process = Process("client-1", MemoryFiles(), random.Random(1), 0)
    poll = Poll(process, "c", lambda now: poll.end_or_wait({}, False, now))
    error = KafkaError("X")
    poll.fail(error)
    poll.wake(1)
    assert process.out == []
    poll.begin(7, 100, 5)
    assert process.out == [Reply(7, None, error)]
    poll.begin(8, 0, 6)
    assert process.out[1:] == [Reply(8, ("records", {}), None)]


def test_what_an_event_left_to_do_runs_when_the_application_goes_on() -> None:
    process = Process("client-1", MemoryFiles(), random.Random(1), 0)
    log: list[Any] = []
    poll = Poll(process, "c", lambda now: log.append(("pass", now)))
    poll.begin(7, 100, 5)
    poll.end_with_event("revoked", (T0,), lambda now: log.append(("then", now)))
    assert process.out == [Reply(7, ("revoked", (T0,)), None)]
    poll.go_on(8, 9)
    assert log == [("pass", 5), ("then", 9), ("pass", 9)]
    assert poll.outstanding


def test_position_inside_a_rebalance_listener_leaves_the_poll_its_deadline() -> None:
    process = Process("client-1", MemoryFiles(), random.Random(1), 0)
    poll = Poll(process, "c", lambda now: poll.end_or_wait({}, False, now))
    poll.begin(7, 100, 5)
    poll.end_with_event("assigned", (T0,), lambda _now: None)
    poll.wait_for(8, lambda now: 42 if now >= 50 else None, 60_000, "position", 10)
    poll.wake(50)
    poll.go_on(9, 60)
    poll.wake(100_005)
    assert process.out[1:] == [Reply(8, 42, None), Reply(9, ("records", {}), None)]
