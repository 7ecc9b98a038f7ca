"""Appends of a coordinator, and answers that wait for their commit (CoordinatorRuntime).

A handler that changes state takes three steps, as in Kafka's scheduleWriteOperation:

    append(context, records)      the records are in the leader's log, or an error says why not
    change the state              reads that need not be stable see it from now on
    defer(context, complete, …)   complete(argument, error, now) answers the client, once the high
                                  watermark has passed everything that was appended so far

Without a linger the append comes before the change of state, so nothing has to be reverted when it
fails. With one (group.coordinator.append.linger.ms) the records wait in an open batch, which the
next operations fill: it goes to the log when the linger is over, when it is full, and before a
transaction's batch or marker. The state reflects it at once. If it cannot be appended, the shard is
told to revert (``on_reverted``), and everything that waits for it fails.

A read that must be stable only defers: it is answered when the writes before it are committed. What
waits for longer than the write timeout is answered with REQUEST_TIMED_OUT, though its records stay
in the log and may be committed later.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.coordinator.context import (
    Complete,
    CoordinatorContext,
    DeferredEvent,
    Parked,
)
from kafkasim.model.coordinator.log import CoordinatorLog
from kafkasim.model.effects import Process, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.records import Record, RecordBatch, batch_of
from kafkasim.model.timers import Handler, Key

Reverted = Callable[[CoordinatorContext, Errors, int], None]
"""(context, error of the append, now): the open batch is lost, its changes have to be undone."""


class CoordinatorRuntime:
    """What the handlers of one coordinator share: its lanes, its log, deferred answers, timers.

    Everything about a partition runs on one lane. With ``pooled`` it is ``lane/partition``, which
    shares the coordinator's threads with those of the other partitions; else all have ``lane``.
    """

    def __init__(
        self,
        process: Process,
        lane: str,
        log: CoordinatorLog,
        write_timeout_ms: int,
        linger_ms: int = 0,
        max_batch_bytes: int = 1048588,
        pooled: bool = False,
    ) -> None:
        self.process = process
        self._lane = lane
        self._pooled = pooled
        self._lanes: dict[int, str] = {}  # by partition, as named before
        self.log = log
        self.out = process.out
        self.merges: dict[Parked, Callable[[Any], Any]] = {}  # what becomes of an answer
        self.on_reverted: Reverted = _nothing_to_revert
        self._write_timeout_us = write_timeout_ms * 1000
        self._linger_us = linger_ms * 1000
        self._max_batch_bytes = max_batch_bytes

    def lane_of(self, partition: int) -> str:
        """Return the lane on which everything about a partition runs."""
        lane = self._lanes.get(partition)
        if lane is None:
            lane = f"{self._lane}/{partition}" if self._pooled else self._lane
            self._lanes[partition] = lane
        return lane

    @property
    def loader_lane(self) -> str:
        """The lane on which logs are read: a thread of its own if the coordinator has a pool."""
        return f"{self._lane}-loader" if self._pooled else self._lane

    def append(self, context: CoordinatorContext, records: tuple[Record, ...], now: int) -> Errors:
        """Append records to the partition's log, or to its open batch.

        On an error nothing has changed.
        """
        if not self._linger_us:
            return self.append_batch(context, batch_of(records), now)
        assert context.is_active, context.tp
        size = sum([record.size for record in records])
        if size > self._max_batch_bytes:
            return Errors.RECORD_LIST_TOO_LARGE
        if context.pending and context.pending_size + size > self._max_batch_bytes:
            error = self.flush(context, now)
            if error is not Errors.NONE:
                return error
        if not context.pending:
            context.pending_base, context.pending_size = context.last_written, 0
            key, deadline = ("coordinator-linger", context.tp), now + self._linger_us
            on_linger = partial(self._on_linger, context)
            self.process.timers.arm(key, deadline, context.lane, on_linger, first=True)
        context.pending += records
        context.pending_size += size
        context.last_written += len(records)
        return Errors.NONE

    def _on_linger(self, context: CoordinatorContext, now: int) -> None:
        self.flush(context, now)

    def flush(self, context: CoordinatorContext, now: int) -> Errors:
        """Append the open batch; on an error the state is what it was before (failCurrentBatch)."""
        records, base = context.pending, context.pending_base
        if not records:
            return Errors.NONE
        self.cancel(("coordinator-linger", context.tp))
        error, end_offset = self.log.append(context.tp, batch_of(tuple(records)), now)
        context.pending = []
        if error is Errors.NONE:
            if end_offset != context.last_written:  # Kafka loads the partition anew
                for event in context.deferred:
                    event.end_offset = max(event.end_offset, end_offset)
                context.last_written = end_offset
            return error
        context.last_written = base
        failed = [event for event in context.deferred if event.end_offset > base]
        for event in failed:
            context.deferred.remove(event)
        self.on_reverted(context, error, now)
        self._rearm_write_timeout(context)
        for event in failed:
            event.complete(event.argument, error, now)
        return error

    def append_batch(
        self,
        context: CoordinatorContext,
        batch: RecordBatch,
        now: int,
        transaction_version: int = 0,
        guard: Any = None,
    ) -> Errors:
        """Append a batch of a transaction, or its marker; on an error nothing has changed.

        ``guard`` is what the verification of the transaction gave (KIP-890).
        """
        assert context.is_active, context.tp
        error = self.flush(context, now)
        if error is not Errors.NONE:
            return error
        error, end_offset = self.log.append(context.tp, batch, now, transaction_version, guard)
        if error is Errors.NONE:
            assert end_offset > context.last_written, (
                context.tp,
                end_offset,
                context.last_written,
            )
            context.last_written = end_offset
        return error

    def append_unacknowledged(
        self, context: CoordinatorContext, records: tuple[Record, ...], now: int
    ) -> None:
        """Append records with acks=0, as the Scala coordinator its tombstones: errors are ignored.

        min.insync.replicas does not count.
        """
        assert not context.pending, context.tp
        error, end_offset = self.log.append(context.tp, batch_of(records), now, acks=0)
        if error is Errors.NONE:
            context.last_written = end_offset

    def defer(
        self,
        context: CoordinatorContext,
        complete: Complete,
        argument: Any,
        now: int,
        timeout_us: int = 0,
    ) -> None:
        """Call ``complete(argument, error, now)`` once everything appended so far is committed.

        That is at once if it is committed already. The error is NONE, REQUEST_TIMED_OUT, or
        NOT_COORDINATOR if this broker resigns before. ``timeout_us`` replaces the write timeout.
        """
        if context.last_committed >= context.last_written:
            complete(argument, Errors.NONE, now)
            return
        deadline = now + (timeout_us or self._write_timeout_us)
        context.deferred.append(DeferredEvent(context.last_written, deadline, complete, argument))
        if len(context.deferred) == 1 or timeout_us:
            self._rearm_write_timeout(context)

    def commit_up_to(self, context: CoordinatorContext, high_watermark: int, now: int) -> None:
        """Complete, in the order of the log, the events that the high watermark has passed."""
        if high_watermark <= context.last_committed:
            return
        context.last_committed = high_watermark
        deferred = context.deferred
        while deferred and deferred[0].end_offset <= high_watermark:
            event = deferred.popleft()
            event.complete(event.argument, Errors.NONE, now)
        self._rearm_write_timeout(context)

    def fail_deferred(self, context: CoordinatorContext, error: Errors, now: int) -> None:
        """Complete every deferred event of the partition with an error; drop the open batch."""
        context.pending = []
        self.cancel(("coordinator-linger", context.tp))
        waiting = list(context.deferred)
        context.deferred.clear()
        self._rearm_write_timeout(context)
        for event in waiting:
            event.complete(event.argument, error, now)

    def respond(self, parked: Parked, message: Any) -> None:
        """Answer a request."""
        if self.merges:
            merge = self.merges.pop(parked, None)
            message = message if merge is None else merge(message)
        self.out.append(Respond(parked[0], parked[1], message))

    def wall_ms(self, now: int) -> int:
        """Return the broker's wall clock in milliseconds, as records and expiry have it."""
        return self.process.wall_ms(now)

    def arm(self, context: CoordinatorContext, key: Key, deadline: int, handler: Handler) -> None:
        """Arm or move a timer; its handler runs on the partition's lane."""
        self.process.timers.arm(key, deadline, context.lane, handler)

    def cancel(self, key: Key) -> None:
        """Disarm a timer, if it is armed."""
        self.process.timers.cancel(key)

    def deadline(self, key: Key) -> int | None:
        """Return when a timer ends, None if it is not armed."""
        return self.process.timers.deadline(key)

    def armed(self, key: Key) -> bool:
        """Return whether a timer is armed."""
        return self.process.timers.armed(key)

    # Timeouts of writes

    def _arm_write_timeout(self, context: CoordinatorContext, deadline: int) -> None:
        key = ("coordinator-write", context.tp)
        self.arm(context, key, deadline, lambda now: self._on_write_timeout(context, now))

    def _rearm_write_timeout(self, context: CoordinatorContext) -> None:
        if context.deferred:
            deadline = min([event.deadline_us for event in context.deferred])
            self._arm_write_timeout(context, deadline)
        else:
            self.cancel(("coordinator-write", context.tp))

    def _on_write_timeout(self, context: CoordinatorContext, now: int) -> None:
        late = [event for event in context.deferred if event.deadline_us <= now]
        for event in late:
            context.deferred.remove(event)
        for event in late:
            event.complete(event.argument, Errors.REQUEST_TIMED_OUT, now)
        self._rearm_write_timeout(context)


def _nothing_to_revert(context: CoordinatorContext, error: Errors, now: int) -> None:
    raise AssertionError((context.tp, error, now))


def client_error(error: Errors) -> Errors:
    """Return the error that a client gets after a failed append.

    Kafka: CoordinatorOperationExceptionHelper.
    """
    return _CLIENT_ERRORS.get(error, error)


_CLIENT_ERRORS = {
    Errors.NETWORK_EXCEPTION: Errors.COORDINATOR_LOAD_IN_PROGRESS,  # while verifying (KIP-890)
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.REQUEST_TIMED_OUT: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.FENCED_LEADER_EPOCH: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
}
