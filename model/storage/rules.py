"""The decisions of the storage layer that Kafka once got wrong, as named methods.

A variant subclasses :class:`StorageRules` and overrides one method. The rest of the storage layer
is mechanism. The defaults are the rules of today's Kafka (KAFKA.md, 0.1 and 8.6).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import MAX_SEQUENCE, RecordBatch

if TYPE_CHECKING:
    from kafkasim.model.storage.log.producers.entry import BatchMetadata, ProducerEntry
    from kafkasim.model.storage.log.producers.verification import VerificationStateEntry


class StorageRules:
    """Kafka's rules. A method that a variant overrides names the bug that it brings back."""

    # ------------------------------------------------------------------------ producer state

    def find_duplicate(self, entry: ProducerEntry, batch: RecordBatch) -> BatchMetadata | None:
        """Return the remembered batch that ``batch`` repeats, or None
        (ProducerStateEntry.findDuplicateBatch; KIP-98, B59)."""
        if batch.producer_epoch != entry.epoch:
            return None
        first = batch.base_sequence
        for known in entry.batches:
            if known[0] == first and known[1] == batch.last_sequence:
                return known
        return None

    def check_sequence(self, entry: ProducerEntry | None, batch: RecordBatch) -> Errors:
        """Return NONE if a client's batch may follow the producer's earlier batches, or the error
        (ProducerAppendInfo.checkSequence).

        ``entry`` is None for a producer that this log does not know: any sequence may come then
        (KAFKA-8710). An entry without batches knows the producer's epoch only.
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
        """Return NONE if a coordinator's batch may be appended, or the error; only the producer
        epoch counts."""
        if entry is not None and batch.producer_epoch < entry.epoch:
            return Errors.INVALID_PRODUCER_EPOCH
        return NONE

    def check_marker(
        self, entry: ProducerEntry | None, batch: RecordBatch, transaction_version: int
    ) -> Errors:
        """Return NONE if a transaction marker may be appended, or the error
        (ProducerAppendInfo.appendEndTxnMarker).

        Under transaction version 2 each transaction raises the epoch, so a marker with the epoch of
        an open transaction is late: it belongs to the one before (KIP-1228). Without an open
        transaction it is a retry of the marker that was appended last, and is appended again
        (KAFKA-19999); Kafka 4.2.0 refused it, and the coordinator sent it for ever (B54).
        """
        if entry is None:
            return NONE
        error = self.check_epoch(entry, batch)
        if error is not NONE:
            return error
        if (
            transaction_version >= 2
            and batch.producer_epoch == entry.epoch
            and entry.txn_first_offset >= 0
        ):
            return Errors.INVALID_PRODUCER_EPOCH
        if batch.records[0].value.coordinator_epoch < entry.coordinator_epoch:
            return Errors.TRANSACTION_COORDINATOR_FENCED
        return NONE

    def is_verified(
        self, known: VerificationStateEntry | None, guard: VerificationStateEntry | None
    ) -> bool:
        """Return whether a transaction's first batch has a verification that still counts
        (KIP-890, KAFKA-14884, B47).

        ``guard`` is the batch's, ``known`` the producer's current one, each None without one. A
        marker or a batch since the question was asked has made another one current, or none.
        """
        return guard is not None and guard is known

    def check_unverified_sequence(
        self, known: VerificationStateEntry, entry: ProducerEntry | None, sequence: int
    ) -> Errors:
        """Return the error of a batch that would overtake one which waits for its verification.

        Otherwise the lower batch, once it is verified, is out of order for ever (KAFKA-14920, B60).
        In transaction version 2 the first batch here has sequence 0 (Kafka 4.1).
        """
        unknown = entry is None or not entry.batches
        if known.supports_epoch_bump and sequence != 0 and unknown:
            return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        if sequence > known.lowest_sequence:
            return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
        return NONE

    def marker_refreshes_producer(self) -> bool:
        """Return whether a marker counts as a producer's last activity (KAFKA-9144, B49).

        Otherwise the state expires by the time of the last data batch, and with it the epoch of the
        coordinator, so an older coordinator's marker is accepted.
        """
        return True

    def forgets_producers_of_deleted_records(self) -> bool:
        """Return whether a producer is forgotten with the last of its records (KIP-360, B50).

        Kafka keeps its state for producer.id.expiration.ms (KAFKA-7190). Without the state any
        sequence is accepted, so a retry is appended again.
        """
        return False

    def counts_batches_before_append(self) -> bool:
        """Return whether batches count for their producers before they are written (B57).

        Then the snapshot of a roll has the batch behind its offset. A log that loads this snapshot
        without the batch takes the producer's retry for a duplicate (KAFKA-6683).
        """
        return False

    # ---------------------------------------------------------------------- leader-epoch cache

    def assigns_epoch_on_append(self, batch_epoch: int, latest_epoch: int) -> bool:
        """Return whether an appended batch starts a new entry in the epoch cache (KIP-101)."""
        return batch_epoch >= 0 and batch_epoch != latest_epoch

    def trims_epochs_beyond_end(self) -> bool:
        """Return whether a truncation at or above the log end still trims the epoch cache
        (KAFKA-10706, B08)."""
        return True

    def keeps_epoch_of_log_start(self) -> bool:
        """Return whether the epoch that covers a new log start stays in the cache, from there on
        (LeaderEpochFileCache.truncateFromStart)."""
        return True

    def syncs_truncated_epochs(self) -> bool:
        """Return whether a truncated epoch cache replaces its file atomically and is flushed in the
        background (KAFKA-16541, B77)."""
        return True

    def waits_for_truncated_epochs(self) -> bool:
        """Return whether the thread that truncates the epoch cache waits for its flush (before
        KAFKA-15046)."""
        return False

    # ---------------------------------------------------------------------------- log and offsets

    def marks_clean(self, loaded: bool) -> bool:
        """Return whether a broker that stops writes the clean-shutdown marker (KAFKA-15375, B76).

        ``loaded``: it has loaded its logs. Otherwise they were not recovered, and the marker would
        keep the next start from recovering them.
        """
        return loaded

    def follower_accepts(self, batch_epoch: int, leader_epoch: int) -> bool:
        """Return whether a follower that fetched with ``leader_epoch`` appends a batch of
        ``batch_epoch`` (KAFKA-18723, B83)."""
        return batch_epoch <= leader_epoch

    def retention_bound(self, high_watermark: int, log_end_offset: int) -> int:
        """Return the offset up to which retention may delete (KAFKA-5634, B81)."""
        return high_watermark

    def flushes_renamed_directory(self) -> bool:
        """Return whether a deleted log's new directory name is made durable at once (KAFKA-3968).

        Otherwise a power loss may bring the log back (before Kafka 3.0).
        """
        return True

    # ---------------------------------------------------------------------------------- settings

    def bounds_log_segment_bytes(self) -> bool:
        """Return whether log.segment.bytes is 1 MiB at least (KIP-1030, Kafka 4.0)."""
        return True

    def has_internal_segment_bytes(self) -> bool:
        """Return whether a topic's segment.bytes is 1 MiB at least, and internal.segment.bytes may
        be smaller (KIP-1030, Kafka 4.1)."""
        return False

    # ---------------------------------------------------------------------------------- cleaning

    def cleanable_bound(self, last_stable_offset: int, active_base_offset: int) -> int:
        """Return the offset up to which a log may be cleaned (KAFKA-13194, B80).

        A record above the high watermark may be truncated, so it replaces none below; a record
        above the last stable offset may be of a transaction that aborts.
        """
        return min(last_stable_offset, active_base_offset)

    def key_in_map(self, key: Any) -> Hashable:
        """Return what stands for a key in the cleaner's map of keys (SkimpyOffsetMap).

        Kafka takes the MD5 hash: of two keys with one hash, the older record would be removed. The
        keys of internal topics are values, which have no hash in a run; their text has.
        """
        return key if isinstance(key, str | bytes) else repr(key)

    def delete_horizon_passed(
        self, batch: RecordBatch, now_ms: int, modified_ms: int, legacy_horizon_ms: int
    ) -> bool:
        """Return whether a batch's tombstones may be removed, or the marker of an empty transaction
        (KIP-534, KAFKA-4545, B88).

        The horizon is delete.retention.ms after the cleaning that first met them: only from then on
        has a reader who starts at the log start had that long to read up to them. The batch itself
        has it, and it never moves.

        Before Kafka 3.1 the segment decided, as it still does for messages below v2:
        ``modified_ms`` is when it was last written, ``legacy_horizon_ms`` is delete.retention.ms
        before the last segment that had been cleaned was (Cleaner.doClean). So a tombstone that was
        cleaned late went with the next cleaning, and one in a segment into which later ones are
        merged stayed for ever (KAFKA-8522).
        """
        return 0 <= batch.delete_horizon_ms <= now_ms

    def aborted_transactions_bound(self, segment_end: int, map_end: int) -> int:
        """Return the offset up to which a segment's aborted transactions are collected when it is
        written anew (KAFKA-13727, B55).

        ``map_end`` is where the map of keys ends, which may be within the segment.
        """
        return segment_end

    def keeps_last_batch_of_producers(self) -> bool:
        """Return whether the last batch of each known producer stays, as a header without records
        (KAFKA-5490).

        Without it a start that must replay the log does not know the producer's last sequence.
        """
        return True

    # ---------------------------------------------------------------------------------- recovery

    def recovers_batch(self, batch: RecordBatch, next_offset: int, epoch: int) -> bool:
        """Return whether a scanned batch may follow one of ``epoch`` that ends at ``next_offset``.

        Kafka compares only offsets. A falling epoch shows that a power loss undid a deletion.
        """
        return batch.base_offset >= next_offset and batch.leader_epoch >= epoch

    def recovers_segment(self, base_offset: int, next_offset: int, compacted: bool) -> bool:
        """Return whether a scanned segment may follow one that ends at ``next_offset``.

        Kafka accepts any gap, because its cleaner makes gaps. This is stricter: a power loss
        between a roll and its fsync may take the tail of the old segment and nothing of the new
        one. A log that is not compacted has no gaps between segments, so it ends at the gap.
        """
        return base_offset == next_offset or (compacted and base_offset > next_offset)

    def recovery_point_after_recovery(self, recovery_point: int, log_end_offset: int) -> int:
        """Return the recovery point after an unclean start, which flushes nothing
        (KAFKA-10101, B75)."""
        return min(recovery_point, log_end_offset)

    def recovery_point_after_truncation(self, recovery_point: int, log_end_offset: int) -> int:
        """Return the recovery point after a truncation: offsets above it will be written again
        (B75)."""
        return min(recovery_point, log_end_offset)

    def high_watermark_after_truncation(self, high_watermark: int, log_end_offset: int) -> int:
        """Return the high watermark after a truncation to ``log_end_offset``."""
        return min(high_watermark, log_end_offset)

    def high_watermark_after_reset(self, high_watermark: int, offset: int) -> int:
        """Return the high watermark of a log that begins anew, empty, at ``offset``.

        Kafka once left it where it was, below the log start. A replica that is elected before its
        leader has told it another one cannot read there (KAFKA-9491, B96).
        """
        return offset

    def high_watermark_after_load(self, checkpointed: int, log_start: int, log_end: int) -> int:
        """Return the high watermark of a loaded log: the checkpointed one, within the log."""
        return max(log_start, min(checkpointed, log_end))
