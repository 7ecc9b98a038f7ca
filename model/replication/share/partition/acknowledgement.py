"""How acknowledgements, ended sessions and expired locks change the records of a share partition.

Models SharePartition.acknowledge, releaseAcquiredRecords and releaseAcquisitionLockOnTimeout up to
the write of the state: each collects the moves that it began and the batches to persist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    AcknowledgementBatch,
    StateBatch,
)
from kafkasim.model.replication.share.partition.states import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    EMPTY_MEMBER_ID,
    InFlightState,
    LockTimeout,
    RecordState,
)

if TYPE_CHECKING:
    from kafkasim.model.replication.share.partition.cached_state import (
        CachedState,
        InFlightBatch,
        Locks,
    )
    from kafkasim.model.replication.share.rules import ShareRules

NONE = Errors.NONE

STATES = {ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED, GAP: ARCHIVED}
"""The state that follows from an acknowledge type (fetchRecordState)."""


class Changes:
    """Moves that were begun and wait for the persister."""

    __slots__ = ("batches", "error", "moves")

    def __init__(self) -> None:
        self.error = NONE
        self.moves: list[tuple[int, int, InFlightState]] = []  # (first offset, last offset, state)
        self.batches: list[StateBatch] = []

    def add(self, first: int, last: int, state: InFlightState) -> None:
        """Persist the new state of a range of offsets."""
        self.moves.append((first, last, state))
        self.batches.append(StateBatch(first, last, state.state, state.delivery_count))


class Acknowledger:
    """Changes the cached state of one share partition."""

    def __init__(
        self, cache: CachedState, locks: Locks, rules: ShareRules, most_deliveries: int
    ) -> None:
        self._cache = cache
        self._locks = locks
        self._rules = rules
        self._most_deliveries = most_deliveries

    # --------------------------------------------------------------------------- acknowledge

    def acknowledge(self, member_id: str, batches: tuple[AcknowledgementBatch, ...]) -> Changes:
        """Begin what a member acknowledges; the first batch that is refused ends it."""
        changes = Changes()
        for batch in batches:
            error = self._acknowledge(member_id, batch, changes)
            if error is not NONE:
                changes.error = error
                break
        return changes

    def _acknowledge(self, member_id: str, batch: AcknowledgementBatch, changes: Changes) -> Errors:
        if any(each not in STATES for each in batch.types):
            return Errors.INVALID_REQUEST
        if batch.last_offset < self._cache.start_offset:
            return NONE
        found, error = self._batches_of(batch)
        if error is not NONE:
            return error
        for cached in found:
            if cached.last_offset < self._cache.start_offset:
                continue
            error = self._acknowledge_cached(member_id, batch, cached, changes)
            if error is not NONE:
                return error
        return NONE

    def _batches_of(self, batch: AcknowledgementBatch) -> tuple[list[InFlightBatch], Errors]:
        """Return the cached batches that hold a range (fetchSubMapForAcknowledgementBatch)."""
        cache = self._cache
        floor = cache.floor(batch.first_offset)
        if floor is None:
            if batch.first_offset < cache.start_offset <= batch.last_offset:
                floor = cache.floor(cache.start_offset)
            if floor is None:
                return [], Errors.INVALID_RECORD_STATE
        found = cache.between(floor.first_offset, batch.last_offset)
        last = found[-1].last_offset
        if last < batch.first_offset or batch.last_offset > last:
            return [], Errors.INVALID_REQUEST
        return found, NONE

    def _acknowledge_cached(
        self, member_id: str, batch: AcknowledgementBatch, cached: InFlightBatch, changes: Changes
    ) -> Errors:
        whole = cached.state
        if whole is not None and whole.member_id != member_id:
            return Errors.INVALID_RECORD_STATE
        covered = (
            batch.first_offset <= cached.first_offset and cached.last_offset <= batch.last_offset
        )
        start_inside = cached.first_offset < self._cache.start_offset <= cached.last_offset
        if whole is not None and (not covered or len(batch.types) > 1 or start_inside):
            if whole.state is not ACQUIRED:
                return Errors.INVALID_RECORD_STATE
            cached.split(self._locks)
        for first, last, state in cached.states():
            if cached.state is None:
                if first < batch.first_offset or first < self._cache.start_offset:
                    continue
                if first > batch.last_offset:
                    break
            if state.state is not ACQUIRED or state.member_id != member_id:
                return Errors.INVALID_RECORD_STATE
            at = first - batch.first_offset if len(batch.types) > 1 else 0
            if not self._start(state, STATES[batch.types[at]], 0):
                return Errors.INVALID_RECORD_STATE
            changes.add(first, last, state)
        return NONE

    def _start(self, state: InFlightState, new: RecordState, count_change: int) -> bool:
        started = state.start(new, count_change, self._most_deliveries, EMPTY_MEMBER_ID)
        if started and state.state is AVAILABLE:  # once more when it is written (KAFKA-19463)
            self._cache.find_next = True
        return started

    # ------------------------------------------------------------------------------- release

    def release(self, member_id: str) -> Changes:
        """Begin to release all that a member holds: its session has ended."""
        changes = Changes()
        for batch in self._cache:
            whole = batch.state
            if whole is not None and whole.state is ACQUIRED and whole.member_id == member_id:
                self._split_at_start(batch)
            for first, last, state in batch.states():
                if state.member_id not in (member_id, EMPTY_MEMBER_ID):
                    if self._rules.releases_around_others():
                        continue
                    break
                if state.state is not ACQUIRED:
                    continue
                new = ARCHIVED if last < self._cache.start_offset else AVAILABLE
                if not self._start(state, new, self._rules.delivery_change_on_release()):
                    changes.error = Errors.INVALID_RECORD_STATE
                    return changes
                changes.add(first, last, state)
        return changes

    def _split_at_start(self, batch: InFlightBatch) -> None:
        """Give each offset its state if the start offset lies inside the batch.

        Records below it are archived however often they were delivered.
        """
        if batch.first_offset < self._cache.start_offset <= batch.last_offset:
            batch.split(self._locks)

    # ------------------------------------------------------------------------------- timeout

    def expire(self, lock: LockTimeout) -> Changes:
        """Make the records of an expired lock available again, or archive them.

        These moves are not undone if the persister fails.
        """
        changes = Changes()
        cache = self._cache
        floor = cache.floor(lock.first_offset)
        if floor is None:
            return changes
        for batch in cache.between(floor.first_offset, lock.last_offset):
            if batch.state is not None and batch.state.state is ACQUIRED:
                self._split_at_start(batch)
            for first, last, state in batch.states():
                if last < lock.first_offset or first > lock.last_offset:
                    continue
                if state.state is not ACQUIRED:
                    continue
                new = ARCHIVED if last < cache.start_offset else AVAILABLE
                if state.try_update(new, 0, self._most_deliveries, EMPTY_MEMBER_ID):
                    changes.add(first, last, state)
                    self._locks.unlock(state.lock)
                    state.lock = None
                    if state.state is AVAILABLE:
                        cache.find_next = True
        return changes
