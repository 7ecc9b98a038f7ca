"""Sequences at their end: 2147483647 is followed by 0 (DefaultRecordBatch.incrementSequence).

Each test has a producer whose sequences in partition 0 are about to wrap, and a leader with a log.
Kafka's client wraps its next sequence and nothing else (KAFKA.md, 4.2).
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.client.producer.batches import (
    PartitionQueue,
    ProducerBatch,
    TxnPartitionEntry,
)
from kafkasim.model.client.producer.sequences import ProducerSequences
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import ProducePartitionResponse, ProduceRequest, ProduceResponse
from kafkasim.model.records import MAX_SEQUENCE, Record
from kafkasim.model.storage.log.unified_log import UnifiedLog
from tests.model.client_harness import Harness
from tests.model.storage_support import make_log
from tests.model.test_producer_retry import T0, refuse, sequences
from tests.model.test_producer_send import start

SETTINGS = {
    "linger_ms": 1,
    "delivery_timeout_ms": 1000,
    "request_timeout_ms": 300,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 20,
    "reconnect_backoff_ms": 5,
}
LOST = None
"""In a script: the leader appends the batch, and its answer is lost."""

WITHHELD = Errors.UNKNOWN_SERVER_ERROR
"""In a script: the test answers for the leader, which does not append the batch."""


class Leader:
    """A leader with a log; ``script`` has what happens to the next requests, then all is well."""

    def __init__(self, h: Harness) -> None:
        self.log: UnifiedLog = make_log()
        self.script: list[Errors | None] = []
        self.duplicates = 0
        h.cluster.handlers[ProduceRequest] = self.answer

    def answer(self, _node: str, message: ProduceRequest) -> ProduceResponse | None:
        outcome = self.script.pop(0) if self.script else NONE
        if outcome is WITHHELD:
            return None
        if outcome:
            return ProduceResponse((ProducePartitionResponse(T0, outcome, -1, -1, 0),))
        appended = self.log.append_as_leader(message.partitions[0].batch, 0, 0)
        self.duplicates += appended.duplicate
        part = ProducePartitionResponse(T0, appended.error, appended.base_offset, -1, 0)
        return ProduceResponse((part,)) if outcome is NONE else None

    def records(self) -> list[Any]:
        batches = self.log.read(0, 1_000_000, self.log.log_end_offset, False)
        return [record.value for each in batches for record in each.records]


def about_to_wrap(left: int) -> tuple[Harness, Leader]:
    """Return a producer with ``left`` sequences up to the largest, and its leader.

    The leader does not know the producer yet: it takes any sequence.
    """
    h, _ = start(**SETTINGS)
    h.call("send", "t", None, 0, 10, 0, False)
    h.run(1000)
    h.facts.clear()
    h.cluster.seen.clear()
    entry = sequences_of(h)
    entry.next_sequence = MAX_SEQUENCE + 1 - left
    entry.last_acked_sequence = MAX_SEQUENCE - left
    return h, Leader(h)


def sequences_of(h: Harness) -> TxnPartitionEntry:
    client: Any = h.process.clients["c"]
    entry: TxnPartitionEntry = client.accumulator.queues[T0].sequences
    return entry


def send(h: Harness, *batches: tuple[int, ...]) -> None:
    """Send batches of these records, one after the other; all are on their way afterwards."""
    for batch in batches:
        for record in batch:
            h.call("send", "t", None, record, 10, 0, False)
        h.run(3)


def acked(h: Harness) -> list[tuple[int, ...]]:
    return [fact.record_ids for fact in h.of(Acked)]


def test_a_batch_may_lie_across_the_end() -> None:
    h, leader = about_to_wrap(2)
    send(h, (1,), (2, 3, 4), (5,), (6, 7))
    h.run(100)
    assert sequences(h) == [(0, MAX_SEQUENCE - 1), (0, MAX_SEQUENCE), (0, 2), (0, 3)]
    assert acked(h) == [(1,), (2, 3, 4), (5,), (6, 7)]
    assert leader.records() == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("behind", [0, 4])
def test_a_retry_across_the_end_is_a_duplicate_while_the_leader_remembers(behind: int) -> None:
    """ProducerStateEntry has five batches, also if the sequences wrapped between them."""
    h, leader = about_to_wrap(2)
    leader.script = [NONE, LOST]
    send(h, (1,), (2, 3), *[(record,) for record in range(4, 4 + behind)])
    h.reset("broker-0")
    h.run(300)
    assert leader.duplicates == 1
    assert leader.records() == [1, 2, 3, *range(4, 4 + behind)]
    assert sorted(acked(h)) == [(1,), (2, 3), *[(record,) for record in range(4, 4 + behind)]]


def test_a_batch_behind_the_end_goes_before_a_retry_and_both_expire() -> None:
    """TxnPartitionEntry has the batches in flight in the order of their numbers: 0 comes first.

    The leader has not seen the one before it, so it is out of order until delivery.timeout.ms. The
    gap is real then, and the epoch rises.
    """
    h, leader = about_to_wrap(2)
    leader.script = [NONE, WITHHELD]
    send(h, (0,), (1,), (2,))
    refuse(h, 0, Errors.NOT_ENOUGH_REPLICAS)
    h.run(1500)
    tries = sequences(h)
    assert tries[:3] == [(0, MAX_SEQUENCE - 1), (0, MAX_SEQUENCE), (0, 0)]
    assert len(tries) > 10
    assert set(tries[3:]) == {(0, 0)}
    assert (acked(h), [fact.error for fact in h.of(SendFailed)]) == ([(0,)], ["TIMED_OUT"] * 2)
    send(h, (3,))
    h.run(100)
    assert sequences(h)[-1] == (1, 0)
    assert leader.records() == [0, 3]


def test_nothing_follows_on_the_largest_sequence_for_the_client() -> None:
    """isNextSequence: the difference of 0 and 2147483647 is not 1, so a gap is taken for haste."""
    h, leader = about_to_wrap(1)
    send(h, (1,))
    h.run(100)
    leader.script = [Errors.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3
    send(h, (2,))
    h.run(300)
    assert sequences(h) == [(0, MAX_SEQUENCE), *[(0, 0)] * 4]
    assert acked(h) == [(1,), (2,)]
    assert sequences_of(h).last_acked_sequence == MAX_SEQUENCE  # for the rest of the epoch


def test_parts_of_a_split_batch_behind_the_end_are_refused() -> None:
    """ProducerBatch.split adds ints; LogValidator wants no negative sequence."""
    queue = PartitionQueue(T0)
    batch = ProducerBatch(queue, 1, 0, 0)
    batch.records = [Record(None, value, 20, 0) for value in range(4)]
    batch.set_sequence(7, 0, MAX_SEQUENCE - 1)
    assert batch.last_sequence == -(2**31) + 1
    parts = batch.split(90, 2)
    bases = [part.base_sequence for part in parts]
    assert bases == [MAX_SEQUENCE - 1, MAX_SEQUENCE, -(2**31), -(2**31) + 1]
    log = make_log()
    errors = [log.append_as_leader(part.build(), 0, 0).error for part in parts]
    assert errors == [NONE, NONE, Errors.INVALID_RECORD, Errors.INVALID_RECORD]


@pytest.mark.parametrize(
    ("sequence", "taken_back"), [(MAX_SEQUENCE - 2, MAX_SEQUENCE - 2), (MAX_SEQUENCE - 1, 0)]
)
def test_a_sequence_is_taken_back_unless_the_next_would_be_negative(
    sequence: int, taken_back: int
) -> None:
    """TxnPartitionEntry.decrementSequence throws; Sender.failBatch catches it."""
    numbers = ProducerSequences(ClientRules())
    numbers.set_id(7, 0)
    batch = ProducerBatch(PartitionQueue(T0), 1, 0, 0)
    batch.records = [Record(None, value, 20, 0) for value in range(2)]
    entry = batch.queue.sequences
    numbers.start_at_beginning(entry)
    entry.next_sequence = sequence
    numbers.assign(batch)
    entry.remove(batch)
    numbers.take_back(batch)
    assert entry.next_sequence == taken_back
