"""The accumulator without a sender: batches, memory, what is ready, flushes, splits."""

from __future__ import annotations

import pytest

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.producer.accumulator import NEVER, RecordAccumulator
from kafkasim.model.client.producer.batches import PartitionQueue, ProducerBatch
from kafkasim.model.client.producer.producer import producer_config

LINGER_US = 5000


class Fixture:
    """An accumulator for partitions of topic ``t``, and the times at which memory was freed."""

    def __init__(self, **properties: object) -> None:
        settings = {"batch.size": 200, "buffer.memory": 600, "linger.ms": 5}
        settings |= {key.replace("_", "."): value for key, value in properties.items()}
        self.released: list[int] = []
        self.accumulator = RecordAccumulator(producer_config(settings), self.released.append)

    def append(self, partition: int, record_id: int, now: int = 0, size: int = 50) -> bool:
        queue = self.accumulator.queue("t", partition)
        return (
            self.accumulator.append(queue, None, -1, record_id, size, 1, None, True, now)
            is not None
        )

    def ready(self, now: int) -> tuple[list[int], int]:
        queues = self.accumulator.queues
        pending = {queue.tp: queue for queue in queues.values() if queue.batches}
        found, wake = self.accumulator.ready(pending, None, now)
        return [queue.tp.partition for queue in found], wake

    def ids(self, partition: int) -> list[tuple[int, ...]]:
        return [batch.record_ids for batch in self.accumulator.queue("t", partition).batches]

    def drain(self, partition: int) -> ProducerBatch:
        return self.accumulator.queue("t", partition).batches.popleft()


@pytest.mark.parametrize(("stops", "drained"), [(True, [0]), (False, [0, 2])])
def test_a_batch_that_is_held_back_holds_up_its_nodes_other_partitions(
    stops: bool, drained: list[int]
) -> None:
    """Only before KAFKA-13834 the drain went on behind it; each partition counts as ready."""
    config = producer_config({"batch.size": 200, "linger.ms": 5})
    accumulator = RecordAccumulator(config, lambda _: None, stops_at_held_back=stops)
    for partition, size in ((0, 50), (1, 50), (2, 120)):
        queue = accumulator.queue("t", partition)
        assert accumulator.append(queue, None, -1, partition, size, 1, None, True, 0)
    full = accumulator.queue("t", 2).batches[0]
    full.full = True  # so that the node is ready, although the drain may not get there
    pending = {queue.tp: queue for queue in accumulator.queues.values()}
    found, _ = accumulator.ready(pending, lambda batch, _: batch.queue.tp.partition != 1, 0)
    assert [queue.tp.partition for queue in found] == drained


def test_records_share_a_batch_until_it_is_full() -> None:
    f = Fixture()
    for record_id in range(4):
        assert f.append(0, record_id)
    assert f.ids(0) == [(0, 1), (2, 3)]
    assert [batch.full for batch in f.accumulator.queue("t", 0).batches] == [True, False]


def test_a_batch_that_was_sent_takes_no_record() -> None:
    f = Fixture()
    f.append(0, 0)
    f.accumulator.queue("t", 0).batches[0].attempts = 1
    f.append(0, 1)
    assert f.ids(0) == [(0,), (1,)]


def test_memory_is_taken_by_batches_and_freed_by_results() -> None:
    f = Fixture()
    assert [f.append(partition, partition) for partition in range(4)] == [True, True, True, False]
    f.accumulator.release(f.drain(0), 7)
    assert f.released == [7]
    assert f.append(3, 3)
    assert list(f.accumulator.incomplete) == [2, 3, 4]


def test_a_record_may_have_to_wait_for_others_although_there_is_memory() -> None:
    f = Fixture()
    queue = f.accumulator.queue("t", 0)
    assert f.accumulator.append(queue, None, -1, 0, 50, 1, None, False, 0) is None


def test_a_record_larger_than_the_memory_is_refused() -> None:
    f = Fixture()
    with pytest.raises(KafkaError, match="MESSAGE_TOO_LARGE"):
        f.append(0, 0, size=700)


def test_one_ready_batch_takes_the_other_partitions_with_it() -> None:
    f = Fixture()
    f.append(0, 0, now=0)
    f.append(1, 1, now=1000)
    assert f.ready(LINGER_US - 1) == ([], LINGER_US)
    assert f.ready(LINGER_US)[0] == [0, 1]


def test_nothing_lingers_in_a_flush() -> None:
    f = Fixture()
    f.append(0, 0)
    f.accumulator.begin_flush(9)
    assert f.ready(0) == ([0], NEVER)


def test_a_muted_or_held_batch_is_not_ready() -> None:
    f = Fixture()
    f.append(0, 0)
    f.append(1, 1)
    f.accumulator.skips_linger = True
    f.accumulator.queue("t", 0).muted = True
    pending = {queue.tp: queue for queue in f.accumulator.queues.values()}
    assert f.ready(0)[0] == [1]
    assert f.accumulator.ready(pending, lambda _batch, _now: False, 0) == ([], NEVER)


def test_a_retry_backoff_says_when_to_look_again() -> None:
    f = Fixture()
    f.append(0, 0)
    f.accumulator.queue("t", 0).batches[0].backoff_until = 900
    assert f.ready(0) == ([], 900)


def test_a_flush_waits_for_the_batches_there_were_and_for_no_later_one() -> None:
    f = Fixture()
    f.append(0, 0)
    f.accumulator.begin_flush(9)
    f.append(1, 1)
    assert f.accumulator.finished_flushes() == []
    f.accumulator.release(f.drain(0), 1)
    assert (f.accumulator.finished_flushes(), f.accumulator.flushing) == ([9], False)
    assert f.accumulator.finished_flushes() == []


def test_a_flush_waits_for_the_parts_of_a_split_batch() -> None:
    f = Fixture()
    f.append(0, 0)
    f.append(0, 1)
    f.accumulator.begin_flush(9)
    whole = f.drain(0)
    parts = f.accumulator.split(whole, 130)
    assert [part.record_ids for part in parts] == [(0,), (1,)]
    assert (whole.done, list(f.accumulator.incomplete)) == (True, [2, 3])
    f.accumulator.release(parts[0], 1)
    assert f.accumulator.finished_flushes() == []
    f.accumulator.release(parts[1], 2)
    assert f.accumulator.finished_flushes() == [9]


def test_the_calls_that_want_an_ack_go_with_their_records_into_the_parts() -> None:
    f = Fixture(buffer_memory=2000, batch_size=1000)
    queue = f.accumulator.queue("t", 0)
    for record_id, call in enumerate((None, 7, 8)):
        f.accumulator.append(queue, None, -1, record_id, 50, 1, call, True, 0)
    parts = f.accumulator.split(f.drain(0), 190)
    assert [part.record_ids for part in parts] == [(0, 1), (2,)]
    assert [part.ack_calls for part in parts] == [[(7, 1)], [(8, 0)]]


def test_retries_go_back_in_the_order_of_their_sequences() -> None:
    queue: PartitionQueue = Fixture().accumulator.queue("t", 0)
    first, second, third = (ProducerBatch(queue, number, 0, 0) for number in (1, 2, 3))
    for sequence, batch in enumerate((first, second, third)):
        batch.set_sequence(5, 0, sequence)
        queue.sequences.in_flight.append(batch)
    for batch in (third, first, second):
        queue.reenqueue(batch)
    assert list(queue.batches) == [first, second, third]
