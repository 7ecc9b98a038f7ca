"""One segment of a log and its index files (Kafka: LogSegment, OffsetIndex, TimeIndex).

The batches of a segment are in memory, in two lists beside the file: this is the page cache. The
batch objects are shared with every replica and response, so one batch costs two pointers here. A
lookup is a bisection over base offsets. The index files are not needed for that. They are written
as Kafka writes them, one entry after more than index.interval.bytes, because they too are flushed,
lost in a crash and rebuilt.

A damaged batch that a clean start finds on disk becomes a :class:`CorruptBatch`. As in Kafka, the
leader serves it without checking it, and the receiver checks the CRC.

Left out: preallocation, memory mapping.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import Corrupt, Files
from kafkasim.model.storage.log.transaction_index import TransactionIndex
from kafkasim.model.storage.rules import StorageRules

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
MAX_INDEX_BYTES = 10485760  # segment.index.bytes
MAX_RELATIVE_OFFSET = 2**31 - 1


class CorruptBatch(RecordBatch):
    """A batch with a readable header and a wrong CRC; it has no records."""

    __slots__ = ()


def corrupted(batch: RecordBatch) -> CorruptBatch:
    """Return a damaged batch as its reader sees it."""
    return CorruptBatch(
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        (),
        batch.size,
        batch.max_timestamp_ms,
        batch.transactional,
        batch.control,
    )


class Segment:
    """The batches from ``base_offset`` on, up to the next segment's. ``size`` is in bytes."""

    __slots__ = (
        "_files",
        "_index_interval_bytes",
        "_last_indexed_ms",
        "_name",
        "_unindexed_bytes",
        "base_offset",
        "base_offsets",
        "batches",
        "first_timestamp_ms",
        "index_full",
        "index_path",
        "largest_timestamp_ms",
        "last_modified_ms",
        "log_path",
        "size",
        "time_index_path",
        "transactions",
    )

    def __init__(
        self,
        files: Files,
        directory: str,
        base_offset: int,
        index_interval_bytes: int,
        suffix: str = "",
    ) -> None:
        """``suffix`` stands behind the names of files that are not part of the log yet."""
        self._files = files
        self._index_interval_bytes = index_interval_bytes
        self._name = f"{directory}/{base_offset:020d}"
        self.base_offset = base_offset
        self.transactions = TransactionIndex(files, "")
        self._name_files(suffix)
        self.batches: list[RecordBatch] = []
        self.base_offsets: list[int] = []
        self.size = 0
        self.index_full = False  # an index has no room left
        self.first_timestamp_ms = -1  # of the first batch, for segment.ms
        self.largest_timestamp_ms = -1
        self.last_modified_ms = -1  # of the file: a record's timestamp stands for its append
        self._unindexed_bytes = 0  # appended since the last index entry
        self._last_indexed_ms = -1

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the base offset of an empty segment."""
        return self.batches[-1].last_offset + 1 if self.batches else self.base_offset

    @property
    def paths(self) -> tuple[str, ...]:
        """The files of the segment; the transaction index only if it has been created."""
        paths = self._all_paths()
        return paths if self.transactions.exists() else paths[:-1]

    @property
    def index_bytes(self) -> int:
        """The size of the larger one of the two index files."""
        count = self._files.count
        offsets = count(self.index_path) * OFFSET_ENTRY_BYTES
        return max(offsets, count(self.time_index_path) * TIME_ENTRY_BYTES)

    def create(self) -> None:
        """Create the files, empty; the transaction index waits for its first entry."""
        self.transactions.delete()
        for path in self.paths:
            _create_empty(self._files, path)

    def append(self, batch: RecordBatch, now_ms: int) -> None:
        """Write a batch to the file and add it to the segment.

        Raises:
            DiskError: the disk refused; the segment is unchanged.
        """
        size = batch.size
        self._files.append(self.log_path, batch, size)
        # _remember, in place: the hottest call of a log.
        timestamp = batch.max_timestamp_ms
        if not self.base_offsets:
            self.first_timestamp_ms = timestamp if timestamp >= 0 else now_ms
        if timestamp > self.largest_timestamp_ms:
            self.largest_timestamp_ms = self.last_modified_ms = timestamp
        self.batches.append(batch)
        self.base_offsets.append(batch.base_offset)
        self.size += size

    def index(self, last_offset: int, position: int, size: int) -> None:
        """Count an append of ``size`` bytes at ``position``; add an index entry if it is due."""
        if self._unindexed_bytes > self._index_interval_bytes:
            self._add_index_entry(last_offset, position)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size

    def read(
        self, offset: int, max_bytes: int, upper_bound: int, min_one: bool
    ) -> tuple[RecordBatch, ...]:
        """Return batches from the one that contains ``offset``, or the next one, on.

        The bounds are those of :meth:`LocalLog.read`.
        """
        batches = self.batches
        first = bisect_right(self.base_offsets, offset) - 1
        if first < 0 or batches[first].last_offset < offset:
            first += 1
        end = first
        count = len(batches)
        while end < count:
            batch = batches[end]
            max_bytes -= batch.size
            if batch.last_offset >= upper_bound:
                break
            if max_bytes < 0 and (end > first or not min_one):
                break
            end += 1
        return tuple(batches[first:end])

    def should_roll(
        self, last: RecordBatch, size: int, segment_bytes: int, segment_ms: int, now_ms: int
    ) -> bool:
        """Return whether ``size`` bytes of batches up to ``last`` must go into a new segment
        (LogSegment.shouldRoll): by size, by age, or for lack of room in an index."""
        timestamp = last.max_timestamp_ms
        return (
            self.size + size > segment_bytes
            or (timestamp if timestamp >= 0 else now_ms) - self.first_timestamp_ms > segment_ms
            or self.index_full
            or last.last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        )

    def find_timestamp(self, timestamp_ms: int, log_start_offset: int) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first record that is at or above ``log_start_offset``
        and not older than ``timestamp_ms``; None without one."""
        if self.largest_timestamp_ms < timestamp_ms:
            return None
        for batch in self.batches:
            if batch.max_timestamp_ms < timestamp_ms:
                continue
            deltas = batch.offset_deltas or range(len(batch.records))
            for delta, record in zip(deltas, batch.records, strict=True):
                offset = batch.base_offset + delta
                if record.timestamp_ms >= timestamp_ms and offset >= log_start_offset:
                    return record.timestamp_ms, offset
        return None

    def load(self, now_ms: int) -> bool:
        """Read a cleanly closed segment: the file is trusted.

        Return whether its transaction index is sane; if not, the caller rebuilds it.
        """
        for item in self._files.read(self.log_path):
            batch = corrupted(item.item) if isinstance(item, Corrupt) else item
            self._remember(batch, now_ms)
        for path in (self.index_path, self.time_index_path):
            if not self._files.exists(path):
                self._rebuild_indexes()
                break
        return self.transactions.load(self.base_offset)

    def recover(self, now_ms: int, rules: StorageRules, epoch: int) -> int:
        """Scan the file up to the first batch that is damaged or out of order; cut the rest off
        and rebuild the indexes. Return the number of batches that were cut off.

        ``epoch`` is the leader epoch of the batch before this segment, −1 for none.
        """
        items = self._files.read(self.log_path)
        next_offset = self.base_offset
        for item in items:
            if not isinstance(item, RecordBatch):
                break
            if not rules.recovers_batch(item, next_offset, epoch):
                break
            next_offset = item.last_offset + 1
            epoch = item.leader_epoch
            self._remember(item, now_ms)
        kept = len(self.batches)
        if kept < len(items):
            self._files.truncate(self.log_path, kept)
        self._rebuild_indexes()
        return len(items) - kept

    def truncate_to(self, offset: int) -> None:
        """Cut the batch that contains ``offset`` and all that follow."""
        kept = bisect_left(self.base_offsets, offset)
        if kept and self.batches[kept - 1].last_offset >= offset:
            kept -= 1
        if kept == len(self.batches):
            return
        self._files.truncate(self.log_path, kept)
        self.transactions.truncate_to(offset)
        batches = self.batches[:kept]
        self._forget()
        for batch in batches:
            self._remember(batch, batch.max_timestamp_ms)
        self._rebuild_indexes()

    def delete(self, delay_ms: int = 0) -> None:
        """Delete the files; their room on the disk is free after file.delete.delay.ms."""
        for path in self.paths:
            self._files.delete(path, delay_ms)

    def rename(self, suffix: str) -> None:
        """Rename the files to another suffix (changeFileSuffixes)."""
        before = self.paths
        self._name_files(suffix)
        for old, new in zip(before, self._all_paths()):
            self._files.rename(old, new)

    def _all_paths(self) -> tuple[str, ...]:
        return (self.log_path, self.index_path, self.time_index_path, self.transactions.path)

    def _name_files(self, suffix: str) -> None:
        self.log_path = f"{self._name}.log{suffix}"
        self.index_path = f"{self._name}.index{suffix}"
        self.time_index_path = f"{self._name}.timeindex{suffix}"
        self.transactions.path = f"{self._name}.txnindex{suffix}"

    def _remember(self, batch: RecordBatch, now_ms: int) -> None:
        timestamp = batch.max_timestamp_ms
        if not self.base_offsets:
            self.first_timestamp_ms = timestamp if timestamp >= 0 else now_ms
        if timestamp > self.largest_timestamp_ms:
            self.largest_timestamp_ms = self.last_modified_ms = timestamp
        self.batches.append(batch)
        self.base_offsets.append(batch.base_offset)
        self.size += batch.size

    def _forget(self) -> None:
        self.batches = []
        self.base_offsets = []
        self.size = 0
        self.index_full = False
        self.first_timestamp_ms = -1
        self.largest_timestamp_ms = -1

    def _add_index_entry(self, last_offset: int, position: int) -> None:
        files = self._files
        files.append(self.index_path, (last_offset, position), OFFSET_ENTRY_BYTES)
        if self.largest_timestamp_ms > self._last_indexed_ms:
            self._last_indexed_ms = self.largest_timestamp_ms
            entry = (self.largest_timestamp_ms, last_offset)
            files.append(self.time_index_path, entry, TIME_ENTRY_BYTES)
        self.index_full = (
            files.count(self.index_path) * OFFSET_ENTRY_BYTES >= MAX_INDEX_BYTES
            or files.count(self.time_index_path) * TIME_ENTRY_BYTES >= MAX_INDEX_BYTES
        )

    def _rebuild_indexes(self) -> None:
        for path in (self.index_path, self.time_index_path):
            _create_empty(self._files, path)
        self._unindexed_bytes = 0
        self._last_indexed_ms = -1
        position = 0
        for batch in self.batches:
            self.index(batch.last_offset, position, batch.size)
            position += batch.size


def _create_empty(files: Files, path: str) -> None:
    """Create an empty file, or empty it. The item that a torn creation leaves is no batch."""
    item: Any = None
    if not files.exists(path):
        files.append(path, item, 0)
    files.truncate(path, 0)
