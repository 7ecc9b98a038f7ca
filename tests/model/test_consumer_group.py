"""Consumer: joining, fetching, committing, rebalancing against a scripted broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.client.consumer.consumer import KafkaConsumer
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import (
    CommitResult,
    ConsumerAssigned,
    ConsumerRevoked,
    FinalPosition,
    Polled,
    Positioned,
)
from kafkasim.model.messages import (
    EpochEndOffset,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupMember,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkasim.model.records import Record, RecordBatch, TopicPartition
from kafkasim.model.storage.log.segment import corrupted
from tests.model.client_harness import Cluster, Harness

T0 = TopicPartition("t", 0)


class Group:
    """A coordinator with one member, and partition logs that hold ``count`` records each."""

    def __init__(self, cluster: Cluster, records: int = 0) -> None:
        self.cluster = cluster
        self.generation = 0
        self.committed: dict[TopicPartition, int] = {}
        self.heartbeat_error = NONE
        self.commit_error = NONE
        self.join_errors: list[Errors] = []
        self.sync_errors: list[Errors] = []
        self.epoch_answer: tuple[int, int] = (0, 1 << 40)
        self.logs = {TopicPartition("t", p): records for p in range(cluster.topics["t"])}
        self.epoch = 0
        cluster.handlers.update(
            {
                JoinGroupRequest: self.join,
                SyncGroupRequest: self.sync,
                HeartbeatRequest: lambda _n, _m: HeartbeatResponse(self.heartbeat_error),
                LeaveGroupRequest: lambda _n, _m: LeaveGroupResponse(NONE, ()),
                OffsetFetchRequest: self.fetch_offsets,
                OffsetCommitRequest: self.commit,
                ListOffsetsRequest: self.list_offsets,
                FetchRequest: self.fetch,
                OffsetsForLeaderEpochRequest: self.epochs,
            }
        )

    def join(self, node: str, m: JoinGroupRequest) -> JoinGroupResponse:
        if not m.member_id:
            return JoinGroupResponse(
                Errors.MEMBER_ID_REQUIRED, -1, None, None, "", False, "m-1", ()
            )
        if self.join_errors:
            error = self.join_errors.pop(0)
            return JoinGroupResponse(error, -1, None, None, "", False, m.member_id, ())
        self.heartbeat_error = NONE
        self.generation += 1
        member = JoinGroupMember(m.member_id, None, m.protocols[0][1])
        return JoinGroupResponse(
            NONE, self.generation, "consumer", "range", m.member_id, False, m.member_id, (member,)
        )

    def sync(self, node: str, m: SyncGroupRequest) -> SyncGroupResponse:
        if self.sync_errors:
            return SyncGroupResponse(self.sync_errors.pop(0), None, None, ())
        return SyncGroupResponse(NONE, "consumer", "range", dict(m.assignments)[m.member_id])

    def fetch_offsets(self, node: str, m: OffsetFetchRequest) -> OffsetFetchResponse:
        return OffsetFetchResponse(
            NONE,
            tuple(
                OffsetFetchPartitionResponse(tp, self.committed.get(tp, -1), -1, "", NONE)
                for tp in m.partitions or ()
            ),
        )

    def commit(self, node: str, m: OffsetCommitRequest) -> OffsetCommitResponse:
        if not self.commit_error:
            self.committed.update({tp: offset for tp, offset, _, _ in m.offsets})
        return OffsetCommitResponse(tuple((o[0], self.commit_error) for o in m.offsets))

    def list_offsets(self, node: str, m: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            tuple(
                ListOffsetsPartitionResponse(
                    p.tp, NONE, -1, 0 if p.timestamp == -2 else self.logs[p.tp], self.epoch
                )
                for p in m.partitions
            )
        )

    def epochs(self, node: str, m: OffsetsForLeaderEpochRequest) -> OffsetsForLeaderEpochResponse:
        epoch, end = self.epoch_answer
        return OffsetsForLeaderEpochResponse(
            tuple(EpochEndOffset(p.tp, NONE, epoch, end) for p in m.partitions)
        )

    def fetch(self, node: str, m: FetchRequest) -> Any:
        parts = []
        for p in m.partitions:
            end = self.logs[p.tp]
            batches: tuple[RecordBatch, ...] = ()
            error = NONE
            if p.fetch_offset > end:
                error = Errors.OFFSET_OUT_OF_RANGE
            elif p.fetch_offset < end:
                records = tuple(Record(None, i, 10, 0) for i in range(p.fetch_offset // 3 * 3, end))
                base = p.fetch_offset // 3 * 3
                batches = (RecordBatch(base, end - 1, self.epoch, -1, -1, -1, records, 100, 0),)
            parts.append(FetchPartitionResponse(p.tp, error, end, end, 0, batches))
        if parts and all(not p.batches and not p.error for p in parts):
            return None  # long poll
        return FetchResponse(NONE, tuple(parts))


def start(records: int = 0, partitions: int = 1, **changes: Any) -> tuple[Harness, Group]:
    cluster = Cluster(partitions)
    group = Group(cluster, records)
    config = replace(ConsumerConfig(group_id="g", auto_offset_reset="earliest"), **changes)
    h = Harness(config, cluster)
    h.call("subscribe", ("t",))
    return h, group


def polled(h: Harness, timeout_ms: int = 1000) -> Any:
    """Poll, passing over the events of rebalances."""
    result = h.result("poll", timeout_ms)
    while isinstance(result, tuple) and result[0] != "records":
        result = h.result("continue")
    return result


def test_poll_joins_then_asks_the_listener_then_returns_records() -> None:
    h, _ = start(records=2)
    assert h.result("poll", 1000) == ("assigned", (T0,))
    assert h.result("continue") == ("records", {T0: ((0, 0, None, 0), (1, 1, None, 0))})
    (assigned,) = h.of(ConsumerAssigned)
    assert assigned == ConsumerAssigned("g", "m-1", 1, ("t-0",))
    assert [(p.offset, p.reason) for p in h.of(Positioned)] == [(0, "earliest")]
    (p,) = h.of(Polled)
    assert p == Polled("g", "m-1", "id-t", 0, 2, 2, (0, 1), (0, 1))


def test_a_join_asks_twice_because_of_the_member_id() -> None:
    h, _ = start()
    polled(h, 100)
    assert [m.member_id for m in h.cluster.requests(JoinGroupRequest)] == ["", "m-1"]


def test_positions_start_at_the_committed_offset() -> None:
    h, group = start(records=5)
    group.committed[T0] = 4
    assert polled(h)[1] == {T0: ((4, 4, None, 0),)}
    assert [(p.offset, p.reason) for p in h.of(Positioned)] == [(4, "committed")]


def test_max_poll_records_limits_and_the_rest_waits_in_the_buffer() -> None:
    h, _ = start(records=5, max_poll_records=2)
    offsets = [[r[0] for r in polled(h)[1][T0]] for _ in range(3)]
    h.run(5)
    assert offsets == [[0, 1], [2, 3], [4]]
    assert [m.partitions[0].fetch_offset for m in h.cluster.requests(FetchRequest)] == [0, 5]


def test_what_was_fetched_of_a_topic_is_told_with_its_id_when_another_one_has_the_name() -> None:
    h, _ = start(records=3, max_poll_records=2)
    polled(h)
    (consumer,) = h.process.clients.values()
    assert isinstance(consumer, KafkaConsumer)
    metadata = consumer.metadata
    metadata.topic_ids["t"] = metadata.last_topic_ids["t"] = "id-another"
    polled(h)
    assert [(p.topic_id, p.offsets) for p in h.of(Polled)] == [("id-t", (0, 1)), ("id-t", (2,))]


def test_a_damaged_batch_fails_every_poll_until_the_application_seeks_past_it() -> None:
    """check.crcs: what came before it is returned, and the position stays where it is."""
    h, _ = start(records=4)
    good = RecordBatch(0, 1, 0, -1, -1, -1, (Record(None, 0, 10, 0), Record(None, 1, 10, 0)), 90, 0)
    bad = corrupted(RecordBatch(2, 3, 0, -1, -1, -1, (Record(None, 2, 10, 0),), 80, 0))
    after = RecordBatch(4, 4, 0, -1, -1, -1, (Record(None, 4, 10, 0),), 80, 0)

    def fetch(_node: str, m: FetchRequest) -> Any:
        at = m.partitions[0].fetch_offset
        batches = tuple([batch for batch in (good, bad, after) if batch.last_offset >= at])
        if not batches:
            return None
        return FetchResponse(NONE, (FetchPartitionResponse(T0, NONE, 5, 5, 0, batches),))

    h.cluster.handlers[FetchRequest] = fetch
    assert [r[0] for r in polled(h)[1][T0]] == [0, 1]
    assert [str(polled(h)) for _ in range(2)] == ["CORRUPT_MESSAGE: t-0 at 2"] * 2
    assert h.result("position", T0) == 2
    h.result("seek", T0, 4)
    assert [r[0] for r in polled(h)[1][T0]] == [4]


def test_poll_returns_empty_when_its_time_is_over() -> None:
    h, _ = start()
    polled(h, 100)
    began = h.now
    assert polled(h, 250) == ("records", {})
    assert h.now - began == 250_000


def test_auto_commit_commits_what_earlier_polls_returned() -> None:
    h, group = start(records=3, auto_commit_interval_ms=1000)
    polled(h)
    h.run(1500)
    group.logs[T0] = 3
    assert group.committed == {}
    polled(h, 10)
    h.run(10)
    assert group.committed == {T0: 3}
    assert [(c.offset, c.mode, c.error) for c in h.of(CommitResult)] == [(3, "auto", "NONE")]


def test_a_rebalance_commits_revokes_and_assigns_anew() -> None:
    h, group = start(records=3)
    polled(h)
    group.heartbeat_error = Errors.REBALANCE_IN_PROGRESS
    h.run(3500)
    assert h.result("poll", 1000) == ("revoked", (T0,))
    assert group.committed == {T0: 3}
    assert h.result("continue") == ("assigned", (T0,))
    assert h.result("continue") == ("records", {})
    assert h.of(ConsumerRevoked) == [ConsumerRevoked("g", "m-1", 1, ("t-0",), False)]
    assert [a.generation for a in h.of(ConsumerAssigned)] == [1, 2]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (Errors.COORDINATOR_LOAD_IN_PROGRESS, "COORDINATOR_LOAD_IN_PROGRESS"),
        (Errors.REQUEST_TIMED_OUT, "REQUEST_TIMED_OUT"),
        (Errors.NOT_COORDINATOR, None),
        (Errors.COORDINATOR_NOT_AVAILABLE, None),
        (Errors.REBALANCE_IN_PROGRESS, None),
    ],
)
def test_an_error_that_sync_group_does_not_expect_fails_the_poll(
    error: Errors, raised: str | None
) -> None:
    """SyncGroupResponseHandler has a case for each error; JoinGroup retries while a group loads.

    The next poll() joins again.
    """
    h, group = start(records=3)
    group.join_errors = [Errors.COORDINATOR_LOAD_IN_PROGRESS]
    group.sync_errors = [error]
    if raised is not None:
        failed = h.result("poll", 5000)
        assert (type(failed), failed.error) == (KafkaError, raised)
    assert h.result("poll", 5000) == ("assigned", (T0,))
    assert group.generation == 2


def test_the_listener_may_commit_while_partitions_are_revoked() -> None:
    h, group = start(records=3, enable_auto_commit=False)
    polled(h)
    group.heartbeat_error = Errors.REBALANCE_IN_PROGRESS
    h.run(3500)
    assert h.result("poll", 1000)[0] == "revoked"
    assert h.result("commit_sync", {T0: 2}) is None
    assert group.committed == {T0: 2}


def test_a_fenced_member_loses_its_partitions() -> None:
    h, group = start(records=3)
    polled(h)
    group.heartbeat_error = Errors.UNKNOWN_MEMBER_ID
    h.run(3500)
    assert h.result("poll", 1000) == ("lost", (T0,))
    assert h.result("continue") == ("assigned", (T0,))
    assert [r.lost for r in h.of(ConsumerRevoked)] == [True]


def test_max_poll_interval_makes_the_member_leave() -> None:
    h, _ = start(max_poll_interval_ms=10_000, session_timeout_ms=6000, heartbeat_interval_ms=1000)
    polled(h, 100)
    h.run(11_000)
    (leave,) = h.cluster.requests(LeaveGroupRequest)
    assert leave.members == (("m-1", None, "consumer poll timeout has expired."),)
    assert h.result("poll", 1000)[0] == "lost"


def test_commit_after_fencing_fails_and_an_async_commit_is_not_repeated() -> None:
    h, group = start(records=3, enable_auto_commit=False)
    polled(h)
    group.commit_error = Errors.COORDINATOR_LOAD_IN_PROGRESS
    assert h.result("commit_async", None) is None
    h.run(1000)
    assert len(h.cluster.requests(OffsetCommitRequest)) == 1
    group.commit_error = Errors.ILLEGAL_GENERATION
    assert type(h.result("commit_sync", None)).__name__ == "CommitFailedError"
    assert [(c.mode, c.error) for c in h.of(CommitResult)] == [
        ("async", "COORDINATOR_LOAD_IN_PROGRESS"),
        ("sync", "ILLEGAL_GENERATION"),
    ]


def test_commit_sync_is_repeated_over_a_coordinator_that_moves() -> None:
    h, group = start(records=3, enable_auto_commit=False)
    polled(h)
    group.commit_error = Errors.NOT_COORDINATOR
    call = h.call("commit_sync", None)
    h.run(50)
    group.commit_error = NONE
    h.run(2000)
    assert h.replies[call] is None
    assert group.committed == {T0: 3}


def test_the_coordinator_connection_survives_a_broken_fetch_connection_and_back() -> None:
    h, group = start(records=3)
    polled(h)
    h.reset("broker-0")
    group.logs[T0] = 6
    h.run(3000)
    assert [r[0] for r in polled(h)[1][T0]] == [3, 4, 5]
    assert polled(h, 5000) == ("records", {})
    assert group.generation == 1


def test_a_new_leader_epoch_validates_and_finds_truncation() -> None:
    h, group = start(records=6)
    polled(h)
    h.cluster.leaders[T0] = (1, 1)
    group.epoch_answer = (0, 4)
    group.epoch = 1
    h.process.clients["c"].metadata.request_update(h.now)  # type: ignore[union-attr]
    assert [r[0] for r in polled(h, 5000)[1][T0]] == [4, 5]
    assert [(p.offset, p.reason) for p in h.of(Positioned)] == [(0, "earliest"), (4, "truncation")]


def test_out_of_range_resets_by_policy() -> None:
    h, group = start(records=6, auto_offset_reset="latest")
    group.committed[T0] = 50
    polled(h, 500)
    assert [(p.offset, p.reason) for p in h.of(Positioned)] == [(50, "committed"), (6, "latest")]


def test_out_of_range_without_a_policy_is_the_applications_problem() -> None:
    h, group = start(records=6, auto_offset_reset="none")
    group.committed[T0] = 50
    assert type(polled(h, 500)).__name__ == "OffsetOutOfRangeError"


def test_seek_drops_what_was_buffered() -> None:
    h, _ = start(records=6, max_poll_records=2)
    polled(h)
    h.run(10)
    assert h.result("seek", T0, 1) is None
    assert [r[0] for r in polled(h)[1][T0]] == [1, 2]
    assert h.result("position", T0) == 3
    assert h.process.ground_truth() == [FinalPosition("g", "m-1", "id-t", 0, 3)]


def test_close_commits_leaves_and_ends() -> None:
    h, group = start(records=3)
    polled(h)
    assert h.result("close") is None
    assert group.committed == {T0: 3}
    assert len(h.cluster.requests(LeaveGroupRequest)) == 1
    assert h.process.timers.next_deadline() is None


def test_committed_replies_the_groups_offsets() -> None:
    h, group = start(records=3)
    polled(h)
    group.committed[T0] = 2
    assert h.result("committed", (T0,)) == {T0: 2}


def test_assign_reads_without_a_group() -> None:
    cluster = Cluster()
    Group(cluster, records=2)
    h = Harness(ConsumerConfig(auto_offset_reset="earliest"), cluster)
    h.call("assign", (T0,))
    assert [r[0] for r in polled(h)[1][T0]] == [0, 1]


def test_two_leaders_are_fetched_side_by_side() -> None:
    h, group = start(records=2, partitions=2)
    seen = {}
    for _ in range(2):
        seen.update(polled(h)[1])
    assert sorted(seen) == sorted(group.logs)


def test_a_coordinator_that_moves_keeps_the_generation() -> None:
    h, group = start(records=3)
    polled(h)
    moved = FindCoordinatorResponse(NONE, 1, "broker-1")
    h.cluster.handlers[FindCoordinatorRequest] = lambda _n, _m: moved
    group.heartbeat_error = Errors.NOT_COORDINATOR
    h.run(3100)
    group.heartbeat_error = NONE
    h.run(10_000)
    nodes = [node for node, m in h.cluster.seen if type(m) is HeartbeatRequest]
    assert nodes[0] == "broker-0"
    assert set(nodes[1:]) == {"broker-1"}
    assert group.generation == 1


def test_a_dropped_member_commits_in_transactions_under_its_last_generation() -> None:
    """ConsumerCoordinator.groupMetadata changes with assignments only, so a zombie is refused."""
    h, group = start(records=1)
    assert [r[0] for r in polled(h)[1][T0]] == [0]
    before = h.result("group_metadata")
    assert (before.generation_id, bool(before.member_id)) == (1, True)
    group.heartbeat_error = Errors.UNKNOWN_MEMBER_ID
    h.run(4_000)
    assert h.result("group_metadata") == before
