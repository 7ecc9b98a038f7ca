"""The transactional half of Kafka's TransactionManager (KIP-98, KIP-360, KIP-447, KIP-890).

The manager keeps the state of the producer, the partitions of its transaction, and the requests
that wait, in the order of their priorities; ``sending.py`` sends them one at a time, and knows what
batches may go. Calls of the application come from ``calls.py``; an illegal one raises and changes
nothing. An illegal move that the producer makes itself is fatal (KAFKA-14831).

Two protocols are modelled. With transaction.version 0 or 1 a partition or group is added to the
transaction by a request of its own before anything is written to it, and after an abortable error
the client asks for a new epoch (KIP-360). With version 2 the brokers add partitions, and the answer
to each EndTxn brings the next epoch (KIP-890).

A producer that may not have a producer id fails and may be initialized again (InitProducerId,
KAFKA-13668). Left out: two-phase commit (KIP-939).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.client.exceptions import (
    IllegalStateError,
    InvalidProducerEpochError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
)
from kafkasim.model.client.producer.transactions.requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    CoordinatorType,
    EndTxn,
    FindCoordinator,
    GroupMetadata,
    InitProducerId,
    TxnOffsetCommit,
    TxnRequest,
)
from kafkasim.model.client.producer.transactions.result import TransactionalResult
from kafkasim.model.client.producer.transactions.states import SOURCES, State
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkasim.model.client.producer.sequences import ProducerSequences
    from kafkasim.model.config import ProducerConfig

FATAL_FOR_BATCHES = (
    Errors.PRODUCER_FENCED,
    Errors.INVALID_PRODUCER_ID_MAPPING,
    Errors.CLUSTER_AUTHORIZATION_FAILED,
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    Errors.UNSUPPORTED_VERSION,
)
COMPLETING = (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)
IN_ERROR = (State.ABORTABLE_ERROR, State.FATAL_ERROR)


class PendingTransition:
    """A call whose outcome the application has not been told; only the same call may follow."""

    __slots__ = ("operation", "result")

    def __init__(self, operation: str, result: TransactionalResult) -> None:
        self.operation = operation
        self.result = result


class TransactionalManager:
    """The state of one producer with a transactional.id.

    ``on_end(outcome)`` is called when a transaction is over: committed, aborted, fenced or failed.
    """

    def __init__(
        self, config: ProducerConfig, sequences: ProducerSequences, on_end: Callable[[str], None]
    ) -> None:
        assert config.transactional_id is not None
        self.transactional_id = config.transactional_id
        self.state = State.UNINITIALIZED
        self.last_error: KafkaError | None = None
        self.coordinators: dict[CoordinatorType, tuple[int, str]] = {}  # (node id, address)
        self.pending_offsets: dict[TopicPartition, tuple[int, int, str]] = {}
        self.knows_abortable = sequences.knows_abortable
        self.recovers_from_authorization = sequences.recovers_from_authorization
        self.transaction_version = 0  # in use; that of the last ApiVersions comes with the next one
        self.finalized_version = 0  # as the last ApiVersions response had it
        self._timeout_ms = config.transaction_timeout_ms
        self._on_end = on_end
        self._sequences = sequences
        self._requests: list[TxnRequest] = []  # by priority, then in the order of their arrival
        self._pending: PendingTransition | None = None
        self._new: dict[TopicPartition, None] = {}  # newPartitionsInTransaction
        self._adding: dict[TopicPartition, None] = {}  # pendingPartitionsInTransaction
        self.partitions: dict[TopicPartition, None] = {}  # partitionsInTransaction
        self._started = False  # the coordinator knows, or will know, of the transaction
        self._bump_required = False  # clientSideEpochBumpRequired

    @property
    def producer_id(self) -> int:
        """The producer id, −1 before initTransactions."""
        return self._sequences.producer_id

    @property
    def producer_epoch(self) -> int:
        """The producer's epoch."""
        return self._sequences.producer_epoch

    @property
    def completing(self) -> bool:
        """Whether a commit or an abort is under way."""
        return self.state in COMPLETING

    @property
    def has_ongoing_transaction(self) -> bool:
        """Whether a transaction is open, or failed and not aborted."""
        return self.state in (State.IN_TRANSACTION, State.ABORTABLE_ERROR, *COMPLETING)

    @property
    def aborts_batches(self) -> bool:
        """Whether batches that were never sent are given up."""
        return self.state in (State.ABORTABLE_ERROR, State.ABORTING_TRANSACTION)

    # Calls of the application.

    def initialize(self) -> TransactionalResult:
        """Ask for a producer id; what the transactional id had begun is ended (initTransactions).

        Raises:
            KafkaError: an earlier call failed, or is not over.
        """
        self._fail_with_error()
        return self._cached("initTransactions", self._begin_initializing)

    def _begin_initializing(self) -> TransactionalResult:
        self._move(State.INITIALIZING)
        request = InitProducerId(self, self._timeout_ms, bump=False)
        self.enqueue(request)
        return request.result

    def begin(self) -> None:
        """Begin a transaction (beginTransaction).

        Raises:
            KafkaError: the producer is in an error state, or not ready.
        """
        self._refuse_while_pending("beginTransaction")
        self._fail_with_error()
        self._move(State.IN_TRANSACTION)

    def commit(self) -> TransactionalResult:
        """Commit the transaction when all its batches are acknowledged (beginCommit).

        Raises:
            KafkaError: the transaction has failed, or there is none.
        """

        def begin() -> TransactionalResult:
            self._fail_with_error()
            self._move(State.COMMITTING_TRANSACTION)
            return self._complete(True)

        return self._cached("commitTransaction", begin)

    def abort(self) -> TransactionalResult:
        """Abort the transaction (beginAbort).

        Raises:
            KafkaError: the producer has failed for good, or there is no transaction.
        """

        def begin() -> TransactionalResult:
            if self.state is not State.ABORTABLE_ERROR:
                self._fail_with_error()
            self._move(State.ABORTING_TRANSACTION)
            self._new.clear()
            return self._complete(False)

        return self._cached("abortTransaction", begin)

    def _complete(self, committed: bool) -> TransactionalResult:
        """Queue EndTxn, and InitProducerId for a new epoch (beginCompletingTransaction)."""
        if self._new:
            self._add_partitions()
        end = EndTxn(self, committed, self.transaction_version)
        if self.transaction_version < 2 <= self.finalized_version:
            self._bump_required = True  # the next transaction is of another version
        self.transaction_version = self.finalized_version
        self.enqueue(end)
        if not self._bump_required:
            return end.result
        bump = InitProducerId(self, self._timeout_ms, bump=True)
        self.enqueue(bump)
        return bump.result

    def send_offsets(
        self, offsets: dict[TopicPartition, tuple[int, int, str]], group: GroupMetadata
    ) -> TransactionalResult:
        """Take a group's offsets into the transaction: (offset, leader epoch, metadata) each.

        Raises:
            KafkaError: the transaction has failed, or there is none.
        """
        self._refuse_while_pending("sendOffsetsToTransaction")
        self._fail_with_error()
        if self.state is not State.IN_TRANSACTION:
            raise self._illegal("send offsets")
        request: TxnRequest
        if self.transaction_version >= 2:
            request = TxnOffsetCommit(self, group, offsets, self.transaction_version)
            self._started = True
        else:
            request = AddOffsetsToTxn(self, group, offsets)
        self.enqueue(request)
        return request.result

    def add_partition(self, tp: TopicPartition) -> None:
        """Take a partition into the transaction: a record for it is in the accumulator.

        Raises:
            KafkaError: the transaction has failed, or there is none.
        """
        if self.state is State.IN_TRANSACTION and tp in self.partitions:
            return
        self._fail_with_error()
        self._refuse_while_pending("send")
        if self.state is not State.IN_TRANSACTION:
            raise self._illegal(f"add {tp} to a transaction")
        if self.transaction_version >= 2:
            self.partitions[tp] = None
            self._started = True
        elif tp not in self._adding:
            self._new[tp] = None

    def _cached(
        self, operation: str, begin: Callable[[], TransactionalResult]
    ) -> TransactionalResult:
        """Begin an operation, or return the result of the same one that timed out before."""
        pending = self._pending
        if pending is not None and not pending.result.acked:
            if pending.operation == operation:
                return pending.result
            raise self._not_over(operation, pending)
        result = begin()
        self._pending = PendingTransition(operation, result)
        return result

    def _refuse_while_pending(self, operation: str) -> None:
        pending = self._pending
        if pending is not None and not pending.result.acked:
            raise self._not_over(operation, pending)
        self._pending = None

    def _not_over(self, operation: str, pending: PendingTransition) -> IllegalStateError:
        detail = f"{operation}: {pending.operation} timed out and must be called again"
        return IllegalStateError("ILLEGAL_STATE", detail)

    def _illegal(self, what: str) -> IllegalStateError:
        return IllegalStateError("ILLEGAL_STATE", f"cannot {what} in state {self.state.name}")

    def _fail_with_error(self) -> None:
        """Raise the error that the producer is in (maybeFailWithError)."""
        if self.state not in IN_ERROR:
            return
        error = self.last_error
        assert error is not None, self.state
        if isinstance(error, ProducerFencedError | InvalidProducerEpochError | IllegalStateError):
            raise type(error)(error.error, self.transactional_id)
        raise KafkaError(error.error, f"in state {self.state.name}: {error.detail}")

    # The queue of requests.

    def enqueue(self, request: TxnRequest) -> None:
        """Have a request sent, in the order of priorities."""
        at = len(self._requests)
        while at and self._requests[at - 1].priority > request.priority:
            at -= 1
        self._requests.insert(at, request)

    def lookup(self, kind: CoordinatorType, key: str) -> None:
        """Forget a coordinator and have it looked up."""
        self.coordinators.pop(kind, None)
        self.enqueue(FindCoordinator(self, kind, key))

    def has_request(self, has_incomplete_batches: bool) -> bool:
        """Return whether a request may be sent: EndTxn waits until every batch has its result."""
        if self._new:
            self._add_partitions()
        if not self._requests:
            return False
        return not (self._requests[0].is_end and has_incomplete_batches)

    def next_request(self) -> TxnRequest | None:
        """Take the next request out of the queue (nextRequest); None if it has failed instead."""
        request = self._requests.pop(0)
        if self._terminate_with_error(request):
            return None
        if request.is_end and not self._started:
            request.result.done()  # the coordinator does not know of the transaction
            self.ended(-1, -1)
            return None
        return request

    def _terminate_with_error(self, request: TxnRequest) -> bool:
        if self.state not in IN_ERROR:
            return False
        if self.state is State.ABORTABLE_ERROR and isinstance(request, FindCoordinator):
            return False
        assert self.last_error is not None, self.state
        request.result.fail(self.last_error)
        return True

    def _add_partitions(self) -> None:
        self._adding.update(self._new)
        self._new.clear()
        self.enqueue(AddPartitionsToTxn(self, tuple(self._adding)))

    @property
    def has_work(self) -> bool:
        """Whether a request waits, or batches are to be given up."""
        return bool(
            self._requests or self._new or self.state in (*IN_ERROR, State.ABORTING_TRANSACTION)
        )

    # Outcomes of requests; see the Protocol Transactions.

    def found(self, kind: CoordinatorType, node_id: int, address: str) -> None:
        """Take a coordinator."""
        self.coordinators[kind] = (node_id, address)

    def initialized(self, producer_id: int, producer_epoch: int, bumped: bool) -> None:
        """Take a producer id and epoch; a bumped epoch begins all sequences anew."""
        self._sequences.set_id(producer_id, producer_epoch)
        if not bumped:
            self.transaction_version = self.finalized_version
        self._set(State.READY)
        if bumped:
            self._sequences.clear_unresolved()

    def added(self, partitions: Iterable[TopicPartition], error: KafkaError | None) -> None:
        """Note that the coordinator knows of partitions, or why not."""
        for tp in partitions:
            self._adding.pop(tp, None)
            if error is None:
                self.partitions[tp] = None
        if error is not None:
            self.abortable(error)
            return
        self._started = True

    def first_partitions_pending(self) -> bool:
        """Return whether the transaction has no partition yet."""
        return not self.partitions

    def offsets_added(self) -> None:
        """Note that the coordinator knows of the group."""
        self._started = True

    def ended(self, producer_id: int, producer_epoch: int) -> None:
        """Note that the transaction is over, and take the next epoch if one came (KIP-890)."""
        if producer_id != -1:
            self._sequences.set_id(producer_id, producer_epoch)
            self._sequences.clear_unresolved()
        outcome = "committed" if self.state is State.COMMITTING_TRANSACTION else "aborted"
        self._set(State.INITIALIZING if self._bump_required else State.READY)
        self._bump_required = False
        self._started = False
        self._new.clear()
        self._adding.clear()
        self.partitions.clear()
        self._on_end(outcome)

    # Errors.

    def fatal(self, error: KafkaError) -> None:
        """Let the producer fail for good (transitionToFatalError)."""
        ongoing = self.has_ongoing_transaction
        self._set(State.FATAL_ERROR, error)
        if self._pending is not None:
            self._pending.result.fail(error)
        if ongoing:
            self._on_end("fenced" if isinstance(error, ProducerFencedError) else "failed")

    def abortable(self, error: KafkaError) -> None:
        """Let the transaction fail; one that is being aborted goes on."""
        if self.state is not State.ABORTING_TRANSACTION:
            self._set(State.ABORTABLE_ERROR, error)

    def uninitialize(self, error: KafkaError) -> None:
        """Fail what waits; initTransactions() may be called again (transitionToUninitialized)."""
        requests, self._requests = self._requests, []
        for request in requests:
            request.result.fail(error)
        self._set(State.UNINITIALIZED)
        if self._pending is not None:
            self._pending.result.fail(error)
        self.last_error = None

    def abortable_if_possible(self, error: KafkaError) -> None:
        """Let the transaction fail; every modelled coordinator can raise the epoch (KIP-360)."""
        self.require_bump()
        self.abortable(error)

    def require_bump(self) -> None:
        """Ask for a new epoch after the transaction, unless its end brings one."""
        if self.transaction_version < 2:
            self._bump_required = True

    def on_send_error(self, error: KafkaError, code: Errors | None) -> None:
        """Let the transaction fail: a record of it cannot be sent (maybeTransitionToErrorState)."""
        if code in FATAL_FOR_BATCHES:
            self.fatal(error)
            return
        converted = code in RETRIABLE or code is Errors.INVALID_TXN_STATE
        if converted and self._sequences.exhausted_retries_abort:
            error = TransactionAbortableError("TRANSACTION_ABORTABLE", str(error))
        if not self.completing:
            self.require_bump()
        self.abortable(error)

    def _move(self, target: State) -> None:
        """Move to a state that the application asks for.

        Raises:
            IllegalStateError: the move is not legal; nothing has changed.
        """
        if self.state not in SOURCES[target]:
            raise self._illegal(f"go to {target.name}")
        self.state = target
        self.last_error = None

    def _set(self, target: State, error: KafkaError | None = None) -> None:
        """Move to a state; a move that is not legal is fatal (KAFKA-14831)."""
        if self.state not in SOURCES[target]:
            error = self._illegal(f"go to {target.name}")
            target = State.FATAL_ERROR
        self.state = target
        self.last_error = error
