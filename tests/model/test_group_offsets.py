"""Committed offsets (KAFKA.md, 3.1): checks, pending until the high watermark, fetch, expiry."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.model.errors import Errors
from kafkasim.model.messages import OffsetCommitRequest
from kafkasim.model.records import TopicPartition
from tests.model.group_harness import GROUP, T0, T1, Bench, commit, fetch, join, leave, offsets

DAY = 86_400


@pytest.fixture
def bench() -> Bench:
    return Bench().elect()


def error(answer: object) -> str:
    return str(answer.results[0][1].name)  # type: ignore[attr-defined]


def test_a_commit_is_answered_and_seen_when_replicated(bench: Bench) -> None:
    bench.auto_replicate = False
    committed = bench.ask(commit(5))
    assert committed not in bench.answers
    assert offsets(bench.get(fetch(T0, stable=False))) == {T0: -1}
    stable = bench.ask(fetch(T0))
    assert stable not in bench.answers
    bench.replicate()
    assert error(bench.answers[committed]) == "NONE"
    assert offsets(bench.answers[stable]) == {T0: 5}
    assert bench.seen(facts.OffsetCommitted) == [
        facts.OffsetCommitted(GROUP, "orders", 0, 5, -1, "", 1, next_offset=1)
    ]
    assert bench.seen(facts.OffsetFetched) == [
        facts.OffsetFetched(GROUP, "orders", 0, -1, 1),
        facts.OffsetFetched(GROUP, "orders", 0, 5, 1, next_offset=1),
    ]


def test_the_scala_coordinator_answers_a_fetch_at_once() -> None:
    """GroupMetadataManager.getOffsets: UNSTABLE_OFFSET_COMMIT while a commit is pending (KIP-447),
    and each partition once."""
    bench = Bench(new_coordinator=False).elect()
    bench.ask(commit(4))
    bench.auto_replicate = False
    bench.ask(commit(5))
    assert offsets(bench.get(fetch(T0, T0, stable=False))) == {T0: 4}
    (found,) = bench.get(fetch(T0, T0)).partitions
    assert found.error is Errors.UNSTABLE_OFFSET_COMMIT
    bench.replicate()
    assert offsets(bench.get(fetch(T0))) == {T0: 5}
    told = [fact.offset for fact in bench.seen(facts.OffsetFetched)]
    assert told == [4, 5]


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (Errors.NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE"),
        (Errors.KAFKA_STORAGE_ERROR, "NOT_COORDINATOR"),
        (Errors.RECORD_LIST_TOO_LARGE, "INVALID_COMMIT_OFFSET_SIZE"),
        (Errors.REQUEST_TIMED_OUT, "REQUEST_TIMED_OUT"),
    ],
)
def test_the_scala_coordinator_tells_why_a_commit_failed(failure: Errors, told: str) -> None:
    """GroupMetadataManager.convertOffsetCommitError."""
    bench = Bench(new_coordinator=False).elect()
    bench.log.error = failure
    assert error(bench.get(commit(6))) == told


def test_the_scala_coordinator_drops_a_group_with_its_last_topic() -> None:
    """GroupMetadataManager.cleanupGroupMetadata: an empty group without offsets is deleted."""
    bench = Bench(new_coordinator=False).elect()
    bench.ask(commit(5))
    bench.group.on_partitions_deleted((T0, T1), bench.now)
    bench.settle()
    assert bench.group.shards[0].groups == {}


def test_fetch_without_partitions_answers_all(bench: Bench) -> None:
    bench.ask(commit(5))
    bench.ask(commit(6, tp=T1))
    assert offsets(bench.get(fetch())) == {T0: 5, T1: 6}


def test_a_failed_append_leaves_the_old_offset(bench: Bench) -> None:
    bench.ask(commit(5))
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert error(bench.get(commit(6))) == "COORDINATOR_NOT_AVAILABLE"
    assert offsets(bench.get(fetch(T0))) == {T0: 5}


def test_a_timed_out_commit_may_still_count(bench: Bench) -> None:
    bench.auto_replicate = False
    asked = bench.ask(commit(5))
    bench.wait(5)
    assert error(bench.answers[asked]) == "COORDINATOR_NOT_AVAILABLE"
    bench.replicate()
    assert offsets(bench.get(fetch(T0))) == {T0: 5}
    assert bench.seen(facts.OffsetCommitted) == []


def test_a_commit_with_a_generation_needs_a_known_group() -> None:
    """OffsetMetadataManager.validateOffsetCommit; GroupCoordinator.handleCommitOffsets in Scala."""
    told = [error(Bench(new_coordinator=n).elect().get(commit(1, "m", 3))) for n in (True, False)]
    assert told == ["GROUP_ID_NOT_FOUND", "ILLEGAL_GENERATION"]


def test_refused_commits(bench: Bench) -> None:
    """B63 among them: an evicted member's late commit."""
    generation, ids = bench.form("a", "b")
    a = ids["a"]
    refused = {
        "stranger": commit(1, "x", generation),
        "old generation": commit(1, a, generation - 1),
        "simple consumer": commit(1),
        "long metadata": commit(1, a, generation, metadata="m" * 4097),
        "instance": commit(1, a, generation, instance="i"),
    }
    assert {name: error(bench.get(r)) for name, r in refused.items()} == {
        "stranger": "UNKNOWN_MEMBER_ID",
        "old generation": "ILLEGAL_GENERATION",
        "simple consumer": "UNKNOWN_MEMBER_ID",
        "long metadata": "OFFSET_METADATA_TOO_LARGE",
        "instance": "UNKNOWN_MEMBER_ID",
    }
    assert offsets(bench.get(fetch())) == {}


def test_members_commit_in_stable_and_preparing_not_in_completing(bench: Bench) -> None:
    generation, ids = bench.form("a", "b")
    a = ids["a"]
    assert error(bench.get(commit(1, a, generation))) == "NONE"
    bench.ask(join(ids["b"], topics=("x",)))
    assert error(bench.get(commit(2, a, generation))) == "NONE"
    bench.ask(join(a))
    assert error(bench.get(commit(3, a, generation + 1))) == "REBALANCE_IN_PROGRESS"
    assert offsets(bench.get(fetch())) == {T0: 2}


def test_a_commit_keeps_the_session(bench: Bench) -> None:
    generation, ids = bench.form("a")
    for offset in range(5):
        bench.wait(9)
        bench.ask(commit(offset, ids["a"], generation))
    assert bench.states()[-1] == ("Stable", generation)


def test_a_failover_keeps_what_is_in_the_log(bench: Bench) -> None:
    bench.ask(commit(5))
    bench.auto_replicate = False
    bench.ask(commit(9, tp=T1))
    other = Bench(bench.log)
    other.auto_replicate = False
    other.elect(2)
    assert offsets(other.get(fetch(T0, T1, stable=False))) == {T0: 5, T1: -1}
    waiting = other.ask(fetch(T1))
    assert waiting not in other.answers
    other.replicate()
    assert offsets(other.answers[waiting]) == {T1: 9}
    assert other.group.ground_truth() == [
        facts.FinalOffset(GROUP, "orders", 0, 5),
        facts.FinalOffset(GROUP, "orders", 1, 9),
    ]


def test_a_resignation_fails_pending_commits_and_fetches(bench: Bench) -> None:
    bench.auto_replicate = False
    asked = [bench.ask(commit(5)), bench.ask(fetch(T0))]
    bench.group.on_resigned(0, 2, bench.now)
    bench.drain()
    assert error(bench.answers[asked[0]]) == "NOT_COORDINATOR"
    assert bench.answers[asked[1]].error is Errors.NOT_COORDINATOR
    assert error(bench.get(commit(5))) == "NOT_COORDINATOR"


def test_no_offset_of_a_group_without_a_name_is_refused(bench: Bench) -> None:
    request = OffsetCommitRequest("", -1, "", None, ((T0, 1, -1, ""),))
    assert error(bench.get(request)) == "NONE"


# Expiry


def test_a_simple_consumers_offset_expires_by_its_commit(bench: Bench) -> None:
    bench.ask(commit(5))
    bench.wait(6 * DAY)
    bench.ask(commit(6, tp=T1))
    bench.wait(1 * DAY + 600)
    assert offsets(bench.get(fetch())) == {T1: 6}
    bench.wait(6 * DAY)
    assert offsets(bench.get(fetch())) == {}
    assert bench.group.shards[0].groups == {}
    assert Bench(bench.log).elect(2).group.shards[0].groups == {}


def test_an_empty_groups_offsets_live_as_long_as_the_group_is_empty(bench: Bench) -> None:
    generation, ids = bench.form("a")
    bench.ask(commit(5, ids["a"], generation))
    for _ in range(8 * DAY // 1000):
        bench.now += 1000 * 1_000_000
        bench.timers.cancel(("group-session", GROUP, ids["a"]))
    bench.ask(leave(ids["a"]))
    bench.wait(6 * DAY)
    assert offsets(bench.get(fetch())) == {T0: 5}
    bench.wait(2 * DAY)
    assert offsets(bench.get(fetch())) == {}
    assert bench.states()[-1] == ("Dead", 2)


def test_a_stable_group_keeps_offsets_of_topics_it_subscribes_to(bench: Bench) -> None:
    """KAFKA-13636 and its neighbours (B71): and none expires during a rebalance."""
    generation, ids = bench.form("a")
    other = TopicPartition("left", 0)
    bench.ask(commit(5, ids["a"], generation))
    bench.ask(commit(5, ids["a"], generation, tp=other))
    bench.timers.cancel(("group-session", GROUP, ids["a"]))
    group = bench.group.shards[0].groups[GROUP]
    state, group.state = group.state, type(group.state).PREPARING_REBALANCE
    bench.wait(8 * DAY)
    assert offsets(bench.get(fetch())) == {T0: 5, other: 5}
    group.state = state
    bench.wait(600)
    assert offsets(bench.get(fetch())) == {T0: 5}
    bench.wait(1200)  # tombstones are dropped by the scan after
    assert list(bench.group.shards[0].offsets[GROUP]) == [T0]


def test_a_scan_that_cannot_write_tries_again(bench: Bench) -> None:
    bench.ask(commit(5))
    bench.wait(7 * DAY - 300)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.wait(900)
    assert offsets(bench.get(fetch())) == {T0: 5}
    bench.log.error = Errors.NONE
    bench.wait(600)
    assert offsets(bench.get(fetch())) == {}


def test_a_deleted_topics_offsets_go_and_the_empty_group_with_the_next_scan(bench: Bench) -> None:
    """OffsetMetadataManager.onPartitionsDeleted appends offset tombstones only."""
    bench.ask(commit(5))
    bench.ask(commit(6, tp=T1))
    other = TopicPartition("payments", 0)
    bench.ask(commit(7, tp=other))
    bench.group.on_partitions_deleted((T0, T1), bench.now)
    bench.settle()
    assert offsets(bench.get(fetch())) == {other: 7}
    bench.group.on_partitions_deleted((other,), bench.now)
    bench.settle()
    assert offsets(bench.get(fetch())) == {}
    assert list(bench.group.shards[0].groups) == [GROUP]
    bench.wait(700)
    assert bench.group.shards[0].groups == {}
    assert Bench(bench.log).elect(2).group.shards[0].groups == {}


def test_a_member_keeps_its_group_when_its_topic_goes(bench: Bench) -> None:
    generation, ids = bench.form("a")
    bench.ask(commit(5, ids["a"], generation))
    bench.group.on_partitions_deleted((T0, T1), bench.now)
    bench.settle()
    assert offsets(bench.get(fetch())) == {}
    assert list(bench.group.shards[0].groups) == [GROUP]
