"""The share coordinator (ShareCoordinatorShardTest, ShareCoordinatorServiceTest; KIP-932)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.facts import ShareStateInitialized, ShareStatesLoaded
from kafkasim.model.messages.share import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStatePartition,
    ReadShareGroupStateResponse,
    ReadStateResult,
    ReadStateSummaryResult,
    StatePartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
)
from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.model.share.records import ShareGroupOffset, ShareUpdate, is_coordinator_key
from tests.model.share_harness import (
    GROUP,
    STATE,
    TOPIC,
    ShareBench,
    batch,
    delete,
    initialize,
    read,
    summary,
    write,
)

DONE = StatePartitionResult(0)


class Before(ShareRules):
    """Kafka 4.1 and 4.2: the start offset of the last write counts (apache/kafka PR 23074)."""

    def written_start_offset(self, known: int, asked: int) -> int:
        return asked


@pytest.fixture
def bench() -> ShareBench:
    return ShareBench().elect()


@pytest.fixture
def begun(bench: ShareBench) -> ShareBench:
    assert bench.result(initialize(start_offset=5)) == DONE
    return bench


def test_a_share_partition_begins_with_a_snapshot(begun: ShareBench) -> None:
    assert begun.values() == [ShareGroupOffset(0, 0, 0, 5, (), 0, 0)]
    assert begun.result(read()) == ReadStateResult(0, state_epoch=0, start_offset=5)
    assert begun.result(summary()) == ReadStateSummaryResult(0, start_offset=5)


def test_a_write_is_an_update_and_a_read_combines_them(begun: ShareBench) -> None:
    assert begun.result(write(batch(5, 9, 0, 1), leader_epoch=3)) == DONE
    assert begun.result(write(batch(7, 7, 2, 1), leader_epoch=3, start_offset=6)) == DONE
    assert begun.values()[1:] == [
        ShareUpdate(0, 3, -1, (batch(5, 9, 0, 1),)),
        ShareUpdate(0, 3, 6, (batch(7, 7, 2, 1),)),
    ]
    state = (batch(6, 6, 0, 1), batch(7, 7, 2, 1), batch(8, 9, 0, 1))
    assert begun.result(read(3)) == ReadStateResult(0, start_offset=6, state_batches=state)
    assert begun.result(summary()) == ReadStateSummaryResult(0, leader_epoch=3, start_offset=6)


@pytest.mark.parametrize(("rules", "start"), [(ShareRules(), 7), (Before(), 5)])
def test_a_write_that_comes_late_leaves_the_start_offset(rules: ShareRules, start: int) -> None:
    """With the lower one, the next leader hands offsets 5 and 6 out again."""
    bench = ShareBench(rules=rules).elect()
    assert bench.result(initialize(start_offset=5)) == DONE
    assert bench.result(write(batch(5, 6), start_offset=5)) == DONE
    assert bench.result(write(batch(8, 8), start_offset=7)) == DONE
    assert bench.result(write(batch(7, 7, 0, 1), start_offset=5)) == DONE
    state = (batch(7, 7, 0, 1), batch(8, 8))
    assert bench.result(read()) == ReadStateResult(0, start_offset=start, state_batches=state)
    assert bench.values()[-1] == ShareUpdate(0, 0, start, (batch(7, 7, 0, 1),))


def test_a_group_whose_offsets_are_reset_begins_below(begun: ShareBench) -> None:
    """A start offset may go back by a new state, not by a write."""
    assert begun.result(write(batch(8, 8), start_offset=7)) == DONE
    assert begun.result(initialize(state_epoch=1, start_offset=2)) == DONE
    assert begun.result(read()) == ReadStateResult(0, state_epoch=1, start_offset=2)


def test_a_new_leader_is_recorded_when_it_reads(begun: ShareBench) -> None:
    """readStateAndMaybeUpdateLeaderEpoch: with −1 or the known epoch nothing is written."""
    begun.result(write(batch(5, 5), leader_epoch=2))
    begun.result(read(2))
    assert begun.result(read(-1)).error is Errors.FENCED_LEADER_EPOCH
    assert len(begun.values()) == 2
    begun.result(read(4))
    assert begun.values()[2:] == [ShareUpdate(0, 4, 5, ())]
    assert begun.result(write(leader_epoch=3)).error is Errors.FENCED_LEADER_EPOCH
    assert begun.result(read(3)).error is Errors.FENCED_LEADER_EPOCH
    assert begun.result(write(leader_epoch=-1)) == DONE


def test_enough_updates_are_followed_by_a_snapshot() -> None:
    """The count is 0 after the first update: with a limit of 2 the fourth write is a snapshot."""
    bench = ShareBench(share_coordinator_snapshot_update_records_per_snapshot=2).elect()
    bench.result(initialize())
    bench.now = 7_000_000
    for offset in range(8):
        assert bench.result(write(batch(offset, offset), start_offset=0)) == DONE
    kinds = [type(each) for each in bench.values()]
    assert [index for index, kind in enumerate(kinds) if kind is ShareGroupOffset] == [0, 4, 7]
    assert bench.values()[7] == ShareGroupOffset(2, 0, 0, 0, (batch(0, 6),), 7000, 7000)


def test_a_higher_state_epoch_begins_anew_and_fences_the_old(begun: ShareBench) -> None:
    begun.result(write(batch(5, 9), leader_epoch=3))
    assert begun.result(initialize(state_epoch=2, start_offset=0)) == DONE
    assert begun.result(read(3)) == ReadStateResult(0, state_epoch=2, start_offset=0)
    assert begun.result(write(state_epoch=1, leader_epoch=3)).error is Errors.FENCED_STATE_EPOCH
    assert begun.result(initialize(state_epoch=1)).error is Errors.FENCED_STATE_EPOCH
    assert begun.result(initialize(state_epoch=-1, start_offset=1)) == DONE


def test_a_write_of_a_higher_state_epoch_is_a_snapshot(begun: ShareBench) -> None:
    begun.result(write(batch(5, 9), state_epoch=1, leader_epoch=1))
    assert begun.values()[-1] == ShareGroupOffset(1, 1, 1, 5, (batch(5, 9),), 0, 0)


def test_a_deleted_share_partition_is_not_initialized(begun: ShareBench) -> None:
    assert begun.result(delete()) == DONE
    assert begun.values()[-1] is None
    assert begun.result(delete()) == DONE
    assert len(begun.values()) == 2
    uninitialized = ReadStateSummaryResult(0, start_offset=-1)
    assert begun.result(summary()) == uninitialized
    for request in (read(), write()):
        answer = begun.result(request)
        assert answer.error is Errors.INVALID_REQUEST
        assert "uninitialized" in answer.error_message


@pytest.mark.parametrize("make", [initialize, write, read, summary, delete])
def test_partitions_that_do_not_exist_are_refused(begun: ShareBench, make: Any) -> None:
    assert begun.result(make(partition=-1)).error is Errors.INVALID_REQUEST
    unknown = begun.result(make(topic="gone")).error
    known_state_first = make in (write, read)
    expected = Errors.INVALID_REQUEST if known_state_first else Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert unknown is expected
    del begun.image.topics[TOPIC]
    assert begun.result(make()).error is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_an_incomplete_request_has_an_empty_answer(bench: ShareBench) -> None:
    request = initialize()
    empty = InitializeShareGroupStateResponse(())
    assert bench.get(replace(request, group_id="")) == empty
    assert bench.get(replace(request, topics=())) == empty
    assert bench.get(WriteShareGroupStateRequest(GROUP, ((TOPIC, ()),))).results == ()


def test_each_share_partition_of_a_request_has_its_result(bench: ShareBench) -> None:
    begins = tuple(InitializeStatePartition(number, 0, 0) for number in (1, 7, 0))
    answer = bench.get(InitializeShareGroupStateRequest(GROUP, ((TOPIC, begins), ("none", ()))))
    unknown = StatePartitionResult(7, Errors.UNKNOWN_TOPIC_OR_PARTITION)
    results = (StatePartitionResult(1), unknown, StatePartitionResult(0))
    assert answer == InitializeShareGroupStateResponse(((TOPIC, results),))


def test_the_later_of_two_writes_to_a_share_partition_has_the_result(begun: ShareBench) -> None:
    good, late = write(batch(5, 5)), write(leader_epoch=-5)
    both = WriteShareGroupStateRequest(GROUP, ((TOPIC, good.topics[0][1] + late.topics[0][1]),))
    refused = StatePartitionResult(0, Errors.FENCED_LEADER_EPOCH)
    assert begun.get(both) == WriteShareGroupStateResponse(((TOPIC, (refused,)),))
    assert len(begun.values()) == 2


def test_an_answer_waits_for_the_high_watermark(begun: ShareBench) -> None:
    """Also one without a record: it may show what is not committed (CoordinatorWriteEvent)."""
    begun.auto_replicate = False
    asked = [begun.ask(write(batch(5, 5))), begun.ask(read()), begun.ask(summary(partition=-1))]
    assert [number in begun.answers for number in asked] == [False, False, False]
    begun.replicate()
    state = ReadStateResult(0, start_offset=5, state_batches=(batch(5, 5),))
    assert begun.answers[asked[1]] == ReadShareGroupStateResponse(((TOPIC, (state,)),))
    assert [number in begun.answers for number in asked] == [True, True, True]


def test_a_write_that_is_not_committed_in_time_is_refused(begun: ShareBench) -> None:
    begun.auto_replicate = False
    number = begun.ask(write(batch(5, 5)))
    begun.wait(5.1)
    (((_, (result,)),)) = begun.answers[number].results
    assert result.error is Errors.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        (Errors.NOT_ENOUGH_REPLICAS, Errors.COORDINATOR_NOT_AVAILABLE),
        (Errors.NOT_LEADER_OR_FOLLOWER, Errors.NOT_COORDINATOR),
        (Errors.MESSAGE_TOO_LARGE, Errors.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_refused_append_changes_nothing(
    begun: ShareBench, refusal: Errors, error: Errors
) -> None:
    begun.log.error = refusal
    assert begun.result(write(batch(5, 5), leader_epoch=2)).error is error
    begun.log.error = Errors.NONE
    assert begun.result(read()) == ReadStateResult(0, start_offset=5)


def test_a_batch_that_is_refused_is_undone() -> None:
    """With a linger the state reflects what the log refuses later (revertLastWrittenOffset)."""
    bench = ShareBench(share_coordinator_append_linger_ms=5, partitions=3).elect()
    begun = bench.ask(initialize(start_offset=5))
    bench.wait(0.01)
    assert bench.answers[begun].results == ((TOPIC, (DONE,)),)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    asked = [
        bench.ask(write(batch(5, 5), leader_epoch=2)),
        bench.ask(initialize(partition=1)),
        bench.ask(initialize(state_epoch=3)),
        bench.ask(delete()),
    ]
    bench.wait(0.01)
    errors = [bench.answers[number].results[0][1][0].error for number in asked]
    assert errors == [Errors.COORDINATOR_NOT_AVAILABLE] * 4
    bench.log.error = Errors.NONE
    assert bench.result(read()) == ReadStateResult(0, start_offset=5)
    assert bench.result(read(partition=1)).error is Errors.INVALID_REQUEST
    (shard,) = bench.share.owned.active()
    assert shard.offsets_manager.last_redundant_offset is None
    bench.ask(initialize(partition=2))
    bench.wait(0.01)
    assert len(bench.values()) == 2


def test_the_state_survives_a_failover(begun: ShareBench) -> None:
    begun.result(write(batch(5, 9), leader_epoch=3))
    begun.result(initialize(partition=1))
    begun.result(delete(partition=1))
    asked = begun.ask(read(3))
    after = ShareBench(log=begun.log).elect(2)
    after_state = after.result(read(3))
    assert begun.answers[asked].results[0][1][0] == after_state
    assert after.share.owned.active()[0].states == begun.share.owned.active()[0].states
    begun.share.on_resigned(0, 2, begun.now)
    begun.settle()
    assert begun.result(read(3)).error is Errors.NOT_COORDINATOR
    told = [each for each in begun.facts if type(each) is ShareStatesLoaded]
    assert told == [ShareStatesLoaded(0, 1, True), ShareStatesLoaded(0, 2, False)]


def test_it_tells_what_begins_anew_and_where_the_record_is(begun: ShareBench) -> None:
    begun.result(initialize(3, -1))
    assert begun.result(initialize(2)).error is Errors.FENCED_STATE_EPOCH
    assert [each for each in begun.facts if type(each) is ShareStateInitialized] == [
        ShareStateInitialized("workers", TOPIC, 0, 0, 5, offset=0),
        ShareStateInitialized("workers", TOPIC, 0, 3, -1, offset=1),
    ]


def test_a_coordinator_that_loads_refuses(begun: ShareBench) -> None:
    after = ShareBench(log=begun.log)
    after.share.on_elected(0, 2, 0)
    after.drain()
    later = list(after.posts)
    after.posts.clear()
    assert after.result(read()).error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    after.posts = later
    after.settle()
    assert after.result(read()).error is Errors.NONE


def test_what_waits_fails_when_the_coordinator_resigns(begun: ShareBench) -> None:
    begun.auto_replicate = False
    number = begun.ask(write(batch(5, 5)))
    begun.share.on_resigned(0, None, begun.now)
    begun.settle()
    (((_, (result,)),)) = begun.answers[number].results
    assert result.error is Errors.NOT_COORDINATOR


def test_deleted_topics_are_forgotten(begun: ShareBench) -> None:
    begun.share.on_topics_deleted(("other",))
    begun.settle()
    assert len(begun.values()) == 1
    begun.share.on_topics_deleted((TOPIC,))
    begun.settle()
    assert begun.values()[-1] is None
    assert begun.share.owned.active()[0].states == {}


def test_what_is_redundant_is_pruned() -> None:
    """Below the oldest of the last snapshots (ShareCoordinatorOffsetsManager)."""
    bench = ShareBench(share_coordinator_cold_partition_snapshot_interval_ms=10**9).elect()
    bench.result(initialize())
    bench.wait(301)
    assert bench.pruned == []  # the snapshot at 0 is needed
    bench.result(initialize(partition=1))
    bench.result(initialize(state_epoch=1))
    bench.wait(300)
    bench.wait(300)
    assert bench.pruned == [1]
    bench.prune_error = Errors.REQUEST_TIMED_OUT
    bench.result(initialize(state_epoch=1, partition=1))
    bench.wait(600)
    assert bench.pruned == [1, 2, 2]  # until it succeeds


def test_cold_share_partitions_get_a_new_snapshot(begun: ShareBench) -> None:
    """So that the log before them can be pruned (snapshotColdPartitions)."""
    begun.wait(290)
    begun.result(initialize(partition=1))
    begun.wait(11)
    again = ShareGroupOffset(1, 0, 0, 5, (), 0, 300_000)
    assert begun.values()[2:] == [again]
    begun.wait(300)
    assert len(begun.values()) == 5
    begun.wait(300)  # both are repeated snapshots: the system is quiet
    assert len(begun.values()) == 5


def test_jobs_end_with_the_last_state_partition(begun: ShareBench) -> None:
    begun.share.on_resigned(0, None, 0)
    begun.wait(301)
    assert begun.timers.next_deadline() is None


def test_a_log_that_was_cut_may_begin_with_an_update(begun: ShareBench) -> None:
    begun.result(write(batch(5, 6), leader_epoch=1))
    del begun.log.batches[STATE][0]
    after = ShareBench(log=begun.log).elect(2)
    state = ReadStateResult(0, start_offset=-1, state_batches=(batch(5, 6),))
    assert after.result(read(1)) == state


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        ("g:AAAAAAAAAAAAAAAAAAAAAw:0", True),
        ("g:t:0", False),  # the topic id is no Uuid
        ("g:AAAAAAAAAAAAAAAAAAAAAw", False),
        ("", False),
        (" :AAAAAAAAAAAAAAAAAAAAAw:0", False),
        ("g::0", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAw:x", False),
        ("a:b:AAAAAAAAAAAAAAAAAAAAAw:0", False),  # a group id with a colon
    ],
)
def test_the_form_of_a_share_partitions_key(key: str, valid: bool) -> None:
    assert is_coordinator_key(key) is valid
