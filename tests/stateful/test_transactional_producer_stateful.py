"""The transactional producer against a dumb oracle, through lost answers, refusals and fencing.

The brokers are a row and two logs (``transactional_oracle.py``). The test holds every request back
and has it handled later, or lost, or answered with an error. The promises are those of KIP-98: a
committed transaction has exactly the acknowledged records and offsets, an aborted one has none, and
nothing of an older producer is written after a newer one. Sequences have no gap and no repetition
within an epoch, and the epoch never falls.

``State`` is kept on paper, too (TransactionManager.State): which calls are legal, what follows from
an answer. An application makes one call at a time; one that has timed out it makes again.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.client.exceptions import KafkaError, KafkaTimeoutError
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.client.producer.transactions.states import State
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed, TransactionBegun, TransactionEnded
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value
from tests.model.client_harness import Cluster, Harness
from tests.stateful.transactional_oracle import LAST_EPOCH, Coordinator, Group, Log

PROPERTIES = {
    "transactional.id": "tx",
    "linger.ms": 1,
    "batch.size": 400,
    "request.timeout.ms": 300,
    "delivery.timeout.ms": 1000,
    "max.block.ms": 1500,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 40,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 10,
    "metadata.recovery.strategy": "none",
}
REQUEST_TIMEOUT_US = 300_000
PARTITIONS = tuple(TopicPartition("t", number) for number in range(2))
SOURCE = TopicPartition("in", 0)

OK, LOST = "handled", "handled, but the answer is lost"
TRANSACTIONAL = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    EndTxnRequest,
)
MOVED = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE)
BUSY = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.CONCURRENT_TRANSACTIONS)
RETRIED: dict[type, tuple[Errors, ...]] = {
    **dict.fromkeys(TRANSACTIONAL, (*MOVED, *BUSY)),
    TxnOffsetCommitRequest: (
        *MOVED,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.REQUEST_TIMED_OUT,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ),
    ProduceRequest: (Errors.NOT_ENOUGH_REPLICAS, Errors.KAFKA_STORAGE_ERROR),
}
ABORTABLE: dict[type, tuple[Errors, ...]] = {
    InitProducerIdRequest: (),
    AddPartitionsToTxnRequest: (
        Errors.TRANSACTION_ABORTABLE,
        Errors.UNKNOWN_PRODUCER_ID,
        Errors.OPERATION_NOT_ATTEMPTED,
    ),
    AddOffsetsToTxnRequest: (Errors.TRANSACTION_ABORTABLE, Errors.UNKNOWN_PRODUCER_ID),
    EndTxnRequest: (Errors.TRANSACTION_ABORTABLE, Errors.UNKNOWN_PRODUCER_ID),
    TxnOffsetCommitRequest: (
        Errors.TRANSACTION_ABORTABLE,
        Errors.FENCED_INSTANCE_ID,
        Errors.ILLEGAL_GENERATION,
    ),
    ProduceRequest: (
        Errors.TRANSACTION_ABORTABLE,
        Errors.INVALID_TXN_STATE,
        Errors.INVALID_RECORD,
        Errors.UNKNOWN_PRODUCER_ID,
    ),
}
FATAL: dict[type, tuple[Errors, ...]] = {
    InitProducerIdRequest: (Errors.INVALID_PRODUCER_ID_MAPPING,),
    AddPartitionsToTxnRequest: (Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING),
    AddOffsetsToTxnRequest: (Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING),
    EndTxnRequest: (Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING),
    TxnOffsetCommitRequest: (Errors.INVALID_PRODUCER_ID_MAPPING,),
    ProduceRequest: (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_ID_MAPPING),
}
"""What follows from an error of each request, by its handler in TransactionManager."""

FENCING = (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH)
LEGAL: dict[str, tuple[State, ...]] = {
    "init_transactions": (State.UNINITIALIZED,),
    "begin_transaction": (State.READY,),
    "send": (State.IN_TRANSACTION,),
    "send_offsets_to_transaction": (State.IN_TRANSACTION,),
    "commit_transaction": (State.IN_TRANSACTION,),
    "abort_transaction": (State.IN_TRANSACTION, State.ABORTABLE_ERROR),
}
TAKES_RECORDS = (
    State.IN_TRANSACTION,
    State.COMMITTING_TRANSACTION,
    State.ABORTABLE_ERROR,
    State.FATAL_ERROR,
)
TARGET = {
    "init_transactions": State.INITIALIZING,
    "begin_transaction": State.IN_TRANSACTION,
    "commit_transaction": State.COMMITTING_TRANSACTION,
    "abort_transaction": State.ABORTING_TRANSACTION,
}


@value
class Member:
    """A consumer's place in its group."""

    group_id: str = "g"
    generation_id: int = 3
    member_id: str = "m"
    group_instance_id: str | None = None


class TransactionalMachine:
    """One producer, two partitions, and two brokers that answer when the test says so."""

    def __init__(self, version: int, first_epoch: int = 0) -> None:
        """``version`` is that of transaction.version; epochs begin with ``first_epoch``."""
        self.version = version
        self.cluster = cluster = Cluster(partitions=2)
        self.logs = {tp: Log() for tp in PARTITIONS}
        self.group = Group()
        self.row = Coordinator(self.logs, self.group, first_epoch - 1)
        self.nodes = {"tx": 1, "g": 0}  # the coordinators
        self.lookup_errors: list[Errors] = []  # of the next lookups
        cluster.handlers |= dict.fromkeys((*TRANSACTIONAL, TxnOffsetCommitRequest), self.arrive)
        cluster.handlers[ProduceRequest] = self.arrive_batches
        cluster.handlers[FindCoordinatorRequest] = self.find
        cluster.handlers[ApiVersionsRequest] = lambda _node, _message: ApiVersionsResponse(
            NONE, (("transaction.version", self.version),), self.version
        )
        self.host = Harness(producer_config(PROPERTIES), cluster)
        client: Any = self.host.process.clients["c"]
        client.metadata.add_topics(("t",), self.host.now)
        self.host.run(20)
        self.manager = client.transactions._manager
        self.state = State.UNINITIALIZED
        self.call = 0  # whose reply is missing
        self.operation = ""  # the call that is to be made again, or whose reply is missing
        self.timed_out = False
        self.dead: dict[int, None] = {}  # connections that are broken
        self.seen = 0  # facts
        self.faults = 0  # since the transaction has begun, or the one before that was aborted
        self.begun_at = 0  # µs
        self.next_record = self.next_offset = 0
        self.fate: dict[int, str] = {}  # of records: the error, or ""
        self.acked: dict[TopicPartition, list[int]] = {tp: [] for tp in PARTITIONS}  # and open
        self.offsets: dict[TopicPartition, int] = {}  # of the open transaction
        self.unsettled_offsets = False  # a call of the open transaction has timed out
        self.stranded = False  # a batch expired during an abort, see settle
        self.visible: dict[TopicPartition, list[int]] = {tp: [] for tp in PARTITIONS}
        self.visible_offsets: dict[TopicPartition, int] = {}
        self.newest = (-1, -1)  # the producer, as it was seen on the wire
        self.failed: tuple[int, int] | None = None  # whose batch has failed
        self.shifted = (-1, -1)  # the same, also when it had begun to commit
        self.sent: dict[int, tuple[tuple[int, int], int]] = {}  # first record: producer, sequence
        self.next: dict[TopicPartition, tuple[tuple[int, int], int]] = {}

    # What the application does.

    def invoke(self, operation: str, *args: Any) -> None:
        """Make a call unless one is under way; an illegal one raises and changes nothing."""
        if self.call:
            return
        again = self.timed_out and operation == self.operation
        legal = again or (not self.timed_out and self.state in LEGAL[operation])
        if legal and not again and operation in TARGET:
            self.state = TARGET[operation]
        call = self.host.call(operation, *args)
        self.host.run(1)
        reply = self.host.replies.get(call, "waits")
        if not legal:
            assert isinstance(reply, KafkaError), (operation, self.state, reply)
        elif operation == "begin_transaction":
            assert reply is None, reply
        elif operation != "send":
            self.call, self.operation, self.timed_out = call, operation, False
        self.check()

    def begin(self) -> None:
        """Begin a transaction."""
        self.invoke("begin_transaction")

    def send(self, partition: int, count: int) -> None:
        """Send so many records; they are one batch.

        A refused record stays in the accumulator (KafkaProducer.doSend), and counts if a partition
        of a transaction is flushed for its commit. Without a transaction it would wait for the next
        one, and fail the producer when it expires.
        """
        for _ in range(count if self.state is State.IN_TRANSACTION else 1):
            if self.state not in TAKES_RECORDS:
                return
            self.next_record += 1
            self.invoke("send", "t", None, self.next_record, 10, partition, False)

    def send_offsets(self) -> None:
        """Take an offset into the transaction."""
        if self.unsettled_offsets:
            return  # two such calls may overtake each other
        self.next_offset += 1
        if self.state is State.IN_TRANSACTION and not self.call:
            self.offsets[SOURCE] = self.next_offset
        offsets = {SOURCE: (self.next_offset, -1)}
        self.invoke("send_offsets_to_transaction", offsets, Member())

    def wait(self, ms: int) -> None:
        """Let time pass."""
        self.faults += ms >= 100
        self.host.run(ms)
        self.check()

    # What arrives at brokers.

    def find(self, _node: str, message: FindCoordinatorRequest) -> FindCoordinatorResponse:
        error = self.lookup_errors.pop() if self.lookup_errors else NONE
        node = self.nodes[message.key]
        return FindCoordinatorResponse(error, node, f"broker-{node}")

    def arrive(self, _node: str, message: Any) -> None:
        """Check the producer of a request; its answer comes later."""
        if isinstance(message, AddPartitionsToTxnRequest):
            (message,) = message.transactions
        producer = message.producer_id, message.producer_epoch
        assert producer >= self.newest or producer == (-1, -1), (message, self.newest)
        self.newest = max(producer, self.newest)

    def arrive_batches(self, _node: str, message: ProduceRequest) -> None:
        """Check the sequences of batches: no gap and no repetition within an epoch."""
        self.take_facts()
        for part in message.partitions:
            batch, tp = part.batch, part.tp
            first, base = batch.records[0].value, batch.base_sequence
            producer = batch.producer_id, batch.producer_epoch
            self.arrive("", batch)
            if first in self.sent:
                same = self.sent[first] == (producer, base)
                assert same or self.shifted == producer, (self.sent[first], batch)
            else:
                before, expected = self.next.get(tp, (producer, 0))
                follows = base == (expected if before == producer else 0)
                assert follows or (self.shifted == producer and base < expected), (batch, self.next)
                self.next[tp] = producer, base + len(batch.records)
            self.sent[first] = producer, base

    # What brokers do.

    def queued(self, node: int) -> list[Any]:
        """The requests that a broker has received and not handled, in their order."""
        address = self.cluster.brokers[node]
        return [each for each in self.host.withheld if self.host.addresses[each[0]] == address]

    def handle(self, node: int, outcome: str, index: int = 0) -> None:
        """A broker handles its next request, or refuses it with an error from a table."""
        request = next(iter(self.queued(node)), None)
        if request is None:
            return
        self.host.withheld.remove(request)
        connection, correlation, message = request
        kind = type(message)
        tables = {"retried": RETRIED, "abortable": ABORTABLE, "fatal": FATAL}
        errors = tables[outcome][kind] if outcome in tables else ()
        error = errors[index % len(errors)] if errors else NONE
        if error is Errors.UNKNOWN_PRODUCER_ID and self.state is State.ABORTING_TRANSACTION:
            error = NONE  # the producer would never leave INITIALIZING (completeTransaction)
        if kind is EndTxnRequest and outcome == "abortable":
            if self.row.state != "Ongoing" or not message.committed:
                error = NONE  # the coordinator would not say so
        if kind is ProduceRequest and outcome in ("abortable", "fatal"):
            for part in message.partitions:
                if part.batch.records[0].value in self.logs[part.tp].records:
                    error = NONE  # the leader knows the batch
        if kind in RETRIED and kind is not ProduceRequest:
            if self.nodes["g" if kind is TxnOffsetCommitRequest else "tx"] != node:
                error = Errors.NOT_COORDINATOR
        answer, told = self.answer(message, error)
        self.faults += bool(told)
        lost = outcome is LOST or connection in self.dead or connection in self.host.closed
        refused = told is not error and told in (*FENCING, Errors.INVALID_TXN_STATE)
        if refused and not lost:
            assert self.row.fenced, (message, told)
        if lost and kind is InitProducerIdRequest and self.state is not State.INITIALIZING:
            self.row.fenced |= message.producer_id < 0
        if lost:
            self.break_connections(node)
        else:
            self.host.respond(connection, correlation, answer)
            self.host.run(1)
            if connection not in self.host.closed:  # a timeout was faster
                self.follow(message, told)
        self.check()

    def answer(self, message: Any, error: Errors) -> tuple[Any, Errors]:
        """Return the answer to a request, and its error; with ``error`` nothing else happens."""
        row, producer = self.row, (getattr(message, "producer_id", -1), -1)
        if not isinstance(message, ProduceRequest | AddPartitionsToTxnRequest):
            producer = message.producer_id, message.producer_epoch
        match message:
            case InitProducerIdRequest():
                error, given = (error, (-1, -1)) if error else row.init(producer)
                return InitProducerIdResponse(error, *given), error
            case AddPartitionsToTxnRequest():
                (each,) = message.transactions
                producer = each.producer_id, each.producer_epoch
                error = error or row.add(producer, [self.logs[tp] for tp in each.partitions])
                results = tuple([(tp, error) for tp in each.partitions])
                return AddPartitionsToTxnResponse(NONE, (("tx", results),)), error
            case AddOffsetsToTxnRequest():
                error = error or row.add(producer, [self.group])
                return AddOffsetsToTxnResponse(error), error
            case TxnOffsetCommitRequest():
                error = error or row.verify(producer, self.group, message.transaction_version)
                if error is NONE:
                    self.group.open |= {tp: offset for tp, offset, _, _ in message.offsets}
                return TxnOffsetCommitResponse(((SOURCE, error),)), error
            case EndTxnRequest():
                version = message.transaction_version
                if error:
                    return EndTxnResponse(error), error
                error, given = row.end(producer, message.committed, version)
                return EndTxnResponse(error, *given), error
        parts = [self.produce(message, part, error) for part in message.partitions]
        return ProduceResponse(tuple(parts)), max(part.error for part in parts)

    def produce(self, message: Any, part: Any, error: Errors) -> ProducePartitionResponse:
        offset = -1
        if error is NONE:
            error, offset = self.row.write(part.batch, part.tp, message.transaction_version)
        return ProducePartitionResponse(part.tp, error, offset, -1, 0)

    def follow(self, message: Any, error: Errors) -> None:
        """Note what follows from an answer; of batches it is in the facts."""
        kind = type(message)
        if self.state is State.FATAL_ERROR or kind is ProduceRequest:
            return
        if error in FENCING or error in FATAL[kind]:
            self.state = State.FATAL_ERROR
        elif error in ABORTABLE[kind]:
            self.fail()
        elif kind is InitProducerIdRequest and error is NONE:
            self.state = State.READY

    def fail(self) -> None:
        """Note that the transaction can only be aborted."""
        if self.state in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION):
            slow = self.host.now - self.begun_at > REQUEST_TIMEOUT_US
            assert self.faults or slow, "nothing has happened"
            self.state = State.ABORTABLE_ERROR

    def break_connections(self, node: int) -> None:
        """The connections to a broker break; what it has received stays there."""
        self.faults += 1
        address = self.cluster.brokers[node]
        self.dead |= {each: None for each, to in self.host.addresses.items() if to == address}
        self.host.reset(address)
        self.host.run(1)
        self.check()

    def lose(self, node: int) -> None:
        """The connections break, and with them the requests on their way."""
        for request in self.queued(node):
            self.host.withheld.remove(request)
        self.break_connections(node)

    def move(self, key: str) -> None:
        """A coordinator moves to the other broker."""
        self.faults += 1
        self.nodes[key] = 1 - self.nodes[key]

    def fail_over(self, tp: TopicPartition) -> None:
        """A partition's leader moves to the other broker, with all that is in the log."""
        self.faults += 1
        node, epoch = self.cluster.leader(tp)
        self.cluster.leaders[tp] = (1 - node, epoch + 1)

    # What must hold.

    def check(self) -> None:
        """Compare the producer with the state on paper, and the logs with what was promised."""
        self.take_facts()
        assert self.manager.state is self.state, (self.manager.state, self.state)
        if self.call and self.call in self.host.replies:
            self.reply(self.host.replies[self.call])
        logs = {tp: log.committed + self.decided(log) for tp, log in self.logs.items()}
        if logs != self.visible:
            told = (State.READY, State.INITIALIZING, State.IN_TRANSACTION)
            assert self.state not in told, (logs, self.visible)
            acked = {tp: self.visible[tp] + sorted(self.acked[tp]) for tp in PARTITIONS}
            assert logs == acked, (logs, acked)

    def decided(self, log: Log) -> list[int]:
        """The records that a marker will commit."""
        return log.open if log in self.row.unmarked and self.row.state == "Commit" else []

    def take_facts(self) -> None:
        """Take the facts that are new."""
        for fact in self.host.facts[self.seen :]:
            self.seen += 1
            self.take(fact)

    def take(self, fact: Any) -> None:
        """Take a fact."""
        if isinstance(fact, Acked):
            self.acked[PARTITIONS[fact.partition]] += fact.record_ids
            self.fate |= dict.fromkeys(fact.record_ids, "")
        elif isinstance(fact, SendFailed):
            self.fate |= dict.fromkeys(fact.record_ids, fact.error)
            expired = fact.error == "TIMED_OUT" and self.version < 2
            self.stranded |= expired and self.state is State.ABORTING_TRANSACTION
            self.shifted = self.manager.producer_id, self.manager.producer_epoch
            if self.state is State.IN_TRANSACTION and (fact.attempts or fact.error == "TIMED_OUT"):
                self.failed = self.manager.producer_id, self.manager.producer_epoch
            if fact.error in ("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"):
                self.state = State.FATAL_ERROR
            self.fail()
        elif isinstance(fact, TransactionBegun):
            producer = fact.producer_id, fact.producer_epoch
            assert self.failed is None or producer > self.failed, (producer, self.failed)
            self.failed, self.begun_at = None, self.host.now
            self.acked, self.offsets = {tp: [] for tp in PARTITIONS}, {}
            self.unsettled_offsets = self.stranded = False
        elif isinstance(fact, TransactionEnded):
            self.end(fact.outcome)

    def end(self, outcome: str) -> None:
        """Take the end of a transaction."""
        if outcome == "committed":
            assert self.state is State.COMMITTING_TRANSACTION, self.state
            for tp in PARTITIONS:
                self.visible[tp] = self.visible[tp] + sorted(self.acked[tp])
            self.visible_offsets |= self.offsets
            self.faults = 0
        elif outcome == "aborted":
            assert self.state is State.ABORTING_TRANSACTION, self.state
        if outcome in ("committed", "aborted"):
            committed = dict(self.group.committed)
            if self.group in self.row.unmarked and self.row.state == "Commit":
                committed |= self.group.open
            assert committed == self.visible_offsets, (committed, self.visible_offsets)
            self.state = self.manager.state
            assert self.state in (State.READY, State.INITIALIZING), self.state

    def reply(self, reply: Any) -> None:
        """Take the reply to a call."""
        self.call = 0
        self.timed_out = isinstance(reply, KafkaTimeoutError) and self.operation in TARGET
        in_error = self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR)
        if reply is None:
            done = self.state is State.READY or "offsets" in self.operation or self.stranded
            assert done, (self.operation, self.state)
        elif isinstance(reply, KafkaTimeoutError):
            self.unsettled_offsets |= "offsets" in self.operation
        else:
            assert in_error, (self.operation, reply, self.state)

    # The end.

    def settle(self) -> None:
        """Once the brokers answer, every call has its reply, and every transaction its end.

        With version 1 a batch that expires during an abort strands its producer: the gap asks for
        a new epoch, so the abort ends in INITIALIZING, but beginCompletingTransaction had no reason
        yet to ask for it (TransactionManager.maybeResolveSequences, completeTransaction).
        """
        for _ in range(400):
            self.row.write_markers()
            self.lookup_errors = []
            for node in (0, 1):
                while self.queued(node):
                    self.handle(node, OK)
            if not self.call:
                if self.timed_out:
                    self.invoke(self.operation)
                elif self.state is State.ABORTABLE_ERROR:
                    self.invoke("abort_transaction")
                elif self.state is State.IN_TRANSACTION:
                    self.invoke("commit_transaction")
                elif self.state is State.UNINITIALIZED:
                    self.invoke("init_transactions")
                elif self.stranded or self.state in (State.READY, State.FATAL_ERROR):
                    return
            self.wait(20)
        raise AssertionError(self.state)

    def finish(self) -> None:
        """A producer that was not fenced commits again; a fatal error is final."""
        self.settle()
        for _ in range(3):
            if self.state is State.READY:
                self.begin()
                for partition in (0, 1):
                    self.send(partition, 2)
                self.send_offsets()
                self.settle()
        if self.state is State.INITIALIZING:
            assert self.stranded
            return
        if self.state is not State.FATAL_ERROR:
            assert self.visible[PARTITIONS[0]][-1:] == [self.next_record - 2]
            assert self.visible_offsets == {SOURCE: self.next_offset}
            return
        for operation in LEGAL:
            self.next_record += 1
            args: dict[str, tuple[Any, ...]] = {
                "send": ("t", None, self.next_record, 10, 0, False),
                "send_offsets_to_transaction": ({SOURCE: (1, -1)}, Member()),
            }
            self.invoke(operation, *args.get(operation, ()))


def play(seed: int) -> TransactionalMachine:
    """Play a drawn history, then let the brokers answer everything.

    How often answers are lost and requests refused differs between histories.
    """
    rng = random.Random(seed)
    first_epoch = LAST_EPOCH - 2 if seed % 5 == 4 else 0
    machine = TransactionalMachine(1 + seed % 2, first_epoch)
    lost, retried, abortable, fatal = rng.choice(
        ((0.0, 0.0, 0.0, 0.0), (0.1, 0.2, 0.0, 0.0), (0.2, 0.3, 0.1, 0.0), (0.1, 0.1, 0.1, 0.02))
    )
    trouble = lost > 0.0
    commits = rng.choice((1, 4))
    waits = rng.choice(((120, 350), (350, 600), (600, 900)))

    def handle() -> None:
        outcomes = (OK, LOST, "retried", "abortable", "fatal")
        weights = (1 - lost - retried - abortable - fatal, lost, retried, abortable, fatal)
        node = rng.randrange(2)
        for _ in range(rng.randint(1, 4)):
            (outcome,) = rng.choices(outcomes, weights)
            machine.handle(node, outcome, rng.randrange(6))

    def refuse_lookups() -> None:
        machine.lookup_errors = rng.choices((Errors.COORDINATOR_NOT_AVAILABLE, NONE), k=2)

    actions: list[tuple[int, Any]] = [
        (
            3,
            lambda: (
                machine.invoke("init_transactions")
                if rng.random() < 0.3 or not machine.seen
                else None
            ),
        ),
        (4, machine.begin),
        (8, lambda: machine.send(rng.randrange(2), rng.choice((1, 1, 2, 4)))),
        (2, machine.send_offsets),
        (commits, lambda: machine.invoke("commit_transaction")),
        (1, lambda: machine.invoke("abort_transaction")),
        (3, lambda: machine.invoke(machine.operation) if machine.timed_out else None),
        (16, handle),
        (4, machine.row.write_markers),
        (4, lambda: machine.wait(rng.choice((1, 5, 30)))),
    ]
    if trouble:
        actions += [
            (1, lambda: machine.wait(rng.choice(waits))),
            (1, lambda: machine.lose(rng.randrange(2))),
            (1, lambda: machine.move(rng.choice(("tx", "g")))),
            (1, lambda: machine.fail_over(rng.choice(PARTITIONS))),
            (1, refuse_lookups),
        ]
    if seed % 7 == 6:
        actions.append((1, machine.row.fence))
    machine.invoke("init_transactions")
    weights = [weight for weight, _ in actions]
    for _, action in rng.choices(actions, weights, k=120):
        action()
        machine.check()
    machine.finish()
    return machine


def search(seeds: range) -> None:
    """Play histories until one fails."""
    for seed in seeds:
        play(seed)


def test_drawn_histories() -> None:
    search(range(300))
