"""Facts of what a batch holds: keys of a compacted topic, markers of transactions, checksums."""

from __future__ import annotations

from collections.abc import Sequence

from kafkasim.model.facts import KeysAppended
from kafkasim.model.facts.checksums import CLEANED, checksum
from kafkasim.model.facts.transactions import MarkerWritten
from kafkasim.model.records import EndTransactionMarker, RecordBatch, has_value, offsets_of


def keys_appended(topic_id: str, partition: int, batch: RecordBatch) -> KeysAppended:
    """Return the keys and the tombstones of a batch that a leader appends."""
    return KeysAppended(
        topic_id,
        partition,
        batch.leader_epoch,
        batch.base_offset,
        tuple([str(record.key) for record in batch.records]),
        tuple(
            [
                offset
                for offset, record in zip(offsets_of(batch), batch.records, strict=True)
                if not has_value(record)
            ]
        ),
    )


def marker_written(topic_id: str, partition: int, batch: RecordBatch) -> MarkerWritten:
    """Return the marker that a leader appends as a batch of its own."""
    marker: EndTransactionMarker = batch.records[0].value
    return MarkerWritten(
        topic_id,
        partition,
        batch.producer_id,
        batch.producer_epoch,
        marker.committed,
        batch.base_offset,
        batch.leader_epoch,
        marker.coordinator_epoch,
    )


def summary(batches: Sequence[RecordBatch], last: RecordBatch) -> tuple[int, ...]:
    """Return what ``Replicated.batches`` says of the batches up to ``last`` that were appended."""
    found: list[int] = []
    for batch in batches:
        base, end, epoch = batch.base_offset, batch.last_offset + 1, batch.leader_epoch
        if batch.offset_deltas is not None:
            found += (base, end, epoch, CLEANED)
        else:
            first, final = batch.records[0].value, batch.records[-1].value
            user = isinstance(first, int)
            producer = batch.producer_id, batch.producer_epoch, batch.base_sequence
            ids = (int(first), int(final)) if user else (-1, -1)
            found += (base, end, epoch, checksum(base, end, epoch, *producer, *ids))
        if batch is last:
            break
    return tuple(found)
