"""SharePartition: what one share group did with the records of one partition (KIP-932).

The leader of the partition holds it. It reads the persisted state once, hands out records under
acquisition locks, and answers for an acknowledgement only when the new state is persisted:

    EMPTY ── initialize ──▶ INITIALIZING ── state read ──▶ ACTIVE
                                  └── error ──▶ FAILED         any ── fence ──▶ FENCED

If a write fails, the records are acquired by their member again. Records whose lock expired are
available at once, also if the write fails. A successful write is not answered while the start
offset lies between two batches and the lower one has states of its offsets (KAFKA.md, 3.6).

Left out: metrics, the cached position of the next fetch, and what Kafka 4.2 added: renewed locks
(KIP-1222), the acquire mode (KIP-1206), the count of completed deliveries (KIP-1226).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.facts import (
    FinalSharePartition,
    HoleEntered,
    ShareAcquired,
    ShareMoved,
    SharePartitionLoaded,
    ShareStaleArchived,
    ShareStartFailed,
    ShareStartMoved,
)
from kafkasim.model.replication.share.partition import aborted
from kafkasim.model.replication.share.partition.acknowledgement import Acknowledger, Changes
from kafkasim.model.replication.share.partition.acquisition import Wanted, acquire
from kafkasim.model.replication.share.partition.cached_state import CachedState, InFlightBatch
from kafkasim.model.replication.share.partition.states import (
    EMPTY_MEMBER_ID,
    InFlightState,
    LockTimeout,
    RecordState,
    SharePartitionState,
)
from kafkasim.model.replication.share.persister import client_error

if TYPE_CHECKING:
    from kafkasim.model.messages import FetchPartitionResponse
    from kafkasim.model.messages.share import (
        AcknowledgementBatch,
        AcquiredRecords,
        ReadStateResult,
        StatePartitionResult,
    )
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.share.persister import Persister
    from kafkasim.model.replication.share.rules import ShareRules
    from kafkasim.model.timers import Timers

NONE = Errors.NONE
LANE = "share-group-lock-timeout"

Done: TypeAlias = Callable[[Errors, int], None]
"""Is told the error, NONE for success, and when."""


class SharePartitionContext(Protocol):
    """What share partitions need of the broker."""

    out: list[Any]
    timers: Timers
    rules: ShareRules

    @property
    def persister(self) -> Persister: ...
    @property
    def most_deliveries(self) -> int:
        """group.share.delivery.count.limit."""
        ...

    @property
    def most_in_flight(self) -> int:
        """group.share.partition.max.record.locks."""
        ...

    def lock_duration_ms(self, group_id: str) -> int:
        """Return the group's share.record.lock.duration.ms."""
        ...

    def reset_offset(self, group_id: str, tp: TopicPartition, leader_epoch: int) -> int | Errors:
        """Return where the group begins, by its share.auto.offset.reset, or an error."""
        ...

    def complete_fetches(self, group_id: str, tp: TopicPartition, now: int) -> None:
        """Look at the share fetches of the group that wait for the partition."""
        ...


class SharePartition:
    """The records of one partition, as one share group sees them."""

    def __init__(
        self,
        context: SharePartitionContext,
        group_id: str,
        topic_id: str,
        tp: TopicPartition,
        leader_epoch: int,
    ) -> None:
        self._context = context
        self._rules = context.rules
        self.group_id = group_id
        self.topic_id = topic_id
        self.tp = tp
        self.leader_epoch = leader_epoch
        self.state = SharePartitionState.EMPTY
        self._state_epoch = 0
        self.cache = CachedState(self, context.rules)
        self._acknowledger = Acknowledger(self.cache, self, context.rules, context.most_deliveries)

    # ------------------------------------------------------------------------------ lifecycle

    def initialize(self, done: Done, now: int) -> None:
        """Read the persisted state unless that was done, then call ``done`` (maybeInitialize).

        LEADER_NOT_AVAILABLE: it is being read, or the share partition was replaced.
        """
        if self.state is SharePartitionState.ACTIVE:
            done(NONE, now)
        elif self.state is SharePartitionState.FAILED:
            done(Errors.UNKNOWN_SERVER_ERROR, now)
        elif self.state is not SharePartitionState.EMPTY:
            done(Errors.LEADER_NOT_AVAILABLE, now)
        else:
            self.state = SharePartitionState.INITIALIZING
            self._context.persister.read_state(
                self.group_id,
                self.topic_id,
                self.tp.partition,
                self.leader_epoch,
                lambda result, at: self._loaded(result, done, at),
            )

    def _loaded(self, result: ReadStateResult, done: Done, now: int) -> None:
        if self.state is not SharePartitionState.INITIALIZING:
            done(Errors.LEADER_NOT_AVAILABLE, now)
            return
        error = self._adopt(result)
        if error is NONE:
            self.state = SharePartitionState.ACTIVE
            fact = SharePartitionLoaded(*self._names, self._state_epoch, self.cache.start_offset)
            self._context.out.append(fact)
        else:
            self.state = SharePartitionState.FAILED
        done(error, now)

    def _adopt(self, result: ReadStateResult) -> Errors:
        """Take over the persisted state; return the error that prevents it."""
        if result.error is not NONE:
            return client_error(result.error)
        start = result.start_offset
        if start == -1:
            found = self._context.reset_offset(self.group_id, self.tp, self.leader_epoch)
            if isinstance(found, Errors):
                return found
            start = found
        cache = self.cache
        cache.start_offset = cache.end_offset = start
        self._state_epoch = result.state_epoch
        gap, end = -1, start - 1
        for batch in result.state_batches:
            if batch.first_offset < start:
                return Errors.UNKNOWN_SERVER_ERROR
            if gap == -1 and batch.first_offset > end + 1:
                gap = end + 1
            end = batch.last_offset
            state = RecordState(batch.delivery_state)
            in_flight = InFlightState(state, batch.delivery_count, EMPTY_MEMBER_ID)
            cache.add(InFlightBatch(batch.first_offset, end, in_flight))
        if cache.batches:
            cache.find_next = True
            cache.end_offset = end
            if gap != -1 and self._rules.fetches_gaps_again():
                cache.open_gap(gap)
            cache.move_start()
        return NONE

    @property
    def active(self) -> bool:
        """Whether records can be acquired and acknowledged."""
        return self.state is SharePartitionState.ACTIVE

    def fence(self) -> None:
        """End the share partition: it was removed from the broker's table (markFenced)."""
        self.state = SharePartitionState.FENCED

    # -------------------------------------------------------------------------------- acquire

    def can_acquire(self) -> bool:
        """Return whether there is room in flight, or a record to deliver again."""
        cache = self.cache
        if cache.next_fetch_offset() != cache.end_offset + 1:
            return True
        return cache.in_flight_records() < self._context.most_in_flight

    def acquire(
        self,
        member_id: str,
        batch_size: int,
        max_records: int,
        fetch_offset: int,
        read: FetchPartitionResponse,
        now: int,
    ) -> list[AcquiredRecords]:
        """Give a member what a read from ``fetch_offset`` found; return the ranges it holds."""
        if not self.active or max_records <= 0 or not read.batches:
            return []
        context = self._context
        lock_us = context.lock_duration_ms(self.group_id) * 1000
        start, gap = self.cache.start_offset, self.cache.gap_open
        wanted = Wanted(member_id, batch_size, max_records, now + lock_us)
        most = context.most_deliveries
        for stale in self.cache.archive_stale(fetch_offset, read.batches[0].base_offset):
            context.out.append(ShareStaleArchived(*self._names, *stale))
        acquired = acquire(self.cache, self, self._rules, most, wanted, read.batches)
        if gap and (not acquired or self.cache.floor(start) is None):
            self._tell_hole("read-gap-was-removed")
        if read.aborted_transactions:
            gone = aborted.batches(read.batches, read.aborted_transactions)
            acquired, archived = aborted.without(self.cache, acquired, gone)
            self._tell_aborted(archived, member_id)
        group, topic_id, partition, epoch = self._names
        for each in acquired:
            ends = (each.first_offset, each.last_offset)
            count = each.delivery_count
            context.out.append(
                ShareAcquired(group, member_id, topic_id, partition, epoch, *ends, count, lock_us)
            )
        self._tell_start(start, "records")
        return acquired

    # ---------------------------------------------------------------------------- acknowledge

    def acknowledge(
        self, member_id: str, batches: tuple[AcknowledgementBatch, ...], done: Done, now: int
    ) -> None:
        """Acknowledge records of a member; ``done`` is called when the state is persisted."""
        changes = self._acknowledger.acknowledge(member_id, batches)
        self._persist(changes, member_id, "acknowledged", done, now)

    def release(self, member_id: str, done: Done, now: int) -> None:
        """Release all that a member holds, because its session ended."""
        changes = self._acknowledger.release(member_id)
        self._persist(changes, member_id, "session-ended", done, now)

    def _persist(self, changes: Changes, member_id: str, reason: str, done: Done, now: int) -> None:
        """Write the new state, then keep it; undo the moves if that fails.

        Kafka: rollbackOrProcessStateUpdates.
        """
        if changes.error is not NONE:
            self._complete(changes, False)
            done(changes.error, now)
            return
        if not changes.moves:
            done(NONE, now)
            return
        self._tell_moves(changes, member_id, reason)
        waits = self._rules.answers_after_write()

        def written(result: StatePartitionResult, at: int) -> None:
            start = self.cache.start_offset
            ok = result.error is NONE
            self._complete(changes, ok)
            if ok and self._start_fails():
                return  # nobody completes the future that rollbackOrProcessStateUpdates was given
            moved = ok and self.cache.move_start()
            if not ok:
                self._tell_moves(changes, member_id, "rolled-back")
            self._tell_start(start, "records")
            if waits:
                done(client_error(result.error) if not ok else NONE, at)
            if moved:
                self._context.complete_fetches(self.group_id, self.tp, at)

        self._write(changes, written)
        if not waits:
            done(NONE, now)

    def _complete(self, changes: Changes, commit: bool) -> None:
        most = self._context.most_deliveries
        for _, _, state in changes.moves:
            expired = state.lock is not None and state.lock.expired
            state.complete(commit, most, self._rules)
            if commit or expired or state.state in (RecordState.AVAILABLE, RecordState.ARCHIVED):
                self.unlock(state.lock)
                state.lock = None
            if state.state is RecordState.AVAILABLE:
                self.cache.find_next = True

    def _write(self, changes: Changes, done: Callable[[StatePartitionResult, int], None]) -> None:
        self._context.persister.write_state(
            self.group_id,
            self.topic_id,
            self.tp.partition,
            self._state_epoch,
            self.leader_epoch,
            self.cache.start_offset,
            tuple(changes.batches),
            done,
        )

    # ---------------------------------------------------------------------------------- locks

    def lock(
        self, member_id: str, first_offset: int, last_offset: int, deadline_us: int
    ) -> LockTimeout:
        """Lock offsets for a member until the deadline."""
        lock = LockTimeout(member_id, first_offset, last_offset, deadline_us)
        self._context.timers.arm(lock, deadline_us, LANE, lambda now: self._expire(lock, now))
        return lock

    def unlock(self, lock: LockTimeout | None) -> None:
        """Cancel a lock's timeout."""
        if lock is not None:
            self._context.timers.cancel(lock)

    def _expire(self, lock: LockTimeout, now: int) -> None:
        """Take the records of an expired lock back (releaseAcquisitionLockOnTimeout)."""
        lock.expired = True
        changes = self._acknowledger.expire(lock)
        if not changes.moves:
            return
        self._tell_moves(changes, lock.member_id, "lock-expired")

        def written(_: StatePartitionResult, at: int) -> None:
            start = self.cache.start_offset
            if not self._start_fails() and self.cache.move_start():
                self._tell_start(start, "records")
                self._context.complete_fetches(self.group_id, self.tp, at)

        self._write(changes, written)
        self._context.complete_fetches(self.group_id, self.tp, now)

    def _start_fails(self) -> bool:
        """Tell of the exception that ends maybeUpdateCachedStateAndOffsets; return whether it is
        thrown."""
        fails = self.cache.start_lacks_state
        if fails:
            fact = ShareStartFailed(*self._names, self.cache.start_offset)
            self._context.out.append(fact)
        return fails

    # -------------------------------------------------------------------------- the log, facts

    def log_start_moved(self, log_start: int) -> None:
        """Archive what the log does not have any more (updateCacheAndOffsets)."""
        before = self.cache.start_offset
        self.cache.log_start_moved(log_start)
        if self.cache.fetches_below(log_start):
            self._tell_hole("fetches-below-log-start")
        self._tell_start(before, "log-start")

    def _tell_hole(self, hole: str) -> None:
        fact = HoleEntered(hole, self.topic_id, self.tp.partition, self.group_id)
        self._context.out.append(fact)

    @property
    def _names(self) -> tuple[str, str, int, int]:
        return self.group_id, self.topic_id, self.tp.partition, self.leader_epoch

    def _tell_start(self, before: int, reason: str) -> None:
        start = self.cache.start_offset
        if start != before:
            self._context.out.append(ShareStartMoved(*self._names, start, reason))

    def _tell_moves(self, changes: Changes, member_id: str, reason: str) -> None:
        group, topic_id, partition, epoch = self._names
        for first, last, state in changes.moves:
            self._context.out.append(
                ShareMoved(
                    group,
                    member_id,
                    topic_id,
                    partition,
                    epoch,
                    first,
                    last,
                    state.state.name,
                    state.delivery_count,
                    reason,
                )
            )

    def _tell_aborted(self, archived: list[AcquiredRecords], member_id: str) -> None:
        """Tell that records of aborted transactions were archived in place of being delivered."""
        group, topic_id, partition, epoch = self._names
        for each in archived:
            ends = (each.first_offset, each.last_offset)
            moved = (*ends, "ARCHIVED", each.delivery_count, "aborted")
            self._context.out.append(
                ShareMoved(group, member_id, topic_id, partition, epoch, *moved)
            )

    def ground_truth(self) -> FinalSharePartition:
        """Return the final state, as a fact."""
        rows = [
            (first, last, int(state.state), state.delivery_count)
            for batch in self.cache
            for first, last, state in batch.states()
        ]
        return FinalSharePartition(
            *self._names,
            self.cache.start_offset,
            self.cache.end_offset,
            self.cache.gap_start,
            tuple([row[0] for row in rows]),
            tuple([row[1] for row in rows]),
            tuple([row[2] for row in rows]),
            tuple([row[3] for row in rows]),
        )
