"""Several operations of a coordinator in one append (group.coordinator.append.linger.ms).

Kafka: CoordinatorRuntime.append, flushCurrentBatch, failCurrentBatch.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model import facts
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    DeleteGroupsRequest,
    TxnOffsetCommitRequest,
    WritableTxnMarker,
)
from kafkasim.model.records import TopicPartition
from tests.model.consumer_group_harness import GROUP, ConsumerBench, beat, joining, leaving
from tests.model.group_harness import T0, T1, commit, fetch, heartbeat, join, offsets, sync

LINGER_S = 0.005


def lingering(**options: Any) -> ConsumerBench:
    bench = ConsumerBench(group_coordinator_append_linger_ms=5, **options)
    bench.elect()
    return bench


def batches(bench: ConsumerBench) -> list[int]:
    """Return how many records each batch of the log has."""
    return [len(batch.records) for batch in bench.log.batches.get(bench.tp, [])]


def test_operations_within_the_linger_are_one_batch_and_are_answered_together() -> None:
    bench = lingering()
    first = bench.ask(commit(5, tp=T0))
    bench.wait(0.003)
    second = bench.ask(commit(6, tp=T1))
    assert (batches(bench), bench.answers) == ([], {})
    bench.wait(0.002)
    assert batches(bench) == [2]
    assert bench.answers[first].results == ((T0, Errors.NONE),)
    assert bench.answers[second].results == ((T1, Errors.NONE),)


def test_a_stable_read_waits_for_the_open_batch() -> None:
    bench = lingering()
    bench.ask(commit(5, tp=T0))
    stable, unstable = bench.ask(fetch(T0)), bench.ask(fetch(T0, stable=False))
    assert stable not in bench.answers
    assert offsets(bench.answers[unstable]) == {T0: -1}
    bench.wait(LINGER_S)
    assert offsets(bench.answers[stable]) == {T0: 5}


def test_a_full_batch_does_not_wait() -> None:
    bench = lingering(message_max_bytes=200)
    asked = [bench.ask(commit(i, tp=T0, metadata="x" * 80)) for i in range(2)]
    assert batches(bench) == [1]
    assert [each in bench.answers for each in asked] == [True, False]
    large = bench.get(commit(9, tp=T0, metadata="x" * 300))
    assert large.results == ((T0, Errors.UNKNOWN_SERVER_ERROR),)


def test_a_lost_batch_undoes_all_that_it_changed() -> None:
    bench = lingering()
    bench.ask(commit(5, tp=T0))
    bench.wait(LINGER_S)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    asked = [bench.ask(commit(6, tp=T0)), bench.ask(commit(7, tp=T1))]
    joined = bench.ask(joining("a"))
    assert list(bench.consumer_group().members) == ["a"]
    bench.wait(LINGER_S)
    refused = Errors.COORDINATOR_NOT_AVAILABLE
    assert [bench.answers[each].results[0][1] for each in asked] == [refused, refused]
    assert bench.answers[joined].error is refused
    shard = bench.group.shards[0]
    assert (list(shard.groups), list(shard.consumer_groups)) == ([GROUP], [])
    assert shard.stored(GROUP) == [T0]
    assert bench.seen(facts.GroupConverted) == []
    bench.log.error = Errors.NONE
    found = bench.ask(fetch(T0))
    assert offsets(bench.answers[found]) == {T0: 5}
    assert bench.ask(joining("a")) not in bench.answers
    bench.wait(LINGER_S)
    assert bench.consumer_group().state.value == "Stable"


def test_a_member_that_a_lost_batch_removed_is_a_member_again() -> None:
    bench = lingering()
    bench.ask(joining("a"))
    bench.ask(joining("b"))
    bench.wait(LINGER_S)
    before = bench.snapshot()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.ask(leaving("b"))
    assert list(bench.consumer_group().members) == ["a"]
    bench.wait(LINGER_S)
    assert bench.snapshot() == before
    assert bench.seen(facts.GroupState)[-1].reason == "reverted"


def test_a_session_that_could_not_be_ended_is_ended_again() -> None:
    bench = lingering()
    bench.ask(joining("a"))
    bench.wait(44.99)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.wait(0.02)
    assert list(bench.consumer_group().members) == ["a"]
    bench.log.error = Errors.NONE
    bench.wait(0.5)
    assert list(bench.consumer_group().members) == []


def test_a_lost_upgrade_leaves_a_classic_group_that_goes_on() -> None:
    bench = lingering()
    a = bench.member_id("a")
    asked = bench.ask(join(a, client="a"))
    bench.wait(5)
    generation = bench.answers[asked].generation_id
    bench.ask(sync(a, generation, ((a, (T0,)),)))
    bench.wait(LINGER_S)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.ask(joining("b"))
    bench.wait(LINGER_S)
    assert [fact.protocol for fact in bench.seen(facts.GroupConverted)] == ["consumer", "classic"]
    bench.log.error = Errors.NONE
    assert bench.get(heartbeat(a, generation)).error is Errors.NONE
    bench.wait(11)  # its session
    assert bench.group.shards[0].groups[GROUP].members == {}


def test_an_empty_classic_group_is_there_again_if_its_replacement_is_lost() -> None:
    bench = lingering()
    a = bench.member_id("a")
    asked = bench.ask(join(a, client="a"))
    bench.wait(5)
    bench.ask(sync(a, bench.answers[asked].generation_id, ((a, (T0,)),)))
    bench.wait(50)  # its session
    empty = bench.seen(facts.GroupState)[-1]
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.ask(joining("b"))
    bench.wait(LINGER_S)
    told = [(fact.state, fact.generation) for fact in bench.seen(facts.GroupState)[-3:]]
    assert told == [("Dead", empty.generation), ("Stable", 1), ("Empty", empty.generation)]


def test_a_group_whose_creation_is_lost_answers_its_parked_join() -> None:
    bench = lingering()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    asked = bench.ask(join(instance="i"))
    assert asked not in bench.answers
    bench.wait(LINGER_S)
    assert bench.answers[asked].error is Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.group.shards[0].groups == {}


def test_a_group_stays_if_the_batch_after_its_creation_is_lost() -> None:
    bench = lingering()
    member = bench.member_id("a")
    asked = bench.ask(join(member, client="a"))
    bench.wait(5)
    generation = bench.answers[asked].generation_id
    bench.log.error = Errors.KAFKA_STORAGE_ERROR
    asked = bench.ask(sync(member, generation, ((member, (T0,)),)))
    bench.wait(LINGER_S)
    assert bench.answers[asked].error is Errors.NOT_COORDINATOR
    assert list(bench.group.shards[0].groups[GROUP].members) == [member]
    assert bench.seen(facts.GroupState)[-1].state == "PreparingRebalance"


def test_an_empty_group_whose_deletion_is_lost_is_there_again() -> None:
    bench = lingering()
    bench.ask(commit(5, tp=T0))
    bench.wait(LINGER_S)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    asked = bench.ask(DeleteGroupsRequest((GROUP,)))
    assert bench.group.shards[0].groups == {}
    bench.wait(LINGER_S)
    assert bench.answers[asked].results == ((GROUP, Errors.COORDINATOR_NOT_AVAILABLE),)
    bench.log.error = Errors.NONE
    assert list(bench.group.shards[0].groups) == [GROUP]
    found = bench.ask(fetch(T0))
    assert offsets(bench.answers[found]) == {T0: 5}


def test_a_resignation_fails_the_open_batch() -> None:
    bench = lingering()
    asked = bench.ask(commit(5, tp=T0))
    bench.group.on_resigned(0, 2, bench.now)
    bench.settle()
    assert bench.answers[asked].results == ((T0, Errors.NOT_COORDINATOR),)
    bench.wait(1)
    assert batches(bench) == []


def test_a_transaction_closes_the_batch_before_it() -> None:
    bench = lingering()
    bench.ask(commit(5, tp=T0))
    request = TxnOffsetCommitRequest("tx", GROUP, 7, 0, -1, "", None, ((T1, 3, 0, ""),), 1)
    bench.last += 1
    item = Request(7, bench.last, request, bench.now)
    bench.group.on_txn_offset_commit(item, request, None, lambda answer: answer, bench.now)
    bench.settle()
    assert batches(bench) == [1, 1]
    done: list[Errors] = []
    bench.ask(commit(6, tp=T0))
    marker = WritableTxnMarker(7, 0, True, (bench.tp,), 0, 1)
    bench.group.complete_transaction(
        bench.tp, marker, lambda error, _now: done.append(error), bench.now
    )
    bench.settle()
    assert (batches(bench), done) == ([1, 1, 1, 1], [Errors.NONE])
    assert bench.group.shards[0].latest(GROUP, TopicPartition("orders", 1)) is not None


def test_heartbeats_without_news_wait_for_the_open_batch_only() -> None:
    bench = lingering()
    bench.ask(joining("a"))
    bench.wait(LINGER_S)
    assert bench.get(beat("a", 1)).error is Errors.NONE
    bench.ask(commit(5, "a", 1, T0))
    waits = bench.ask(beat("a", 1))
    assert waits not in bench.answers
    bench.wait(LINGER_S)
    assert bench.answers[waits].error is Errors.NONE
