"""Appends of a coordinator, and answers that wait for their commit (CoordinatorRuntime).

A handler that changes state takes three steps, as in Kafka's scheduleWriteOperation:

    append(context, records)      the records are in the leader's log, or an error says why not
    change the state              reads that need not be stable see it from now on
    defer(context, complete, …)   complete(argument, error, now) answers the client, once the high
                                  watermark has passed everything that was appended so far

The append comes before the change of state, so nothing has to be reverted when it fails; Kafka
changes the state first and reverts. A read that must be stable only defers: it is answered when the
writes before it are committed. What waits for longer than the write timeout is answered with
REQUEST_TIMED_OUT, though its records stay in the log and may be committed later.

Not modelled: several operations in one append, so group.coordinator.append.linger.ms is refused.
"""

from __future__ import annotations

from collections.abc import Callable
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


class CoordinatorRuntime:
    """What the handlers of one coordinator share: its lane, its log, deferred answers, timers."""

    def __init__(
        self, process: Process, lane: str, log: CoordinatorLog, write_timeout_ms: int
    ) -> None:
        self.process = process
        self.lane = lane
        self.log = log
        self.out = process.out
        self.merges: dict[Parked, Callable[[Any], Any]] = {}  # what becomes of an answer
        self._write_timeout_us = write_timeout_ms * 1000

    def append(self, context: CoordinatorContext, records: tuple[Record, ...], now: int) -> Errors:
        """Append records to the partition's log; on an error nothing has changed."""
        return self.append_batch(context, batch_of(records), now)

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
        error, end_offset = self.log.append(context.tp, batch, now, transaction_version, guard)
        if error is Errors.NONE:
            assert end_offset > context.last_written, (
                context.tp,
                end_offset,
                context.last_written,
            )
            context.last_written = end_offset
        return error

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
        """Complete every deferred event of the partition with an error."""
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

    def arm(self, key: Key, deadline: int, handler: Handler) -> None:
        """Arm or move a timer; its handler runs on the coordinator's lane."""
        self.process.timers.arm(key, deadline, self.lane, handler)

    def cancel(self, key: Key) -> None:
        """Disarm a timer, if it is armed."""
        self.process.timers.cancel(key)

    def armed(self, key: Key) -> bool:
        """Return whether a timer is armed."""
        return self.process.timers.armed(key)

    # Timeouts of writes

    def _arm_write_timeout(self, context: CoordinatorContext, deadline: int) -> None:
        key = ("coordinator-write", context.tp)
        self.arm(key, deadline, lambda now: self._on_write_timeout(context, now))

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
