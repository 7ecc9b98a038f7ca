"""Producer: retries, order, sequences, and what is known of a send that failed."""

from __future__ import annotations

from kafkasim.model.client.producer.transaction_manager import MAX_EPOCH
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Harness
from tests.model.test_producer_send import start

T0 = TopicPartition("t", 0)


def warm(**properties: object) -> tuple[Harness, object]:
    """A producer that has its metadata, its id and a connection."""
    h, log = start(linger_ms=0, **properties)
    h.call("send", "t", None, 0, 10, 0, False)
    h.run(1000)
    h.facts.clear()
    h.cluster.seen.clear()
    return h, log


def refuse(h: Harness, index: int, error: Errors, **more: object) -> None:
    """Answer a withheld request with an error."""
    connection, correlation, message = h.withheld[index]
    parts = tuple(
        ProducePartitionResponse(p.tp, error, -1, -1, -1, **more)  # type: ignore[arg-type]
        for p in message.partitions
    )
    h.respond(connection, correlation, ProduceResponse(parts))


def sequences(h: Harness) -> list[tuple[int, int]]:
    """(epoch, base sequence) of every produce request since warm()."""
    batches = [r.partitions[0].batch for r in h.cluster.requests(ProduceRequest)]
    return [(b.producer_epoch, b.base_sequence) for b in batches]


def test_a_retriable_error_is_retried_after_the_backoff() -> None:
    h, log = warm()
    log.script = [Errors.NOT_ENOUGH_REPLICAS]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(60)
    assert len(h.cluster.requests(ProduceRequest)) == 1
    h.run(100)
    assert [(a.record_ids, a.attempts, a.base_sequence) for a in h.of(Acked)] == [((1,), 2, 1)]


def test_a_newer_leader_in_the_error_is_tried_at_once() -> None:
    h, log = warm()
    log.script = [None]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(5)
    h.cluster.leaders[T0] = (1, 1)
    refuse(h, 0, Errors.NOT_LEADER_OR_FOLLOWER, current_leader=(1, 1))
    h.run(5)
    assert [node for node, m in h.cluster.seen if type(m) is ProduceRequest] == [
        "broker-0",
        "broker-1",
    ]
    assert [a.attempts for a in h.of(Acked)] == [2]


def test_batches_are_requeued_in_sequence_order_and_sent_one_by_one() -> None:
    h, log = warm()
    log.script = [None, None, None]
    for i in (1, 2, 3):
        h.call("send", "t", None, i, 10, 0, False)
        h.run(2)
    assert sequences(h) == [(0, 1), (0, 2), (0, 3)]
    refuse(h, 0, Errors.NOT_ENOUGH_REPLICAS)
    refuse(h, 1, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    refuse(h, 2, Errors.OUT_OF_ORDER_SEQUENCE_NUMBER)
    h.run(2000)
    assert sequences(h)[3:] == [(0, 1), (0, 2), (0, 3)]
    assert [a.record_ids for a in h.of(Acked)] == [(1,), (2,), (3,)]


def test_a_real_gap_bumps_the_epoch_and_renumbers_from_zero() -> None:
    h, log = warm()
    log.script = [Errors.OUT_OF_ORDER_SEQUENCE_NUMBER]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(1000)
    assert sequences(h) == [(0, 1), (1, 0)]
    assert [(a.producer_epoch, a.base_sequence) for a in h.of(Acked)] == [(1, 0)]


def test_a_duplicate_is_a_success_without_an_offset() -> None:
    h, log = warm()
    log.script = [Errors.DUPLICATE_SEQUENCE_NUMBER]
    h.call("send", "t", None, 1, 10, 0, True)
    h.run(100)
    assert h.replies[-2][:2] == (0, -1)
    assert [a.base_offset for a in h.of(Acked)] == [-1]


def test_a_definite_error_fails_the_batch_and_bumps_the_epoch() -> None:
    h, log = warm()
    log.script = [Errors.INVALID_RECORD]
    h.call("send", "t", None, 1, 10, 0, True)
    h.run(100)
    h.call("send", "t", None, 2, 10, 0, False)
    h.run(100)
    assert [(f.record_ids, f.error, f.indeterminate) for f in h.of(SendFailed)] == [
        ((1,), "INVALID_RECORD", False)
    ]
    assert h.replies[-2].error == "INVALID_RECORD"
    assert sequences(h) == [(0, 1), (1, 0)]


def test_a_broken_connection_leaves_the_send_indeterminate() -> None:
    h, log = warm(retries=1, enable_idempotence=False)
    log.script = [None, Errors.INVALID_RECORD]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(5)
    h.reset("broker-0")
    h.run(2000)
    assert [(f.error, f.indeterminate, f.attempts) for f in h.of(SendFailed)] == [
        ("INVALID_RECORD", True, 2)
    ]


def test_a_connection_that_breaks_at_the_delivery_timeout_bumps_the_epoch() -> None:
    """Sender.completeBatch holds sequences back after exhausted retries only."""
    h, log = warm(delivery_timeout_ms=1000, request_timeout_ms=900)
    log.script = [None, None]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(500)
    h.call("send", "t", None, 2, 10, 0, False)
    h.run(100)
    h.reset("broker-0")
    h.now += 600_000  # the producer is paused, and then reads that before it expires batches
    h.run(2000)
    assert [(f.record_ids, f.error, f.indeterminate) for f in h.of(SendFailed)] == [
        ((1,), "NETWORK_EXCEPTION", True)
    ]
    assert sequences(h) == [(0, 1), (0, 2), (1, 0)]
    assert [(a.record_ids, a.producer_epoch) for a in h.of(Acked)] == [((2,), 1)]


def test_errors_from_before_the_append_leave_nothing_open() -> None:
    h, log = warm(retries=1)
    log.script = [Errors.NOT_ENOUGH_REPLICAS, Errors.NOT_ENOUGH_REPLICAS]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(2000)
    assert [(f.error, f.indeterminate) for f in h.of(SendFailed)] == [
        ("NOT_ENOUGH_REPLICAS", False)
    ]


def test_after_append_is_indeterminate() -> None:
    h, log = warm(retries=1)
    log.script = [Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Errors.NOT_ENOUGH_REPLICAS]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(2000)
    assert [f.indeterminate for f in h.of(SendFailed)] == [True]


def test_expired_in_flight_waits_for_the_sequence_and_then_bumps() -> None:
    h, log = warm(delivery_timeout_ms=1000, request_timeout_ms=900)
    log.script = [None, None]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(3000)
    (failed,) = h.of(SendFailed)
    assert (failed.error, failed.indeterminate) == ("TIMED_OUT", True)
    log.script = []
    h.call("send", "t", None, 2, 10, 0, False)
    h.run(2000)
    assert sequences(h)[-1] == (1, 0)
    assert [a.record_ids for a in h.of(Acked)] == [(2,)]


def test_a_broker_that_is_down_fails_the_send_for_sure() -> None:
    h, _ = warm(delivery_timeout_ms=2000, request_timeout_ms=1000)
    h.cluster.down = {"broker-0": None, "broker-1": None}
    h.reset("broker-0")
    h.reset("broker-1")
    h.run(1)
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(4000)
    assert [(f.error, f.indeterminate, f.attempts) for f in h.of(SendFailed)] == [
        ("TIMED_OUT", False, 0)
    ]


def test_max_in_flight_1_mutes_the_partition() -> None:
    h, log = warm(max_in_flight_requests_per_connection=1, enable_idempotence=False)
    log.script = [Errors.NOT_ENOUGH_REPLICAS]
    for i in (1, 2, 3):
        h.call("send", "t", None, i, 10, 0, False)
    h.run(2000)
    assert [i for a in h.of(Acked) for i in a.record_ids] == [1, 2, 3]


def test_five_in_flight_per_connection() -> None:
    h, log = warm()
    log.script = [None] * 9
    for i in range(8):
        h.call("send", "t", None, i, 10, 0, False)
        h.run(2)
    assert len(h.cluster.requests(ProduceRequest)) == 5


def test_unknown_producer_id_after_retention_bumps() -> None:
    h, log = warm()
    log.script = [None]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(5)
    connection, correlation, message = h.withheld[0]
    part = ProducePartitionResponse(T0, Errors.UNKNOWN_PRODUCER_ID, -1, -1, 9)
    h.respond(connection, correlation, ProduceResponse((part,)))
    h.run(1000)
    assert sequences(h) == [(0, 1), (1, 0)]
    del message


def test_a_producer_id_is_asked_for_until_a_broker_gives_one() -> None:
    h, _ = start(linger_ms=0)
    given = h.cluster.handlers[InitProducerIdRequest]
    errors = [Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_LOAD_IN_PROGRESS]

    def answer(node: str, m: InitProducerIdRequest) -> object:
        return InitProducerIdResponse(errors.pop(), -1, -1) if errors else given(node, m)

    h.cluster.handlers[InitProducerIdRequest] = answer
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(50)
    assert h.cluster.requests(ProduceRequest) == []
    h.run(2000)
    assert [a.record_ids for a in h.of(Acked)] == [(1,)]


def test_a_producer_without_any_broker_asks_for_its_id_when_one_is_back() -> None:
    h, _ = start(linger_ms=0)
    h.cluster.down = dict.fromkeys(h.cluster.brokers)
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(3000)
    h.cluster.down = {}
    h.run(5000)
    assert [a.record_ids for a in h.of(Acked)] == [(1,)]


def test_after_the_last_epoch_comes_a_new_producer_id() -> None:
    h, log = start(linger_ms=0)
    ids = [(7, MAX_EPOCH), (8, 0)]
    h.cluster.handlers[InitProducerIdRequest] = lambda _n, _m: InitProducerIdResponse(
        NONE, *ids.pop(0)
    )
    log.script = [Errors.INVALID_RECORD]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(100)
    h.call("send", "t", None, 2, 10, 0, False)
    h.run(100)
    assert [f.record_ids for f in h.of(SendFailed)] == [(1,)]
    (acked,) = h.of(Acked)
    assert (acked.record_ids, acked.producer_id, acked.base_sequence) == ((2,), 8, 0)
    assert acked.producer_epoch == 0  # TransactionManager.bumpIdempotentProducerEpoch: no bump


def test_a_batch_that_expires_in_its_first_attempt_leaves_no_sequence_unresolved() -> None:
    """Sender.sendProducerData marks a sequence unresolved only if the batch was in retry."""
    h, log = warm(delivery_timeout_ms=1000, request_timeout_ms=1000)
    log.script = [None]
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(1000)
    assert [f.record_ids for f in h.of(SendFailed)] == [(1,)]
    h.call("send", "t", None, 2, 10, 0, False)
    h.run(300)
    assert sequences(h) == [(0, 1), (0, 2)]  # and no new epoch
