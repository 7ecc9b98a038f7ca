"""Producer: sequences after refusals and expiries, where an epoch is easily raised too often.

Each test is one rule of TransactionManager that the drawn histories of
``tests/stateful/test_producer_stateful.py`` do not show to be broken: a broken one costs attempts
and epochs, no records.
"""

from __future__ import annotations

import pytest

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import ProducePartitionResponse, ProduceRequest, ProduceResponse
from tests.model.client_harness import Harness
from tests.model.test_producer_retry import T0, refuse, sequences, warm
from tests.model.test_producer_send import start

UNKNOWN_OR_GAP = [Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.UNKNOWN_PRODUCER_ID]
EXPIRING = {
    "delivery_timeout_ms": 1000,
    "request_timeout_ms": 300,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
}


def send(h: Harness, *records: int) -> None:
    """Send records of one batch each; all are on their way afterwards."""
    for record in records:
        h.call("send", "t", None, record, 10, 0, False)
        h.run(2)


def answer(h: Harness, index: int, error: Errors, log_start_offset: int = 9) -> None:
    """Answer a withheld request for partition 0, with a log start offset."""
    connection, correlation, _ = h.withheld[index]
    part = ProducePartitionResponse(T0, error, -1, -1, log_start_offset)
    h.respond(connection, correlation, ProduceResponse((part,)))
    h.run(2)


def acked(h: Harness) -> list[tuple[int, ...]]:
    return [fact.record_ids for fact in h.of(Acked)]


@pytest.mark.parametrize("error", UNKNOWN_OR_GAP)
def test_a_refusal_of_the_old_sequence_raises_no_second_epoch(error: Errors) -> None:
    """TransactionManager.canRetry: the batch was renumbered while its attempt was in flight."""
    h, log = warm()
    log.script = [None, None]
    send(h, 1, 2)
    refuse(h, 0, Errors.INVALID_RECORD)
    h.run(2)
    answer(h, 1, error)
    h.run(1000)
    assert (sequences(h), acked(h)) == ([(0, 1), (0, 2), (1, 0)], [(2,)])


@pytest.mark.parametrize("error", UNKNOWN_OR_GAP)
def test_a_refusal_of_the_new_sequence_raises_the_epoch_again(error: Errors) -> None:
    """ProducerBatch.close: once sent with its new sequence, a batch counts as not renumbered."""
    h, log = warm()
    log.script = [None, None]
    send(h, 1)
    answer(h, 0, error)
    h.run(150)
    answer(h, 1, error)
    h.run(1000)
    assert (sequences(h), acked(h)) == ([(0, 1), (1, 0), (2, 0)], [(1,)])


def test_partitions_with_gaps_share_one_new_epoch() -> None:
    """bumpIdempotentProducerEpoch rewrites all partitionsToRewriteSequences."""
    h, log = start(partitions=3, linger_ms=5)
    for partition in (0, 2):
        h.call("send", "t", None, partition, 10, partition, False)
    h.run(1000)
    h.cluster.seen.clear()
    log.script = [Errors.OUT_OF_ORDER_SEQUENCE_NUMBER]
    for partition in (0, 2):
        h.call("send", "t", None, 3 + partition, 10, partition, False)
    h.run(1000)
    wire = [
        (part.tp.partition, part.batch.producer_epoch, part.batch.base_sequence)
        for request in h.cluster.requests(ProduceRequest)
        for part in request.partitions
    ]
    assert sorted(wire) == [(0, 0, 1), (0, 1, 0), (2, 0, 1), (2, 1, 0)]


def test_the_batch_behind_two_that_expired_raises_the_epoch() -> None:
    """markSequenceUnresolved keeps the highest sequence: the next batch shows that it is a gap."""
    h, log = warm(**EXPIRING)
    log.script = [None] * 9
    send(h, 1, 2)
    h.run(200)
    send(h, 3)
    h.run(820)
    assert [fact.record_ids for fact in h.of(SendFailed)] == [(1,), (2,)]
    assert sequences(h)[-1] == (0, 3)
    log.script = []
    refuse(h, -1, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    h.run(1000)
    assert (sequences(h)[-1], acked(h)) == ((1, 0), [(3,)])


def test_new_batches_go_again_once_an_unresolved_sequence_has_raised_the_epoch() -> None:
    """bumpIdempotentProducerEpoch: a partition that begins anew has no unresolved sequence."""
    h, log = warm(**(EXPIRING | {"request_timeout_ms": 600}))
    log.script = [None] * 9
    send(h, 1)
    h.run(790)
    send(h, 2, 3)
    h.run(230)
    assert [fact.record_ids for fact in h.of(SendFailed)] == [(1,)]
    assert sequences(h) == [(0, 1), (0, 1), (0, 2), (0, 3)]
    refuse(h, -2, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    h.run(50)
    send(h, 4)
    assert sequences(h)[4:] == [(1, 0), (1, 2)]  # the third has no answer yet


def test_a_late_acknowledgement_of_an_older_epoch_counts() -> None:
    """handleCompletedBatch asks for no epoch, so the newer one looks as if it had gone further.

    A refusal of its first batch then tells nothing (isNextSequence), and it is sent as it was.
    """
    h, log = warm(**EXPIRING)
    log.script = [None] * 9
    send(h, 1)
    h.run(1100)
    late = h.withheld[-1]
    send(h, 2)
    assert sequences(h)[-1] == (1, 0)
    part = ProducePartitionResponse(T0, NONE, 1, -1, 0)
    h.respond(late[0], late[1], ProduceResponse((part,)))
    h.run(2)
    log.script = []
    refuse(h, -1, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    h.run(1000)
    assert (sequences(h)[-2:], acked(h)) == ([(1, 0), (1, 0)], [(2,)])
