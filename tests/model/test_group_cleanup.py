"""The Scala coordinator forgets groups and offsets first, and writes tombstones afterwards.

Kafka: GroupMetadataManager.cleanupGroupMetadata, GroupCoordinator.handleDeleteGroups.
"""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    OffsetDeleteRequest,
)
from tests.model.group_harness import (
    GROUP,
    T0,
    T1,
    Bench,
    commit,
    fetch,
    heartbeat,
    join,
    leave,
    offsets,
    sync,
)

DAY = 24 * 60 * 60


@pytest.fixture
def bench() -> Bench:
    return Bench(new_coordinator=False).elect()


def test_an_empty_group_and_its_offsets_are_deleted_in_one_batch(bench: Bench) -> None:
    generation, ids = bench.form("a")
    bench.get(commit(5, ids["a"], generation))
    bench.get(leave(ids["a"]))
    before = len(bench.log.batches[bench.tp])
    assert bench.get(DeleteGroupsRequest((GROUP,))).results == ((GROUP, NONE),)
    tombstones = [batch.records for batch in bench.log.batches[bench.tp][before:]]
    assert [[record.value for record in records] for records in tombstones] == [[None, None]]
    assert bench.states()[-1][0] == "Dead"
    assert Bench(bench.log, new_coordinator=False).elect(2).group.shards[0].groups == {}


def test_a_deletion_is_answered_at_once_and_stays_so_without_its_tombstones(bench: Bench) -> None:
    bench.get(commit(5))
    bench.auto_replicate = False
    bench.log.error = Errors.NOT_LEADER_OR_FOLLOWER
    assert bench.get(DeleteGroupsRequest((GROUP,))).results == ((GROUP, NONE),)
    assert bench.group.shards[0].groups == {}
    bench.log.error = NONE
    successor = Bench(bench.log, new_coordinator=False).elect(2)
    assert offsets(successor.get(fetch(T0))) == {T0: 5}


def test_expired_offsets_are_gone_though_no_tombstone_is_written(bench: Bench) -> None:
    bench.get(commit(5))
    bench.log.error = Errors.NOT_LEADER_OR_FOLLOWER
    bench.wait(7 * DAY + 600)
    assert offsets(bench.get(fetch())) == {}
    assert bench.group.shards[0].groups == {}


def test_an_offset_that_waits_for_replicas_does_not_expire(bench: Bench) -> None:
    bench.auto_replicate = False
    bench.ask(commit(5))
    bench.wait(7 * DAY + 600)
    bench.replicate()
    assert offsets(bench.get(fetch(T0))) == {T0: 5}
    bench.wait(600)
    assert offsets(bench.get(fetch())) == {}


def test_the_last_deleted_offset_takes_the_empty_group_with_it(bench: Bench) -> None:
    bench.get(commit(5))
    bench.get(commit(6, tp=T1))
    assert bench.get(OffsetDeleteRequest(GROUP, (T0,))).results == ((T0, NONE),)
    assert list(bench.group.shards[0].groups) == [GROUP]
    assert bench.get(OffsetDeleteRequest(GROUP, (T1,))).results == ((T1, NONE),)
    assert bench.group.shards[0].groups == {}
    assert [fact.partition for fact in bench.seen(facts.OffsetsDeleted)] == [0, 1]


def test_a_commit_that_waits_stands_before_the_tombstone_in_the_log(bench: Bench) -> None:
    bench.get(commit(4))
    bench.auto_replicate = False
    bench.ask(commit(5))
    bench.ask(OffsetDeleteRequest(GROUP, (T0,)))
    bench.replicate()
    first, waited = bench.seen(facts.OffsetCommitted)
    (deleted,) = bench.seen(facts.OffsetsDeleted)
    assert first.next_offset < waited.next_offset < deleted.next_offset


def test_a_deleted_topic_takes_the_empty_group_with_it(bench: Bench) -> None:
    bench.get(commit(5))
    bench.group.on_partitions_deleted((T0, T1), bench.now)
    bench.settle()
    assert bench.group.shards[0].groups == {}


def test_a_dead_group_stays_while_the_partition_is_offline(bench: Bench) -> None:
    bench.get(commit(5))
    pending = bench.member_id("a")
    bench.log.error = Errors.KAFKA_STORAGE_ERROR
    assert bench.get(DeleteGroupsRequest((GROUP,))).results == ((GROUP, NONE),)
    refused = [
        bench.get(join()).error,
        bench.get(sync("m", 1)).error,
        bench.get(heartbeat("m", 1)).error,
        bench.get(leave("m")).error,
        bench.get(commit(6)).results[0][1],
    ]
    assert refused == [Errors.COORDINATOR_NOT_AVAILABLE] * 5
    assert offsets(bench.get(fetch(T0))) == {T0: -1}
    (described,) = bench.get(DescribeGroupsRequest((GROUP,))).groups
    assert (described.error, described.state) == (NONE, "Dead")
    unknown = Errors.GROUP_ID_NOT_FOUND
    assert bench.get(DeleteGroupsRequest((GROUP,))).results == ((GROUP, unknown),)
    assert bench.get(OffsetDeleteRequest(GROUP, (T0,))).error is unknown
    bench.wait(60)  # the session of the member whose id was handed out
    assert pending in bench.group.shards[0].groups[GROUP].pending_join
    bench.log.error = NONE
    bench.wait(600)
    assert bench.group.shards[0].groups == {}
    assert bench.states() == [("Dead", 0)]
