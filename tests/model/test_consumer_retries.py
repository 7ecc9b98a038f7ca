"""Consumer: what is asked again after an error, with which backoff, and what poll() reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkasim.model.client.exceptions import (
    KafkaError,
    KafkaTimeoutError,
    LogTruncationError,
    NoOffsetForPartitionError,
)
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import CommitResult, ConsumerRevoked, Positioned
from kafkasim.model.messages import (
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.model.client_harness import Harness
from tests.model.test_consumer_group import T0, Group, polled, start


def script(h: Harness, kind: type, *answers: Callable[[Any], Any]) -> None:
    """Answer the next requests of a type by ``answers``, and those after them as before."""
    usual, left = h.cluster.handlers[kind], list(answers)
    h.cluster.handlers[kind] = lambda node, m: left.pop(0)(m) if left else usual(node, m)


def moved(_message: Any) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(Errors.COORDINATOR_NOT_AVAILABLE, -1, "")


def new_leader(h: Harness, group: Group) -> None:
    """Elect broker 1 in epoch 1, and let the client hear of it."""
    h.cluster.leaders[T0] = (1, 1)
    group.epoch = 1
    h.process.clients["c"].metadata.request_update(h.now)  # type: ignore[union-attr]
    h.run(300)


# The coordinator.


def test_a_coordinator_in_its_reconnect_backoff_is_looked_up_after_the_retry_backoff() -> None:
    """AbstractCoordinator.ensureCoordinatorReady sleeps retryBackoff while it is unavailable."""
    h, _ = start(retry_backoff_ms=100, reconnect_backoff_ms=2000, reconnect_backoff_max_ms=2000)
    polled(h, 100)
    script(h, HeartbeatRequest, lambda _m: HeartbeatResponse(Errors.NOT_COORDINATOR))
    h.call("poll", 60_000)
    h.run(3500)
    asked = len(h.cluster.requests(FindCoordinatorRequest))
    assert 2 <= asked < 12
    h.run(3000)
    assert len(h.cluster.requests(HeartbeatRequest)) > 1


def test_a_coordinator_that_is_not_available_is_looked_up_again() -> None:
    h, _ = start(records=1)
    script(h, FindCoordinatorRequest, moved, moved)
    assert [r[0] for r in polled(h, 5000)[1][T0]] == [0]
    assert len(h.cluster.requests(FindCoordinatorRequest)) == 3


def test_a_lookup_that_is_refused_for_good_fails_the_poll() -> None:
    h, _ = start()
    refused = FindCoordinatorResponse(Errors.INVALID_GROUP_ID, -1, "")
    script(h, FindCoordinatorRequest, lambda _m: refused)
    assert str(polled(h)) == "INVALID_GROUP_ID: g"


def test_a_lookup_waits_while_no_broker_can_be_reached() -> None:
    h, _ = start(records=1)
    h.cluster.down = dict.fromkeys(h.cluster.brokers)
    assert polled(h, 500) == ("records", {})
    h.cluster.down = {}
    assert [r[0] for r in polled(h, 10_000)[1][T0]] == [0]


# Joining.


@pytest.mark.parametrize(
    ("error", "joins"),
    [
        (Errors.REBALANCE_IN_PROGRESS, ["", "m-1", "m-1"]),
        (Errors.COORDINATOR_LOAD_IN_PROGRESS, ["", "m-1", "m-1"]),
        (Errors.NOT_COORDINATOR, ["", "m-1", "m-1"]),
        (Errors.ILLEGAL_GENERATION, ["", "m-1", "m-1"]),
        (Errors.UNKNOWN_MEMBER_ID, ["", "m-1", "", "m-1"]),
    ],
)
def test_a_join_that_is_refused_is_tried_again(error: Errors, joins: list[str]) -> None:
    h, group = start(records=1)
    group.join_errors = [error]
    assert [r[0] for r in polled(h, 5000)[1][T0]] == [0]
    assert [m.member_id for m in h.cluster.requests(JoinGroupRequest)] == joins


def test_a_join_that_is_refused_for_good_fails_the_poll_and_the_next_one_joins() -> None:
    h, group = start(records=1)
    group.join_errors = [Errors.INCONSISTENT_GROUP_PROTOCOL]
    assert str(polled(h)) == "INCONSISTENT_GROUP_PROTOCOL: group g"
    assert [r[0] for r in polled(h)[1][T0]] == [0]


def test_a_join_without_response_finds_the_coordinator_again() -> None:
    h, _ = start(records=1)
    script(h, JoinGroupRequest, lambda _m: h.reset("broker-0"))
    assert [r[0] for r in polled(h, 5000)[1][T0]] == [0]
    assert (
        len(h.cluster.requests(FindCoordinatorRequest)) == 3
    )  # found in its reconnect backoff once


def test_a_sync_that_is_refused_joins_again() -> None:
    h, group = start(records=1)
    refused = SyncGroupResponse(Errors.REBALANCE_IN_PROGRESS, None, None, ())
    script(h, SyncGroupRequest, lambda _m: refused)
    assert [r[0] for r in polled(h, 5000)[1][T0]] == [0]
    assert group.generation == 2


def join_between_polls(h: Harness) -> None:
    """Poll until the consumer has sent a JoinGroup, and let its response arrive between polls."""
    h.call("poll", 0)
    h.run(2)
    while not h.cluster.requests(JoinGroupRequest):
        h.result("poll", 1)
    h.run(100)


def test_a_join_response_waits_for_the_next_poll() -> None:
    h, group = start(records=1)
    join_between_polls(h)
    assert (group.generation, h.cluster.requests(SyncGroupRequest)) == (0, [])
    assert [r[0] for r in polled(h)[1][T0]] == [0]


def test_a_member_that_leaves_while_it_syncs_joins_again() -> None:
    h, group = start(records=1, max_poll_interval_ms=6000, session_timeout_ms=6000)
    script(h, SyncGroupRequest, lambda _m: None)
    h.result("poll", 100)
    h.run(10_000)
    assert len(h.cluster.requests(LeaveGroupRequest)) == 1
    connection, correlation, _ = h.withheld[-1]
    h.respond(connection, correlation, SyncGroupResponse(NONE, "consumer", "range", (T0,)))
    assert [r[0] for r in polled(h)[1][T0]] == [0]
    assert group.generation == 2


def test_a_member_id_that_arrives_between_two_polls_is_used_by_the_next_one_at_once() -> None:
    """AbstractCoordinator.joinGroupIfNeeded goes on after a MemberIdRequiredException."""
    h, group = start(records=1)
    join_between_polls(h)
    begun = h.now
    assert h.result("poll", 60_000) == ("assigned", (T0,))
    assert h.now - begun < 100_000
    assert group.generation == 1


# Heartbeats.


def test_a_heartbeat_to_the_wrong_broker_finds_the_coordinator_and_keeps_the_generation() -> None:
    h, group = start()
    polled(h, 100)
    script(h, HeartbeatRequest, lambda _m: HeartbeatResponse(Errors.NOT_COORDINATOR))
    h.run(10_000)
    assert len(h.cluster.requests(FindCoordinatorRequest)) == 2
    assert (group.generation, h.of(ConsumerRevoked)) == (1, [])


def test_a_heartbeat_that_is_fenced_fails_the_next_poll() -> None:
    h, _ = start(group_instance_id="i")
    polled(h, 100)
    script(h, HeartbeatRequest, lambda _m: HeartbeatResponse(Errors.FENCED_INSTANCE_ID))
    h.run(4000)
    assert str(h.result("poll", 100)) == "FENCED_INSTANCE_ID: group g"


def test_a_heartbeat_that_fails_otherwise_is_sent_again_after_the_backoff() -> None:
    h, group = start()
    polled(h, 100)
    loading = HeartbeatResponse(Errors.COORDINATOR_LOAD_IN_PROGRESS)
    script(h, HeartbeatRequest, lambda _m: loading, lambda _m: loading)
    h.run(3500)
    assert len(h.cluster.requests(HeartbeatRequest)) == 3
    assert group.generation == 1


def test_a_session_without_answers_gives_the_coordinator_up() -> None:
    h, _ = start(session_timeout_ms=6000)
    polled(h, 100)
    h.cluster.handlers[HeartbeatRequest] = lambda _n, _m: None
    h.run(7000)
    assert len(h.cluster.requests(FindCoordinatorRequest)) > 1


# Commits.


def test_a_commit_waits_for_the_coordinator_to_be_found() -> None:
    h, group = start(records=3, enable_auto_commit=False)
    polled(h)
    script(h, FindCoordinatorRequest, moved)
    h.reset("broker-0")
    h.run(1)
    assert h.result("commit_sync", None) is None
    assert group.committed == {T0: 3}


def test_a_commit_that_finds_no_coordinator_times_out() -> None:
    h, group = start(records=3, enable_auto_commit=False, default_api_timeout_ms=2000)
    polled(h)
    h.cluster.handlers[FindCoordinatorRequest] = lambda _n, m: moved(m)
    h.reset("broker-0")
    h.run(1)
    error = h.result("commit_sync", None)
    assert (type(error), error.error) == (KafkaTimeoutError, "REQUEST_TIMED_OUT")
    assert (group.committed, [c.error for c in h.of(CommitResult)]) == ({}, ["REQUEST_TIMED_OUT"])


def test_a_commit_in_flight_times_out_and_may_succeed_later() -> None:
    """commitSync returns at its timer; the response is handled by a later poll."""
    h, _ = start(records=3, enable_auto_commit=False, default_api_timeout_ms=2000)
    polled(h)
    h.cluster.handlers[OffsetCommitRequest] = lambda _n, _m: None
    call = h.call("commit_sync", None)
    h.run(1999)
    assert call not in h.replies
    h.run(1)
    error = h.replies[call]
    assert (type(error), error.error) == (KafkaTimeoutError, "REQUEST_TIMED_OUT")
    h.run(40_000)  # longer than request.timeout.ms: its request fails, too
    assert [c.error for c in h.of(CommitResult)] == ["REQUEST_TIMED_OUT"]


def test_a_commit_without_offsets_succeeds_without_a_request() -> None:
    h, _ = start(enable_auto_commit=False)
    assert h.result("commit_sync", {}) is None
    assert h.cluster.requests(OffsetCommitRequest) == []


def test_a_commit_while_the_group_rebalances_rejoins_and_fails() -> None:
    h, group = start(records=3, enable_auto_commit=False)
    polled(h)
    group.commit_error = Errors.REBALANCE_IN_PROGRESS
    error = h.result("commit_sync", None)
    assert (type(error), error.error) == (KafkaError, "REBALANCE_IN_PROGRESS")
    group.commit_error = NONE
    assert h.result("poll", 100) == ("revoked", (T0,))


def test_a_commit_before_a_rebalance_is_repeated_until_it_succeeds() -> None:
    h, group = start(records=3)
    polled(h)
    group.heartbeat_error = Errors.REBALANCE_IN_PROGRESS
    h.run(3500)
    group.commit_error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    h.call("poll", 5000)
    h.run(20)
    assert h.of(ConsumerRevoked) == []
    group.commit_error = NONE
    h.run(300)
    assert group.committed == {T0: 3}
    assert h.replies[h.calls] == ("revoked", (T0,))


def test_an_auto_commit_that_failed_is_due_again_after_the_backoff() -> None:
    h, group = start(records=3, auto_commit_interval_ms=1000)
    polled(h)
    group.commit_error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    polled(h, 1100)
    polled(h, 10)
    group.commit_error = NONE
    polled(h, 300)
    polled(h, 10)
    assert group.committed == {T0: 3}


# Committed offsets and positions.


def test_positions_are_asked_for_again_until_the_coordinator_is_ready() -> None:
    h, group = start(records=5)
    group.committed[T0] = 4
    loading = OffsetFetchResponse(Errors.COORDINATOR_LOAD_IN_PROGRESS, ())
    elsewhere = OffsetFetchResponse(Errors.NOT_COORDINATOR, ())
    script(h, OffsetFetchRequest, lambda _m: loading, lambda _m: elsewhere)
    assert [r[0] for r in polled(h, 5000)[1][T0]] == [4]
    assert len(h.cluster.requests(FindCoordinatorRequest)) > 1


def test_committed_is_asked_for_again_and_times_out() -> None:
    h, group = start(records=3, default_api_timeout_ms=2000)
    polled(h)
    group.committed[T0] = 2
    loading = OffsetFetchResponse(Errors.COORDINATOR_LOAD_IN_PROGRESS, ())
    script(h, OffsetFetchRequest, lambda _m: loading, lambda _m: h.reset("broker-0"))
    assert h.result("committed", (T0,)) == {T0: 2}
    h.cluster.handlers[OffsetFetchRequest] = lambda _n, _m: loading
    error = h.result("committed", (T0,))
    assert (type(error), error.detail) == (KafkaTimeoutError, "committed")


def test_without_a_committed_offset_and_a_policy_the_poll_fails() -> None:
    h, _ = start(records=3, auto_offset_reset="none")
    error = polled(h)
    assert (type(error), error.detail) == (NoOffsetForPartitionError, "t-0")


def test_without_a_group_and_a_policy_the_poll_fails() -> None:
    h, _ = start(records=3, auto_offset_reset="none")
    h.process.clients["c"].coordinator = None  # type: ignore[union-attr]
    h.result("unsubscribe")
    h.result("assign", (T0,))
    error = polled(h)
    assert (type(error), error.detail) == (NoOffsetForPartitionError, "t-0")


def test_a_reset_is_asked_for_again_after_the_backoff() -> None:
    h, _ = start(records=3)
    refused = ListOffsetsResponse(
        (ListOffsetsPartitionResponse(T0, Errors.NOT_LEADER_OR_FOLLOWER, -1, -1, -1),)
    )
    script(h, ListOffsetsRequest, lambda _m: refused, lambda _m: h.reset("broker-0"))
    assert [r[0] for r in polled(h, 5000)[1][T0]] == [0, 1, 2]
    assert len(h.cluster.requests(ListOffsetsRequest)) == 3


def test_a_seek_comes_before_the_response_of_a_reset() -> None:
    h, _ = start(records=3)
    h.result("poll", 100)
    script(h, ListOffsetsRequest, lambda _m: None)
    h.call("continue")
    h.run(20)
    connection, correlation, _ = h.withheld[-1]
    h.result("seek", T0, 2)
    part = ListOffsetsPartitionResponse(T0, NONE, -1, 0, 0)
    h.respond(connection, correlation, ListOffsetsResponse((part,)))
    h.run(2000)
    assert [(p.offset, p.reason) for p in h.of(Positioned)] == [(2, "seek")]


def test_a_validation_is_asked_for_again_after_the_backoff() -> None:
    h, group = start(records=3)
    polled(h)
    refused = OffsetsForLeaderEpochResponse(
        (EpochEndOffset(T0, Errors.NOT_LEADER_OR_FOLLOWER, -1, -1),)
    )
    script(h, OffsetsForLeaderEpochRequest, lambda _m: refused, lambda _m: h.reset("broker-1"))
    new_leader(h, group)
    polled(h, 3000)
    assert len(h.cluster.requests(OffsetsForLeaderEpochRequest)) == 3
    assert h.result("position", T0) == 3


def test_a_position_of_an_epoch_that_the_leader_does_not_know_is_reset() -> None:
    h, group = start(records=3)
    polled(h)
    group.epoch_answer = (-1, -1)
    new_leader(h, group)
    polled(h, 1000)
    assert [(p.offset, p.reason) for p in h.of(Positioned)][1:] == [(0, "earliest")]


def test_truncation_without_a_policy_is_the_applications_problem() -> None:
    h, group = start(records=3, auto_offset_reset="none")
    group.committed[T0] = 0
    polled(h)
    group.epoch_answer = (0, 1)
    new_leader(h, group)
    error = polled(h)
    assert type(error) is LogTruncationError
    assert error.detail == "t-0 at 3: log ends at 1 in epoch 0"
    fetched = len(h.cluster.requests(FetchRequest))
    assert polled(h, 29_000) == ("records", {})  # nothing is fetched from there
    assert type(polled(h, 2000)) is LogTruncationError  # validated again after request.timeout.ms
    assert len(h.cluster.requests(FetchRequest)) == fetched
    h.result("seek", T0, 1)
    assert [r[0] for r in polled(h)[1][T0]] == [1, 2]


def test_a_fetch_that_is_refused_as_a_whole_is_sent_again() -> None:
    h, _ = start(records=3)
    script(h, FetchRequest, lambda _m: FetchResponse(Errors.UNKNOWN_SERVER_ERROR, ()))
    assert [r[0] for r in polled(h, 5000)[1][T0]] == [0, 1, 2]


def test_a_fetch_waits_for_the_reconnect_backoff() -> None:
    h, _ = start(records=0)
    polled(h, 100)
    h.cluster.down = {"broker-0": None}
    h.reset("broker-0")
    polled(h, 400)
    h.cluster.down = {}
    asked = len(h.cluster.requests(FetchRequest))
    polled(h, 3000)
    assert len(h.cluster.requests(FetchRequest)) > asked
