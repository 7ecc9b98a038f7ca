"""The requests of a transactional producer and what each error means: Kafka's TxnRequestHandlers.

A request knows its message, its place in the queue and what to do with a response. What it may
cause is the Protocol Transactions, which the manager implements. An error has one of seven
consequences (:class:`Then`); most are the same for all requests, and each class lists its own.

Left out: the authorization errors.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from kafkasim.model.client.exceptions import (
    CommitFailedError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
)
from kafkasim.model.client.producer.transactions.result import TransactionalResult
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkasim.model.messages import Message
    from kafkasim.model.records import TopicPartition

ADD_PARTITIONS_RETRY_BACKOFF_MS = 20
"""The backoff while the coordinator still completes the transaction before (KAFKA-5482)."""


class Priority(IntEnum):
    """The order of the requests that wait, the lowest first."""

    FIND_COORDINATOR = 0
    INIT_PRODUCER_ID = 1
    ADD_PARTITIONS_OR_OFFSETS = 2
    END_TXN = 3
    EPOCH_BUMP = 4


class CoordinatorType(IntEnum):
    """FindCoordinatorRequest's key types."""

    GROUP = 0
    TRANSACTION = 1


class Then(Enum):
    """What follows from an error."""

    LOOKUP = "look the coordinator up, then send the request again"
    RETRY = "send the request again after the backoff"
    FENCED = "fatal: another producer has a newer epoch"
    FATAL = "fatal"
    ABORTABLE = "the transaction can only be aborted"
    ABORTABLE_IF_POSSIBLE = "the same, if somebody can raise the epoch afterwards"
    UNEXPECTED = "fatal: no such error is known for this request"


COMMON: dict[Errors, Then] = {
    **dict.fromkeys(RETRIABLE, Then.RETRY),
    Errors.COORDINATOR_NOT_AVAILABLE: Then.LOOKUP,
    Errors.NOT_COORDINATOR: Then.LOOKUP,
    Errors.INVALID_PRODUCER_EPOCH: Then.FENCED,  # of a coordinator before 2.7 (KIP-588)
    Errors.PRODUCER_FENCED: Then.FENCED,
    Errors.INVALID_TXN_STATE: Then.FATAL,
    Errors.INVALID_PRODUCER_ID_MAPPING: Then.FATAL,
    Errors.UNKNOWN_PRODUCER_ID: Then.ABORTABLE_IF_POSSIBLE,
    Errors.TRANSACTION_ABORTABLE: Then.ABORTABLE,
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Then.FATAL,
    Errors.CLUSTER_AUTHORIZATION_FAILED: Then.FATAL,
    Errors.GROUP_AUTHORIZATION_FAILED: Then.ABORTABLE,
}
"""What follows from an error of any request, unless its class says otherwise."""

UNAUTHORIZED = (
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Errors.CLUSTER_AUTHORIZATION_FAILED,
)
"""What a producer that asks for a producer id may be refused with."""

MEANING = {
    Errors.INVALID_TRANSACTION_TIMEOUT: "transaction.timeout.ms is above the broker's"
    " transaction.max.timeout.ms",
}
"""What the exception adds to errors that only another configuration ends."""


class GroupMetadata(Protocol):
    """A consumer's place in its group (ConsumerGroupMetadata)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class Transactions(Protocol):
    """What a request may read and cause."""

    transactional_id: str
    knows_abortable: bool  # the client knows TRANSACTION_ABORTABLE
    recovers_from_authorization: bool  # a refused InitProducerId may be sent again
    pending_offsets: dict[TopicPartition, tuple[int, int, str]]

    @property
    def producer_id(self) -> int:
        """The producer id, −1 before initTransactions."""

    @property
    def producer_epoch(self) -> int:
        """The producer's epoch."""

    def enqueue(self, request: TxnRequest) -> None:
        """Have a request sent, in the order of priorities."""

    def lookup(self, kind: CoordinatorType, key: str) -> None:
        """Forget a coordinator and have it looked up."""

    def fatal(self, error: KafkaError) -> None:
        """Let the producer fail for good."""

    def abortable(self, error: KafkaError) -> None:
        """Let the transaction fail."""

    def abortable_if_possible(self, error: KafkaError) -> None:
        """Let the transaction fail, or the producer if nobody can raise its epoch."""

    def found(self, kind: CoordinatorType, node_id: int, address: str) -> None:
        """Take a coordinator."""

    def initialized(self, producer_id: int, producer_epoch: int, bumped: bool) -> None:
        """Take a producer id and epoch."""

    def added(self, partitions: Iterable[TopicPartition], error: KafkaError | None) -> None:
        """Note that the coordinator knows of partitions, or why not."""

    def first_partitions_pending(self) -> bool:
        """Return whether the transaction has no partition yet."""

    def offsets_added(self) -> None:
        """Note that the coordinator knows of the group."""

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """Note that the transaction is over; −1: the id and epoch stay."""


class TxnRequest:
    """One request and its result."""

    priority = Priority.ADD_PARTITIONS_OR_OFFSETS
    coordinator: CoordinatorType | None = CoordinatorType.TRANSACTION  # to which it goes
    is_end = False  # it waits until all batches have their results
    errors: ClassVar[dict[Errors, Then]] = {}  # beside COMMON

    def __init__(self, owner: Transactions, result: TransactionalResult | None = None) -> None:
        self.owner = owner
        self.result = result or TransactionalResult()
        self.is_retry = False  # it waits for the backoff before it is sent
        self.backoff_ms: int | None = None  # None: retry.backoff.ms
        self.hole = ""  # the known defect that its next attempt enters (facts.HoleEntered)
        self.hole_of_repetition = ""  # the one that an attempt enters after one without an answer

    @property
    def key(self) -> str:
        """By what the coordinator is found."""
        return self.owner.transactional_id

    def message(self) -> Message:
        """Build the request."""
        raise NotImplementedError

    def handle(self, response: Any) -> None:
        """Take the response."""
        raise NotImplementedError

    def disconnected(self) -> None:
        """Send the request again: no response came."""
        if self.coordinator is not None:
            self.owner.lookup(self.coordinator, self.key)
        self.reenqueue()

    def reenqueue(self) -> None:
        """Have the request sent again."""
        self.is_retry = True
        self.owner.enqueue(self)

    def refuse(self, error: Errors) -> None:
        """Do what follows from an error."""
        self.follow(self.errors.get(error) or COMMON.get(error, Then.UNEXPECTED), error)

    def follow(self, then: Then, error: Errors) -> None:
        """Do what ``then`` says about an error."""
        name = type(self).__name__
        if then is Then.LOOKUP:
            assert self.coordinator is not None, error
            self.owner.lookup(self.coordinator, self.key)
            self.reenqueue()
        elif then is Then.RETRY:
            self.reenqueue()
        elif then is Then.FENCED:
            self.fail(ProducerFencedError("PRODUCER_FENCED", name), Then.FATAL)
        elif error is Errors.TRANSACTION_ABORTABLE and then is not Then.FATAL:
            self.fail(TransactionAbortableError(error.name, name), then)
        else:
            meaning = MEANING.get(error)
            self.fail(KafkaError(error.name, f"{name}: {meaning}" if meaning else name), then)

    def fail(self, error: KafkaError, then: Then) -> None:
        """Fail the request, and the transaction or the producer with it."""
        self.result.fail(error)
        if then is Then.ABORTABLE:
            self.owner.abortable(error)
        elif then is Then.ABORTABLE_IF_POSSIBLE:
            self.owner.abortable_if_possible(error)
        else:
            self.owner.fatal(error)


class FindCoordinator(TxnRequest):
    """Asks any broker for a coordinator; a retriable error goes to any broker again."""

    priority = Priority.FIND_COORDINATOR
    coordinator = None
    errors: ClassVar[dict[Errors, Then]] = {
        Errors.COORDINATOR_NOT_AVAILABLE: Then.RETRY,
        Errors.NOT_COORDINATOR: Then.RETRY,
        Errors.INVALID_PRODUCER_EPOCH: Then.UNEXPECTED,
        Errors.PRODUCER_FENCED: Then.UNEXPECTED,
        Errors.UNKNOWN_PRODUCER_ID: Then.UNEXPECTED,
    }

    def __init__(self, owner: Transactions, kind: CoordinatorType, key: str) -> None:
        super().__init__(owner)
        self._kind = kind
        self._key = key

    def message(self) -> Message:
        return FindCoordinatorRequest(self._key, int(self._kind))

    def handle(self, response: Any) -> None:
        if response.error:
            self.refuse(response.error)
            return
        self.owner.found(self._kind, response.node_id, response.address)
        self.result.done()


class InitProducerId(TxnRequest):
    """Asks for a producer id, or has the epoch of the present one raised (KIP-360)."""

    errors: ClassVar[dict[Errors, Then]] = {Errors.UNKNOWN_PRODUCER_ID: Then.UNEXPECTED}

    def __init__(self, owner: Transactions, timeout_ms: int, bump: bool) -> None:
        super().__init__(owner)
        self.priority = Priority.EPOCH_BUMP if bump else Priority.INIT_PRODUCER_ID
        self._bump = bump
        known = (owner.producer_id, owner.producer_epoch) if bump else (-1, -1)
        self._message = InitProducerIdRequest(owner.transactional_id, timeout_ms, *known)

    def message(self) -> Message:
        return self._message

    def refuse(self, error: Errors) -> None:
        """Let the producer be initialized again after it was refused, unless that is fatal."""
        if error in UNAUTHORIZED and self.owner.recovers_from_authorization:
            self.follow(Then.ABORTABLE, error)
        else:
            super().refuse(error)

    def handle(self, response: Any) -> None:
        if response.error:
            self.refuse(response.error)
            return
        self.owner.initialized(response.producer_id, response.producer_epoch, self._bump)
        self.result.done()


class AddPartitionsToTxn(TxnRequest):
    """Tells the coordinator which partitions the transaction will write to."""

    def __init__(self, owner: Transactions, partitions: tuple[TopicPartition, ...]) -> None:
        super().__init__(owner)
        self._message = AddPartitionsToTxnRequest(
            (
                AddPartitionsToTxnTransaction(
                    owner.transactional_id,
                    owner.producer_id,
                    owner.producer_epoch,
                    False,
                    partitions,
                ),
            )
        )

    def message(self) -> Message:
        return self._message

    def handle(self, response: Any) -> None:
        ((_, results),) = response.results
        self.backoff_ms = None
        failed: list[str] = []
        unauthorized: dict[str, None] = {}
        for tp, error in results:
            then = COMMON.get(error, Then.UNEXPECTED)
            if not error:
                continue
            if error is Errors.TOPIC_AUTHORIZATION_FAILED:
                unauthorized[tp.topic] = None
            if then is Then.UNEXPECTED:  # OPERATION_NOT_ATTEMPTED too
                failed.append(f"{tp} {error.name}")
                continue
            if error is Errors.CONCURRENT_TRANSACTIONS and self.owner.first_partitions_pending():
                self.backoff_ms = ADD_PARTITIONS_RETRY_BACKOFF_MS
            self.refuse(error)
            return
        error_: KafkaError | None = None
        if failed:
            error_ = KafkaError("UNKNOWN_SERVER_ERROR", ", ".join(failed))
            if unauthorized:
                error_ = KafkaError("TOPIC_AUTHORIZATION_FAILED", ", ".join(unauthorized))
            self.result.fail(error_)
        self.owner.added([tp for tp, _ in results], error_)
        self.result.done()


class AddOffsetsToTxn(TxnRequest):
    """Tells the coordinator that the transaction will commit offsets of a group."""

    def __init__(
        self,
        owner: Transactions,
        group: GroupMetadata,
        offsets: dict[TopicPartition, tuple[int, int, str]],
    ) -> None:
        super().__init__(owner)
        self._group = group
        self._offsets = offsets

    def message(self) -> Message:
        owner = self.owner
        return AddOffsetsToTxnRequest(
            owner.transactional_id, owner.producer_id, owner.producer_epoch, self._group.group_id
        )

    def handle(self, response: Any) -> None:
        if response.error:
            self.refuse(response.error)
            return
        self.owner.offsets_added()
        self.owner.enqueue(
            TxnOffsetCommit(self.owner, self._group, self._offsets, 0, self.result)
        )  # which completes the result


class TxnOffsetCommit(TxnRequest):
    """Hands the group coordinator offsets that become visible when the transaction commits."""

    coordinator = CoordinatorType.GROUP
    errors: ClassVar[dict[Errors, Then]] = {
        Errors.REQUEST_TIMED_OUT: Then.LOOKUP,
        Errors.FENCED_INSTANCE_ID: Then.ABORTABLE,
        Errors.UNKNOWN_MEMBER_ID: Then.ABORTABLE,
        Errors.ILLEGAL_GENERATION: Then.ABORTABLE,
        Errors.UNKNOWN_PRODUCER_ID: Then.UNEXPECTED,
    }

    def __init__(
        self,
        owner: Transactions,
        group: GroupMetadata,
        offsets: dict[TopicPartition, tuple[int, int, str]],
        version: int,
        result: TransactionalResult | None = None,
    ) -> None:
        super().__init__(owner, result)
        self._group = group
        self._version = version
        if any(tp not in offsets for tp in owner.pending_offsets):
            self.hole = "carried-offsets"  # of an earlier transaction, which failed
        owner.pending_offsets.update(offsets)
        pending = owner.pending_offsets.items()
        self._offsets = tuple([(tp, *offset) for tp, offset in pending])  # retries have them all

    @property
    def key(self) -> str:
        return self._group.group_id

    def message(self) -> Message:
        owner, group = self.owner, self._group
        return TxnOffsetCommitRequest(
            owner.transactional_id,
            group.group_id,
            owner.producer_id,
            owner.producer_epoch,
            group.generation_id,
            group.member_id,
            group.group_instance_id,
            self._offsets,
            self._version,
            owner.knows_abortable,
        )

    def handle(self, response: Any) -> None:
        owner, group = self.owner, self._group
        looked_up = False
        for tp, error in response.results:
            then = self.errors.get(error) or COMMON.get(error, Then.UNEXPECTED)
            if not error:
                owner.pending_offsets.pop(tp, None)
            elif then is Then.LOOKUP:
                if not looked_up:
                    looked_up = True
                    owner.lookup(CoordinatorType.GROUP, group.group_id)
            elif then is Then.RETRY:
                continue
            elif error in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
                self.fail(CommitFailedError(error.name, group.group_id), then)
                break
            else:
                self.follow(then, error)
                break
        if self.result.completed:
            owner.pending_offsets.clear()
        elif not owner.pending_offsets:
            self.result.done()
        else:
            self.reenqueue()


class EndTxn(TxnRequest):
    """Asks for the commit or the abort, once no batch is without a result."""

    priority = Priority.END_TXN
    is_end = True

    def __init__(self, owner: Transactions, committed: bool, version: int) -> None:
        super().__init__(owner)
        self._committed = committed
        self.hole_of_repetition = "late-end" if version < 2 else ""
        self._message = EndTxnRequest(
            owner.transactional_id, owner.producer_id, owner.producer_epoch, committed, version
        )

    def message(self) -> Message:
        return self._message

    def handle(self, response: Any) -> None:
        if not response.error:
            self.owner.ended(response.producer_id, response.producer_epoch)
            self.result.done()
        elif response.error is Errors.TRANSACTION_ABORTABLE and not self._committed:
            self.follow(Then.FATAL, response.error)  # else aborts would follow aborts for ever
        else:
            self.refuse(response.error)
