"""The transactional producer after errors: what the drawn histories do not show to be broken.

A rule that is broken here costs attempts, epochs or time, but no record of a transaction
(``tests/stateful/test_transactional_producer_stateful.py``).
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.client.exceptions import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    TransactionAbortableError,
)
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import (
    AddPartitionsToTxnRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
)
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.variants.releases import Client41
from tests.model.client_harness import Harness
from tests.model.test_transactional_producer import Group
from tests.model.transactional_broker import (
    WITHHELD,
    TransactionalCluster,
    send,
    transactional,
)

EXPIRING = {"request_timeout_ms": 200, "delivery_timeout_ms": 500}


def answer(h: Harness, index: int, error: Errors, log_start_offset: int = 0) -> None:
    """Answer a withheld ProduceRequest."""
    connection, correlation, message = h.withheld[index]
    tp = message.partitions[0].tp
    part = ProducePartitionResponse(tp, error, -1, -1, log_start_offset)
    h.respond(connection, correlation, ProduceResponse((part,)))
    h.run(2)


def with_one_record(version: int = 2) -> tuple[TransactionalCluster, Harness]:
    """Return a cluster and a producer, of whose transaction record 1 is acknowledged."""
    cluster = TransactionalCluster(version)
    h = transactional(cluster)
    h.result("begin_transaction")
    send(h, 1)
    h.run(50)
    return cluster, h


def produced(cluster: TransactionalCluster) -> list[str]:
    return [line for line in cluster.wire if line.startswith("Produce")]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (Errors.TRANSACTION_ABORTABLE, True),
        (Errors.PRODUCER_FENCED, False),
        (Errors.INVALID_PRODUCER_EPOCH, False),
    ],
)
def test_a_record_that_is_refused_after_an_error_is_not_sent(error: Errors, raised: bool) -> None:
    """The Sender gives up what was not sent before it sends (runOnce, maybeAbortBatches).

    KafkaProducer.doSend returns a failed future with an ApiException, and raises the others.
    """
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(ProduceRequest, error)
    h.result("begin_transaction")
    send(h, 1)
    h.run(50)
    refused = h.result("send", "t", None, 2, 10, 0, True)
    assert isinstance(refused, KafkaError) == raised
    told = h.replies[-h.calls]
    assert raised or told.error == error.name
    commit = h.result("commit_transaction")
    assert isinstance(commit, KafkaError)
    assert commit.error == error.name
    h.result("abort_transaction")
    h.run(50)
    assert len(produced(cluster)) == 1
    assert [fact.record_ids for fact in h.of(SendFailed)] == [(1,), (2,)]
    assert h.replies[-h.calls + 2] is told


def test_a_retry_whose_sequences_were_forgotten_waits_for_the_delivery_timeout() -> None:
    """RecordAccumulator.insertInSequenceOrder throws: the batch is in no queue any more."""
    cluster = TransactionalCluster()
    h = transactional(cluster, **EXPIRING)
    cluster.script(ProduceRequest, NONE, WITHHELD, WITHHELD)
    h.result("begin_transaction")
    for record in (0, 1, 2):
        send(h, record)
        h.run(5)
    answer(h, 0, Errors.UNKNOWN_PRODUCER_ID)
    h.reset("broker-0")
    assert h.result("abort_transaction") is None
    failed = [(fact.record_ids, fact.error) for fact in h.of(SendFailed)]
    assert failed == [((1,), "UNKNOWN_PRODUCER_ID"), ((2,), "TIMED_OUT")]
    assert len(produced(cluster)) == 3


def test_a_transaction_goes_on_when_the_head_of_the_log_went_with_its_producer() -> None:
    """TransactionManager.canRetry: the log starts after the last acknowledged offset."""
    cluster, h = with_one_record()
    cluster.script(ProduceRequest, WITHHELD)
    send(h, 2)
    h.run(5)
    answer(h, 0, Errors.UNKNOWN_PRODUCER_ID, 9)
    assert h.result("commit_transaction") is None
    assert [line.split(" v")[0] for line in produced(cluster)] == [
        "Produce t-0 epoch 0 seq 0",
        "Produce t-0 epoch 0 seq 1",
        "Produce t-0 epoch 0 seq 0",
    ]
    assert [fact.record_ids for fact in h.of(Acked)] == [(1,), (2,)]


def test_a_producer_that_is_unknown_in_the_commit_begins_at_0_in_the_same_epoch() -> None:
    """handleFailedBatch resets the partition; while completing nothing asks for an epoch."""
    cluster, h = with_one_record(version=1)
    cluster.script(ProduceRequest, WITHHELD)
    send(h, 2)
    call = h.call("commit_transaction")
    h.run(5)
    answer(h, 0, Errors.UNKNOWN_PRODUCER_ID)
    assert isinstance(h.replies[call], Exception)
    assert h.result("abort_transaction") is None
    h.result("begin_transaction")
    send(h, 3)
    h.run(50)
    assert produced(cluster)[-1] == "Produce t-0 epoch 0 seq 0 v1"


def test_a_gap_that_is_found_in_the_commit_asks_for_a_new_epoch() -> None:
    """maybeResolveSequences: the batch had been tried twice, so it may be in the log."""
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster, **EXPIRING)
    cluster.script(ProduceRequest, *[WITHHELD] * 4)
    h.result("begin_transaction")
    send(h, 1)
    assert isinstance(h.result("commit_transaction"), Exception)
    assert h.result("abort_transaction") is None
    assert cluster.wire[-2:] == ["EndTxn abort v1 epoch 0", "InitProducerId (7, 0)"]


def test_overlapping_offset_commits_have_what_is_pending_when_they_are_built() -> None:
    """TxnOffsetCommitRequest.Builder copies pendingTxnOffsetCommits."""
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    for partition in (0, 1):
        h.call("send_offsets_to_transaction", {("in", partition): (5, -1)}, Group())
    h.run(200)
    commits = [line for line in cluster.wire if line.startswith("TxnOffsetCommit")]
    assert sorted(commits) == ["TxnOffsetCommit in-0@5", "TxnOffsetCommit in-0@5, in-1@5"]


def test_a_coordinator_that_is_down_is_looked_up_again() -> None:
    """TxnRequestHandler.onComplete: after a disconnect the coordinator may be another."""
    cluster, h = with_one_record()
    cluster.handlers[FindCoordinatorRequest] = lambda _node, _message: FindCoordinatorResponse(
        NONE, 0, "broker-0"
    )
    cluster.down["broker-1"] = None
    h.reset("broker-1")
    assert h.result("commit_transaction") is None


def test_an_abort_must_wait_for_a_commit_that_timed_out_and_then_failed() -> None:
    """handleCachedTransactionRequestResult: the application has to learn of the failure first."""
    cluster = TransactionalCluster()
    h = transactional(cluster, max_block_ms=500)
    cluster.script(ProduceRequest, WITHHELD)
    h.result("begin_transaction")
    send(h, 1)
    assert isinstance(h.result("commit_transaction"), KafkaTimeoutError)
    answer(h, 0, Errors.TRANSACTION_ABORTABLE)
    outcomes: list[Any] = [
        h.result(method)
        for method in ("abort_transaction", "commit_transaction", "abort_transaction")
    ]
    assert [type(each) for each in outcomes] == [
        IllegalStateError,
        TransactionAbortableError,
        type(None),
    ]


@pytest.mark.parametrize("refusal", [Errors.REQUEST_TIMED_OUT, Errors.INVALID_TXN_STATE])
@pytest.mark.parametrize(("rules", "converted"), [(ClientRules(), False), (Client41(), True)])
def test_a_batch_that_is_given_up_tells_its_own_error_before_4_1(
    refusal: Errors, rules: ClientRules, converted: bool
) -> None:
    """KIP-1050: TransactionManager.maybeTransitionToErrorState."""
    cluster = TransactionalCluster()
    h = transactional(cluster, rules, retries=1)
    h.result("begin_transaction")
    cluster.script(ProduceRequest, refusal, refusal)
    send(h, 1)
    h.run(2_000)
    told = h.result("commit_transaction")
    assert told.error == ("TRANSACTION_ABORTABLE" if converted else refusal.name)
    assert h.result("abort_transaction") is None


def test_an_abort_adds_no_partition_that_waited() -> None:
    """beginAbort clears newPartitionsInTransaction."""
    cluster = TransactionalCluster(version=1)
    h = transactional(cluster)
    h.result("begin_transaction")
    cluster.script(AddPartitionsToTxnRequest, Errors.CONCURRENT_TRANSACTIONS)
    send(h, 1, 0)
    h.run(5)
    send(h, 2, 1)
    assert h.result("abort_transaction") is None
    added = [line for line in cluster.wire if line.startswith("AddPartitions")]
    assert added == [
        f"AddPartitionsToTxn {TopicPartition('t', 0)} -> CONCURRENT_TRANSACTIONS",
        f"AddPartitionsToTxn {TopicPartition('t', 0)}",
    ]


def test_offsets_that_got_no_answer_before_an_abort_go_with_the_next_transaction() -> None:
    """Kafka clears pendingTxnOffsetCommits by an answer alone: an abort leaves them there."""
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(ProduceRequest, WITHHELD)
    cluster.script(TxnOffsetCommitRequest, WITHHELD)
    h.result("begin_transaction")
    send(h, 1)
    h.run(5)
    h.call("send_offsets_to_transaction", {("in", 0): (5, -1)}, Group())
    h.run(200)
    answer(h, 0, Errors.TRANSACTION_ABORTABLE)
    h.reset("broker-0")
    h.run(200)
    assert h.result("abort_transaction") is None
    h.result("begin_transaction")
    assert h.result("send_offsets_to_transaction", {("in", 1): (7, -1)}, Group()) is None
    assert cluster.wire[-1] == "TxnOffsetCommit in-0@5, in-1@7"


def test_a_commit_that_fails_at_the_delivery_timeout_gives_a_used_sequence_back() -> None:
    """KAFKA.md, 4.4, hole (4): no new epoch is asked for while the transaction is completing."""
    cluster = TransactionalCluster(1)
    h = transactional(cluster, request_timeout_ms=450, delivery_timeout_ms=500)
    cluster.script(ProduceRequest, WITHHELD)
    h.result("begin_transaction")
    send(h, 1)
    h.run(10)
    commit = h.call("commit_transaction")
    h.run(10)
    h.reset("broker-0")
    h.now += 600_000  # the producer is paused, and then reads that before it expires batches
    h.run(100)
    assert isinstance(h.replies[commit], Exception)
    assert h.result("abort_transaction") is None
    h.result("begin_transaction")
    send(h, 2)
    h.run(50)
    assert [line.split(" v")[0] for line in produced(cluster)] == ["Produce t-0 epoch 0 seq 0"] * 2
    assert [fact.record_ids for fact in h.of(SendFailed)] == [(1,)]


def test_a_record_that_is_too_large_fails_the_transaction_and_not_the_call() -> None:
    """KafkaProducer.doSend: an ApiException is in the future; the next calls raise."""
    h = transactional(TransactionalCluster(), max_request_size=1000)
    h.result("begin_transaction")
    call = h.call("send", "t", None, 1, 2000, 0, True)
    h.run(50)
    assert (h.replies[call], h.replies[-call].error) == (None, "MESSAGE_TOO_LARGE")
    assert isinstance(send(h, 2), KafkaError)
    assert isinstance(h.result("commit_transaction"), KafkaError)
    assert h.result("abort_transaction") is None
