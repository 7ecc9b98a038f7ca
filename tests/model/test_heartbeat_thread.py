"""When a member's heartbeats go out, and when it leaves: HeartbeatThread against a broker."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
)
from tests.model.test_consumer_group import polled, start
from tests.model.test_consumer_parts import Parts
from tests.model.test_consumer_retries import script

FAST = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 1000, "max_poll_interval_ms": 4000}
UNAVAILABLE = FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE, -1, "")


def test_a_poll_longer_than_max_poll_interval_stays_in_the_group() -> None:
    """ClassicKafkaConsumer.poll: each turn of its loop calls pollHeartbeat."""
    h, group = start(**FAST)
    polled(h, 100)
    assert h.result("poll", 30_000) == ("records", {})
    assert (h.cluster.requests(LeaveGroupRequest), group.generation) == ([], 1)
    h.run(5000)  # nobody polls
    assert len(h.cluster.requests(LeaveGroupRequest)) == 1


def test_a_late_join_answer_makes_no_member_leave() -> None:
    """HeartbeatThread.enable: Heartbeat.resetTimeouts also begins the poll interval afresh."""
    h, group = start(**FAST)
    script(h, JoinGroupRequest, lambda m: group.join("", m), lambda _m: None)
    h.call("poll", 60_000)
    h.run(20_000)
    connection, correlation, message = h.withheld[-1]
    h.respond(connection, correlation, group.join("", message))
    h.run(3000)
    assert (h.cluster.requests(LeaveGroupRequest), group.generation) == ([], 1)


def test_the_poll_interval_begins_when_the_thread_is_enabled() -> None:
    parts = Parts()
    parts.heartbeat.on_poll(-(1 << 50))
    parts.heartbeat.enable(0)
    parts.run(3_000_000)
    assert parts.log == []


def test_a_heartbeat_goes_out_each_interval_though_none_is_answered() -> None:
    """HeartbeatThread.run: Heartbeat.shouldHeartbeat does not ask for those in flight."""
    h, _ = start(**FAST)
    h.cluster.handlers[HeartbeatRequest] = lambda _n, _m: None
    polled(h, 100)
    h.call("poll", 60_000)
    h.run(5500)
    assert len(h.cluster.requests(HeartbeatRequest)) == 5
    h.run(1000)  # the session is over: the coordinator is looked up again
    assert len(h.cluster.requests(FindCoordinatorRequest)) > 1


def test_nobody_leaves_while_the_coordinator_is_unknown() -> None:
    """HeartbeatThread.run: an unknown coordinator comes before both timeouts."""
    h, _ = start(**FAST)
    polled(h, 100)
    h.cluster.handlers[FindCoordinatorRequest] = lambda _n, _m: UNAVAILABLE
    h.cluster.down["broker-0"] = None
    h.reset("broker-0")
    h.run(10_000)
    asked = len(h.cluster.requests(FindCoordinatorRequest))
    assert asked > 10
    del h.cluster.down["broker-0"]
    h.cluster.handlers[FindCoordinatorRequest] = lambda _n, _m: FindCoordinatorResponse(
        Errors.NONE, 0, "broker-0"
    )
    assert h.cluster.requests(LeaveGroupRequest) == []
    h.run(2000)
    assert len(h.cluster.requests(LeaveGroupRequest)) == 1
