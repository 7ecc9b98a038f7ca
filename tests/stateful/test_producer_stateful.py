"""The idempotent producer against a dumb oracle, through lost answers, timeouts and failovers.

The oracle is a list for each partition of what its leader has appended. The leader checks the
sequences as Kafka's does: the last five batches are known, a gap or an old epoch is refused. The
promises are those of KIP-98 and KIP-360, with up to five requests in flight: no record is in the
log twice, records stand in the order of the sends, what is acknowledged is there with everything
before it that was not given up, and what surely failed is not there.

Two things keep the oracle exact. A broker takes the requests of all connections in one order, as
Kafka's request queue does. A leader forgets a producer only when it owes it no answer: a batch
without an answer could not be told from a new one afterwards (B50).
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.client.producer.sequences import ProducerSequences
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import ProducePartitionResponse, ProduceRequest, ProduceResponse
from kafkasim.model.records import RecordBatch, TopicPartition
from tests.model.client_harness import Cluster, Harness

VALUE_SIZE = 20
TOO_MANY = 3  # records of a batch that the brokers find too large
PROPERTIES = {
    "linger.ms": 1,
    "batch.size": 400,
    "request.timeout.ms": 300,
    "delivery.timeout.ms": 1000,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 40,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 10,
}
PARTITIONS = tuple(TopicPartition("t", number) for number in range(2))
BEFORE_APPEND = (Errors.NOT_ENOUGH_REPLICAS, Errors.KAFKA_STORAGE_ERROR)
AFTER_APPEND = (Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Errors.REQUEST_TIMED_OUT)
OUTCOMES = (NONE, NONE, *BEFORE_APPEND, *AFTER_APPEND)


class SmallParts(ClientRules):
    """Batches that are too large are split into parts that are not."""

    def split_size(self, batch_size: int) -> int:
        return 61 + 2 * (VALUE_SIZE + 10)


class Leader:
    """One partition's log: the records, and what is known of the one producer."""

    def __init__(self) -> None:
        self.batches: list[tuple[RecordBatch, int]] = []  # and its offset
        self.records: list[int] = []
        self.answered = 0  # batches up to the last one that was acknowledged
        self.known: list[tuple[int, int, int, int]] = []  # epoch, sequences, offset
        self.forgotten = False

    def append(self, batch: RecordBatch) -> tuple[Errors, int]:
        """Append a batch unless its sequence forbids it; return the error and the offset."""
        epoch, first, last = batch.producer_epoch, batch.base_sequence, batch.last_sequence
        for known in self.known[-5:]:
            if known[:3] == (epoch, first, last):
                return NONE, known[3]
        if not self.known and self.forgotten:
            if first:
                return Errors.UNKNOWN_PRODUCER_ID, -1
        else:
            newest, after = (self.known[-1][0], self.known[-1][2] + 1) if self.known else (0, 0)
            if epoch < newest:
                return Errors.INVALID_PRODUCER_EPOCH, -1
            if first != (after if epoch == newest else 0):
                return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.records)
        self.known.append((epoch, first, last, offset))
        self.batches.append((batch, offset))
        self.records += [record.value for record in batch.records]
        return NONE, offset

    def lose_unanswered(self) -> None:
        """Forget the batches at the end that nobody was told of: another replica leads."""
        lost = len(self.batches) - self.answered
        if lost:
            del self.records[self.batches[self.answered][1] :]
            del self.batches[self.answered :]
            del self.known[max(0, len(self.known) - lost) :]


class ProducerMachine(RuleBasedStateMachine):
    """One producer, two partitions, and two brokers that answer when the test says so."""

    rules_in_force: ClientRules = SmallParts()

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster(partitions=2)
        self.cluster.handlers[ProduceRequest] = lambda _node, _request: None
        self.host = Harness(producer_config(PROPERTIES), self.cluster, self.rules_in_force)
        self.logs = {tp: Leader() for tp in PARTITIONS}
        self.sent: dict[TopicPartition, list[int]] = {tp: [] for tp in PARTITIONS}
        self.fate: dict[int, str] = {}  # acked, failed, or perhaps failed
        self.dead: dict[int, None] = {}  # connections that are broken
        self.seen = 0  # facts

    # What the application does.

    @rule(
        tp=st.sampled_from(PARTITIONS),
        counts=st.lists(st.sampled_from([1, 1, 2, 4]), min_size=1, max_size=3),
    )
    def send(self, tp: TopicPartition, counts: list[int]) -> None:
        """Send batches of so many records."""
        for count in counts:
            for _ in range(count):
                record = sum(map(len, self.sent.values()))
                self.sent[tp].append(record)
                self.host.call("send", "t", None, record, VALUE_SIZE, tp.partition, False)
            self.host.run(2)

    @rule(ms=st.sampled_from([30, 200, 350]))
    def wait(self, ms: int) -> None:
        self.host.run(ms)

    # What the brokers do.

    def queued(self, node: int) -> list[tuple[int, int, ProduceRequest]]:
        """The requests that a broker has received and not handled, in their order."""
        address = self.cluster.brokers[node]
        return [each for each in self.host.withheld if self.host.addresses[each[0]] == address]

    @precondition(lambda self: self.host.withheld)
    @rule(
        first=st.integers(0, 1),
        count=st.integers(1, 3),
        outcomes=st.tuples(st.sampled_from(OUTCOMES), st.sampled_from(OUTCOMES)),
        answers=st.booleans(),
    )
    def handle(
        self, first: int, count: int, outcomes: tuple[Errors, Errors], answers: bool
    ) -> None:
        """A broker handles its next requests; without ``answers`` the connection then breaks."""
        node = first if self.queued(first) else 1 - first
        for request in self.queued(node)[:count]:
            self.handle_one(node, request, outcomes, answers)
        if not answers:
            self.break_connections(node)
        self.host.run(2)

    def handle_one(
        self, node: int, request: Any, outcomes: tuple[Errors, Errors], answers: bool
    ) -> None:
        self.host.withheld.remove(request)
        connection, correlation, message = request
        answers = answers and connection not in self.dead and connection not in self.host.closed
        parts: list[ProducePartitionResponse] = []
        for part in message.partitions:
            error, offset = self.append(node, part.tp, part.batch, outcomes[part.tp.partition])
            if error is NONE and answers:
                log = self.logs[part.tp]
                told = sum(at <= offset for _, at in log.batches)
                log.answered = max(log.answered, told)
            parts.append(ProducePartitionResponse(part.tp, error, offset, -1, 0))
        if answers:
            self.host.respond(connection, correlation, ProduceResponse(tuple(parts)))

    def append(
        self, node: int, tp: TopicPartition, batch: RecordBatch, outcome: Errors
    ) -> tuple[Errors, int]:
        if self.cluster.leader(tp)[0] != node:
            return Errors.NOT_LEADER_OR_FOLLOWER, -1
        if outcome in BEFORE_APPEND:
            return outcome, -1
        if len(batch.records) >= TOO_MANY:
            return Errors.MESSAGE_TOO_LARGE, -1
        error, offset = self.logs[tp].append(batch)
        if error is NONE and outcome in AFTER_APPEND:
            return outcome, -1
        return error, offset

    def break_connections(self, node: int) -> None:
        address = self.cluster.brokers[node]
        self.dead |= {each: None for each, to in self.host.addresses.items() if to == address}
        self.host.reset(address)

    @rule(node=st.integers(0, 1), kept=st.integers(0, 3))
    def reset(self, node: int, kept: int) -> None:
        """The connections break, and with them the requests that were still on their way."""
        for lost in self.queued(node)[kept:]:
            self.host.withheld.remove(lost)
        self.break_connections(node)
        self.host.run(2)

    @rule(tp=st.sampled_from(PARTITIONS))
    def fail_over(self, tp: TopicPartition) -> None:
        """The leader dies; the next one has what was acknowledged, and nothing else."""
        node, epoch = self.cluster.leader(tp)
        for other in PARTITIONS:
            if self.cluster.leader(other)[0] == node:
                self.logs[other].lose_unanswered()
                self.cluster.leaders[other] = (1 - node, epoch + 1)
        self.reset(node, 0)

    @rule(tp=st.sampled_from(PARTITIONS), dice=st.integers(0, 3))
    def forget(self, tp: TopicPartition, dice: int) -> None:
        """Retention deletes all of a log, and the leader forgets the producer with it."""
        if dice:
            return  # seldom: it needs a quiet producer
        self.calm_down()
        log = self.logs[tp]
        if log.known:
            log.known, log.forgotten = [], True

    # What must hold.

    @invariant()
    def records_stand_once_and_in_order(self) -> None:
        for tp, log in self.logs.items():
            assert log.records == sorted(set(log.records)), (tp, log.records)

    @invariant()
    def results_are_true(self) -> None:
        facts = self.host.facts
        for fact in facts[self.seen :]:
            if isinstance(fact, Acked):
                self.check_acked(fact)
            elif isinstance(fact, SendFailed):
                fate = "perhaps failed" if fact.indeterminate else "failed"
                self.decide(fact.record_ids, fate)
        self.seen = len(facts)
        for tp, log in self.logs.items():
            failed = [each for each in log.records if self.fate.get(each) == "failed"]
            assert not failed, (tp, failed)

    def decide(self, records: tuple[int, ...], fate: str) -> None:
        for record in records:
            assert record not in self.fate, (record, self.fate[record], fate)
            self.fate[record] = fate

    def check_acked(self, fact: Acked) -> None:
        log = self.logs[PARTITIONS[fact.partition]].records
        self.decide(fact.record_ids, "acked")
        place = log.index(fact.record_ids[0])
        assert tuple(log[place : place + len(fact.record_ids)]) == fact.record_ids
        assert fact.base_offset in (place, -1), (fact, place)
        held = set(log)
        for record in self.sent[PARTITIONS[fact.partition]]:
            if record >= fact.record_ids[0]:
                break
            assert record in held or "failed" in self.fate.get(record, ""), (record, fact)

    def undecided(self) -> list[int]:
        return [each for sent in self.sent.values() for each in sent if each not in self.fate]

    def teardown(self) -> None:
        """Once the brokers answer, records are acknowledged again.

        The first may fail: a batch that expired in its first attempt leaves a gap that is found
        only when the next one expires, too.
        """
        self.calm_down()
        for tp in PARTITIONS:
            for _ in range(3):
                self.send(tp, [1])
                self.calm_down()
            assert self.fate[self.sent[tp][-1]] == "acked", tp

    def calm_down(self) -> None:
        """Once the brokers answer, every record has its result."""
        for _ in range(200):
            if self.undecided() == [] and not self.host.withheld:
                break
            for node in (0, 1):
                for request in self.queued(node):
                    self.handle_one(node, request, (NONE, NONE), True)
            self.host.run(20)
            self.records_stand_once_and_in_order()
            self.results_are_true()
        assert not self.undecided()


SEARCHED = settings(
    max_examples=500,
    stateful_step_count=40,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=(Phase.generate,),
)
TestProducer = ProducerMachine.TestCase
TestProducer.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


class NewEpochAtOnce(SmallParts):
    """B58: a partition takes a new epoch while batches of the old one are in flight."""

    def new_epoch_waits_for_in_flight(self) -> bool:
        return False


@pytest.mark.parametrize("rules", [SmallParts(), NewEpochAtOnce()])
def test_the_oracle_finds_that_a_new_epoch_overtakes(rules: ClientRules) -> None:
    """The epoch rises for one partition while a batch of the other is in flight."""

    class Chosen(ProducerMachine):
        rules_in_force = rules

    machine = Chosen()
    machine.send(PARTITIONS[0], [1])
    for ms in (350, 350, 200):
        machine.wait(ms)
    machine.send(PARTITIONS[1], [1])
    machine.wait(200)
    machine.send(PARTITIONS[1], [1])
    machine.handle(1, 1, (NONE, NONE), False)
    if isinstance(rules, NewEpochAtOnce):
        with pytest.raises(AssertionError, match="partition=1"):
            machine.teardown()
    else:
        machine.teardown()


def test_the_oracle_finds_that_retries_overtake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any batch may go at any time, also behind one that is sent again."""
    monkeypatch.setattr(ProducerSequences, "may_send", lambda _self, _batch: True)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(ProducerMachine, settings=SEARCHED)


@pytest.mark.soak
def test_many_more_histories() -> None:
    run_state_machine_as_test(
        ProducerMachine, settings=settings(max_examples=3000, stateful_step_count=50, deadline=None)
    )
