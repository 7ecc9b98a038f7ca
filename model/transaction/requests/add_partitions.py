"""AddPartitionsToTxn and AddOffsetsToTxn: partitions join a transaction, or are verified (KIP-890).

A client adds partitions before it produces to them; from transaction.version 2 on the partition's
leader adds them for it. Before that version a leader only verifies that a client has done so.

The first check is whether a change of the id is pending (CONCURRENT_TRANSACTIONS): after a
transaction that exhausted the epochs the client already has its next producer id, which is only
pending here. (TransactionCoordinator.handleAddPartitionsToTransaction; up to 3.9 the producer id
was checked first.)
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from kafkasim.model.transaction.metadata import TransactionMetadata
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.state_manager import (
    CoordinatorEpochAndTxnMetadata,
    TransactionStateManager,
)
from kafkasim.model.transaction.states import DECIDED, ONGOING

NONE = Errors.NONE
Partitions = tuple[TopicPartition, ...]
Results = tuple[tuple[TopicPartition, Errors], ...]
Done = Callable[[Errors, int], None]  # (error, now)


class AddPartitions:
    """Serves both requests, of clients and of brokers."""

    def __init__(self, manager: TransactionStateManager, rules: TransactionRules) -> None:
        self._manager = manager
        self._rules = rules

    def handle(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        client_version: int,
        done: Done,
        now: int,
    ) -> None:
        """Add partitions to a transaction (handleAddPartitionsToTransaction)."""
        found = self._find(transactional_id)
        if not isinstance(found, Errors):
            metadata = found.metadata
            waits = metadata.pending is not None and self._rules.pending_is_asked_first()
            error = NONE if waits else _check_producer(metadata, producer_id, producer_epoch)
            found = found if error is NONE else error
        if isinstance(found, Errors):
            done(found, now)
        elif metadata.pending is not None or metadata.state in DECIDED:
            done(Errors.CONCURRENT_TRANSACTIONS, now)
        elif metadata.state is ONGOING and all(tp in metadata.partitions for tp in partitions):
            done(NONE, now)
        else:
            now_ms = self._manager.runtime.wall_ms(now)
            transit = metadata.prepare_add_partitions(partitions, now_ms, client_version)
            epoch = found.coordinator_epoch
            self._manager.append(transactional_id, epoch, transit, "add", done, now)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
    ) -> Results:
        """Return for each partition whether it is in the transaction.

        What is pending does not matter: the append to the log has the last word.
        (handleVerifyPartitionsInTransaction)
        """
        found = self._find(transactional_id)
        if isinstance(found, Errors):
            return tuple([(tp, found) for tp in partitions])
        metadata = found.metadata
        error = _check_producer(metadata, producer_id, producer_epoch)
        if error is NONE and metadata.state in DECIDED:
            error = Errors.CONCURRENT_TRANSACTIONS
        if error is not NONE:
            return tuple([(tp, error) for tp in partitions])
        return tuple([(tp, _membership(metadata, tp)) for tp in partitions])

    def _find(self, transactional_id: str) -> CoordinatorEpochAndTxnMetadata | Errors:
        if not transactional_id:
            return Errors.INVALID_REQUEST
        found = self._manager.get(transactional_id)
        return Errors.INVALID_PRODUCER_ID_MAPPING if found is None else found


def _check_producer(metadata: TransactionMetadata, producer_id: int, epoch: int) -> Errors:
    """Return NONE if the producer is the newest of its id."""
    if metadata.producer_id != producer_id:
        return Errors.INVALID_PRODUCER_ID_MAPPING
    return NONE if metadata.producer_epoch == epoch else Errors.PRODUCER_FENCED


def _membership(metadata: TransactionMetadata, tp: TopicPartition) -> Errors:
    return NONE if tp in metadata.partitions else Errors.TRANSACTION_ABORTABLE
