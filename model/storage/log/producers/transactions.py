"""The open transactions of one log (Kafka: ProducerStateManager.ongoingTxns, unreplicatedTxns).

    data batch ──▶ ongoing ──marker appended──▶ unreplicated ──high watermark past marker──▶ gone

A transaction is *unstable* until then. The first unstable offset bounds what a read_committed
consumer may read: the last stable offset is the smaller of it and the high watermark.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkasim.model.config import MAX_LONG
from kafkasim.model.storage.log.transaction_index import AbortedTxn, TransactionIndex

NO_UNSTABLE_OFFSET = MAX_LONG


class CompletedTxn(NamedTuple):
    """A transaction whose marker was appended (CompletedTxn)."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    aborted: bool


class OpenTransactions:
    """The unstable transactions, by their first offsets.

    ``first_unstable_offset`` is ``NO_UNSTABLE_OFFSET`` while there is none.
    """

    __slots__ = ("_ongoing", "_unreplicated", "first_unstable_offset")

    def __init__(self) -> None:
        self._ongoing: dict[int, int] = {}  # first offset: producer id; ascending
        self._unreplicated: dict[int, int] = {}  # first offset: offset of the marker
        self.first_unstable_offset = NO_UNSTABLE_OFFSET

    @property
    def undecided(self) -> dict[int, int]:
        """The transactions without a marker: first offset and producer id, ascending."""
        return dict(self._ongoing)

    @property
    def awaits_replication(self) -> bool:
        """Whether a transaction is decided, and its marker not replicated."""
        return bool(self._unreplicated)

    def begin(self, producer_id: int, first_offset: int) -> None:
        """Add a transaction that began at ``first_offset``, above all others."""
        self._ongoing[first_offset] = producer_id
        if first_offset < self.first_unstable_offset:
            self.first_unstable_offset = first_offset

    def restore(self, ongoing: list[tuple[int, int]]) -> None:
        """Replace everything by the transactions of a snapshot: (first offset, producer id)."""
        self._ongoing = dict(sorted(ongoing))
        self._unreplicated.clear()
        self._find_first()

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Return the last stable offset once ``completed`` no longer holds it back."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return first_offset
        return completed.last_offset + 1

    def index(self, completed: CompletedTxn, index: TransactionIndex) -> None:
        """Add an aborted transaction to the index of its marker's segment, then complete it.

        Raises:
            DiskError: the disk refused; the transaction stays open.
        """
        if completed.aborted:
            producer_id, first_offset, last_offset, _ = completed
            lso = self.last_stable_offset(completed)
            index.append(AbortedTxn(producer_id, first_offset, last_offset, lso))
        self.complete(completed)

    def complete(self, completed: CompletedTxn) -> None:
        """Note that a transaction is decided; it stays unstable until its marker is replicated."""
        del self._ongoing[completed.first_offset]
        self._unreplicated[completed.first_offset] = completed.last_offset

    def on_high_watermark(self, high_watermark: int) -> None:
        """Forget the transactions whose markers lie below ``high_watermark``."""
        unreplicated = self._unreplicated
        if unreplicated:
            for first_offset, marker in list(unreplicated.items()):
                if marker < high_watermark:
                    del unreplicated[first_offset]
            self._find_first()

    def _find_first(self) -> None:
        first = next(iter(self._ongoing), NO_UNSTABLE_OFFSET)
        self.first_unstable_offset = min([first, *self._unreplicated])
