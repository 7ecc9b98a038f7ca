"""Offsets of transactions at the group coordinator (OffsetMetadataManagerTest, KIP-447)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.facts import OffsetCommitted
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    Subscription,
    TxnOffsetCommitRequest,
    WritableTxnMarker,
)
from kafkasim.model.records import GROUP_METADATA_TOPIC, TopicPartition
from tests.model.consumer_group_harness import ConsumerBench
from tests.model.group_harness import Bench

NONE = Errors.NONE
TP = TopicPartition("orders", 0)
LOG = TopicPartition(GROUP_METADATA_TOPIC, 0)
GROUP = "billing"
UNSTABLE = Errors.UNSTABLE_OFFSET_COMMIT


@pytest.fixture
def bench() -> Bench:
    return Bench().elect()


def txn_commit(bench: Bench, offset: int, producer_id: int = 7, **fields: Any) -> Any:
    """Commit in a transaction; return the answer, None while there is none."""
    values: dict[str, Any] = {
        "group_id": GROUP,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "offsets": ((TP, offset, 0, ""),),
    }
    request = TxnOffsetCommitRequest(
        transactional_id="payments",
        producer_id=producer_id,
        producer_epoch=0,
        **{**values, **fields},
    )
    bench.last += 1
    item = _Item(7, bench.last)
    bench.group.on_txn_offset_commit(item, request, None, lambda answer: answer, bench.now)
    bench.settle()
    answer = bench.answers.get(bench.last)
    return None if answer is None else answer.results[0][1]


def mark(bench: Bench, committed: bool, producer_id: int = 7) -> list[Errors]:
    """Write the marker; return the error, once there is one."""
    errors: list[Errors] = []
    marker = WritableTxnMarker(producer_id, 0, committed, (LOG,), 3)
    bench.group.complete_transaction(LOG, marker, lambda error, _: errors.append(error), bench.now)
    bench.settle()
    return errors


def fetch(bench: Bench, stable: bool = False) -> tuple[Errors, int]:
    answer = bench.get(OffsetFetchRequest(GROUP, (TP,), require_stable=stable))
    found = answer.partitions[0]
    return found.error, found.offset


def commit(bench: Bench, offset: int) -> None:
    bench.get(OffsetCommitRequest(GROUP, -1, "", None, ((TP, offset, 0, ""),)))


class _Item:
    def __init__(self, connection: int, correlation: int) -> None:
        self.connection = connection
        self.correlation = correlation


def test_an_offset_is_pending_until_its_transaction_commits(bench: Bench) -> None:
    commit(bench, 3)
    assert txn_commit(bench, 5) is NONE
    assert (fetch(bench), fetch(bench, stable=True)) == ((NONE, 3), (UNSTABLE, -1))
    assert mark(bench, committed=True) == [NONE]
    assert (fetch(bench), fetch(bench, stable=True)) == ((NONE, 5), (NONE, 5))
    assert [fact.offset for fact in bench.seen(OffsetCommitted)] == [3, 5]


def test_an_abort_drops_the_offset(bench: Bench) -> None:
    commit(bench, 3)
    txn_commit(bench, 5)
    assert mark(bench, committed=False) == [NONE]
    assert fetch(bench, stable=True) == (NONE, 3)
    assert [fact.offset for fact in bench.seen(OffsetCommitted)] == [3]


def test_a_marker_without_offsets_changes_nothing(bench: Bench) -> None:
    commit(bench, 3)
    assert mark(bench, committed=True, producer_id=8) == [NONE]
    assert fetch(bench, stable=True) == (NONE, 3)


def test_of_two_commits_the_later_record_wins_whenever_its_transaction_ends(bench: Bench) -> None:
    txn_commit(bench, 5)
    commit(bench, 9)
    mark(bench, committed=True)
    assert fetch(bench, stable=True) == (NONE, 9)
    txn_commit(bench, 20, producer_id=7)
    txn_commit(bench, 30, producer_id=8)
    mark(bench, committed=True, producer_id=8)
    mark(bench, committed=True, producer_id=7)
    assert fetch(bench, stable=True) == (NONE, 30)


def test_a_marker_counts_at_once_for_stable_fetches_and_for_others_once_committed(
    bench: Bench,
) -> None:
    commit(bench, 3)
    txn_commit(bench, 5)
    bench.auto_replicate = False
    errors = mark(bench, committed=True)
    assert (errors, fetch(bench)) == ([], (NONE, 3))
    stable = bench.ask(OffsetFetchRequest(GROUP, (TP,), require_stable=True))
    assert stable not in bench.answers
    bench.replicate()
    assert errors == [NONE]
    assert bench.answers[stable].partitions[0].offset == 5


@pytest.mark.parametrize("committed", [True, False, None])
def test_pending_offsets_and_markers_survive_a_failover(
    bench: Bench, committed: bool | None
) -> None:
    commit(bench, 3)
    txn_commit(bench, 5)
    if committed is not None:
        mark(bench, committed)
    twin = Bench(bench.log).elect(2)
    expected = {True: (NONE, 5), False: (NONE, 3), None: (UNSTABLE, -1)}
    assert fetch(twin, stable=True) == expected[committed]
    assert fetch(twin) == (NONE, 5 if committed else 3)


def test_a_load_passes_a_batch_whose_marker_the_cleaner_has_removed(bench: Bench) -> None:
    commit(bench, 3)
    mark(bench, committed=True)
    batches = bench.log.batches[LOG]
    batches[-1] = replace(batches[-1], records=())
    twin = Bench(bench.log).elect(2)
    assert (batches[-1].control, fetch(twin, stable=True)) == (True, (NONE, 3))


def test_the_scala_coordinator_withholds_pending_offsets_too() -> None:
    bench = Bench(new_coordinator=False).elect()
    commit(bench, 3)
    txn_commit(bench, 5)
    assert (fetch(bench), fetch(bench, stable=True)) == ((NONE, 3), (UNSTABLE, -1))


def member(bench: Bench) -> str:
    """Let one member join; return its id. The group is in generation 1."""
    subscription = Subscription(("orders",))
    join = JoinGroupRequest(
        GROUP, 10_000, 60_000, "", None, "consumer", (("range", subscription),), "client"
    )
    member_id = bench.get(join).member_id
    ask = bench.ask(
        JoinGroupRequest(
            GROUP, 10_000, 60_000, member_id, None, "consumer", join.protocols, "client"
        )
    )
    bench.wait(4)
    assert bench.answers[ask].generation_id == 1
    return str(member_id)


def test_a_commit_of_a_zombie_is_refused(bench: Bench) -> None:
    """B61: the generation, the member and the instance are checked."""
    me = member(bench)
    assert txn_commit(bench, 5, generation_id=1, member_id=me) is NONE
    assert txn_commit(bench, 5, generation_id=0, member_id=me) is Errors.ILLEGAL_GENERATION
    assert txn_commit(bench, 5, generation_id=1, member_id="x") is Errors.UNKNOWN_MEMBER_ID
    static: dict[str, Any] = {"generation_id": 1, "member_id": me, "group_instance_id": "i"}
    assert txn_commit(bench, 5, **static) is Errors.UNKNOWN_MEMBER_ID
    assert txn_commit(bench, 5, group_id="new", generation_id=1) is Errors.ILLEGAL_GENERATION
    # Clients before KIP-447 send no generation, and are served in the midst of a rebalance.
    assert txn_commit(bench, 6) is NONE


def test_a_commit_of_a_consumer_group_has_its_members_epoch() -> None:
    """KIP-848: a stale epoch is told as a generation, which producers know."""
    bench = ConsumerBench().elect()
    join = ConsumerGroupHeartbeatRequest(
        GROUP, "m", 0, None, rebalance_timeout_ms=60_000, subscribed_topic_names=("orders",),
        topic_partitions=(),
    )  # fmt: skip
    epoch = bench.get(join).member_epoch
    assert epoch > 0
    assert txn_commit(bench, 5, generation_id=epoch, member_id="m") is NONE
    assert txn_commit(bench, 5, generation_id=epoch - 1, member_id="m") is Errors.ILLEGAL_GENERATION
    assert txn_commit(bench, 5, generation_id=epoch, member_id="x") is Errors.UNKNOWN_MEMBER_ID
    mark(bench, committed=True)
    stored = bench.group.shards[0].committed(GROUP, TP)
    assert stored is not None
    assert stored.offset == 5


def test_a_variant_takes_a_zombies_commit() -> None:
    class Unchecked(GroupRules):
        def checks_transactional_commit(self) -> bool:
            return False

    bench = Bench(rules=Unchecked()).elect()
    me = member(bench)
    assert txn_commit(bench, 5, generation_id=0, member_id=me) is NONE


def test_a_variant_shows_an_offset_that_a_transaction_may_change() -> None:
    class Unstable(GroupRules):
        def withholds_pending_offset(self) -> bool:
            return False

    bench = Bench(rules=Unstable()).elect()
    commit(bench, 3)
    txn_commit(bench, 5)
    assert fetch(bench, stable=True) == (NONE, 3)


def test_an_offset_with_too_much_metadata_does_not_keep_the_others_out(bench: Bench) -> None:
    """OffsetMetadataManager.commitTransactionalOffset has a result for each partition."""
    other = TopicPartition("orders", 1)
    offsets = ((other, 4, 0, "x" * 4097), (TP, 5, 0, ""))
    assert txn_commit(bench, 5, offsets=offsets) is Errors.OFFSET_METADATA_TOO_LARGE
    assert bench.answers[bench.last].results[1] == (TP, NONE)
    assert fetch(bench, stable=True)[0] is UNSTABLE
    assert mark(bench, committed=True) == [NONE]
    found = bench.get(OffsetFetchRequest(GROUP, (other, TP), require_stable=True)).partitions
    assert [(each.error, each.offset) for each in found] == [(NONE, -1), (NONE, 5)]


def test_errors_of_a_commit(bench: Bench) -> None:
    assert txn_commit(bench, 5, group_id="") is Errors.INVALID_GROUP_ID
    long = ((TP, 5, 0, "x" * 4097),)
    assert txn_commit(bench, 5, offsets=long) is Errors.OFFSET_METADATA_TOO_LARGE
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert txn_commit(bench, 5) is Errors.COORDINATOR_NOT_AVAILABLE
    assert mark(bench, committed=True) == [Errors.NOT_ENOUGH_REPLICAS]
    bench.log.error = Errors.INVALID_PRODUCER_EPOCH
    assert txn_commit(bench, 5) is Errors.INVALID_PRODUCER_EPOCH
    bench.log.error = NONE
    bench.group.on_resigned(0, 2, bench.now)
    assert txn_commit(bench, 5) is Errors.NOT_COORDINATOR
    assert mark(bench, committed=True) == [Errors.NOT_COORDINATOR]
    bench.group.on_elected(0, 3, bench.now)
    bench.drain()  # the load is posted
    errors: list[Errors] = []
    marker = WritableTxnMarker(7, 0, True, (LOG,), 3)
    posts, bench.posts = bench.posts, []
    bench.group.complete_transaction(LOG, marker, lambda error, _: errors.append(error), 0)
    bench.settle()
    assert errors == [Errors.COORDINATOR_LOAD_IN_PROGRESS]
    assert posts


def test_a_commit_and_a_marker_that_are_not_committed_in_time(bench: Bench) -> None:
    bench.auto_replicate = False
    assert txn_commit(bench, 5) is None
    number = bench.last
    errors = mark(bench, committed=True)
    bench.wait(5)
    assert bench.answers[number].results[0][1] is Errors.COORDINATOR_NOT_AVAILABLE
    assert errors == []
    bench.wait(25)
    assert errors == [Errors.REQUEST_TIMED_OUT]


def test_a_pending_offset_does_not_expire_and_keeps_its_group(bench: Bench) -> None:
    commit(bench, 3)
    txn_commit(bench, 5)
    bench.wait(8 * 86_400)
    assert GROUP in bench.group.shards[0].groups
    assert bench.group.shards[0].stored(GROUP) == [TP]
    mark(bench, committed=False)
    bench.wait(1200)
    assert bench.group.shards[0].groups == {}


def test_offsets_of_a_deleted_topic_are_not_pending_any_more(bench: Bench) -> None:
    txn_commit(bench, 5)
    bench.group.on_partitions_deleted((TP,), bench.now)
    bench.settle()
    mark(bench, committed=True)
    assert fetch(bench, stable=True) == (NONE, -1)
