"""Records of aborted transactions, which a read_committed share group never gets.

Models SharePartition.maybeFilterAbortedTransactionalAcquiredRecords: what was acquired of them is
archived, and cut out of the ranges that the member is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.messages.share import AcquiredRecords
from kafkasim.model.records import EndTransactionMarker
from kafkasim.model.replication.share.partition.states import ACQUIRED

if TYPE_CHECKING:
    from kafkasim.model.records import RecordBatch
    from kafkasim.model.replication.share.partition.cached_state import CachedState


def batches(
    read: tuple[RecordBatch, ...], transactions: tuple[tuple[int, int], ...]
) -> list[RecordBatch]:
    """Return the data batches of aborted transactions, given as (producer id, first offset)."""
    waiting = sorted(transactions, key=lambda each: each[1])
    aborted: dict[int, None] = {}  # producers whose transaction is aborted
    found: list[RecordBatch] = []
    for batch in read:
        if batch.producer_id == -1:
            continue
        while waiting and waiting[0][1] <= batch.last_offset:
            aborted[waiting.pop(0)[0]] = None
        marker = batch.records[0].value if batch.control and batch.records else None
        if isinstance(marker, EndTransactionMarker) and not marker.committed:
            aborted.pop(batch.producer_id, None)
        elif batch.transactional and batch.producer_id in aborted:
            found.append(batch)
    return found


def without(
    cache: CachedState, acquired: list[AcquiredRecords], gone: list[RecordBatch]
) -> tuple[list[AcquiredRecords], list[AcquiredRecords]]:
    """Archive what was acquired of some batches; return the other ranges, and the archived ones."""
    archived: list[AcquiredRecords] = []
    for batch in gone:
        floor = cache.floor(batch.base_offset)
        first = batch.base_offset if floor is None else floor.first_offset
        known = cache.between(first, batch.last_offset)
        cache.archive(batch.base_offset, batch.last_offset + 1, known, ACQUIRED)
        archived += [_within(each, batch) for each in acquired if _overlaps(each, batch)]
        acquired = [piece for each in acquired for piece in _cut(each, batch)]
    return acquired, archived


def _overlaps(acquired: AcquiredRecords, batch: RecordBatch) -> bool:
    return acquired.last_offset >= batch.base_offset and acquired.first_offset <= batch.last_offset


def _within(acquired: AcquiredRecords, batch: RecordBatch) -> AcquiredRecords:
    first = max(acquired.first_offset, batch.base_offset)
    return AcquiredRecords(
        first, min(acquired.last_offset, batch.last_offset), acquired.delivery_count
    )


def _cut(acquired: AcquiredRecords, batch: RecordBatch) -> list[AcquiredRecords]:
    first, last, count = acquired.first_offset, acquired.last_offset, acquired.delivery_count
    if not _overlaps(acquired, batch):
        return [acquired]
    pieces = []
    if first < batch.base_offset:
        pieces.append(AcquiredRecords(first, batch.base_offset - 1, count))
    if last > batch.last_offset:
        pieces.append(AcquiredRecords(batch.last_offset + 1, last, count))
    return pieces
