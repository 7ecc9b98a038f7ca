"""pause, resume, seeks, offsets for times, wakeup; metadata and callbacks of commits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Positioned
from kafkasim.model.messages import (
    FetchRequest,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Harness
from tests.model.test_consumer_group import T0, Group, polled, start

T9 = TopicPartition("t", 9)


def offsets(result: Any) -> list[int]:
    return [record[0] for record in result[1].get(T0, ())]


def test_a_paused_partition_is_not_fetched_and_what_was_fetched_stays() -> None:
    h, _ = start(records=5, max_poll_records=2)
    assert offsets(polled(h)) == [0, 1]
    h.result("pause", (T0,))
    fetches = len(h.cluster.requests(FetchRequest))
    assert polled(h, 100) == ("records", {})
    assert h.result("paused") == (T0,)
    h.result("resume", (T0,))
    assert offsets(polled(h)) == [2, 3]
    assert (len(h.cluster.requests(FetchRequest)), h.result("paused")) == (fetches, ())


def test_after_a_seek_the_buffer_of_a_paused_partition_is_dropped() -> None:
    h, _ = start(records=5, max_poll_records=2)
    polled(h)
    h.result("pause", (T0,))
    h.result("seek", T0, 4)
    h.result("resume", (T0,))
    assert offsets(polled(h)) == [4]


def test_a_rebalance_forgets_the_pause() -> None:
    h, group = start(records=3)
    polled(h)
    h.result("pause", (T0,))
    group.heartbeat_error = Errors.REBALANCE_IN_PROGRESS
    h.run(3500)
    polled(h)
    assert h.result("paused") == ()


@pytest.mark.parametrize(("method", "position"), [("seek_to_beginning", 0), ("seek_to_end", 5)])
@pytest.mark.parametrize("partitions", [(), (T0,)])
def test_a_seek_to_an_end_is_evaluated_by_the_next_poll(
    method: str, position: int, partitions: tuple[TopicPartition, ...]
) -> None:
    h, _ = start(records=5, max_poll_records=2)
    polled(h)
    asked = len(h.cluster.requests(ListOffsetsRequest))
    h.result(method, partitions)
    assert len(h.cluster.requests(ListOffsetsRequest)) == asked
    polled(h, 100)
    reason = "earliest" if position == 0 else "latest"
    assert [(p.offset, p.reason) for p in h.of(Positioned)][-1] == (position, reason)


@pytest.mark.parametrize("method", ["pause", "resume", "seek_to_beginning", "seek_to_end"])
def test_a_partition_that_is_not_assigned_is_refused(method: str) -> None:
    h, _ = start()
    polled(h, 100)
    assert h.result(method, (T9,)).error == "ILLEGAL_STATE"


def timed(h: Harness, *answers: tuple[Errors, int, int]) -> None:
    """Answer the next ListOffsets requests with (error, timestamp, offset)."""
    waiting = list(answers)

    def answer(_node: str, m: ListOffsetsRequest) -> ListOffsetsResponse:
        error, timestamp, offset = waiting.pop(0)
        part = ListOffsetsPartitionResponse(m.partitions[0].tp, error, timestamp, offset, 0)
        return ListOffsetsResponse((part,))

    h.cluster.handlers[ListOffsetsRequest] = answer


def test_offsets_for_times_are_the_leaders_answers() -> None:
    h, _ = start(records=5)
    polled(h)
    timed(h, (Errors.NOT_LEADER_OR_FOLLOWER, -1, -1), (NONE, 1234, 3))
    assert h.result("offsets_for_times", {T0: 1200}) == {T0: (3, 1234)}
    assert h.cluster.requests(ListOffsetsRequest)[-1].partitions[0].timestamp == 1200


def test_a_time_behind_the_last_record_has_no_offset() -> None:
    h, _ = start(records=5)
    polled(h)
    timed(h, (NONE, -1, -1))
    assert h.result("offsets_for_times", {T0: 9999}) == {T0: None}


def test_offsets_for_times_of_a_partition_without_a_leader_time_out() -> None:
    h, _ = start(default_api_timeout_ms=3000)
    polled(h, 100)
    assert type(h.result("offsets_for_times", {T9: 0})).__name__ == "KafkaTimeoutError"


def throttled(time_ms: int) -> tuple[Harness, int]:
    """Return a consumer whose first fetch was answered with a throttle time, and its end."""
    h, _ = start(records=5)
    fetch = h.cluster.handlers[FetchRequest]

    def answer(node: str, m: FetchRequest) -> Any:
        h.cluster.handlers[FetchRequest] = fetch
        return replace(fetch(node, m), throttle_time_ms=time_ms)

    h.cluster.handlers[FetchRequest] = answer
    polled(h)
    return h, h.now + time_ms * 1000


def test_a_reset_asks_for_an_offset_when_the_throttle_time_is_over() -> None:
    """NetworkClient.isReady (KIP-219): until then the request stays unsent."""
    h, until = throttled(2000)
    asked = len(h.cluster.requests(ListOffsetsRequest))
    h.result("seek_to_beginning", (T0,))
    polled(h, 1900)
    assert len(h.cluster.requests(ListOffsetsRequest)) == asked
    assert offsets(polled(h)) == [0, 1, 2, 3, 4]
    assert (len(h.cluster.requests(ListOffsetsRequest)), h.now > until) == (asked + 1, True)


def test_offsets_for_times_wait_for_the_end_of_the_throttle_time() -> None:
    h, until = throttled(2000)
    timed(h, (NONE, 1234, 3))
    assert h.result("offsets_for_times", {T0: 1200}) == {T0: (3, 1234)}
    assert until < h.now < until + 10_000


def test_wakeup_ends_the_poll_that_waits_or_the_next_one() -> None:
    h, _ = start()
    polled(h, 100)
    call = h.call("poll", 60_000)
    h.run(1000)
    h.result("wakeup")
    assert type(h.replies[call]).__name__ == "WakeupError"
    h.result("wakeup")
    assert type(h.result("poll", 60_000)).__name__ == "WakeupError"
    assert polled(h, 100) == ("records", {})


def test_a_commit_carries_metadata_which_committed_returns() -> None:
    h, group = start(records=3, enable_auto_commit=False)
    polled(h)
    assert h.result("commit_sync", {T0: (2, "noted")}) is None
    (commit,) = h.cluster.requests(OffsetCommitRequest)
    assert commit.offsets == ((T0, 2, -1, "noted"),)

    def fetched(_node: str, _m: OffsetFetchRequest) -> OffsetFetchResponse:
        part = OffsetFetchPartitionResponse(T0, group.committed[T0], -1, "noted", NONE)
        return OffsetFetchResponse(NONE, (part,))

    h.cluster.handlers[OffsetFetchRequest] = fetched
    assert h.result("committed", (T0,), True) == {T0: (2, "noted")}
    assert h.result("committed", (T0,)) == {T0: 2}


def async_commit(h: Harness, offset: int) -> int:
    call = h.call("commit_async", {T0: offset}, True)
    h.run(10)
    return -call


def consuming() -> tuple[Harness, Group]:
    h, group = start(records=5, enable_auto_commit=False)
    polled(h)
    return h, group


def test_the_callback_of_an_async_commit_runs_in_the_next_poll() -> None:
    h, _ = consuming()
    callback = async_commit(h, 2)
    assert callback not in h.replies
    polled(h, 10)
    assert h.replies[callback] == {T0: 2}


def test_the_callback_of_an_async_commit_runs_before_a_sync_one() -> None:
    h, _ = consuming()
    callback = async_commit(h, 2)
    sync = h.call("commit_sync", {T0: 3})
    assert (callback in h.replies, sync in h.replies) == (True, False)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Errors.COORDINATOR_LOAD_IN_PROGRESS, "RetriableCommitFailedError"),
        (Errors.ILLEGAL_GENERATION, "CommitFailedError"),
        (Errors.OFFSET_METADATA_TOO_LARGE, "KafkaError"),
    ],
)
def test_the_callback_says_whether_the_application_may_commit_again(
    error: Errors, kind: str
) -> None:
    """A failed async commit is not repeated: its callback commits again if none came later."""
    h, group = consuming()
    group.commit_error = error
    callback = async_commit(h, 2)
    polled(h, 10)
    assert type(h.replies[callback]).__name__ == kind
    assert len(h.cluster.requests(OffsetCommitRequest)) == 1
