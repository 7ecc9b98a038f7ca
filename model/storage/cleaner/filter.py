"""What a cleaning leaves of each batch (Kafka: Cleaner.cleanInto, MemoryRecords.filterTo).

Offsets never change, and a batch keeps its base offset, its last offset and its sequence numbers,
whatever it loses. A batch without records is dropped, except two kinds, which stay as headers: the
last batch of a producer, whose sequence number the next start needs, and the last batch below the
first uncleanable offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kafkasim.model.records import (
    BATCH_OVERHEAD,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Record,
    RecordBatch,
    has_value,
    offsets_of,
    restamped_size,
)
from kafkasim.model.storage.cleaner.offset_map import OffsetMap
from kafkasim.model.storage.cleaner.transactions import CleanedTransactionMetadata
from kafkasim.model.storage.rules import StorageRules

LastRecord = tuple[int, int]
"""Of a producer: the offset of its last data record, −1 without one, and its epoch."""


class LogCleaningError(Exception):
    """A log cannot be cleaned: its partition becomes uncleanable (LogCleaningException)."""


class RecordFilter:
    """Decides over the batches of a group of segments, in the order of their offsets."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactionMetadata,
        last_records: Mapping[int, LastRecord],
        upper_bound: int,
        now_ms: int,
        delete_retention_ms: int,
        legacy_horizon_ms: int,
        rules: StorageRules,
    ) -> None:
        """``upper_bound`` is the first uncleanable offset; ``now_ms`` when the cleaning began.

        ``legacy_horizon_ms`` is explained at :meth:`StorageRules.delete_horizon_passed`.
        """
        self._offsets = offsets
        self._transactions = transactions
        self._last_records = last_records
        self._upper_bound = upper_bound
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms
        self._legacy_horizon_ms = legacy_horizon_ms
        self._rules = rules

    def retained(self, batch: RecordBatch, modified_ms: int) -> RecordBatch | None:
        """Return what is left of a batch: itself, a smaller one, or None.

        ``modified_ms`` is when the batch's segment was last written.

        Raises:
            LogCleaningError: the batch is damaged.
        """
        if type(batch) is not RecordBatch:
            raise LogCleaningError(f"the batch at offset {batch.base_offset} is corrupt")
        if batch.control:
            empty_transaction = self._transactions.on_control_batch(batch)
            discard = empty_transaction and self._horizon_passed(batch, modified_ms)
        else:
            empty_transaction = False
            discard = self._transactions.on_batch(batch)
        stays = self._stays_without_records(batch)
        if discard and not stays:
            return None
        kept = [] if discard else self._kept(batch, modified_ms)
        if not kept:
            return _emptied(batch) if stays else None
        tombstones = not batch.control and not all(has_value(record) for _, record in kept)
        horizon = batch.delete_horizon_ms
        sets_horizon = horizon == NO_TIMESTAMP and (tombstones or empty_transaction)
        if len(kept) == len(batch.records) and not sets_horizon:
            return batch
        if sets_horizon:
            horizon = self._now_ms + self._delete_retention_ms
        return _with_records(batch, kept, horizon)

    def _horizon_passed(self, batch: RecordBatch, modified_ms: int) -> bool:
        return self._rules.delete_horizon_passed(
            batch, self._now_ms, modified_ms, self._legacy_horizon_ms
        )

    def _stays_without_records(self, batch: RecordBatch) -> bool:
        """Return whether the header of a batch must stay (RETAIN_EMPTY)."""
        if batch.last_offset + 1 == self._upper_bound:
            return True
        if batch.producer_id == NO_PRODUCER_ID:
            return False
        known = self._last_records.get(batch.producer_id)
        if known is None or not self._rules.keeps_last_batch_of_producers():
            return False
        last_data_offset, epoch = known
        if last_data_offset >= 0:
            return batch.last_offset == last_data_offset
        return batch.control and batch.producer_epoch == epoch

    def _kept(self, batch: RecordBatch, modified_ms: int) -> list[tuple[int, Record]]:
        """Return the records that stay, with their offset deltas."""
        pairs = [
            (offset - batch.base_offset, record)
            for offset, record in zip(offsets_of(batch), batch.records, strict=True)
        ]
        if batch.control or batch.base_offset > self._offsets.latest_offset:
            return pairs
        passed = self._horizon_passed(batch, modified_ms)
        base, latest, get = batch.base_offset, self._offsets.latest_offset, self._offsets.get
        in_map = self._rules.key_in_map
        return [
            (delta, record)
            for delta, record in pairs
            if base + delta > latest
            or (
                record.key is not None
                and base + delta >= get(in_map(record.key))
                and (not passed or has_value(record))
            )
        ]


def _emptied(batch: RecordBatch) -> RecordBatch:
    """Return the header of a batch (DefaultRecordBatch.writeEmptyHeader)."""
    return replace(
        batch,
        records=(),
        size=BATCH_OVERHEAD,
        offset_deltas=(),
        delete_horizon_ms=NO_TIMESTAMP,
    )


def _with_records(
    batch: RecordBatch, kept: list[tuple[int, Record]], horizon_ms: int
) -> RecordBatch:
    """Return a batch with some of its records (MemoryRecords.buildRetainedRecordsInto).

    The batch counts the timestamps of its records from its first one or, once it has a delete
    horizon, from that. So a horizon makes each record some bytes longer.
    """
    before = batch.delete_horizon_ms
    if before == NO_TIMESTAMP:
        before = batch.records[0].timestamp_ms
    after = kept[0][1].timestamp_ms if horizon_ms == NO_TIMESTAMP else horizon_ms
    records = [record for _, record in kept]
    if before != after:
        records = [
            Record(
                each.key,
                each.value,
                restamped_size(each.size, each.timestamp_ms - before, each.timestamp_ms - after),
                each.timestamp_ms,
            )
            for each in records
        ]
    whole = len(kept) == batch.last_offset - batch.base_offset + 1
    return replace(
        batch,
        records=tuple(records),
        size=BATCH_OVERHEAD + sum([record.size for record in records]),
        max_timestamp_ms=max([record.timestamp_ms for record in records]),
        offset_deltas=None if whole else tuple([delta for delta, _ in kept]),
        delete_horizon_ms=horizon_ms,
    )
