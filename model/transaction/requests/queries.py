"""DescribeTransactions and ListTransactions (KIP-664, KIP-994)."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    DescribedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkasim.model.transaction.metadata import TransactionMetadata
from kafkasim.model.transaction.state_manager import TransactionStateManager
from kafkasim.model.transaction.states import TransactionState

NONE = Errors.NONE
STATES = {str(state): state for state in TransactionState}


class TransactionQueries:
    """Says what the coordinator knows."""

    def __init__(self, manager: TransactionStateManager) -> None:
        self._manager = manager

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Return the state of an id (handleDescribeTransactions)."""
        if not transactional_id:
            return _unknown(transactional_id, Errors.INVALID_REQUEST)
        found = self._manager.get(transactional_id)
        if isinstance(found, Errors):
            return _unknown(transactional_id, found)
        if found is None:
            return _unknown(transactional_id, Errors.TRANSACTIONAL_ID_NOT_FOUND)
        current = found.metadata.current
        return DescribedTransaction(
            NONE,
            transactional_id,
            current.state,
            current.txn_timeout_ms,
            current.start_timestamp_ms,
            current.producer_id,
            current.producer_epoch,
            tuple(found.metadata.partitions),
        )

    def list(self, request: ListTransactionsRequest, now: int) -> ListTransactionsResponse:
        """Return the ids that pass the filters (listTransactionStates)."""
        if self._manager.is_loading():
            return ListTransactionsResponse(Errors.COORDINATOR_LOAD_IN_PROGRESS, (), ())
        now_ms = self._manager.runtime.wall_ms(now)
        passed = tuple(
            [
                (each.transactional_id, each.producer_id, str(each.state))
                for each in self._manager.all()
                if _passes(each, request, now_ms)
            ]
        )
        unknown = tuple([name for name in request.state_filters if name not in STATES])
        return ListTransactionsResponse(NONE, unknown, passed)


def _passes(metadata: TransactionMetadata, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.producer_id_filters and metadata.producer_id not in request.producer_id_filters:
        return False
    if request.state_filters and str(metadata.state) not in request.state_filters:
        return False
    if request.duration_filter_ms < 0:
        return True
    return now_ms - metadata.current.start_timestamp_ms > request.duration_filter_ms


def _unknown(transactional_id: str, error: Errors) -> DescribedTransaction:
    return DescribedTransaction(error, transactional_id, "", 0, 0, 0, 0, ())
