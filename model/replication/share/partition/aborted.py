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
) -> list[AcquiredRecords]:
    """Archive what was acquired of some batches, and return the rest of the ranges."""
    for batch in gone:
        floor = cache.floor(batch.base_offset)
        first = batch.base_offset if floor is None else floor.first_offset
        known = cache.between(first, batch.last_offset)
        cache.archive(batch.base_offset, batch.last_offset + 1, known, ACQUIRED)
        acquired = [piece for each in acquired for piece in _cut(each, batch)]
    return acquired


def _cut(acquired: AcquiredRecords, batch: RecordBatch) -> list[AcquiredRecords]:
    first, last, count = acquired.first_offset, acquired.last_offset, acquired.delivery_count
    if last < batch.base_offset or first > batch.last_offset:
        return [acquired]
    pieces = []
    if first < batch.base_offset:
        pieces.append(AcquiredRecords(first, batch.base_offset - 1, count))
    if last > batch.last_offset:
        pieces.append(AcquiredRecords(batch.last_offset + 1, last, count))
    return pieces
