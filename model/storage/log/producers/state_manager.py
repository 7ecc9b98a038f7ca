"""What a log knows about its idempotent producers (Kafka: ProducerStateManager).

For each producer id it keeps the epoch and the last five batches. A leader checks a client's batch
against them: a duplicate, an old epoch, a gap in the sequence; :class:`StorageRules` decides. Every
replica updates the state with every batch. A snapshot, named by its offset, is written at each
segment roll and at a clean close, so that a start replays only the end of the log.

Of a transactional producer it also keeps where its open transaction began. A marker ends that, with
or without data before it, and stores the coordinator's epoch, which fences older coordinators.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import (
    MAX_SEQUENCE,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    EndTransactionMarker,
    RecordBatch,
)
from kafkasim.model.storage.files import Corrupt, Files
from kafkasim.model.storage.log.producers.entry import ProducerEntry
from kafkasim.model.storage.log.producers.transactions import CompletedTxn, OpenTransactions
from kafkasim.model.storage.log.producers.verification import VerificationStateEntry
from kafkasim.model.storage.rules import StorageRules

BATCHES_KEPT = 5
SNAPSHOT_ENTRY_BYTES = 46


class ProducerStateManager:
    """The producers of one log: the result of replaying it up to ``map_end_offset``."""

    def __init__(
        self,
        files: Files,
        directory: str,
        expiration_ms: int,
        rules: StorageRules,
        verifies: bool = False,
    ) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.transactions = OpenTransactions()
        self._verifications: dict[int, VerificationStateEntry] = {}
        self._verifies = verifies  # transaction.partition.verification.enable
        self._rules = rules
        self.map_end_offset = 0
        self._files = files
        self._directory = directory
        self.expiration_ms = expiration_ms
        self.snapshots: list[int] = []  # offsets of the snapshot files, ascending
        for path in files.paths(directory + "/"):
            if path.endswith(".snapshot"):
                self.snapshots.append(int(path[len(directory) + 1 : -len(".snapshot")]))

    def update(self, batch: RecordBatch) -> CompletedTxn | None:
        """Add an appended batch to the state; return the transaction that it ends, if any.

        The caller adds an aborted one to the transaction index and then calls ``complete``.
        """
        producer_id = batch.producer_id
        if producer_id != NO_PRODUCER_ID:
            if batch.control:
                return self._update_by_marker(batch)
            last_offset = batch.last_offset
            delta = last_offset - batch.base_offset
            timestamp = batch.max_timestamp_ms
            entry = self.entries.get(producer_id)
            if entry is None:
                entry = ProducerEntry(producer_id, batch.producer_epoch, [], timestamp)
                self.entries[producer_id] = entry
            elif batch.producer_epoch != entry.epoch:
                entry.epoch = batch.producer_epoch
                entry.batches.clear()
            entry.last_timestamp_ms = timestamp
            first = batch.base_sequence
            last = first + delta  # add_sequence, without the call
            if last > MAX_SEQUENCE:
                last -= MAX_SEQUENCE + 1
            known = entry.batches
            known.append((first, last, last_offset, delta, timestamp))
            if len(known) > BATCHES_KEPT:
                del known[0]
            if batch.transactional:
                self._update_transaction(entry, batch)
        self.map_end_offset = batch.last_offset + 1
        return None

    def _update_transaction(self, entry: ProducerEntry, batch: RecordBatch) -> None:
        """Let a transactional data batch begin a transaction unless one is open."""
        if batch.base_sequence == NO_SEQUENCE:  # a coordinator's: no sequence number is counted
            entry.batches[-1] = (NO_SEQUENCE, NO_SEQUENCE, *entry.batches[-1][2:])
        self._verifications.pop(entry.producer_id, None)
        if entry.txn_first_offset < 0:
            entry.txn_first_offset = batch.base_offset
            self.transactions.begin(entry.producer_id, batch.base_offset)

    def _update_by_marker(self, batch: RecordBatch) -> CompletedTxn | None:
        """End a producer's transaction (ProducerAppendInfo.appendEndTxnMarker)."""
        self.map_end_offset = batch.last_offset + 1
        if not batch.records:
            return None  # the cleaner has removed the whole transaction
        marker = batch.records[0].value
        assert isinstance(marker, EndTransactionMarker), batch
        producer_id = batch.producer_id
        self._verifications.pop(producer_id, None)
        entry = self.entries.get(producer_id)
        if entry is None:
            entry = self.entries[producer_id] = ProducerEntry(producer_id, -1, [], -1)
        if batch.producer_epoch != entry.epoch:
            entry.epoch = batch.producer_epoch
            entry.batches.clear()
        entry.coordinator_epoch = marker.coordinator_epoch
        timestamp = batch.max_timestamp_ms
        if self.marker_refreshes or entry.last_timestamp_ms < 0:
            entry.last_timestamp_ms = timestamp
        first_offset = entry.txn_first_offset
        if first_offset < 0:
            return None  # a marker without data changes no last stable offset
        entry.txn_first_offset = -1
        aborted = not marker.committed
        return CompletedTxn(producer_id, first_offset, batch.base_offset, aborted)

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, supports_epoch_bump: bool, now_ms: int
    ) -> VerificationStateEntry | Errors | None:
        """Return the guard with which a producer's batch may be appended once it is verified.

        None: its transaction is open here, so nothing is to be verified. The error is
        INVALID_PRODUCER_EPOCH (UnifiedLog.maybeStartTransactionVerification).
        """
        known = self.entries.get(producer_id)
        if known is not None:
            if epoch < known.epoch:
                return Errors.INVALID_PRODUCER_EPOCH
            if self.has_ongoing_transaction(producer_id, epoch):
                return None
        guard = self._verifications.get(producer_id)
        if guard is None:
            guard = VerificationStateEntry(now_ms, sequence, epoch, supports_epoch_bump)
            self._verifications[producer_id] = guard
        guard.update(sequence, epoch)
        return guard

    def has_ongoing_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return whether a producer has a transaction open here, under this epoch."""
        entry = self.entries.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and entry.epoch == epoch

    def is_current(self, producer_id: int, guard: VerificationStateEntry) -> bool:
        """Return whether no batch or marker of a producer has come since ``guard`` was made."""
        return self._verifications.get(producer_id) is guard

    def check(
        self,
        batch: RecordBatch,
        client: bool,
        transaction_version: int,
        guard: VerificationStateEntry | None,
    ) -> Errors:
        """Return NONE if a producer's batch, or a marker, may be appended, or the error.

        ``guard`` is what ``start_verification`` returned. A coordinator's batches (not ``client``)
        have no sequence numbers.
        """
        rules = self._rules
        entry = self.entries.get(batch.producer_id)
        if not batch.transactional and (entry is None or entry.txn_first_offset < 0):
            return (rules.check_sequence if client else rules.check_epoch)(entry, batch)
        if batch.control:
            return rules.check_marker(entry, batch, transaction_version)
        known = self._verifications.get(batch.producer_id)
        if batch.transactional and self._verifies:
            ongoing = self.has_ongoing_transaction(batch.producer_id, batch.producer_epoch)
            if not ongoing and not rules.is_verified(known, guard):
                return Errors.INVALID_TXN_STATE
        error = rules.check_epoch(entry, batch)
        if client and error is NONE:
            if known is not None:
                error = rules.check_unverified_sequence(known, entry, batch.base_sequence)
            if error is NONE:
                error = rules.check_sequence(entry, batch)
        if error is NONE and not batch.transactional:
            return Errors.INVALID_TXN_STATE  # its transaction is open
        return error

    @property
    def is_empty(self) -> bool:
        """Whether it knows no producer, and no decided transaction whose marker is not replicated.

        Source: ProducerStateManager.isEmpty.
        """
        return not self.entries and not self.transactions.awaits_replication

    @property
    def marker_refreshes(self) -> bool:
        """Whether a marker counts as a producer's last activity (B49)."""
        return self._rules.marker_refreshes_producer()

    def remove_expired(self, now_ms: int) -> list[tuple[int, int]]:
        """Forget the producers that were silent for producer.id.expiration.ms, and guards as old.

        A producer with an open transaction is never forgotten. Return each that was, and for how
        many ms it was silent.
        """
        forgotten = []
        for producer_id, guard in list(self._verifications.items()):
            if now_ms - guard.timestamp_ms >= self.expiration_ms:
                del self._verifications[producer_id]
        for producer_id, entry in list(self.entries.items()):
            silent_ms = now_ms - entry.last_timestamp_ms
            if entry.txn_first_offset < 0 and silent_ms >= self.expiration_ms:
                del self.entries[producer_id]
                forgotten.append((producer_id, silent_ms))
        return forgotten

    def on_log_start(self, log_start: int, forget: bool) -> None:
        """Forget the decided transactions below the log start; and the producers that have no
        batch above it, if the rules say so."""
        self.transactions.on_high_watermark(log_start)
        if not forget:
            return
        for producer_id, entry in list(self.entries.items()):
            if entry.batches and entry.batches[-1][2] < log_start:
                del self.entries[producer_id]

    # ------------------------------------------------------------------------------- snapshots

    def take_snapshot(self) -> str | None:
        """Write a snapshot at ``map_end_offset`` unless there is one; return its path, or None."""
        offset = self.map_end_offset
        if self.snapshots and self.snapshots[-1] >= offset:
            return None
        content = tuple(entry.state() for entry in self.entries.values())
        path = self._path(offset)
        self._files.write(path, content, 12 + SNAPSHOT_ENTRY_BYTES * len(content))
        self.snapshots.append(offset)
        return path

    def truncate_and_reload(self, log_start: int, log_end: int, now_ms: int) -> None:
        """Load the newest usable snapshot at or below ``log_end``; the caller replays the rest.

        Snapshots outside the log are deleted. A state that ends at ``log_end`` already is kept.
        """
        for offset in list(self.snapshots):
            if offset > log_end or offset <= log_start:
                self._delete(offset)
        if log_end == self.map_end_offset:
            return
        self._clear(log_start)
        while self.snapshots:
            if self._load(self.snapshots[-1], now_ms):
                return
            self._delete(self.snapshots[-1])

    def copy_at(self, log_start: int, offset: int, now_ms: int) -> ProducerStateManager:
        """Return another manager with the newest usable snapshot at or below ``offset``.

        It serves a recovery that must know which transactions were open at ``offset`` before it
        scans on; the caller replays the rest.
        """
        copy = ProducerStateManager(self._files, self._directory, self.expiration_ms, self._rules)
        copy._clear(log_start)
        for snapshot in reversed(copy.snapshots):
            if log_start < snapshot <= offset and copy._load(snapshot, now_ms):
                break
        return copy

    def _clear(self, offset: int) -> None:
        self.entries.clear()
        self.transactions.restore([])
        self.map_end_offset = offset

    def _load(self, offset: int, now_ms: int) -> bool:
        """Load a snapshot; return whether it is intact."""
        items = self._files.read(self._path(offset))
        if not items or isinstance(items[0], Corrupt):
            return False
        for state in items[0]:
            producer_id, epoch, batches, timestamp, coordinator_epoch, first_offset = state
            if first_offset >= 0 or now_ms - timestamp < self.expiration_ms:
                self.entries[producer_id] = ProducerEntry(
                    producer_id, epoch, list(batches), timestamp, coordinator_epoch, first_offset
                )
        self.transactions.restore(
            [
                (entry.txn_first_offset, entry.producer_id)
                for entry in self.entries.values()
                if entry.txn_first_offset >= 0
            ]
        )
        self.map_end_offset = offset
        return True

    def replay(self, batches: Iterable[RecordBatch], log_end: int) -> None:
        """Add the batches from ``map_end_offset`` on to the state, which then ends at
        ``log_end``."""
        for batch in batches:
            completed = self.update(batch)
            if completed is not None:
                self.transactions.complete(completed)
        self.map_end_offset = log_end

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget every producer and delete every snapshot; the state starts at ``offset``."""
        for snapshot in list(self.snapshots):
            self._delete(snapshot)
        self._clear(offset)

    def delete_snapshots_before(self, offset: int) -> None:
        """Delete the snapshots below ``offset``: their segments are deleted."""
        for snapshot in list(self.snapshots):
            if snapshot < offset:
                self._delete(snapshot)

    def delete_snapshots_after(self, offset: int) -> None:
        """Delete the snapshots above ``offset``."""
        for snapshot in list(self.snapshots):
            if snapshot > offset:
                self._delete(snapshot)

    def delete_snapshot(self, offset: int) -> None:
        """Delete the snapshot at ``offset``, if there is one: no segment begins there any more."""
        if offset in self.snapshots:
            self._delete(offset)

    def _delete(self, offset: int) -> None:
        self._files.delete(self._path(offset))
        self.snapshots.remove(offset)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}.snapshot"
