"""The transactional producer after errors: what the drawn histories do not show to be broken.

A rule that is broken here costs attempts, epochs or time, but no record of a transaction
(``tests/stateful/test_transactional_producer_stateful.py``).
"""

from __future__ import annotations

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
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


def produced(cluster: TransactionalCluster) -> list[str]:
    return [line for line in cluster.wire if line.startswith("Produce")]


def test_a_record_that_is_refused_after_an_error_is_not_sent() -> None:
    """Sender.maybeSendAndPollTransactionalRequest gives up what was not sent, then others send."""
    cluster = TransactionalCluster()
    h = transactional(cluster)
    cluster.script(ProduceRequest, Errors.TRANSACTION_ABORTABLE)
    h.result("begin_transaction")
    send(h, 1)
    h.run(50)
    assert isinstance(send(h, 2), Exception)
    h.run(50)
    assert len(produced(cluster)) == 1
    assert [fact.record_ids for fact in h.of(SendFailed)] == [(1,), (2,)]


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
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    send(h, 1)
    h.run(50)
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
