"""CachedState: the records of a share partition that were fetched and are not forgotten yet.

Models SharePartition.cachedState, InFlightBatch, the start and end offsets and the initial read
gap. A batch has one state for all of its offsets until they differ; from then on each offset has
its own. Gaps between batches are offsets without records, except in the *initial read gap*: the
persisted state does not know records that were acquired and never acknowledged, so after a change
of the leader the gaps in it are fetched again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Protocol

from kafkasim.model.replication.share.partition.states import (
    ACQUIRED,
    AVAILABLE,
    FINAL,
    InFlightState,
    LockTimeout,
    RecordState,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkasim.model.replication.share.rules import ShareRules


class Locks(Protocol):
    """The acquisition locks of a share partition."""

    def lock(
        self, member_id: str, first_offset: int, last_offset: int, deadline_us: int
    ) -> LockTimeout:
        """Lock offsets for a member until the deadline."""
        ...

    def unlock(self, lock: LockTimeout | None) -> None:
        """Cancel a lock's timeout."""
        ...


class InFlightBatch:
    """A range of offsets with one state, or with a state for each offset (InFlightBatch)."""

    __slots__ = ("first_offset", "last_offset", "offsets", "state")

    def __init__(self, first_offset: int, last_offset: int, state: InFlightState) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.state: InFlightState | None = state  # None: the offsets have their own
        self.offsets: dict[int, InFlightState] | None = None

    def __repr__(self) -> str:
        return f"[{self.first_offset}, {self.last_offset}] {self.state or self.offsets}"

    def split(self, locks: Locks) -> dict[int, InFlightState]:
        """Return the state of each offset; from now on they have their own."""
        if self.offsets is None:
            whole = self.state
            assert whole is not None, self
            self.offsets = {}
            for offset in range(self.first_offset, self.last_offset + 1):
                lock = None
                if whole.lock is not None:
                    lock = locks.lock(whole.member_id, offset, offset, whole.lock.deadline_us)
                self.offsets[offset] = InFlightState(
                    whole.state, whole.delivery_count, whole.member_id, lock
                )
            locks.unlock(whole.lock)
            self.state = None
        return self.offsets

    def states(self) -> Iterator[tuple[int, int, InFlightState]]:
        """Yield (first offset, last offset, state) of the batch or of each offset."""
        if self.state is not None:
            yield self.first_offset, self.last_offset, self.state
        else:
            assert self.offsets is not None, self
            for offset, state in self.offsets.items():
                yield offset, offset, state

    def state_at(self, offset: int) -> InFlightState | None:
        """Return the state of an offset, None if it is not in the batch."""
        if self.state is not None:
            return self.state
        assert self.offsets is not None, self
        return self.offsets.get(offset)


class CachedState:
    """Batches by their first offsets, with the offsets between which they lie."""

    def __init__(self, locks: Locks, rules: ShareRules) -> None:
        self._locks = locks
        self._rules = rules
        self.batches: dict[int, InFlightBatch] = {}
        self._keys: list[int] = []  # of the batches, rising
        self.start_offset = 0  # the first record that may be delivered (SPSO)
        self.end_offset = 0  # the last that was fetched; without a batch, the next to fetch
        self.find_next = False  # a record in the cache may be available again
        self._gap_end = -1  # the end offset for which the initial read gap holds, −1: no gap
        self._gap_start = -1

    # --------------------------------------------------------------------------------- the map

    def __iter__(self) -> Iterator[InFlightBatch]:
        """Yield the batches in the order of their offsets."""
        for key in self._keys:
            yield self.batches[key]

    def add(self, batch: InFlightBatch) -> None:
        """Add a batch."""
        if batch.first_offset not in self.batches:
            insort(self._keys, batch.first_offset)
        self.batches[batch.first_offset] = batch

    @property
    def first(self) -> InFlightBatch:
        """The first batch; there must be one."""
        return self.batches[self._keys[0]]

    @property
    def last(self) -> InFlightBatch:
        """The last batch; there must be one."""
        return self.batches[self._keys[-1]]

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset, None if there is none."""
        at = bisect_right(self._keys, offset)
        return self.batches[self._keys[at - 1]] if at else None

    def between(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches that begin in a range of offsets, both ends included."""
        keys = self._keys[bisect_left(self._keys, first) : bisect_right(self._keys, last)]
        return [self.batches[key] for key in keys]

    def _drop(self, keys: list[int]) -> None:
        for key in keys:
            for _, _, state in self.batches.pop(key).states():
                self._locks.unlock(state.lock)
        del self._keys[: len(keys)]

    # ------------------------------------------------------------------------------- the gap

    def open_gap(self, start: int) -> None:
        """Fetch the gaps from ``start`` to the end offset again."""
        self._gap_end, self._gap_start = self.end_offset, start

    @property
    def gap_open(self) -> bool:
        """Whether gaps between batches still have to be fetched."""
        return self._gap_end != -1 and self._gap_end == self.end_offset

    @property
    def gap_start(self) -> int:
        """From where on gaps still have to be fetched, −1 for nowhere."""
        return self._gap_start if self.gap_open else -1

    def acquired_to(self, offset: int) -> None:
        """Move the start of the gap; a move of the end offset closes it."""
        if self._gap_end == -1:
            return
        if self.gap_open:
            self._gap_start = offset
        else:
            self._gap_end = -1

    # ------------------------------------------------------------------------------- offsets

    @property
    def is_fresh(self) -> bool:
        """Whether no batch lies at or above the start offset."""
        return not self._keys or self.start_offset > self.last.last_offset

    def next_fetch_offset(self) -> int:
        """Return from where to fetch: the first record to be delivered (nextFetchOffset)."""
        if self.is_fresh:
            self.find_next = False
            return self.end_offset
        if not self.find_next:
            return self.end_offset + 1
        found = self._first_available()
        if found == -1:
            self.find_next = False
            return self.end_offset + 1
        return found

    def _first_available(self) -> int:
        gap_open = self.gap_open
        gap = self._gap_start
        rules = self._rules
        skips = rules.honours_transitions() and rules.searches_past_transitions()
        for batch in self:
            if gap_open:
                if batch.first_offset > gap:
                    return gap
                gap = rules.gap_behind(batch.last_offset, gap)
            for first, _, state in batch.states():
                if state.state is AVAILABLE and not (skips and state.in_transition):
                    return first
        return -1

    def fetches_below(self, log_start: int) -> bool:
        """Return whether the next fetch begins below the log start, where nothing is."""
        if self.is_fresh or not self.find_next:
            return False
        return 0 <= self._first_available() < log_start

    def in_flight_records(self) -> int:
        """Return how many offsets lie from the start to the end offset (numInFlightRecords)."""
        return self.end_offset - self.start_offset + 1 if self._keys else 0

    def move_start(self) -> bool:
        """Move the start offset past final records; return whether it moved.

        Kafka: maybeUpdateCachedStateAndOffsets.
        """
        if not self._can_move_start():
            return False
        done = self._last_final_offset()
        if done == -1:
            return False
        if done == self.last.last_offset:
            self.start_offset = self.end_offset = done + 1
            self._drop(list(self._keys))
            return True
        batch = self.floor(done)
        assert batch is not None, done
        at = bisect_left(self._keys, batch.first_offset)
        if done == batch.last_offset:
            start = self._keys[at + 1]
            if self.gap_open:
                start = min(self._gap_start, start)
            at += 1
        else:
            start = done + 1
        if start > self.start_offset or not self._rules.keeps_start_offset():
            self.start_offset = start
        self._drop(self._keys[:at])
        return True

    def _can_move_start(self) -> bool:
        batch = self.floor(self.start_offset)
        state = None if batch is None else batch.state_at(self.start_offset)
        return state is not None and state.state in FINAL and not state.in_transition

    @property
    def start_lacks_state(self) -> bool:
        """Whether the batch at or below the start offset has states, but none for this offset.

        The log start has moved the start offset behind the batch, in front of the next one. There
        SharePartition.canMoveStartOffset throws a NullPointerException.
        """
        batch = self.floor(self.start_offset)
        return batch is not None and batch.state_at(self.start_offset) is None

    def _last_final_offset(self) -> int:
        """Return the last offset before which all are final, −1 if there is none."""
        found = -1
        gap_open = self.gap_open
        for batch in self:
            if gap_open and batch.last_offset >= self._gap_start:
                return found
            for _, last, state in batch.states():
                if state.state not in FINAL or state.in_transition:
                    return found
                found = last
        return found

    # ------------------------------------------------------------------------------ archiving

    def archive(
        self, first: int, end: int, batches: list[InFlightBatch], initial: RecordState
    ) -> list[tuple[int, int]]:
        """Archive the records in ``initial`` state from ``first`` to before ``end``.

        Return the first and last offsets of what it archived (archiveRecords).
        """
        found: list[tuple[int, int]] = []
        for batch in batches:
            if batch.first_offset >= end:
                break
            if found and not self._rules.archives_every_batch():
                break
            whole = batch.state
            if whole is not None:
                if whole.state is not initial:
                    continue
                if not (batch.first_offset >= first and batch.last_offset < end):
                    batch.split(self._locks)
            for offset, last, state in batch.states():
                if state.state is initial and (batch.state or first <= offset < end):
                    self._archive(state, initial)
                    found.append((offset, last))
        return found

    def _archive(self, state: InFlightState, initial: RecordState) -> None:
        state.archive()
        if initial is ACQUIRED:
            self._locks.unlock(state.lock)
            state.lock = None

    def log_start_moved(self, log_start: int) -> None:
        """Take over a higher log start: what is below it is archived (updateCacheAndOffsets)."""
        if log_start <= self.start_offset:
            return
        if not self._keys:
            self.start_offset = self.end_offset = log_start
            return
        if self.archive(self.start_offset, log_start, list(self), AVAILABLE):
            self.find_next = True
        self.start_offset = log_start
        self.end_offset = max(self.end_offset, log_start)

    def archive_stale(self, fetch_offset: int, base_offset: int) -> list[tuple[int, int]]:
        """Archive available records that compaction has removed (maybeArchiveStaleBatches).

        A read from ``fetch_offset`` found its first batch at ``base_offset``. Return the first and
        last offsets of what was archived.
        """
        if not self._keys or fetch_offset >= base_offset:
            return []
        first = fetch_offset
        floor = self.floor(fetch_offset)
        if floor is not None and floor.last_offset >= fetch_offset:
            first = floor.first_offset
        batches = self.between(first, base_offset - 1)
        archived = self.archive(fetch_offset, base_offset, batches, AVAILABLE)
        if archived:
            self.find_next = True
        return archived
