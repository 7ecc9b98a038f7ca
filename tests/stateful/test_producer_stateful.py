"""The idempotent producer against a dumb oracle, through lost answers, timeouts and failovers.

The oracle is a list for each partition of what its leader has appended. The leader checks the
sequences as Kafka's does: the last five batches are known, a gap or an old epoch is refused. The
promises are those of KIP-98 and KIP-360, with up to five requests in flight: no record is in the
log twice, records stand in the order of the sends, what is acknowledged is there with everything
before it that was not given up, and what surely failed is not there.

Three things keep the oracle exact. A broker takes the requests of all connections in one order, as
Kafka's request queue does. A leader forgets a producer only when it owes it no answer: a batch
without an answer could not be told from a new one afterwards (B50). It then refuses the next
batches for nothing else: at UNKNOWN_PRODUCER_ID, which no broker of today answers, the producer
begins anew with all that is in flight, as if no earlier batch could be appended any more
(TransactionManager.canRetry). And records may stand twice for one reason only: a batch is refused,
or its connection breaks, when its delivery.timeout.ms is over, but before the producer looks for
expired batches. Sender.completeBatch then fails it with adjustSequenceNumbers, which only exhausted
retries hold back. The epoch is raised, and the batches in flight behind it are numbered from 0,
although they may be in the log already. Each such failure permits one more copy of those records,
and a copy stands where another epoch wrote.

What is sent is checked against rules of Kafka, too: a retry goes alone, a new epoch begins at 0,
and nothing new follows on a batch that may or may not be in the log. A new epoch begins with a gap
if a part of a split batch has expired before it was sent: it has a sequence, but counts as never
tried (RecordAccumulator.splitAndReenqueue), and is only forgotten.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.client.producer.transaction_manager import MAX_EPOCH
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed, SequencesRewritten
from kafkasim.model.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkasim.model.records import RecordBatch, TopicPartition
from tests.model.client_harness import LATENCY_US, Cluster, Harness
from tests.stateful.partition_leader import Leader
from tests.stateful.producer_mutations import MUTATIONS

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
DELIVERY_TIMEOUT_US = 1_000_000
PARTITIONS = tuple(TopicPartition("t", number) for number in range(2))
BEFORE_APPEND = (Errors.NOT_ENOUGH_REPLICAS, Errors.KAFKA_STORAGE_ERROR)
AFTER_APPEND = (Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Errors.REQUEST_TIMED_OUT)
OUTCOMES = (NONE, NONE, *BEFORE_APPEND, *AFTER_APPEND)


class SmallParts(ClientRules):
    """Batches that are too large are split into parts that are not."""

    def split_size(self, batch_size: int) -> int:
        return 61 + 2 * (VALUE_SIZE + 10)


class ProducerMachine(RuleBasedStateMachine):
    """One producer, two partitions, and two brokers that answer when the test says so."""

    rules_in_force: ClientRules = SmallParts()

    def __init__(self, first_epoch: int = 0) -> None:
        """``first_epoch`` is that of the first producer id; the others begin with 0."""
        super().__init__()
        self.cluster = Cluster(partitions=2)
        self.cluster.handlers[ProduceRequest] = self.arrive
        given = iter([first_epoch])
        ids = itertools.count(7)
        self.cluster.handlers[InitProducerIdRequest] = lambda _node, _request: (
            InitProducerIdResponse(NONE, next(ids), next(given, 0))
        )
        self.host = Harness(producer_config(PROPERTIES), self.cluster, self.rules_in_force)
        self.logs = {tp: Leader() for tp in PARTITIONS}
        self.sent: dict[TopicPartition, list[int]] = {tp: [] for tp in PARTITIONS}
        self.fate: dict[int, str] = {}  # acked, failed, or perhaps failed
        self.dead: dict[int, None] = {}  # connections that are broken
        self.seen = 0  # facts
        self.sent_once: dict[int, None] = {}  # records of batches that were sent
        self.newest: dict[TopicPartition, tuple[int, int]] = {}  # producer id and epoch
        # A part of a split batch expired with its sequence and was never sent: the producer then.
        self.untried: dict[TopicPartition, tuple[int, int]] = {}
        # Since when, with which producer, and what was sent by then (hold).
        self.unresolved: dict[TopicPartition, tuple[int, tuple[int, int], tuple[int, ...]]] = {}
        self.refused_late: dict[TopicPartition, None] = {}  # until the sequences are rewritten
        self.copies: Counter[int] = Counter()  # of a record, beside the first one

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

    @rule(node=st.integers(0, 1), ms=st.sampled_from([200, 600, 1100]))
    def pause(self, node: int, ms: int) -> None:
        """The producer stands still while a broker breaks its connections.

        It reads that before it looks for expired batches, as client.poll() is where the Sender
        spends its time.
        """
        self.break_connections(node)
        self.host.now += ms * 1000
        self.host.run(2)

    # What the brokers do.

    def arrive(self, _node: str, request: ProduceRequest) -> None:
        """Check what is sent; its answer comes later."""
        self.results_are_true()
        for part in request.partitions:
            batch, tp = part.batch, part.tp
            first = batch.records[0].value
            earlier = [each for each in self.sent[tp] if each < first and each not in self.fate]
            again = first in self.sent_once
            since, newest, held = self.unresolved.get(tp, (0, (0, 0), ()))
            if not again and self.host.now - LATENCY_US > since and newest == self.newest.get(tp):
                # A gap that may be none (TransactionManager.hasUnresolvedSequence).
                assert all(each in self.fate for each in held), (tp, first, held)
            # A retry goes alone (RecordAccumulator.shouldStopDrainBatchesForPartition).
            assert not (again and earlier), (tp, first, earlier)
            producer = batch.producer_id, batch.producer_epoch
            before = self.newest.get(tp, (0, 0))
            if producer > before:
                self.newest[tp] = producer
                self.refused_late.pop(tp, None)
                begins = not batch.base_sequence or self.untried.get(tp) == before
                assert again or earlier or begins, (tp, first, batch)
            self.sent_once |= dict.fromkeys([record.value for record in batch.records])

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
        self.handle_next(node, [outcomes] * count, answers)

    def handle_next(self, node: int, outcomes: list[tuple[Errors, Errors]], answers: bool) -> None:
        """A broker handles its next requests, each with outcomes of its own by partition."""
        for request, outcome in zip(self.queued(node), outcomes, strict=False):
            self.handle_one(node, request, outcome, answers)
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
        log = self.logs[tp]
        if outcome in BEFORE_APPEND:
            return outcome, -1
        if len(batch.records) >= TOO_MANY:
            return Errors.MESSAGE_TOO_LARGE, -1
        error, offset = log.append(batch)
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

    @rule(tp=st.sampled_from(PARTITIONS), batches=st.integers(1, 16))
    def forget(self, tp: TopicPartition, batches: int) -> None:
        """Retention deletes all of a log, and the leader forgets the producer with it.

        Some batches are then in flight at once.
        """
        if batches > 4:
            return  # seldom: it needs a quiet producer
        self.calm_down()
        log = self.logs[tp]
        if log.known:
            log.known, log.forgotten = [], True
            self.send(tp, [1] * batches)
            self.calm_down()
            assert {self.fate[each] for each in self.sent[tp][-batches:]} == {"acked"}
            log.forgotten = False

    # What must hold.

    @invariant()
    def records_stand_once_and_in_order(self) -> None:
        for tp, log in self.logs.items():
            if log.records == sorted(set(log.records)):
                continue
            first = list(dict.fromkeys(log.records))
            assert first == sorted(first), (tp, log.records)
            for record, count in Counter(log.records).items():
                assert count <= 1 + self.copies[record], (tp, record, log.records)
            by_epoch: dict[tuple[int, int], list[int]] = {}
            for batch, _ in log.batches:
                written = by_epoch.setdefault((batch.producer_id, batch.producer_epoch), [])
                written += [record.value for record in batch.records]
            for producer, written in by_epoch.items():
                assert written == sorted(set(written)), (tp, producer, written)

    @invariant()
    def results_are_true(self) -> None:
        facts = self.host.facts
        for fact in facts[self.seen :]:
            if isinstance(fact, Acked):
                self.check_acked(fact)
            elif isinstance(fact, SendFailed):
                assert fact.latency_us >= DELIVERY_TIMEOUT_US, fact
                tp = PARTITIONS[fact.partition]
                if fact.error == "TIMED_OUT" and fact.attempts > 1:
                    self.hold(tp)
                if fact.attempts == 0 and fact.record_ids[0] in self.sent_once:
                    self.untried[tp] = self.newest[tp]
                fate = "perhaps failed" if fact.indeterminate else "failed"
                self.decide(fact.record_ids, fate)
                if fact.error != "TIMED_OUT":  # of an answer, or of a broken connection
                    self.refused_late[tp] = None
            elif isinstance(fact, SequencesRewritten):
                if PARTITIONS[fact.partition] in self.refused_late:
                    del self.refused_late[PARTITIONS[fact.partition]]
                    self.copies.update(fact.record_ids)
        self.seen = len(facts)
        for tp, log in self.logs.items():
            failed = [each for each in log.records if self.fate.get(each) == "failed"]
            assert not failed, (tp, failed)

    def hold(self, tp: TopicPartition) -> None:
        """A batch has expired after a retry: nothing new is sent before the others are decided."""
        held = tuple([each for each in self.sent[tp] if each in self.sent_once])
        self.unresolved[tp] = (self.host.now, self.newest.get(tp, (0, 0)), held)

    def decide(self, records: tuple[int, ...], fate: str) -> None:
        for record in records:
            assert record not in self.fate, (record, self.fate[record], fate)
            self.fate[record] = fate

    def check_acked(self, fact: Acked) -> None:
        log = self.logs[PARTITIONS[fact.partition]].records
        self.decide(fact.record_ids, "acked")
        count = len(fact.record_ids)
        starts = [at for at, record in enumerate(log) if record == fact.record_ids[0]]
        places = [at for at in starts if tuple(log[at : at + count]) == fact.record_ids]
        assert places, fact
        assert fact.base_offset in (*places, -1), (fact, places)
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


def play(machine: ProducerMachine, seed: int) -> None:
    """Play a drawn history of eighty steps, then let the brokers answer everything.

    How often answers are lost and requests refused differs between histories; within one of the
    requests of a step each has an outcome of its own, so that later batches arrive without an
    earlier one. In every seventh history the producer is paused now and then.
    """
    rng = random.Random(seed)
    lost, refused = rng.choice((0.0, 0.1, 0.4)), rng.choice((0.05, 0.3, 0.6))
    waits = rng.choice(((1, 5, 30), (5, 30, 120, 350), (30, 200, 350, 600)))

    def outcome() -> Errors:
        return rng.choice((*BEFORE_APPEND, *AFTER_APPEND)) if rng.random() < refused else NONE

    def send() -> None:
        machine.send(rng.choice(PARTITIONS), rng.choices((1, 1, 2, 4), k=rng.randint(1, 6)))

    def handle() -> None:
        outcomes = [(outcome(), outcome()) for _ in range(rng.randint(1, 6))]
        machine.handle_next(rng.randrange(2), outcomes, rng.random() >= lost)

    actions = (
        (8, send),
        (10, handle),
        (5, lambda: machine.wait(rng.choice(waits))),
        (1, lambda: machine.reset(rng.randrange(2), rng.randrange(4))),
        (1, lambda: machine.fail_over(rng.choice(PARTITIONS))),
        (rng.choice((0, 1)), lambda: machine.forget(rng.choice(PARTITIONS), rng.randint(1, 4))),
        (int(seed % 7 == 5), lambda: machine.pause(rng.randrange(2), rng.choice((200, 600, 1100)))),
    )
    weights = [weight for weight, _ in actions]
    for _, action in rng.choices(actions, weights, k=80):
        action()
        machine.records_stand_once_and_in_order()
        machine.results_are_true()
    machine.teardown()


def search(seeds: range) -> None:
    """Play histories until one fails; in every third the epochs are soon exhausted."""
    for seed in seeds:
        play(ProducerMachine(MAX_EPOCH - 1 if seed % 3 == 2 else 0), seed)


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


def test_a_batch_behind_one_that_fails_late_is_stored_twice() -> None:
    """Both are in the log, without an answer; the first is then past its delivery timeout."""
    machine = ProducerMachine()
    machine.send(PARTITIONS[0], [1])
    for ms in (350, 350, 200):
        machine.wait(ms)
    machine.send(PARTITIONS[0], [1])
    for request in machine.queued(0)[-2:]:
        machine.handle_one(0, request, (NONE, NONE), False)
    assert machine.logs[PARTITIONS[0]].records == [0, 1]
    machine.pause(0, 200)
    machine.calm_down()
    assert machine.logs[PARTITIONS[0]].records == [0, 1, 1]
    assert machine.fate == {0: "perhaps failed", 1: "acked"}
    machine.teardown()


def test_drawn_histories() -> None:
    search(range(60))
    search(range(2758, 2759))  # a part of a split batch expires when it has been renumbered


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = MUTATIONS[name]
    monkeypatch.setattr(broken.owner, broken.method, broken.replacement)
    with pytest.raises((AssertionError, KeyError, ValueError)):
        search(range(broken.history, broken.history + 200))


@pytest.mark.soak
def test_many_more_histories() -> None:
    run_state_machine_as_test(
        ProducerMachine, settings=settings(max_examples=3000, stateful_step_count=50, deadline=None)
    )
    search(range(60, 3000))
