"""Markers that wait to be sent (TxnMarkerQueue, PendingCompleteTxn)."""

from __future__ import annotations

from kafkasim.model.messages import WritableTxnMarker
from kafkasim.model.transaction.metadata import TransactionMetadata, TxnTransitMetadata


class PendingCompleteTxn:
    """A decided transaction, and the metadata that it gets when every marker is written.

    Two of one transactional id are told apart by identity: a later one replaces the other.
    """

    __slots__ = ("completion", "coordinator_epoch", "metadata", "transactional_id")

    def __init__(
        self,
        coordinator_epoch: int,
        metadata: TransactionMetadata,
        completion: TxnTransitMetadata,
    ) -> None:
        self.transactional_id = metadata.transactional_id
        self.coordinator_epoch = coordinator_epoch
        self.metadata = metadata
        self.completion = completion


Entry = tuple[PendingCompleteTxn, WritableTxnMarker]


class TxnMarkerQueue:
    """What waits for one destination, by partition of ``__transaction_state``."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: dict[int, list[Entry]] = {}

    def add(self, txn_partition: int, entry: Entry) -> None:
        """Add a marker."""
        self._entries.setdefault(txn_partition, []).append(entry)

    def drain(self) -> list[Entry]:
        """Return all markers and keep none."""
        entries, self._entries = self._entries, {}
        return [each for partition in entries.values() for each in partition]

    def remove(self, txn_partition: int) -> list[Entry]:
        """Return the markers of one partition's ids and keep none of them."""
        return self._entries.pop(txn_partition, [])

    def __len__(self) -> int:
        """Return how many markers wait."""
        return sum([len(entries) for entries in self._entries.values()])
