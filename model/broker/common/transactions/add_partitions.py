"""AddPartitionsToTxnManager: a broker asks the coordinators of transactions (KIP-890).

A leader has a transaction verified before its first batch, or with transaction version 2 has the
partition added. The questions for one coordinator gather while a request to it is in flight and
then go as one AddPartitionsToTxn. A transactional id stands in a request once: of two questions the
one with the older epoch is refused, and a repeated one replaces the first.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasim.model.broker.common.transactions.inter_broker_send_thread import (
    InterBrokerSendThread,
    RequestAndCompletionHandler,
)
from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)
from kafkasim.model.records import TRANSACTION_STATE_TOPIC
from kafkasim.model.replication.requests.transactions.verification import (
    OnErrors,
    PartitionErrors,
    TransactionSupportedOperation,
)
from kafkasim.model.transaction.metadata import EPOCH_BUMP

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.controller.common.image import BrokerImage, MetadataImage
    from kafkasim.model.effects import Process
    from kafkasim.model.records import TopicPartition

NONE = Errors.NONE
LANE = "add-partitions-to-txn"

Question: TypeAlias = "tuple[AddPartitionsToTxnTransaction, OnErrors]"


class Batch:
    """The transactions of one request, by transactional id (TransactionDataAndCallbacks)."""

    __slots__ = ("address", "operation", "questions")

    def __init__(self, address: str, operation: TransactionSupportedOperation) -> None:
        self.address = address
        self.operation = operation  # of the first question, as in Kafka
        self.questions: dict[str, Question] = {}


class AddPartitionsToTxnManager:
    """Asks coordinators on a lane of its own; a source of requests for its send thread.

    ``partition_for`` gives the partition of ``__transaction_state`` that has a transactional id.
    """

    def __init__(
        self,
        process: Process,
        image: MetadataImage,
        partition_for: Callable[[str], int],
        request_timeout_ms: int,
    ) -> None:
        self._image = image
        self._partition_for = partition_for
        self._batches: dict[int, Batch] = {}  # by broker
        self._in_flight: dict[int, None] = {}
        self.thread = InterBrokerSendThread(process, LANE, request_timeout_ms, self)

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
        """Ask the coordinator of a transaction; ``done`` gets the errors of partitions.

        It is called at once if there is no coordinator, else on this manager's lane.
        """
        asked = AddPartitionsToTxnTransaction(
            transactional_id,
            producer_id,
            producer_epoch,
            not operation.supports_epoch_bump,
            partitions,
        )
        coordinator = self._coordinator(transactional_id)
        if coordinator is None:
            done(_all(asked, Errors.COORDINATOR_NOT_AVAILABLE), now)
            return
        batch = self._batches.get(coordinator.id)
        if batch is None:
            batch = self._batches[coordinator.id] = Batch(coordinator.address, operation)
        waiting = batch.questions.get(transactional_id)
        if waiting is not None:
            known, known_done = waiting
            if known.producer_epoch > producer_epoch:
                done(_all(asked, Errors.INVALID_PRODUCER_EPOCH), now)
                return
            fenced = known.producer_epoch < producer_epoch
            # The same epoch: the client retries, and gets another error to retry on.
            error = Errors.INVALID_PRODUCER_EPOCH if fenced else Errors.NETWORK_EXCEPTION
            known_done(_all(known, error), now)
            del batch.questions[transactional_id]
        batch.questions[transactional_id] = (asked, done)
        self.thread.wakeup()

    def _coordinator(self, transactional_id: str) -> BrokerImage | None:
        topic = self._image.topic_by_name(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return None
        entry = topic.partitions.get(self._partition_for(transactional_id))
        broker = None if entry is None else self._image.brokers.get(entry.leader)
        return None if broker is None or broker.fenced else broker

    def generate_requests(self, now: int) -> list[RequestAndCompletionHandler]:
        """Return a request for each broker to which none is in flight."""
        ready = []
        for broker_id in list(self._batches):
            if broker_id in self._in_flight:
                continue
            batch = self._batches.pop(broker_id)
            self._in_flight[broker_id] = None
            transactions = tuple([asked for asked, _ in batch.questions.values()])
            # Brokers send version 4 or later, by which the coordinator knows transaction.version 2.
            request = AddPartitionsToTxnRequest(transactions, EPOCH_BUMP)
            done = partial(self._completed, broker_id, batch)
            ready.append(RequestAndCompletionHandler(batch.address, request, done))
        return ready

    def _completed(self, broker_id: int, batch: Batch, answer: Any, now: int) -> None:
        """Tell everybody who asked (AddPartitionsToTxnHandler.onComplete)."""
        del self._in_flight[broker_id]
        error = Errors.NETWORK_EXCEPTION if isinstance(answer, Failed) else answer.error
        results = {} if error is not NONE else _results(answer, batch.operation)
        for transactional_id, (asked, done) in batch.questions.items():
            if error is not NONE:
                done(_all(asked, error), now)
            elif transactional_id in results:
                done(results[transactional_id], now)
        self.thread.wakeup()


def _all(asked: AddPartitionsToTxnTransaction, error: Errors) -> PartitionErrors:
    return dict.fromkeys(asked.partitions, error)


def _results(
    response: AddPartitionsToTxnResponse, operation: TransactionSupportedOperation
) -> dict[str, PartitionErrors]:
    """Return the errors of the partitions that were refused, by transactional id."""
    return {
        transactional_id: {
            tp: _client_error(error, operation) for tp, error in answers if error is not NONE
        }
        for transactional_id, answers in response.results
    }


def _client_error(error: Errors, operation: TransactionSupportedOperation) -> Errors:
    if error is Errors.PRODUCER_FENCED:
        return Errors.INVALID_PRODUCER_EPOCH  # what producers expect of a leader
    old = operation is TransactionSupportedOperation.DEFAULT_ERROR
    if error is Errors.TRANSACTION_ABORTABLE and old:
        return Errors.INVALID_TXN_STATE
    return error
