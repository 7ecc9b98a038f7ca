"""The transactional producer beside an oracle, and all that may happen to it.

``transactional_oracle.py`` has what the brokers know, ``test_transactional_producer_stateful.py``
the promises, ``transactional_histories.py`` how a history goes on and ends. Here are the verbs of a
history, TransactionManager.State on paper, and the checks after each step.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.client.exceptions import (
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
)
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.client.producer.transactions.states import State
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed, TransactionBegun, TransactionEnded
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    EndTxnRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import LATENCY_US, Cluster, Harness
from tests.stateful import transactional_rules as rules
from tests.stateful.transactional_oracle import Coordinator, Group, Log
from tests.stateful.transactional_rules import LOST, PARTITIONS, SOURCES

BACKOFFS_US = 60_000  # after that a retry, also one behind a lookup, is on the wire


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
        cluster.handlers |= dict.fromkeys(
            (*rules.TRANSACTIONAL, TxnOffsetCommitRequest), self.arrive
        )
        cluster.handlers[ProduceRequest] = self.arrive_batches
        cluster.handlers[FindCoordinatorRequest] = self.find
        cluster.handlers[ApiVersionsRequest] = lambda _node, _message: ApiVersionsResponse(
            NONE, (("transaction.version", self.version),), self.version
        )
        self.host = Harness(producer_config(rules.PROPERTIES), cluster)
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
        self.begun_version = 0  # of the transaction
        self.begun_at = 0  # µs
        self.ended_at = 0  # µs; the producer or the transaction failed, or was aborted
        self.next_record = self.next_offset = 0
        self.results: dict[int, None] = {}  # records that have theirs
        self.acked: dict[TopicPartition, list[int]] = {tp: [] for tp in PARTITIONS}  # and open
        self.offsets: dict[TopicPartition, int] = {}  # of the open transaction
        self.asked_offsets: dict[TopicPartition, int] = {}  # of the last call
        # Offsets without an answer to TxnOffsetCommit, since that was built. The abort of their
        # transaction does not clear them, and so the next one commits them, too
        # (TransactionManager.pendingTxnOffsetCommits).
        self.pending_offsets: dict[TopicPartition, int] = {}
        self.unsettled_offsets = False  # a call of the open transaction has timed out
        self.stranded = False  # a batch expired during an abort, see settle
        self.visible: dict[TopicPartition, list[int]] = {tp: [] for tp in PARTITIONS}
        self.visible_offsets: dict[TopicPartition, int] = {}
        self.newest = (-1, -1)  # the producer, as it was seen on the wire
        self.newest_of_1 = (-1, -1)  # the producer of the last transaction of version 1
        self.failed: tuple[int, int] | None = None  # whose batch has failed
        self.gaps: dict[TopicPartition, None] = {}  # partitions of which a batch was given up
        self.shifted = (-1, -1)  # the same, also when it had begun to commit
        self.sent: dict[int, tuple[tuple[int, int], int]] = {}  # first record: producer, sequence
        self.next: dict[TopicPartition, tuple[tuple[int, int], int]] = {}

    # What the application does.

    def invoke(self, operation: str, *args: Any) -> None:
        """Make a call unless one is under way; an illegal one raises and changes nothing."""
        if self.call:
            return
        again = self.timed_out and operation == self.operation
        legal = again or (not self.timed_out and self.state in rules.LEGAL[operation])
        if legal and not again and operation in rules.TARGET:
            self.state = rules.TARGET[operation]
            self.ended_at = self.host.now
        call = self.host.call(operation, *args)
        self.host.run(1)
        reply = self.host.replies.get(call, "waits")
        if not legal:
            if operation == "send" and reply is None:  # it returned a failed future
                reply = self.host.replies.get(-call)
                assert isinstance(reply, ProducerFencedError | InvalidProducerEpochError), reply
            assert isinstance(reply, KafkaError), (operation, self.state, reply)
            if self.state is State.ABORTABLE_ERROR and not self.timed_out:
                assert not isinstance(reply, IllegalStateError), (operation, reply)
        elif operation == "begin_transaction":
            assert reply is None, reply
        elif operation != "send":
            self.call, self.operation, self.timed_out = call, operation, False
        self.check()

    def send(self, partition: int, count: int) -> None:
        """Send so many records; they are one batch.

        A refused record stays in the accumulator (KafkaProducer.doSend). Only an error gives it up
        at once; in other states it would be part of this or the next transaction, or expire.
        """
        for _ in range(count if self.state is State.IN_TRANSACTION else 1):
            if self.state not in rules.TAKES_RECORDS:
                return
            self.next_record += 1
            self.invoke("send", "t", None, self.next_record, 10, partition, True)

    def send_offsets(self) -> None:
        """Take offsets into the transaction: of one partition or, every other time, of both."""
        if self.unsettled_offsets:
            return  # two such calls may overtake each other
        self.next_offset += 1
        sources = SOURCES if self.next_offset % 2 else SOURCES[self.next_offset // 2 % 2 :][:1]
        if self.state is State.IN_TRANSACTION and not self.call:
            self.asked_offsets = dict.fromkeys(sources, self.next_offset)
            if self.begun_version >= 2:
                self.pending_offsets |= self.asked_offsets
        offsets = dict.fromkeys(sources, (self.next_offset, -1))
        self.invoke("send_offsets_to_transaction", offsets, rules.Member())

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
        elif isinstance(message, TxnOffsetCommitRequest):
            offsets = {tp: offset for tp, offset, *_ in message.offsets}
            known = self.offsets | self.pending_offsets  # a retry has all, as it was built
            assert offsets.items() <= known.items(), (offsets, known)
            assert offsets.keys() & self.pending_offsets.keys(), offsets
        producer = message.producer_id, message.producer_epoch
        if isinstance(message, InitProducerIdRequest) and not self.begun_at:
            assert producer == (-1, -1), message  # initTransactions; later ones are of KIP-360
            return
        assert producer >= self.newest, (message, self.newest)
        self.newest = max(producer, self.newest)

    def arrive_batches(self, _node: str, message: ProduceRequest) -> None:
        """Check the sequences of batches: no gap and no repetition within an epoch."""
        self.take_facts()
        on_its_way = self.host.now - self.ended_at <= LATENCY_US
        assert on_its_way or self.state is not State.FATAL_ERROR
        for connection, _, other in self.host.withheld:
            live = connection not in self.dead and connection not in self.host.closed
            assert isinstance(other, ProduceRequest) or not live, other  # one after the other
        for part in message.partitions:
            batch, tp = part.batch, part.tp
            if message.transaction_version < 2 and not self.row.fenced:
                assert self.logs[tp] in self.row.members, batch
            first, base = batch.records[0].value, batch.base_sequence
            producer = batch.producer_id, batch.producer_epoch
            self.arrive("", batch)
            if first in self.sent:
                same = self.sent[first] == (producer, base)
                assert same or self.shifted == producer, (self.sent[first], batch)
            else:
                assert on_its_way or self.state not in rules.GIVES_UP, (batch, self.state)
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

    def next_request(self) -> None:
        """Let time pass until a broker has a request, but not long: there may be none."""
        limit = self.host.now + BACKOFFS_US
        while not self.host.withheld and self.host.step(limit):
            pass
        self.check()

    def handle(self, node: int, outcome: str, index: int = 0) -> None:
        """A broker handles its next request, or refuses it with an error from a table."""
        request = next(iter(self.queued(node)), None)
        if request is None:
            return
        self.host.withheld.remove(request)
        connection, correlation, message = request
        error = self.refusal(node, message, outcome, index)
        answer, told = self.row.answer(message, error, self.next_record)
        self.faults += bool(error)
        lost = outcome is LOST or connection in self.dead or connection in self.host.closed
        if told is not error and told in (*rules.FENCING, Errors.INVALID_TXN_STATE):
            assert lost or self.row.fenced, (message, told)
        if lost:
            late = self.state is not State.INITIALIZING
            if late and isinstance(message, InitProducerIdRequest) and message.producer_id < 0:
                self.row.fenced = True  # the client has the epoch of a later one
            self.break_connections(node)
        else:
            if type(message) is AddOffsetsToTxnRequest and told is NONE:
                self.pending_offsets |= self.asked_offsets  # TxnOffsetCommit is next
            self.host.respond(connection, correlation, answer)
            self.host.run(1)
            if connection not in self.host.closed:  # a timeout was faster
                self.follow(message, answer, told)
        self.check()

    def refusal(self, node: int, message: Any, outcome: str, index: int) -> Errors:
        """Return the error with which a request is refused, NONE if it is handled."""
        kind = type(message)
        key = "g" if kind is TxnOffsetCommitRequest else "tx"
        if kind is ProduceRequest:
            if any(self.cluster.leader(part.tp)[0] != node for part in message.partitions):
                return Errors.NOT_LEADER_OR_FOLLOWER
        elif self.nodes[key] != node:
            return Errors.NOT_COORDINATOR
        tables = {"retried": rules.RETRIED, "abortable": rules.ABORTABLE, "fatal": rules.FATAL}
        errors = tables[outcome][kind] if outcome in tables else ()
        error = errors[index % len(errors)] if errors else NONE
        if outcome in ("abortable", "fatal") and kind is ProduceRequest:
            parts = message.partitions
            if any(part.batch.records[0].value in self.logs[part.tp].records for part in parts):
                return NONE  # the leader has the batch
            if error is Errors.UNKNOWN_PRODUCER_ID:
                return self.forget([part.tp for part in parts])
        if outcome == "abortable" and kind is EndTxnRequest:
            if self.row.state != "Ongoing" or not message.committed:
                return NONE  # the coordinator would not say so
        if error is Errors.UNKNOWN_PRODUCER_ID and self.state is State.ABORTING_TRANSACTION:
            return NONE  # the producer would never leave INITIALIZING (completeTransaction)
        return error

    def forget(self, partitions: list[TopicPartition]) -> Errors:
        """Have leaders lose the producer's state, and return the error that says so.

        They keep it, and return NONE, while they owe the producer an answer: its retry could not be
        told from a new batch (B50).
        """
        if any(not set(self.logs[tp].open) <= set(self.acked[tp]) for tp in partitions):
            return NONE
        for tp in partitions:
            self.logs[tp].known = []
            self.logs[tp].forgotten = True
        return Errors.UNKNOWN_PRODUCER_ID

    def follow(self, message: Any, answer: Any, error: Errors) -> None:
        """Note what follows from an answer; of batches it is in the facts."""
        kind = type(message)
        if kind is TxnOffsetCommitRequest:
            stored = [tp for tp, each in answer.results if each is NONE]
            self.offsets |= {tp: offset for tp, offset, *_ in message.offsets if tp in stored}
            for tp in stored:
                self.pending_offsets.pop(tp, None)
            if error is not NONE and error not in (*rules.RETRIED[kind], *rules.BUSY):
                self.pending_offsets = {}
        if self.state is State.FATAL_ERROR or kind is ProduceRequest:
            return
        if error in rules.FENCING or error in rules.FATAL[kind]:
            self.become_fatal()
        elif error in rules.ABORTABLE[kind]:
            self.fail()
        elif kind is InitProducerIdRequest and error is NONE:
            self.state = State.READY

    def become_fatal(self) -> None:
        """Note that the producer can only be closed."""
        if self.state is not State.FATAL_ERROR:
            self.ended_at = self.host.now
            self.state = State.FATAL_ERROR

    def fail(self) -> None:
        """Note that the transaction can only be aborted."""
        if self.state in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION):
            slow = self.host.now - self.begun_at > rules.REQUEST_TIMEOUT_US
            assert self.faults or slow or self.row.fenced, "nothing has happened"
            self.ended_at = self.host.now
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

    def fence(self) -> None:
        """Another producer begins with the same transactional id."""
        self.faults += 1
        self.row.fence()

    def upgrade(self) -> None:
        """The cluster is upgraded to transaction.version 2."""
        self.version = 2

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
        if isinstance(fact, Acked | SendFailed):
            assert not [each for each in fact.record_ids if each in self.results], fact
            self.results |= dict.fromkeys(fact.record_ids)
        if isinstance(fact, Acked):
            self.acked[PARTITIONS[fact.partition]] += fact.record_ids
        elif isinstance(fact, SendFailed):
            expired = fact.error == "TIMED_OUT" and self.begun_version < 2
            self.stranded |= expired and self.state is State.ABORTING_TRANSACTION
            tp = PARTITIONS[fact.partition]
            if fact.error == "OUT_OF_ORDER_SEQUENCE_NUMBER":
                assert tp in self.gaps, fact
            self.gaps[tp] = None
            self.shifted = self.manager.producer_id, self.manager.producer_epoch
            if self.state is State.IN_TRANSACTION and (fact.attempts or fact.error == "TIMED_OUT"):
                self.failed = self.manager.producer_id, self.manager.producer_epoch
            if fact.error in ("PRODUCER_FENCED", "INVALID_PRODUCER_ID_MAPPING"):
                self.become_fatal()
            self.fail()
        elif isinstance(fact, TransactionBegun):
            producer = fact.producer_id, fact.producer_epoch
            assert self.failed is None or producer > self.failed, (producer, self.failed)
            if self.failed or producer > self.shifted:
                self.gaps = {}
            self.begun_version = version = self.manager.transaction_version
            assert version < 2 or producer > self.newest_of_1, producer  # fenced by the upgrade
            if version < 2:
                self.newest_of_1 = producer
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
        self.timed_out = isinstance(reply, KafkaTimeoutError) and self.operation in rules.TARGET
        if reply is None:
            done = self.state is State.READY or "offsets" in self.operation or self.stranded
            assert done, (self.operation, self.state)
            if "offsets" in self.operation:
                assert self.asked_offsets.items() <= self.offsets.items(), self.asked_offsets
        elif isinstance(reply, KafkaTimeoutError):
            self.unsettled_offsets |= "offsets" in self.operation
        else:
            assert self.state in rules.IN_ERROR, (self.operation, reply, self.state)
