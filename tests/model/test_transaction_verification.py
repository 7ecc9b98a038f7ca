"""Leaders verify transactions with their coordinators (KIP-890): TransactionVerification and
AddPartitionsToTxnManager."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.model.broker.common.transactions.add_partitions import AddPartitionsToTxnManager
from kafkasim.model.controller.common.image import BrokerImage, MetadataImage, TopicImage
from kafkasim.model.effects import Opened, Post, Process, Request, Response, Send
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import BatchUnverified, VerificationSkipped
from kafkasim.model.messages import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
    ProducePartition,
    ProduceRequest,
)
from kafkasim.model.records import TRANSACTION_STATE_TOPIC, Record, TopicPartition, batch_of
from kafkasim.model.replication.requests.transactions.verification import (
    OnErrors,
    PartitionErrors,
    TransactionSupportedOperation,
)
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.files import MemoryFiles
from tests.model.replica_harness import TP, Trio, registration

DEFAULT = TransactionSupportedOperation.DEFAULT_ERROR
GENERIC = TransactionSupportedOperation.GENERIC_ERROR_SUPPORTED
ADD = TransactionSupportedOperation.ADD_PARTITION


class Coordinators:
    """Questions to coordinators; the test answers them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int, tuple[TopicPartition, ...], Any]] = []
        self.waiting: list[OnErrors] = []

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: tuple[TopicPartition, ...],
        operation: TransactionSupportedOperation,
        done: OnErrors,
        now: int,
    ) -> None:
        self.asked.append((transactional_id, producer_id, producer_epoch, partitions, operation))
        self.waiting.append(done)


class Leader(Trio):
    """Broker 1 leads alone."""

    def __init__(self, rules: ReplicationRules | None = None, **settings: Any) -> None:
        super().__init__(rules, **settings)
        self.registration = registration(1, 1, 0, (1,), (1,))
        self.tell(1)
        self.coordinators = Coordinators()
        self.nodes[1].replicas.verification.coordinators = self.coordinators

    def send(self, sequence: int, version: int = 0, knows_abortable: bool = True) -> int:
        """Produce one record in a transaction; return the key of the answer."""
        self.calls += 1
        record = Record("k", sequence, 50, 0)
        data = batch_of(
            (record,), producer_id=7, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        partitions = (ProducePartition(TP, data),)
        request = ProduceRequest(-1, 30000, partitions, "id", version, knows_abortable)
        node = self.nodes[1]
        node.handle(Request(900_000 + self.calls, 1, request, self.now), self.now)
        self.drain(1)
        return self.calls

    def answer(self, error: Errors = NONE) -> None:
        """Answer the oldest question."""
        errors: PartitionErrors = {} if error is NONE else {TP: error}
        self.coordinators.waiting.pop(0)(errors, self.now)
        self.drain(1)

    def error(self, call: int) -> Errors | None:
        response = self.answers.get(call)
        return None if response is None else response.partitions[0].error


def test_batch_waits_for_the_coordinator_and_the_next_does_not() -> None:
    leader = Leader()
    first = leader.send(0)
    assert leader.coordinators.asked == [("id", 7, 0, (TP,), GENERIC)]
    assert (leader.error(first), leader.log(1)) == (None, [])
    leader.answer()
    assert leader.error(first) is NONE
    assert leader.error(leader.send(1)) is NONE
    assert len(leader.coordinators.asked) == 1


@pytest.mark.parametrize(
    ("answered", "version", "told"),
    [
        (Errors.NETWORK_EXCEPTION, 0, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.COORDINATOR_LOAD_IN_PROGRESS, 2, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.COORDINATOR_NOT_AVAILABLE, 0, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.NOT_COORDINATOR, 2, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.CONCURRENT_TRANSACTIONS, 0, Errors.NOT_ENOUGH_REPLICAS),
        (Errors.INVALID_PRODUCER_EPOCH, 0, Errors.INVALID_PRODUCER_EPOCH),
        (Errors.TRANSACTION_ABORTABLE, 0, Errors.TRANSACTION_ABORTABLE),
        (Errors.INVALID_TXN_STATE, 0, Errors.INVALID_TXN_STATE),
        # The coordinator's metadata is behind: of this partition, and of another one.
        (Errors.UNKNOWN_TOPIC_OR_PARTITION, 2, Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (Errors.OPERATION_NOT_ATTEMPTED, 2, Errors.OPERATION_NOT_ATTEMPTED),
    ],
)
def test_errors_of_the_coordinator_become_errors_of_a_producer(
    answered: Errors, version: int, told: Errors
) -> None:
    leader = Leader()
    call = leader.send(0, version)
    leader.answer(answered)
    assert (leader.error(call), leader.log(1)) == (told, [])


def test_version_of_the_client_decides_what_is_asked() -> None:
    leader = Leader()
    leader.send(0, 0, knows_abortable=False)
    leader.send(0, 1)
    leader.send(0, 2)
    assert [asked[-1] for asked in leader.coordinators.asked] == [DEFAULT, GENERIC, ADD]


def test_broker_asks_a_busy_coordinator_again_for_a_tenth_of_a_second() -> None:
    leader = Leader()
    call = leader.send(0, 2)
    for _ in range(5):
        leader.answer(Errors.CONCURRENT_TRANSACTIONS)
        assert leader.error(call) is None
        leader.advance(20_000)
    leader.answer(Errors.CONCURRENT_TRANSACTIONS)
    assert leader.error(call) is Errors.CONCURRENT_TRANSACTIONS
    assert len(leader.coordinators.asked) == 6


def test_verification_can_be_switched_off_but_partitions_are_still_added() -> None:
    leader = Leader(transaction_partition_verification_enable=False)
    assert leader.error(leader.send(0)) is NONE
    other = Leader(transaction_partition_verification_enable=False)
    assert other.error(other.send(0, 2)) is None


class BeforeVerification(ReplicationRules):
    """A broker of a release before KIP-890."""

    def knows_verification(self) -> bool:
        return False


SKIPPED = VerificationSkipped("topic-1", 0, 7, 0)


def _skipped(leader: Leader) -> list[VerificationSkipped]:
    return [fact for _, fact in leader.facts if isinstance(fact, VerificationSkipped)]


def test_a_leader_before_kip_890_asks_nobody_and_its_log_insists_on_nothing() -> None:
    leader = Leader(BeforeVerification())
    assert [leader.error(leader.send(sequence)) for sequence in (0, 1)] == [NONE, NONE]
    assert leader.coordinators.asked == []
    assert _skipped(leader) == [SKIPPED]  # the second batch is of an open transaction


def test_a_coordinator_that_cannot_be_asked_stops_nobody() -> None:
    """AddPartitionsToTxnManager, AddPartitionsToTxnHandler.onComplete: versionMismatch."""
    leader = Leader()
    first = leader.send(0)
    assert _skipped(leader) == []
    leader.answer(Errors.UNSUPPORTED_VERSION)
    assert leader.error(first) is NONE
    assert leader.error(leader.send(1)) is NONE
    assert _skipped(leader) == [SKIPPED]


class DoesNotAsk(ReplicationRules):
    """Half of B46; the log must not insist on a guard either."""

    def verifies_transactions(self, enabled: bool) -> bool:
        return False


def test_log_refuses_what_nobody_verified() -> None:
    leader = Leader(DoesNotAsk())
    assert leader.error(leader.send(0)) is Errors.INVALID_TXN_STATE


def test_lost_leadership_is_found_before_the_question() -> None:
    leader = Leader()
    leader.registration = registration(2, 2, 1, (1, 2), (1, 2))
    leader.tell(1)
    assert leader.error(leader.send(0)) is Errors.NOT_LEADER_OR_FOLLOWER
    assert leader.coordinators.asked == []


def _unverified(leader: Leader) -> list[tuple[int, str]]:
    told = [fact for _, fact in leader.facts if isinstance(fact, BatchUnverified)]
    return [(fact.base_sequence, fact.error) for fact in told]


def test_no_batch_overtakes_one_of_which_the_leader_tells_that_it_waits() -> None:
    leader = Leader()
    first, second = leader.send(0), leader.send(1)
    leader.answer(Errors.NETWORK_EXCEPTION)
    leader.answer()
    assert leader.error(first) is Errors.NOT_ENOUGH_REPLICAS
    assert leader.error(second) is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert _unverified(leader) == [(0, "NOT_ENOUGH_REPLICAS")]


def test_answer_about_a_batch_that_was_sent_again_and_appended_tells_of_nothing() -> None:
    leader = Leader()
    first, again = leader.send(0), leader.send(0)
    leader.coordinators.waiting.reverse()
    leader.answer()
    leader.answer(Errors.NETWORK_EXCEPTION)
    assert leader.error(again) is NONE
    assert leader.error(first) is Errors.NOT_ENOUGH_REPLICAS
    assert _unverified(leader) == []


# ---------------------------------------------------------------------- AddPartitionsToTxnManager


class Manager:
    """The manager of a broker; broker 2 coordinates ``a`` and ``b``, nobody ``z``."""

    def __init__(self) -> None:
        self.process = Process("broker-1", MemoryFiles(), random.Random(1), 0)
        image = MetadataImage()
        image.brokers[2] = BrokerImage(2, 2, "", "broker-2", None, False, False)
        topic = image.topics["T"] = TopicImage(TRANSACTION_STATE_TOPIC, "T")
        image.topic_names[TRANSACTION_STATE_TOPIC] = "T"
        topic.partitions[0] = registration(2, 1, 0)
        self.manager = AddPartitionsToTxnManager(
            self.process, image, lambda name: 1 if name == "z" else 0, 1000
        )
        self.outcomes: list[tuple[str, PartitionErrors]] = []

    def ask(
        self,
        transactional_id: str,
        epoch: int = 0,
        operation: TransactionSupportedOperation = GENERIC,
        name: str = "",
    ) -> None:
        def done(errors: PartitionErrors, _: int) -> None:
            self.outcomes.append((name or transactional_id, errors))

        self.manager.add_or_verify(transactional_id, 7, epoch, (TP,), operation, done, 0)

    def sent(self) -> list[Any]:
        """Run what was posted; open what is to be opened; return the requests."""
        sent = []
        while self.process.out:
            effects = list(self.process.out)
            self.process.out.clear()
            for effect in effects:
                if isinstance(effect, Post):
                    effect.handler(effect.message, 0)
                elif isinstance(effect, Send):
                    sent.append(effect.message)
                else:
                    self.process.handle(Opened(effect.connection), 0)
        return sent

    def answer(self, error: Errors, *results: tuple[str, Errors], correlation: int = 1) -> None:
        response = AddPartitionsToTxnResponse(
            error, tuple([(name, ((TP, each),)) for name, each in results])
        )
        self.process.handle(Response(1, correlation, response), 0)


def asked(name: str, epoch: int = 0, verify: bool = True) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(name, 7, epoch, verify, (TP,))


def test_questions_to_one_broker_share_a_request_while_one_is_in_flight() -> None:
    manager = Manager()
    manager.ask("a")
    assert [message.transactions for message in manager.sent()] == [(asked("a"),)]
    manager.ask("b", operation=ADD)
    manager.ask("c")
    assert manager.sent() == []
    manager.answer(NONE, ("a", NONE))
    assert manager.outcomes == [("a", {})]
    (request,) = manager.sent()
    assert request.transactions == (asked("b", verify=False), asked("c"))


def test_each_partition_of_a_batch_of_transactions_has_its_own_error() -> None:
    manager = Manager()
    manager.ask("first")
    manager.sent()
    manager.ask("a")
    manager.ask("b")
    manager.answer(NONE, ("first", NONE))
    manager.sent()
    other = TopicPartition(TP.topic, 1)
    results = ((TP, NONE), (other, Errors.TRANSACTION_ABORTABLE))
    response = AddPartitionsToTxnResponse(NONE, (("a", results), ("b", ((TP, NONE),))))
    manager.process.handle(Response(1, 2, response), 0)
    assert manager.outcomes[1:] == [("a", {other: Errors.TRANSACTION_ABORTABLE}), ("b", {})]


def test_errors_by_the_version_of_the_client() -> None:
    for operation, told in (
        (DEFAULT, Errors.INVALID_TXN_STATE),
        (GENERIC, Errors.TRANSACTION_ABORTABLE),
        (ADD, Errors.TRANSACTION_ABORTABLE),
    ):
        manager = Manager()
        manager.ask("a", operation=operation)
        manager.sent()
        manager.answer(NONE, ("a", Errors.TRANSACTION_ABORTABLE))
        assert manager.outcomes == [("a", {TP: told})]
    fenced = Manager()
    fenced.ask("a")
    fenced.sent()
    fenced.answer(NONE, ("a", Errors.PRODUCER_FENCED))
    assert fenced.outcomes == [("a", {TP: Errors.INVALID_PRODUCER_EPOCH})]


def test_error_of_the_whole_request_is_everybodys() -> None:
    manager = Manager()
    manager.ask("a")
    manager.sent()
    manager.answer(Errors.NOT_COORDINATOR)
    assert manager.outcomes == [("a", {TP: Errors.NOT_COORDINATOR})]


def test_without_a_coordinator_nothing_is_sent() -> None:
    manager = Manager()
    manager.ask("z")
    assert manager.outcomes == [("z", {TP: Errors.COORDINATOR_NOT_AVAILABLE})]
    assert manager.sent() == []


def test_two_questions_of_one_transactional_id() -> None:
    manager = Manager()
    manager.ask("a", epoch=1, name="first")
    manager.ask("a", epoch=1, name="retry")
    manager.ask("a", epoch=0, name="zombie")
    manager.ask("a", epoch=2, name="newer")
    assert manager.outcomes == [
        ("first", {TP: Errors.NETWORK_EXCEPTION}),
        ("zombie", {TP: Errors.INVALID_PRODUCER_EPOCH}),
        ("retry", {TP: Errors.INVALID_PRODUCER_EPOCH}),
    ]
    assert [message.transactions for message in manager.sent()] == [(asked("a", 2),)]


def test_lost_connection_is_a_network_exception() -> None:
    manager = Manager()
    manager.ask("a")
    manager.sent()
    deadline = 1000 * 1000 + 1
    while (due := manager.process.timers.pop_due(deadline)) is not None:
        manager.process.timers.fire(due[0], due[1], deadline)
    assert manager.outcomes == [("a", {TP: Errors.NETWORK_EXCEPTION})]
