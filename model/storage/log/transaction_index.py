"""The aborted transactions of one segment (Kafka: TransactionIndex, AbortedTxn).

A read_committed consumer is sent the aborted transactions that overlap what it reads. An entry
stands in the segment that holds the ABORT marker; the transaction's records may lie in earlier
segments. The file is created with the first entry: a log without aborted transactions has none.

Each entry carries the last stable offset at the time of the abort. A search that has come to an
entry whose last stable offset reaches its upper bound is complete, because every later entry's
transaction begins above the bound.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkasim.model.storage.files import Corrupt, Files

ABORTED_TXN_BYTES = 34


class AbortedTxn(NamedTuple):
    """One aborted transaction, from its first data record to its marker."""

    producer_id: int
    first_offset: int
    last_offset: int  # of the marker
    last_stable_offset: int  # once this transaction no longer holds it back


class TransactionIndex:
    """The entries of one segment, in the order of their markers."""

    __slots__ = ("_files", "entries", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path
        self.entries: list[AbortedTxn] = []

    def exists(self) -> bool:
        """Return whether there is a file."""
        return self._files.exists(self.path)

    def load(self, base_offset: int) -> bool:
        """Read the file, if there is one; return whether it passes the sanity check.

        A damaged entry, or one whose marker lies below the segment, fails it (sanityCheck).
        """
        if not self.exists():
            return True
        items = self._files.read(self.path)
        if any(isinstance(item, Corrupt) or item.last_offset < base_offset for item in items):
            return False
        self.entries = items
        return True

    def append(self, entry: AbortedTxn) -> None:
        """Add an entry; its marker must lie above those of all entries."""
        assert not self.entries or self.entries[-1].last_offset < entry.last_offset, entry
        self._files.append(self.path, entry, ABORTED_TXN_BYTES)
        self.entries.append(entry)

    def truncate_to(self, offset: int) -> None:
        """Remove the entries whose markers are at or above ``offset``."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries):
            self._files.truncate(self.path, len(kept))
            self.entries = kept

    def reset(self) -> None:
        """Remove all entries, on disk too."""
        if self.exists():
            self._files.truncate(self.path, 0)
        self.entries = []

    def delete(self) -> None:
        """Delete the file, if there is one."""
        if self.exists():
            self._files.delete(self.path)

    def collect(self, fetch_offset: int, upper_bound: int, found: list[AbortedTxn]) -> bool:
        """Add the transactions that overlap [``fetch_offset``, ``upper_bound``) to ``found``.

        Return whether later segments cannot have another one (collectAbortedTxns).
        """
        for entry in self.entries:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound:
                return True
        return False
