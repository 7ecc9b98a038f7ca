"""The transactional producer's conversation with brokers (KIP-98, KIP-360, KIP-890)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.client.exceptions import (
    CommitFailedError,
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortableError,
)
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.client.producer.transactions.states import SOURCES, State
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.errors import Errors
from kafkasim.model.facts import (
    Acked,
    SendFailed,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
    TransactionOffsets,
    TransactionSent,
)
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from kafkasim.model.values import value
from kafkasim.scenarios.variants.releases import RULES
from tests.model.client_harness import Harness
from tests.model.transactional_broker import (
    TID,
    WITHHELD,
    TransactionalCluster,
    send,
    transactional,
)


@value
class Group:
    group_id: str = "g"
    generation_id: int = 3
    member_id: str = "m"
    group_instance_id: str | None = None


OFFSETS = {("in", 0): (5, -1)}


def state(h: Harness) -> State:
    """The state of the producer's manager."""
    manager: Any = h.process.clients["c"].transactions._manager  # type: ignore[union-attr]
    found: State = manager.state
    return found


def error(outcome: Any) -> tuple[type, str]:
    assert isinstance(outcome, KafkaError), outcome
    return type(outcome), outcome.error


def test_init_finds_the_coordinator_and_takes_an_id() -> None:
    cluster = TransactionalCluster()
    h = Harness(producer_config({"transactional.id": TID}), cluster)
    assert h.result("init_transactions") is None
    assert cluster.wire == ["FindCoordinator tx", "ApiVersions", "InitProducerId (-1, -1)"]
    assert state(h) is State.READY


def test_a_transaction_of_version_2() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(50)
    send(h, 2, 1)
    h.run(50)
    send(h, 3, 0)
    assert h.result("commit_transaction") is None
    assert cluster.wire == [
        "Produce t-0 epoch 0 seq 0 v2",
        "Produce t-1 epoch 0 seq 0 v2",
        "Produce t-0 epoch 0 seq 1 v2",
        "EndTxn commit v2 epoch 0",
    ]
    h.result("begin_transaction")
    send(h, 4, 0)
    h.result("commit_transaction")
    assert cluster.wire[4:] == ["Produce t-0 epoch 1 seq 0 v2", "EndTxn commit v2 epoch 1"]


def test_a_transaction_of_version_1_adds_partitions_first() -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(50)
    send(h, 2, 1)
    send(h, 3, 0)
    h.result("commit_transaction")
    h.result("begin_transaction")
    send(h, 4, 0)
    h.result("commit_transaction")
    assert cluster.wire == [
        "AddPartitionsToTxn t-0",
        "Produce t-0 epoch 0 seq 0 v1",
        "AddPartitionsToTxn t-1",
        "Produce t-0 epoch 0 seq 1 v1",
        "Produce t-1 epoch 0 seq 0 v1",
        "EndTxn commit v1 epoch 0",
        "AddPartitionsToTxn t-0",
        "Produce t-0 epoch 0 seq 2 v1",
        "EndTxn commit v1 epoch 0",
    ]


@pytest.mark.parametrize(("throttle_ms", "lookups"), [(900, 0), (1500, 1), (2500, 2)])
def test_a_throttled_client_waits_before_it_ends_its_transaction(
    throttle_ms: int, lookups: int
) -> None:
    """NetworkClientUtils.awaitReady waits for request.timeout.ms at most (KIP-219)."""
    cluster = TransactionalCluster()
    cluster.throttle_ms = throttle_ms
    h = transactional(cluster, request_timeout_ms=1000)
    h.result("begin_transaction")
    send(h, 1, 1)
    begun = h.now
    assert h.result("commit_transaction") is None
    assert h.now - begun >= throttle_ms * 1000
    assert cluster.wire == [
        "Produce t-1 epoch 0 seq 0 v2",
        *["FindCoordinator tx"] * lookups,
        "EndTxn commit v2 epoch 0",
    ]


def test_the_facts_of_a_transaction() -> None:
    h = transactional(TransactionalCluster())
    h.result("begin_transaction")
    send(h, 1, 0)
    h.result("send_offsets_to_transaction", OFFSETS, Group())
    h.result("commit_transaction")
    facts = [fact for fact in h.facts if type(fact).__name__.startswith("Transaction")]
    assert facts == [
        TransactionBegun(TID, 0, 7, 0),
        TransactionSent(TID, 0, "id-t", 0, 1),
        TransactionOffsets(TID, 0, "g", "in", 0, 5),
        TransactionEnding(TID, 0, True),
        TransactionEnded(TID, 0, "committed"),
    ]


def test_an_empty_transaction_is_not_told_to_the_coordinator() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    assert h.result("commit_transaction") is None
    assert (cluster.wire, state(h)) == ([], State.READY)


def test_offsets_of_version_1_are_added_before_they_are_committed() -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    h.result("begin_transaction")
    assert h.result("send_offsets_to_transaction", OFFSETS, Group()) is None
    h.result("commit_transaction")
    assert cluster.wire == [
        "AddOffsetsToTxn g",
        "FindCoordinator g",
        "TxnOffsetCommit in-0@5",
        "EndTxn commit v1 epoch 0",
    ]


def test_offsets_of_version_2_go_to_the_group_at_once() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    h.result("send_offsets_to_transaction", OFFSETS, Group())
    assert cluster.wire == ["FindCoordinator g", "TxnOffsetCommit in-0@5"]


def test_abort_gives_up_what_was_not_sent() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster, linger_ms=1000)
    h.result("begin_transaction")
    send(h, 1, 0)
    assert h.result("abort_transaction") is None
    assert cluster.wire == ["EndTxn abort v2 epoch 0"]
    (failed,) = h.of(SendFailed)
    assert (failed.record_ids, failed.error, failed.indeterminate) == (
        (1,),
        "TRANSACTION_ABORTED",
        False,
    )
    assert h.of(TransactionEnded) == [TransactionEnded(TID, 0, "aborted")]


def test_abort_waits_for_what_is_in_flight() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(ProduceRequest, WITHHELD)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(10)
    call = h.call("abort_transaction")
    h.run(100)
    assert call not in h.replies
    h.reset("broker-0")
    h.run(1000)
    assert h.replies[call] is None
    assert cluster.wire[-2:] == ["Produce t-0 epoch 0 seq 0 v2", "EndTxn abort v2 epoch 0"]


def test_commit_flushes_batches_that_linger() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster, linger_ms=10_000)
    h.result("begin_transaction")
    send(h, 1, 0)
    started = h.now
    h.result("commit_transaction")
    assert h.now - started < 1_000_000
    assert [acked.record_ids for acked in h.of(Acked)] == [(1,)]


def test_after_a_commit_batches_linger_again() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster, linger_ms=10_000)
    h.result("begin_transaction")
    h.result("commit_transaction")
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(5_000)
    assert h.of(Acked) == []


@pytest.mark.parametrize(
    ("kind", "refusal", "raised"),
    [
        (ProduceRequest, Errors.INVALID_PRODUCER_EPOCH, InvalidProducerEpochError),
        (ProduceRequest, Errors.TRANSACTION_ABORTABLE, KafkaError),
        (ProduceRequest, Errors.INVALID_TXN_STATE, KafkaError),
        (ProduceRequest, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError),
        (EndTxnRequest, Errors.TRANSACTION_ABORTABLE, TransactionAbortableError),
        (EndTxnRequest, Errors.UNKNOWN_PRODUCER_ID, KafkaError),
    ],
)
def test_an_abortable_error_of_a_commit(kind: type, refusal: Errors, raised: type) -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(kind, refusal)
    h.result("begin_transaction")
    send(h, 1, 0)
    assert isinstance(h.result("commit_transaction"), raised)
    assert state(h) is State.ABORTABLE_ERROR
    assert h.result("abort_transaction") is None
    assert state(h) is State.READY


@pytest.mark.parametrize(
    ("kind", "refusal", "raised"),
    [
        (ProduceRequest, Errors.PRODUCER_FENCED, ProducerFencedError),
        (ProduceRequest, Errors.INVALID_PRODUCER_ID_MAPPING, KafkaError),
        (EndTxnRequest, Errors.PRODUCER_FENCED, ProducerFencedError),
        (EndTxnRequest, Errors.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        (EndTxnRequest, Errors.INVALID_TXN_STATE, KafkaError),
        (EndTxnRequest, Errors.INVALID_PRODUCER_ID_MAPPING, KafkaError),
    ],
)
def test_a_fatal_error_of_a_commit(kind: type, refusal: Errors, raised: type) -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(kind, refusal)
    h.result("begin_transaction")
    send(h, 1, 0)
    assert isinstance(h.result("commit_transaction"), raised)
    assert state(h) is State.FATAL_ERROR
    for call in ("abort_transaction", "begin_transaction", "commit_transaction"):
        assert isinstance(h.result(call), raised)
    outcome = "fenced" if raised is ProducerFencedError else "failed"
    assert h.of(TransactionEnded) == [TransactionEnded(TID, 0, outcome)]
    assert h.result("close") is None


@pytest.mark.parametrize("refusal", [Errors.CONCURRENT_TRANSACTIONS, Errors.NOT_COORDINATOR])
def test_the_end_is_asked_for_again(refusal: Errors) -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(EndTxnRequest, refusal)
    h.result("begin_transaction")
    send(h, 1, 0)
    assert h.result("commit_transaction") is None
    looked_up = ["FindCoordinator tx"] if refusal is Errors.NOT_COORDINATOR else []
    assert cluster.wire[1:] == [
        f"EndTxn commit v2 epoch 0 -> {refusal.name}",
        *looked_up,
        "EndTxn commit v2 epoch 0",
    ]


def test_an_abort_that_may_only_abort_is_fatal() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(EndTxnRequest, Errors.TRANSACTION_ABORTABLE)
    h.result("begin_transaction")
    send(h, 1, 0)
    assert isinstance(h.result("abort_transaction"), KafkaError)
    assert state(h) is State.FATAL_ERROR


def test_version_1_asks_for_a_new_epoch_after_an_error() -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    cluster.script(ProduceRequest, Errors.INVALID_TXN_STATE)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(50)
    assert isinstance(h.result("commit_transaction"), KafkaError)
    assert h.result("abort_transaction") is None
    h.result("begin_transaction")
    send(h, 2, 0)
    h.result("commit_transaction")
    assert cluster.wire[2:] == [
        "EndTxn abort v1 epoch 0",
        "InitProducerId (7, 0)",
        "AddPartitionsToTxn t-0",
        "Produce t-0 epoch 1 seq 0 v1",
        "EndTxn commit v1 epoch 1",
    ]


def test_a_batch_refused_before_the_append_leaves_no_gap() -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    cluster.script(ProduceRequest, Errors.INVALID_TXN_STATE)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.result("commit_transaction")  # it is refused during the commit: no new epoch is asked for
    h.result("abort_transaction")
    h.result("begin_transaction")
    send(h, 2, 0)
    h.result("commit_transaction")
    assert cluster.wire[-2:] == ["Produce t-0 epoch 0 seq 0 v1", "EndTxn commit v1 epoch 0"]


def test_an_upgrade_begins_with_the_next_transaction_and_a_new_epoch() -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(50)
    cluster.version = 2
    manager: Any = h.process.clients["c"].transactions._manager  # type: ignore[union-attr]
    manager.finalized_version = 2  # as an ApiVersions response after a reconnect would have it
    h.result("commit_transaction")
    h.result("begin_transaction")
    send(h, 2, 0)
    h.result("commit_transaction")
    assert cluster.wire[2:] == [
        "EndTxn commit v1 epoch 0",
        "InitProducerId (7, 0)",
        "Produce t-0 epoch 1 seq 0 v2",
        "EndTxn commit v2 epoch 1",
    ]


def test_partitions_are_added_again_soon_while_the_last_transaction_completes() -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    cluster.script(AddPartitionsToTxnRequest, Errors.CONCURRENT_TRANSACTIONS)
    h.result("begin_transaction")
    started = h.now
    send(h, 1, 0)
    h.result("commit_transaction")
    assert 20_000 < h.now - started < 60_000  # 20 ms, not retry.backoff.ms (KAFKA-5482)


@pytest.mark.parametrize("refusal", [Errors.PRODUCER_FENCED, Errors.INVALID_TXN_STATE])
def test_partitions_refused_for_good(refusal: Errors) -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    cluster.script(AddPartitionsToTxnRequest, refusal)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(100)
    assert state(h) is State.FATAL_ERROR
    assert [(f.record_ids, f.error) for f in h.of(SendFailed)] == [((1,), refusal.name)]


def test_partitions_that_cannot_be_added_let_the_transaction_fail() -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    cluster.script(AddPartitionsToTxnRequest, Errors.OPERATION_NOT_ATTEMPTED)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(100)
    assert state(h) is State.ABORTABLE_ERROR
    assert isinstance(send(h, 2, 0), KafkaError)
    assert h.result("abort_transaction") is None
    assert "EndTxn abort v1 epoch 0" not in cluster.wire  # no partition, no transaction


@pytest.mark.parametrize(
    ("refusal", "raised"),
    [
        (Errors.ILLEGAL_GENERATION, CommitFailedError),
        (Errors.UNKNOWN_MEMBER_ID, CommitFailedError),
        (Errors.FENCED_INSTANCE_ID, KafkaError),
        (Errors.TRANSACTION_ABORTABLE, TransactionAbortableError),
    ],
)
def test_a_member_that_lost_its_place_must_abort(refusal: Errors, raised: type) -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(TxnOffsetCommitRequest, refusal)
    h.result("begin_transaction")
    assert isinstance(h.result("send_offsets_to_transaction", OFFSETS, Group()), raised)
    assert state(h) is State.ABORTABLE_ERROR
    assert h.result("abort_transaction") is None


def test_offsets_are_sent_again_while_the_group_loads_or_moves() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(
        TxnOffsetCommitRequest, Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.NOT_COORDINATOR
    )
    h.result("begin_transaction")
    assert h.result("send_offsets_to_transaction", OFFSETS, Group()) is None
    assert cluster.wire == [
        "FindCoordinator g",
        "TxnOffsetCommit in-0@5 -> COORDINATOR_LOAD_IN_PROGRESS",
        "TxnOffsetCommit in-0@5 -> NOT_COORDINATOR",
        "FindCoordinator g",
        "TxnOffsetCommit in-0@5",
    ]


def test_a_fenced_group_commit_is_fatal() -> None:
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    cluster.script(AddOffsetsToTxnRequest, Errors.PRODUCER_FENCED)
    h.result("begin_transaction")
    outcome = h.result("send_offsets_to_transaction", OFFSETS, Group())
    assert error(outcome) == (ProducerFencedError, "PRODUCER_FENCED")


def test_init_waits_for_the_transaction_before_to_be_aborted() -> None:
    cluster = TransactionalCluster()
    cluster.script(InitProducerIdRequest, *[Errors.CONCURRENT_TRANSACTIONS] * 3)
    h = transactional(cluster)
    assert state(h) is State.READY


def test_init_is_refused_for_good() -> None:
    cluster = TransactionalCluster()
    cluster.script(InitProducerIdRequest, Errors.INVALID_TRANSACTION_TIMEOUT)
    h = Harness(producer_config({"transactional.id": TID}), cluster)
    assert error(h.result("init_transactions")) == (KafkaError, "INVALID_TRANSACTION_TIMEOUT")
    assert state(h) is State.FATAL_ERROR


def test_a_coordinator_that_nobody_knows_is_asked_for_again() -> None:
    cluster = TransactionalCluster()
    cluster.script(FindCoordinatorRequest, Errors.COORDINATOR_NOT_AVAILABLE)
    h = transactional(cluster)
    assert state(h) is State.READY


def test_a_call_that_timed_out_waits_for_the_same_result() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster, max_block_ms=500)
    cluster.script(EndTxnRequest, WITHHELD)
    h.result("begin_transaction")
    send(h, 1, 0)
    assert isinstance(h.result("commit_transaction"), KafkaTimeoutError)
    assert isinstance(h.result("abort_transaction"), IllegalStateError)
    assert isinstance(send(h, 2, 0), KafkaError)
    call = h.call("commit_transaction")
    h.reset("broker-1")
    h.run(400)
    assert h.replies[call] is None
    assert h.of(TransactionEnding) == [TransactionEnding(TID, 0, True)]


def test_a_record_that_expires_lets_the_transaction_fail() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster, request_timeout_ms=200, delivery_timeout_ms=500)
    cluster.script(ProduceRequest, *[WITHHELD] * 3)
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(1_000)
    outcome = h.result("commit_transaction")
    assert error(outcome) == (KafkaError, "UNKNOWN_SERVER_ERROR")  # a KafkaException of no code
    (failed,) = h.of(SendFailed)
    assert (failed.error, failed.indeterminate) == ("TIMED_OUT", True)
    assert h.result("abort_transaction") is None


@pytest.mark.parametrize(("release", "knows"), [("2.8-zk", False), ("4.0", True)])
def test_old_clients_do_not_ask_for_transaction_abortable(release: str, knows: bool) -> None:
    """Produce 11 and TxnOffsetCommit 4 (KIP-890) came with 3.8."""
    cluster = TransactionalCluster(version=1)
    rules = RULES.get(release, {}).get("client", ClientRules)()
    h = Harness(producer_config({"transactional.id": TID}), cluster, rules)
    h.result("init_transactions")
    h.result("begin_transaction")
    send(h, 1, 0)
    h.run(50)
    h.result("send_offsets_to_transaction", OFFSETS, Group())
    asked = [*cluster.requests(ProduceRequest), *cluster.requests(TxnOffsetCommitRequest)]
    assert [request.knows_abortable for request in asked] == [knows, knows]


def test_calls_that_do_not_fit_the_state() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    for call in ("commit_transaction", "abort_transaction", "init_transactions"):
        assert isinstance(h.result(call), IllegalStateError)
    assert isinstance(send(h, 1, 0), IllegalStateError)
    h.result("begin_transaction")
    assert isinstance(h.result("begin_transaction"), IllegalStateError)
    assert state(h) is State.IN_TRANSACTION


def test_nothing_works_before_init() -> None:
    h = Harness(producer_config({"transactional.id": TID}), TransactionalCluster())
    assert isinstance(h.result("begin_transaction"), IllegalStateError)
    outcome = h.result("send_offsets_to_transaction", OFFSETS, Group())
    assert isinstance(outcome, IllegalStateError)


def test_close_aborts_an_open_transaction() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    send(h, 1, 0)
    assert h.result("close") is None
    assert cluster.wire == ["Produce t-0 epoch 0 seq 0 v2", "EndTxn abort v2 epoch 0"]
    assert error(h.result("begin_transaction")) == (KafkaError, "CLOSED")


def test_an_epoch_that_ran_out_brings_a_new_producer_id() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    send(h, 1, 0)
    cluster.producer_id = 8
    h.result("commit_transaction")
    h.result("begin_transaction")
    send(h, 2, 0)
    h.result("commit_transaction")
    assert [acked.producer_id for acked in h.of(Acked)] == [7, 8]


def test_no_state_is_entered_from_a_fatal_one() -> None:
    assert [s for s in State if State.FATAL_ERROR in SOURCES[s]] == [State.FATAL_ERROR]
