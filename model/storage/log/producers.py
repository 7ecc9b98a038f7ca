"""What a log knows about its idempotent producers (Kafka: ProducerStateManager).

For each producer id it keeps the epoch and the last five batches. A leader checks a client's batch
against them: a duplicate, an old epoch, a gap in the sequence; :class:`StorageRules` decides. Every
replica updates the state with every batch. A snapshot, named by its offset, is written at each
segment roll and at a clean close, so that a start replays only the end of the log.

Left out: ongoing transactions, verification guards (KIP-890), the transaction index.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkasim.model.records import MAX_SEQUENCE, NO_PRODUCER_ID, RecordBatch
from kafkasim.model.storage.files import Corrupt, Files

BATCHES_KEPT = 5
SNAPSHOT_ENTRY_BYTES = 46


BatchMetadata = tuple[int, int, int, int, int]
"""What answers the retry of a batch: its first and last sequence, its last offset, last minus first
offset, and its timestamp in ms. A plain tuple, because every append makes one."""


class ProducerEntry:
    """The state of one producer id (ProducerStateEntry).

    ``batches`` are the last five, oldest first. They are empty if the producer's only batch here is
    a transaction marker.
    """

    __slots__ = ("batches", "epoch", "last_timestamp_ms", "producer_id")

    def __init__(
        self, producer_id: int, epoch: int, batches: list[BatchMetadata], last_timestamp_ms: int
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches = batches
        self.last_timestamp_ms = last_timestamp_ms

    def state(self) -> tuple[int, int, tuple[BatchMetadata, ...], int]:
        """Return the entry in the form that a snapshot stores."""
        return self.producer_id, self.epoch, tuple(self.batches), self.last_timestamp_ms


class ProducerStateManager:
    """The producers of one log: the result of replaying it up to ``map_end_offset``."""

    def __init__(self, files: Files, directory: str, expiration_ms: int) -> None:
        self.entries: dict[int, ProducerEntry] = {}
        self.map_end_offset = 0
        self._files = files
        self._directory = directory
        self._expiration_ms = expiration_ms
        self.snapshots: list[int] = []  # offsets of the snapshot files, ascending
        for path in files.paths(directory + "/"):
            if path.endswith(".snapshot"):
                self.snapshots.append(int(path[len(directory) + 1 : -len(".snapshot")]))

    def update(self, batch: RecordBatch) -> None:
        """Add an appended batch to the state."""
        producer_id = batch.producer_id
        if producer_id != NO_PRODUCER_ID:
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
            if not batch.control:
                first = batch.base_sequence
                last = first + delta  # add_sequence, without the call
                if last > MAX_SEQUENCE:
                    last -= MAX_SEQUENCE + 1
                known = entry.batches
                known.append((first, last, last_offset, delta, timestamp))
                if len(known) > BATCHES_KEPT:
                    del known[0]
        self.map_end_offset = batch.last_offset + 1

    def remove_expired(self, now_ms: int) -> None:
        """Forget the producers that were silent for producer.id.expiration.ms."""
        for producer_id, entry in list(self.entries.items()):
            if now_ms - entry.last_timestamp_ms >= self._expiration_ms:
                del self.entries[producer_id]

    def on_log_start(self, log_start: int, forget: bool) -> None:
        """Forget the producers that have no batch above the log start, if the rules say so."""
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
        self.entries.clear()
        self.map_end_offset = log_start
        while self.snapshots:
            offset = self.snapshots[-1]
            items = self._files.read(self._path(offset))
            if items and not isinstance(items[0], Corrupt):
                for producer_id, epoch, batches, timestamp in items[0]:
                    if now_ms - timestamp < self._expiration_ms:
                        self.entries[producer_id] = ProducerEntry(
                            producer_id, epoch, list(batches), timestamp
                        )
                self.map_end_offset = offset
                return
            self._delete(offset)

    def replay(self, batches: Iterable[RecordBatch], log_end: int) -> None:
        """Add the batches from ``map_end_offset`` on to the state, which then ends at
        ``log_end``."""
        for batch in batches:
            self.update(batch)
        self.map_end_offset = log_end

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Forget every producer and delete every snapshot; the state starts at ``offset``."""
        self.entries.clear()
        for snapshot in list(self.snapshots):
            self._delete(snapshot)
        self.map_end_offset = offset

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

    def _delete(self, offset: int) -> None:
        self._files.delete(self._path(offset))
        self.snapshots.remove(offset)

    def _path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}.snapshot"
