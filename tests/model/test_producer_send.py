"""Producer: the way of a record, batching, limits."""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model.client.producer.partitioner import partition_for_key
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import ProducePartitionResponse, ProduceRequest, ProduceResponse
from kafkasim.model.records import NO_HEADERS, TopicPartition
from tests.model.client_harness import Cluster, Harness


class Log:
    """A broker's log per partition: answers with consecutive offsets."""

    def __init__(self) -> None:
        self.ends: dict[object, int] = {}
        self.script: list[Errors | None] = []  # errors for the next requests, then success

    def __call__(self, node: str, message: ProduceRequest) -> ProduceResponse | None:
        if self.script:
            error = self.script.pop(0)
            if error is None:
                return None
            if error:
                return ProduceResponse(
                    tuple(
                        ProducePartitionResponse(p.tp, error, -1, -1, -1)
                        for p in message.partitions
                    )
                )
        parts = []
        for part in message.partitions:
            base = self.ends.get(part.tp, 0)
            self.ends[part.tp] = base + len(part.batch.records)
            parts.append(ProducePartitionResponse(part.tp, NONE, base, -1, 0))
        return ProduceResponse(tuple(parts)) if message.acks else None


def start(partitions: int = 1, **properties: object) -> tuple[Harness, Log]:
    cluster = Cluster(partitions)
    log = Log()
    cluster.handlers[ProduceRequest] = log
    named = {key.replace("_", "."): value for key, value in properties.items()}
    return Harness(producer_config(named), cluster), log


def test_a_record_is_acknowledged_with_its_offset() -> None:
    h, _ = start(linger_ms=0)
    h.call("send", "t", None, 11, 100, None, True, NO_HEADERS, 42)
    h.run(100)
    assert h.replies == {1: None, -1: (0, 0, 42, False)}
    (acked,) = h.of(Acked)
    assert (acked.topic_id, acked.partition, acked.base_offset, acked.record_ids) == (
        "id-t",
        0,
        0,
        (11,),
    )
    assert (acked.acks, acked.producer_id, acked.base_sequence, acked.attempts) == (-1, 7, 0, 1)


def test_a_record_is_told_of_the_topic_whose_log_took_it() -> None:
    """Produce names the topic: a broker with other metadata than the client's has another one."""
    h, log = start(linger_ms=0)

    def other(node: str, m: ProduceRequest) -> ProduceResponse | None:
        answer = log(node, m)
        assert answer is not None
        return ProduceResponse(tuple([replace(p, topic_id="id-2") for p in answer.partitions]))

    h.cluster.handlers[ProduceRequest] = other
    h.call("send", "t", None, 11, 100, None, True)
    h.run(100)
    assert [acked.topic_id for acked in h.of(Acked)] == ["id-2"]


def test_linger_gathers_records_into_one_batch() -> None:
    h, _ = start(linger_ms=5)
    h.call("send", "t", None, 0, 10, None, False)
    h.run(100)
    for i in range(1, 4):
        h.call("send", "t", None, i, 10, None, False)
        h.run(1)
    h.run(100)
    assert [a.record_ids for a in h.of(Acked)] == [(0,), (1, 2, 3)]
    assert [a.base_offset for a in h.of(Acked)] == [0, 1]


def test_a_full_batch_does_not_linger() -> None:
    h, _ = start(linger_ms=1000, batch_size=200)
    for i in range(4):
        h.call("send", "t", None, i, 60, None, False)
    h.run(100)
    assert [a.record_ids for a in h.of(Acked)] == [(0, 1)]


def test_flush_ends_lingering_and_waits() -> None:
    h, _ = start(linger_ms=10_000)
    h.call("send", "t", None, 5, 10, None, False)
    h.run(50)
    assert h.result("flush") is None
    assert len(h.of(Acked)) == 1


def test_acks_0_knows_no_offset() -> None:
    h, _ = start(linger_ms=0, acks="0")
    h.call("send", "t", None, 5, 10, None, True)
    h.run(50)
    assert h.replies[-1][:2] == (0, -1)
    assert [(a.base_offset, a.acks, a.producer_id) for a in h.of(Acked)] == [(-1, 0, -1)]


def test_acks_1_turns_idempotence_off_silently() -> None:
    assert producer_config({"acks": "1"}).enable_idempotence is False
    assert producer_config({}).enable_idempotence is True


def test_memory_blocks_until_max_block_ms() -> None:
    h, log = start(linger_ms=0, buffer_memory=16384, max_block_ms=300)
    h.call("send", "t", None, 0, 10, None, False)
    h.run(50)
    log.script = [None]
    h.call("send", "t", None, 1, 10, None, False)
    h.run(10)
    blocked = h.call("send", "t", None, 2, 10, None, True)
    h.run(100)
    assert blocked not in h.replies
    h.run(300)
    assert (h.replies[blocked], h.replies[-blocked].error) == (None, "BUFFER_EXHAUSTED")
    assert [(f.record_ids, f.indeterminate, f.attempts) for f in h.of(SendFailed)] == [
        ((2,), False, 0)
    ]


def test_delivery_timeout_counts_from_the_batch_not_from_the_blocked_send() -> None:
    settings = {"request_timeout_ms": 1000, "delivery_timeout_ms": 1000}
    h, log = start(linger_ms=0, buffer_memory=16384, retries=1, **settings)
    log.script = [None]
    h.call("send", "t", None, 1, 10, None, False)
    h.run(200)
    h.call("send", "t", None, 2, 10, None, False)  # no memory until the first one has failed
    h.run(1500)
    assert [f.record_ids for f in h.of(SendFailed)] == [(1,)]
    (acked,) = h.of(Acked)
    assert (acked.record_ids, acked.latency_us < 100_000) == ((2,), True)


def test_an_unknown_topic_blocks_until_it_exists() -> None:
    h, _ = start(linger_ms=0)
    call = h.call("send", "u", None, 2, 10, None, False)
    h.run(1000)
    assert call not in h.replies
    h.cluster.topics["u"] = 1
    h.run(2000)
    assert [a.topic_id for a in h.of(Acked)] == ["id-u"]


def test_a_too_large_batch_no_larger_than_batch_size_is_sent_again_as_it_is() -> None:
    """RecordAccumulator.splitAndReenqueue splits by batch.size: here into one part (KAFKA-8350)."""
    h, log = start(linger_ms=50, batch_size=1000, delivery_timeout_ms=1000, request_timeout_ms=900)
    for i in range(4):
        h.call("send", "t", None, i, 100, None, True)
    log.script = [Errors.MESSAGE_TOO_LARGE] * 3
    h.run(500)
    assert [(a.record_ids, a.base_sequence) for a in h.of(Acked)] == [((0, 1, 2, 3), 0)]
    assert [h.replies[-c][:2] for c in range(1, 5)] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert len(h.cluster.requests(ProduceRequest)) == 4


def test_a_too_large_batch_that_is_never_taken_ends_by_the_delivery_timeout() -> None:
    h, log = start(linger_ms=50, batch_size=1000, delivery_timeout_ms=1000, request_timeout_ms=900)
    for i in range(4):
        h.call("send", "t", None, i, 100, None, False)
    log.script = [Errors.MESSAGE_TOO_LARGE] * 10_000
    h.run(2000)
    assert [(f.record_ids, f.error) for f in h.of(SendFailed)] == [((0, 1, 2, 3), "TIMED_OUT")]


def test_close_flushes_and_refuses_more() -> None:
    h, _ = start(linger_ms=1000)
    h.call("send", "t", None, 1, 10, None, False)
    h.run(20)
    assert h.result("close") is None
    assert len(h.of(Acked)) == 1
    assert h.result("send", "t", None, 2, 10, None, False).error == "CLOSED"


def test_a_key_goes_to_the_partition_of_its_hash_each_time() -> None:
    h, _ = start(partitions=7, linger_ms=0)
    for record_id, key in enumerate(("a", "b", "a", "b")):
        h.call("send", "t", key, record_id, 10, None, False)
        h.run(20)
    a, b = (partition_for_key(key, 7) for key in (b"a", b"b"))
    assert [(x.record_ids, x.partition) for x in h.of(Acked)] == [
        ((0,), a),
        ((1,), b),
        ((2,), a),
        ((3,), b),
    ]


def test_a_key_does_not_override_a_partition_that_is_given() -> None:
    h, _ = start(partitions=7, linger_ms=0)
    other = (partition_for_key(b"a", 7) + 1) % 7
    h.call("send", "t", "a", 0, 10, other, False)
    h.run(100)
    assert [a.partition for a in h.of(Acked)] == [other]


def test_one_request_carries_the_batches_of_a_leaders_partitions() -> None:
    h, _ = start(partitions=4, linger_ms=5)
    for partition in range(4):
        h.call("send", "t", None, partition, 10, partition, True)
    h.run(100)
    assert sorted(len(r.partitions) for r in h.cluster.requests(ProduceRequest)) == [2, 2]
    assert [h.replies[-call][:2] for call in (1, 2, 3, 4)] == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_a_record_that_fits_in_no_request_is_refused() -> None:
    h, _ = start(max_request_size=1000, batch_size=500)
    call = h.call("send", "t", None, 0, 2000, None, True)
    h.run(100)
    assert (h.replies[call], h.replies[-call].error) == (None, "MESSAGE_TOO_LARGE")
    assert h.cluster.requests(ProduceRequest) == []


def test_a_record_for_a_partition_that_is_not_there_waits_for_it() -> None:
    h, _ = start(linger_ms=0, metadata_max_age_ms=1000)
    h.call("send", "t", None, 0, 10, 0, False)
    h.run(100)
    call = h.call("send", "t", None, 1, 10, 1, False)
    h.run(100)
    assert call not in h.replies
    h.cluster.topics["t"] = 2
    h.run(3000)
    assert [a.partition for a in h.of(Acked)] == [0, 1]


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    h, _ = start(partitions=3, linger_ms=0, batch_size=100)
    for partition in (0, 2):
        h.cluster.leaders[TopicPartition("t", partition)] = (-1, 0)
    for record_id in range(6):
        h.call("send", "t", None, record_id, 60, None, False)
        h.run(20)
    assert {a.partition for a in h.of(Acked)} == {1}


def test_records_without_a_key_change_partition_after_a_batch() -> None:
    h, _ = start(partitions=3, linger_ms=0, batch_size=100)
    for record_id in range(30):
        h.call("send", "t", None, record_id, 60, None, False)
        h.run(20)
    assert {a.partition for a in h.of(Acked)} == {0, 1, 2}


def test_close_refuses_the_sends_that_wait() -> None:
    h, _ = start()
    call = h.call("send", "unknown", None, 0, 10, None, False)
    assert h.result("close") is None
    assert (str(h.replies[call]), [f.error for f in h.of(SendFailed)]) == (
        "CLOSED: producer closed while send waited",
        ["CLOSED"],
    )


def test_memory_goes_to_the_first_waiter_and_each_try_is_made_with_memory_at_hand() -> None:
    """BufferPool.deallocate signals the first waiter: N blocked sends take N tries, not N²."""
    h, _ = start(linger_ms=0, buffer_memory=16384)
    producer = h.process.clients["c"]
    tries = []
    usual = producer.accumulator.append
    producer.accumulator.append = lambda *args: tries.append(args[3]) or usual(*args)
    calls = [h.call("send", "t", None, i, 16_000, 0, False) for i in range(50)]
    assert calls[0] not in h.replies  # no metadata yet
    h.run(5000)
    assert [record_id for a in h.of(Acked) for record_id in a.record_ids] == list(range(50))
    assert all(call in h.replies for call in calls)
    assert len(tries) < 2 * len(calls)


def test_a_waiter_for_memory_waits_although_its_batch_has_room() -> None:
    """BufferPool.allocate: a waiter goes on only when it has got its own buffer."""
    h, log = start(linger_ms=0, buffer_memory=16384)
    h.call("send", "t", None, 0, 10, 0, False)
    h.run(50)
    log.script = [None]
    for i in (1, 2, 3):
        h.call("send", "t", None, i, 10, 0, False)
    h.run(100)
    connection, correlation, message = h.withheld[-1]
    h.respond(connection, correlation, log("broker-0", message))
    log.script = [None]
    h.run(2)
    assert ([c in h.replies for c in (3, 4)], len(h.withheld)) == ([True, False], 2)


def test_max_request_size_counts_for_every_record_and_before_compression() -> None:
    h, _ = start(max_request_size=1000, batch_size=16384)
    fits = 1000 - 61 - 21 - 1 - 2 - 1  # overheads of batch and record, null key, length, headers
    assert h.result("send", "t", None, 0, fits, None, False) is None
    call = h.call("send", "t", None, 1, fits + 1, None, True)
    h.run(100)
    assert str(h.replies[-call]) == (
        "MESSAGE_TOO_LARGE: The message is 1001 bytes when serialized which is larger than 1000,"
        " which is the value of the max.request.size configuration."
    )
    assert [(fact.record_ids, fact.partition) for fact in h.of(SendFailed)] == [((1,), -1)]


def test_what_a_closed_producer_is_given_is_a_send_that_failed() -> None:
    h, _ = start()
    h.call("close")
    h.run(100)
    assert h.result("send", "t", None, 3, 10, None, False).error == "CLOSED"
    assert [(fact.record_ids, fact.error) for fact in h.of(SendFailed)] == [((3,), "CLOSED")]
