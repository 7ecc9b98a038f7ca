"""One cleaning of a log: the map of its keys, then group after group of segments (Kafka: Cleaner).

    begin       keys of the dirty records -> offsets, until the map is full or the bound is reached;
                segments up to there are put into groups of at most segment.bytes
    write       one group -> one new segment, in files that end in .cleaned
                    |
                    |  the new segment is fsynced; appends and fetches go on meanwhile
                    v
    swap        the new segment takes the place of the old ones
                next group, if there is one

Left out: messages below v2, compression, the throttle log.cleaner.io.max.bytes.per.second, segments
whose offsets overflow, the read buffers (an index entry is considered for each batch, where Kafka
considers one for each buffer of log.cleaner.io.buffer.size).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.model.records import RecordBatch, offsets_of
from kafkasim.model.storage.cleaner.cleanable import LogToClean, segments_between
from kafkasim.model.storage.cleaner.filter import LastRecord, LogCleaningError, RecordFilter
from kafkasim.model.storage.cleaner.offset_map import OffsetMap
from kafkasim.model.storage.cleaner.transactions import CleanedTransactionMetadata
from kafkasim.model.storage.log.segment import MAX_INDEX_BYTES, MAX_RELATIVE_OFFSET, Segment
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.segment_swap import create_cleaned_segment, replace_segments

Range = tuple[int, int]
"""A range of offsets, the second one exclusive."""


@dataclass(slots=True)
class CleanedSegment:
    """A new segment that is not in the log yet."""

    segment: Segment
    replaces: list[Segment]
    removed: list[Range]  # offsets whose records it lacks, ascending
    delete_retention_ms: int  # with which it was made


class Cleaning:
    """One cleaning of one log. ``end_offset`` is the next first dirty offset."""

    def __init__(
        self, to_clean: LogToClean, offsets: OffsetMap, load_factor: float, now_ms: int
    ) -> None:
        """Build the map; ``load_factor`` is the share of it that may be filled.

        There must be something to clean.

        Raises:
            LogCleaningError: a batch is damaged.
        """
        self.to_clean = to_clean
        self.log: UnifiedLog = to_clean.log
        self.now_ms = now_ms
        self._offsets = offsets
        self._transactions = CleanedTransactionMetadata()
        self._build_map(int(offsets.slots * load_factor))
        self.end_offset = offsets.latest_offset + 1
        self._legacy_horizon_ms = self._legacy_horizon()
        self._groups = self._group(segments_between(self.log, 0, self.end_offset))

    def _legacy_horizon(self) -> int:
        """Return delete.retention.ms before the last clean segment was written (doClean)."""
        clean = segments_between(self.log, 0, self.to_clean.first_dirty_offset)
        retention_ms = self.log.config.delete_retention_ms
        return clean[-1].last_modified_ms - retention_ms if clean else 0

    # -------------------------------------------------------------------------------- the map

    def _build_map(self, desired: int) -> None:
        """Fill the map from the first dirty offset on (buildOffsetMap)."""
        to_clean, log, offsets = self.to_clean, self.log, self._offsets
        start, end = to_clean.first_dirty_offset, to_clean.first_uncleanable_offset
        offsets.clear()
        dirty = segments_between(log, start, end)
        assert dirty, to_clean
        transactions = CleanedTransactionMetadata()
        transactions.add_aborted(log.local.aborted_transactions(start, end))
        bounds = [*[segment.base_offset for segment in dirty[1:]], end]
        for segment, bound in zip(dirty, bounds, strict=True):
            for batch in segment.batches:
                if batch.last_offset >= start and self._map_batch(
                    batch, start, desired, transactions
                ):
                    return
            offsets.latest_offset = bound - 1  # also over a gap at the segment's end

    def _map_batch(
        self, batch: RecordBatch, start: int, desired: int, transactions: CleanedTransactionMetadata
    ) -> bool:
        """Add a batch's keys to the map; return whether the map was too full for all of them."""
        if type(batch) is not RecordBatch:
            raise LogCleaningError(f"the batch at offset {batch.base_offset} is corrupt")
        offsets = self._offsets
        if batch.control:
            transactions.on_control_batch(batch)
        elif not transactions.on_batch(batch):
            for offset, record in zip(offsets_of(batch), batch.records, strict=True):
                if record.key is not None and offset >= start:
                    if len(offsets) >= desired:
                        return True
                    offsets.put(self.log.rules.key_in_map(record.key), offset)
        offsets.latest_offset = batch.last_offset
        return False

    # ---------------------------------------------------------------------------- the segments

    def _group(self, segments: list[Segment]) -> list[list[Segment]]:
        """Group segments so that each group fits into one segment (groupSegmentsBySize)."""
        bound = self.to_clean.first_uncleanable_offset
        ends = [*[segment.base_offset for segment in segments[1:]], bound]
        groups: list[list[Segment]] = []
        size = 0
        for segment, end in zip(segments, ends, strict=True):
            if (
                groups
                and size + segment.size <= self.log.config.segment_size
                and sum([each.index_bytes for each in [*groups[-1], segment]]) <= MAX_INDEX_BYTES
                and (not segment.size or end - 1 - groups[-1][-1].base_offset
                     <= MAX_RELATIVE_OFFSET)
            ):  # fmt: skip
                groups[-1].append(segment)
                size += segment.size
            else:
                groups.append([segment])
                size = segment.size
        return groups

    @property
    def done(self) -> bool:
        """Whether all groups have been written."""
        return not self._groups

    def write_group(self) -> CleanedSegment:
        """Write the next group's new segment; the caller flushes it, and then swaps it in.

        Raises:
            DiskError: the disk refused a write.
            LogCleaningError: a batch is damaged.
        """
        log, transactions = self.log, self._transactions
        group = self._groups.pop(0)
        cleaned = create_cleaned_segment(
            log.files, log.directory, group[0].base_offset, log.config.index_interval_bytes
        )
        transactions.cleaned_index = cleaned.transactions
        batches = RecordFilter(
            self._offsets,
            transactions,
            last_records_of_active_producers(log),
            self.to_clean.first_uncleanable_offset,
            self.now_ms,
            log.config.delete_retention_ms,
            self._legacy_horizon_ms,
            log.rules,
        )
        removed: list[Range] = []
        ends = [*[segment.base_offset for segment in group[1:]], group[-1].next_offset]
        for segment, end in zip(group, ends, strict=True):
            # From the whole segment: the index of the new one is written anew (KAFKA-13727).
            above = log.rules.aborted_transactions_bound(end, self._offsets.latest_offset + 1)
            transactions.add_aborted(log.local.aborted_transactions(segment.base_offset, above))
            for batch in segment.batches:
                kept = batches.retained(batch, segment.last_modified_ms)
                _add_removed(removed, batch, kept)
                if kept is not None:
                    position = cleaned.size
                    cleaned.append(kept, self.now_ms)
                    cleaned.index(kept.last_offset, position, kept.size)
        cleaned.last_modified_ms = group[-1].last_modified_ms
        return CleanedSegment(cleaned, group, removed, log.config.delete_retention_ms)

    def swap(self, cleaned: CleanedSegment) -> None:
        """Put a flushed segment in the place of those that it was made from.

        Raises:
            DiskError: the disk refused.
        """
        log = self.log
        for base_offset in replace_segments(log.segments, cleaned.segment, cleaned.replaces):
            log.producers.delete_snapshot(base_offset)


def last_records_of_active_producers(log: UnifiedLog) -> dict[int, LastRecord]:
    """Return the last data offset, −1 without one, and the epoch of each producer in the state."""
    return {
        producer: (entry.batches[-1][2] if entry.batches else -1, entry.epoch)
        for producer, entry in log.producers.entries.items()
    }


def _add_removed(removed: list[Range], batch: RecordBatch, kept: RecordBatch | None) -> None:
    """Add the offsets of the records that a batch has lost."""
    if kept is batch or not batch.records:
        return
    stays = dict.fromkeys(offsets_of(kept)) if kept is not None else {}
    for offset in offsets_of(batch):
        if offset in stays:
            continue
        if removed and removed[-1][1] == offset:
            removed[-1] = (removed[-1][0], offset + 1)
        else:
            removed.append((offset, offset + 1))
