"""The decisions of the storage layer that Kafka once got wrong, as named methods.

A variant subclasses :class:`StorageRules` and overrides one of them; everything else of the storage
layer is mechanism. The defaults are Kafka's rules of today (facts, sections 0.1 and 8.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import MAX_SEQUENCE, RecordBatch

if TYPE_CHECKING:
    from kafkasim.model.storage.log.producers import BatchMetadata, ProducerEntry


class StorageRules:
    """Kafka's rules; see each method for the bug that its variant restores."""

    # ------------------------------------------------------------------------ producer state

    def find_duplicate(self, entry: ProducerEntry, batch: RecordBatch) -> BatchMetadata | None:
        """Return the remembered batch of which ``batch`` is a retry (findDuplicateBatch)."""
        if batch.producer_epoch != entry.epoch:
            return None
        first = batch.base_sequence
        for known in entry.batches:
            if known[0] == first and known[1] == batch.last_sequence:
                return known
        return None

    def check_sequence(self, entry: ProducerEntry | None, batch: RecordBatch) -> Errors:
        """Return whether a client's batch may follow what its producer wrote so far.

        ``entry`` is None for an unknown producer: any sequence is taken then (KAFKA-8710 and
        ProducerAppendInfo.checkSequence). An entry without batches knows only an epoch.
        """
        if entry is None:
            return NONE
        sequence = batch.base_sequence
        epoch = batch.producer_epoch
        if epoch != entry.epoch:
            if epoch < entry.epoch:
                return Errors.INVALID_PRODUCER_EPOCH
            return NONE if sequence == 0 else Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        last = entry.batches[-1][1] if entry.batches else -1
        if sequence == last + 1 or (sequence == 0 and last == MAX_SEQUENCE):
            return NONE
        return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER

    def check_epoch(self, entry: ProducerEntry | None, batch: RecordBatch) -> Errors:
        """Return whether a coordinator's batch may be appended: only its epoch counts."""
        if entry is not None and batch.producer_epoch < entry.epoch:
            return Errors.INVALID_PRODUCER_EPOCH
        return NONE

    # ---------------------------------------------------------------------- leader-epoch cache

    def assigns_epoch_on_append(self, batch_epoch: int, latest_epoch: int) -> bool:
        """Return whether an appended batch starts a new entry of the epoch cache (KIP-101)."""
        return batch_epoch >= 0 and batch_epoch != latest_epoch

    def trims_epochs_beyond_end(self) -> bool:
        """Truncating to an offset at or above the end still trims the cache (KAFKA-10706, B08)."""
        return True

    def syncs_truncated_epochs(self) -> bool:
        """A truncated epoch cache is written safely and fsynced in time (KAFKA-16541, B77)."""
        return True

    # ---------------------------------------------------------------------------- log and offsets

    def follower_accepts(self, batch_epoch: int, leader_epoch: int) -> bool:
        """A follower appends only epochs up to the one it fetched with (KAFKA-18723, B83)."""
        return batch_epoch <= leader_epoch

    def retention_bound(self, high_watermark: int, log_end_offset: int) -> int:
        """Return the offset up to which retention may delete (KAFKA-5634, B81)."""
        return high_watermark

    def recovers_batch(self, batch: RecordBatch, next_offset: int, epoch: int) -> bool:
        """Return whether a scanned batch may follow one of ``epoch`` that ends at ``next_offset``.

        Kafka compares offsets only; an epoch that falls is what an undone deletion leaves behind.
        """
        return batch.base_offset >= next_offset and batch.leader_epoch >= epoch

    def recovers_segment(self, base_offset: int, next_offset: int, compacted: bool) -> bool:
        """Return whether a scanned segment may follow one that ends at ``next_offset``.

        Stricter than Kafka, which takes any gap for the cleaner's: after a power loss between a
        roll and its fsync the old segment may have lost its tail and the new one nothing. Without
        the cleaner there are no gaps between segments, so the log ends where the gap begins.
        """
        return base_offset == next_offset or (compacted and base_offset > next_offset)

    def recovery_point_after_recovery(self, recovery_point: int, log_end_offset: int) -> int:
        """Return the recovery point after unclean recovery: nothing was flushed (B75)."""
        return min(recovery_point, log_end_offset)

    def recovery_point_after_truncation(self, recovery_point: int, log_end_offset: int) -> int:
        """Return the recovery point after truncation: what is above it will be rewritten (B75)."""
        return min(recovery_point, log_end_offset)

    def high_watermark_after_truncation(self, high_watermark: int, log_end_offset: int) -> int:
        """Return the high watermark after truncation."""
        return min(high_watermark, log_end_offset)

    def high_watermark_after_load(self, checkpointed: int, log_start: int, log_end: int) -> int:
        """Return the high watermark of a loaded log from its checkpoint."""
        return max(log_start, min(checkpointed, log_end))
