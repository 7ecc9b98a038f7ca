"""Which of the records that a share fetch has read its member acquires (SharePartition.acquire).

Whole record batches are acquired, so a member may get more records than it asked for, and offsets
without a record: it acknowledges those as gaps. What is cached already is acquired if it is
available; what is not cached is acquired as new. Ranges that are acquired together get one entry
in the cache, of about ``batch_size`` offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.messages.share import AcquiredRecords
from kafkasim.model.replication.share.partition.cached_state import InFlightBatch
from kafkasim.model.replication.share.partition.states import ACQUIRED, AVAILABLE, InFlightState
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.records import RecordBatch
    from kafkasim.model.replication.share.partition.cached_state import CachedState, Locks
    from kafkasim.model.replication.share.partition.states import LockTimeout
    from kafkasim.model.replication.share.rules import ShareRules


@value
class Wanted:
    """What a share fetch wants of one partition."""

    member_id: str
    batch_size: int
    max_records: int
    lock_deadline_us: int  # until when it may hold what it acquires


def acquire(
    cache: CachedState,
    locks: Locks,
    rules: ShareRules,
    most_deliveries: int,
    wanted: Wanted,
    batches: tuple[RecordBatch, ...],
) -> list[AcquiredRecords]:
    """Acquire what a read found; return the ranges, in their order."""
    return _Acquisition(cache, locks, rules, most_deliveries, wanted, batches).run()


class _Acquisition:
    """One call of acquire."""

    def __init__(
        self,
        cache: CachedState,
        locks: Locks,
        rules: ShareRules,
        most_deliveries: int,
        wanted: Wanted,
        batches: tuple[RecordBatch, ...],
    ) -> None:
        self._cache = cache
        self._locks = locks
        self._rules = rules
        self._most_deliveries = most_deliveries
        self._wanted = wanted
        self._batches = batches
        self._first, self._last = batches[0].base_offset, batches[-1].last_offset
        self._acquired: list[AcquiredRecords] = []
        self._count = 0

    def run(self) -> list[AcquiredRecords]:
        """Acquire; return the ranges."""
        cache, most = self._cache, self._wanted.max_records
        base = self._base_offset()
        known = cache.between(min(self._first, base), self._last)
        if not known:
            self._acquire_new(base, self._last, most)
            return self._acquired
        gap_start = base
        for batch in known:
            if self._count >= most:
                break
            if cache.gap_open:
                if gap_start < batch.first_offset:
                    self._acquire_new(gap_start, batch.first_offset - 1, most)
                gap_start = batch.last_offset + 1
                if self._count >= most:
                    break
            self._acquire_known(batch)
        end = known[-1].last_offset
        if self._count < most and end < self._last:
            self._acquire_new(end + 1, self._last, most - self._count)
        if self._acquired:
            cache.acquired_to(self._acquired[-1].last_offset + 1)
        return self._acquired

    def _base_offset(self) -> int:
        """Return where to begin: with a known batch, or not before the start offset."""
        base = self._first
        floor = self._cache.floor(base)
        if floor is not None:
            return floor.first_offset if floor.last_offset >= base else base
        start = self._cache.start_offset
        return max(base, start) if self._rules.begins_at_start_offset() else base

    # --------------------------------------------------------------------------- known records

    def _acquire_known(self, batch: InFlightBatch) -> None:
        whole = batch.state
        covered = batch.first_offset >= self._first and batch.last_offset <= self._last
        if whole is not None and not self._is_available(whole):
            return
        if whole is not None and not covered:
            batch.split(self._locks)
        for first, last, state in batch.states():
            if batch.state is None and not self._first <= first <= self._last:
                continue
            in_transition = state.in_transition
            if self._is_available(state) and state.try_update(
                ACQUIRED, 1, self._most_deliveries, self._wanted.member_id
            ):
                if not in_transition:
                    self._locks.unlock(state.lock)  # of a release under way that a split forgot
                state.lock = self._lock(first, last)
                self._tell(first, last, state.delivery_count)

    def _is_available(self, state: InFlightState) -> bool:
        in_transition = state.in_transition and self._rules.honours_transitions()
        return state.state is AVAILABLE and not in_transition

    def _lock(self, first: int, last: int) -> LockTimeout:
        wanted = self._wanted
        return self._locks.lock(wanted.member_id, first, last, wanted.lock_deadline_us)

    def _tell(self, first: int, last: int, delivery_count: int) -> None:
        self._acquired.append(AcquiredRecords(first, last, delivery_count))
        self._count += last - first + 1

    # ----------------------------------------------------------------------------- new records

    def _acquire_new(self, first: int, last: int, most: int) -> None:
        """Acquire offsets that are not cached (acquireNewBatchRecords)."""
        cache = self._cache
        if not cache.batches and cache.end_offset > first:
            first = cache.end_offset  # what is below was acknowledged and forgotten
        if most < last - first + 1:
            end = self._end_of_batch(first + most - 1)
            stays = cache.gap_open and self._rules.ends_before_known_records()
            last = min(end, last) if stays else end
        for one, other in self._pieces(first, last):
            state = InFlightState(ACQUIRED, 1, self._wanted.member_id, self._lock(one, other))
            cache.add(InFlightBatch(one, other, state))
            self._tell(one, other, 1)
        if cache.first.first_offset == first:
            cache.start_offset = first
        cache.end_offset = max(cache.end_offset, last)
        cache.acquired_to(last + 1)

    def _end_of_batch(self, offset: int) -> int:
        """Return the last offset of the record batch that holds ``offset``, else ``offset``."""
        for batch in self._batches:
            if batch.base_offset <= offset <= batch.last_offset:
                return batch.last_offset
        return offset

    def _pieces(self, first: int, last: int) -> list[tuple[int, int]]:
        """Cut a range before record batches, into pieces of ``batch_size`` or more."""
        size = self._wanted.batch_size
        pieces: list[tuple[int, int]] = []
        if last - first + 1 > size:
            for batch in self._batches:
                if batch.base_offset > last:
                    break
                if batch.base_offset - first >= size:
                    pieces.append((first, batch.base_offset - 1))
                    first = batch.base_offset
        pieces.append((first, last))
        return pieces
