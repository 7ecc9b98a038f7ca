"""KafkaApis' handlers of the transaction coordinator's requests.

They run on the request handlers' threads. A request is checked against the metadata cache here, and
answered when the coordinator has called back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
)
from kafkasim.model.records import (
    COORDINATOR_TOPICS,
    GROUP_METADATA_TOPIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
)
from kafkasim.model.transaction.metadata import EPOCH_BUMP
from kafkasim.model.transaction.requests.end_transaction import EndTxn

if TYPE_CHECKING:
    from kafkasim.model.effects import Request
    from kafkasim.model.transaction.coordinator import TransactionCoordinator

NONE = Errors.NONE
Results = tuple[tuple[TopicPartition, Errors], ...]
Respond = Callable[["Request", Any], None]


def _client_version(request_version: int) -> int:
    """Return the transaction.version of a client that sent a request of this version.

    (TransactionVersion.transactionVersionForAddPartitionsToTxn, …ForEndTxn)
    """
    return request_version if request_version >= EPOCH_BUMP else 0


class TransactionApis:
    """Serves the requests of transactions.

    ``knows(tp)`` says whether the metadata cache has a partition; ``offsets_partition(group)`` is
    the partition of ``__consumer_offsets`` that holds a group.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        knows: Callable[[TopicPartition], bool],
        offsets_partition: Callable[[str], int],
        respond: Respond,
    ) -> None:
        self._coordinator = coordinator
        self._knows = knows
        self._offsets_partition = offsets_partition
        self._respond = respond
        self.handlers: dict[type, Callable[[Request, int], None]] = {
            InitProducerIdRequest: self.on_init_producer_id,
            AddPartitionsToTxnRequest: self.on_add_partitions,
            AddOffsetsToTxnRequest: self.on_add_offsets,
            EndTxnRequest: self.on_end_txn,
            DescribeTransactionsRequest: self.on_describe,
            ListTransactionsRequest: self.on_list,
        }

    def on_init_producer_id(self, item: Request, now: int) -> None:
        """Respond with a producer id (handleInitProducerIdRequest)."""
        request: InitProducerIdRequest = item.message

        def done(error: Errors, producer_id: int, epoch: int, _at: int) -> None:
            self._respond(item, InitProducerIdResponse(error, producer_id, epoch))

        own = (request.producer_id, request.producer_epoch)
        if (own[0] == NO_PRODUCER_ID) != (own[1] == NO_PRODUCER_EPOCH):
            done(Errors.INVALID_REQUEST, NO_PRODUCER_ID, NO_PRODUCER_EPOCH, now)
            return
        expected = None if own[0] == NO_PRODUCER_ID else own
        timeout_ms = request.transaction_timeout_ms
        handle = self._coordinator.initialization.handle
        handle(request.transactional_id, timeout_ms, expected, done, now)

    def on_add_partitions(self, item: Request, now: int) -> None:
        """Respond when each transaction of the request has its results.

        (handleAddPartitionsToTxnRequest)
        """
        request: AddPartitionsToTxnRequest = item.message
        results: dict[int, Results] = {}

        def add_result(index: int, result: Results, _at: int) -> None:
            results[index] = result
            if len(results) == len(asked):
                answers = [(each.transactional_id, results[i]) for i, each in enumerate(asked)]
                self._respond(item, AddPartitionsToTxnResponse(NONE, tuple(answers)))

        asked = request.transactions
        answers = self._coordinator.rules.answers_verification()
        if not answers and any(each.verify_only for each in asked):
            refused = AddPartitionsToTxnResponse(Errors.UNSUPPORTED_VERSION, ())
            self._respond(item, refused)
            return
        version = _client_version(request.transaction_version)
        # Of an id that is named twice, Kafka adds the later partitions twice.
        partitions = {each.transactional_id: each.partitions for each in asked}
        for index, each in enumerate(asked):
            wanted = tuple(dict.fromkeys(partitions[each.transactional_id]))
            self._add_partitions(each, wanted, version, partial(add_result, index), now)

    def _refusal(
        self, asked: AddPartitionsToTxnTransaction, tp: TopicPartition, client_version: int
    ) -> Errors:
        """Return why a partition is not added (handleAddPartitionsToTxnRequest).

        Nobody is asked whether a client may write to an internal topic, so no client may. A broker
        adds the group's offsets for a client of transaction.version 2, which does not ask itself.
        """
        by_client = client_version < EPOCH_BUMP and not asked.verify_only
        if by_client and tp.topic in COORDINATOR_TOPICS:
            return Errors.TOPIC_AUTHORIZATION_FAILED
        return NONE if self._knows(tp) else Errors.UNKNOWN_TOPIC_OR_PARTITION

    def _add_partitions(
        self,
        asked: AddPartitionsToTxnTransaction,
        partitions: tuple[TopicPartition, ...],
        client_version: int,
        done: Callable[[Results, int], None],
        now: int,
    ) -> None:
        refused = {
            tp: error for tp in partitions if (error := self._refusal(asked, tp, client_version))
        }
        if refused:  # one such partition fails the transaction
            other = Errors.OPERATION_NOT_ATTEMPTED
            done(tuple([(tp, refused.get(tp, other)) for tp in partitions]), now)
            return
        producer = (asked.transactional_id, asked.producer_id, asked.producer_epoch)
        served = self._coordinator.partitions
        if asked.verify_only:
            done(served.verify(*producer, partitions), now)
            return

        def added(error: Errors, at: int) -> None:
            done(tuple([(tp, error) for tp in partitions]), at)

        served.handle(*producer, partitions, client_version, added, now)

    def on_add_offsets(self, item: Request, now: int) -> None:
        """Respond when the partition of the group's offsets is in the transaction.

        (handleAddOffsetsToTxnRequest)
        """
        request: AddOffsetsToTxnRequest = item.message
        number = self._offsets_partition(request.group_id)

        def added(error: Errors, _at: int) -> None:
            self._respond(item, AddOffsetsToTxnResponse(error))

        self._coordinator.partitions.handle(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            (TopicPartition(GROUP_METADATA_TOPIC, number),),
            0,
            added,
            now,
        )

    def on_end_txn(self, item: Request, now: int) -> None:
        """Respond when the decision is committed (handleEndTxnRequest)."""
        request: EndTxnRequest = item.message

        def done(error: Errors, producer_id: int, epoch: int, _at: int) -> None:
            self._respond(item, EndTxnResponse(error, producer_id, epoch))

        asked = EndTxn(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            request.committed,
            _client_version(request.transaction_version),
        )
        self._coordinator.ending.handle(asked, done, now)

    def on_describe(self, item: Request, now: int) -> None:
        """Respond with the state of each transactional id."""
        request: DescribeTransactionsRequest = item.message
        describe = self._coordinator.queries.describe
        # The request's ids are a set on the wire.
        states = tuple([describe(each) for each in dict.fromkeys(request.transactional_ids)])
        self._respond(item, DescribeTransactionsResponse(states))

    def on_list(self, item: Request, now: int) -> None:
        """Respond with the ids of this coordinator."""
        answer = self._coordinator.queries.list(item.message, now)
        self._respond(item, answer)
