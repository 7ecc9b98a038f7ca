"""Which transactions a cleaning has met, so when their markers may go (CleanedTransactionMetadata).

A marker is kept while a batch of its transaction is left in the log: without an ABORT marker a
reader of committed records would take aborted ones for those of a later transaction, and without
any marker the last stable offset could not pass them. An aborted batch is removed whatever its keys
are. The aborted transactions come from the indexes of the old segments; those that still have
batches go to the index of the new segment.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

from kafkasim.model.records import EndTransactionMarker, RecordBatch
from kafkasim.model.storage.log.transaction_index import AbortedTxn, TransactionIndex


class CleanedTransactionMetadata:
    """The transactions that are open at the batch that was read last."""

    def __init__(self) -> None:
        self.cleaned_index: TransactionIndex | None = None  # None: only the map is being built
        self._ongoing_committed: dict[int, None] = {}  # producer ids
        self._ongoing_aborted: dict[int, AbortedTxn] = {}  # by producer id
        self._observed: dict[int, None] = {}  # of these, the producers with a batch in the log
        self._aborted: list[tuple[int, AbortedTxn]] = []  # a heap, by first offset

    def add_aborted(self, transactions: Iterable[AbortedTxn]) -> None:
        """Take the aborted transactions of the next segment. Repeated ones do no harm."""
        for each in transactions:
            heappush(self._aborted, (each.first_offset, each))

    def on_control_batch(self, batch: RecordBatch) -> bool:
        """Return whether a marker may be discarded: its transaction has no batch left."""
        self._begin_up_to(batch.last_offset)
        if not batch.records:
            return True
        marker, producer_id = batch.records[0].value, batch.producer_id
        if not isinstance(marker, EndTransactionMarker):
            return False
        if marker.committed:
            return self._ongoing_committed.pop(producer_id, self) is self
        aborted = self._ongoing_aborted.pop(producer_id, None)
        observed = self._observed.pop(producer_id, self) is not self
        if aborted is None or not observed:
            return True
        if self.cleaned_index is not None:
            self.cleaned_index.append(aborted)
        return False

    def on_batch(self, batch: RecordBatch) -> bool:
        """Return whether a data batch belongs to an aborted transaction."""
        self._begin_up_to(batch.last_offset)
        if not batch.transactional:
            return False
        if batch.producer_id in self._ongoing_aborted:
            self._observed[batch.producer_id] = None
            return True
        self._ongoing_committed[batch.producer_id] = None
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            _, aborted = heappop(self._aborted)
            self._ongoing_aborted.setdefault(aborted.producer_id, aborted)
