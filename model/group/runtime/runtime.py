"""Writes of the coordinator: appended at once, answered when the high watermark has passed.

Kafka: CoordinatorRuntime.scheduleWriteOperation with its DeferredEventQueue. The log is appended
to before the state changes, which comes to the same as Kafka's revert of a failed append. A write
without records waits for the writes before it. What waits longer than offsets.commit.timeout.ms is
answered with REQUEST_TIMED_OUT, though its records stay and may still commit.

Not modelled: batching of several operations into one append (group.coordinator.append.linger.ms
counts as 0).
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.effects import Process, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.facts import GroupAssigned, GroupState
from kafkasim.model.group.classic.group import ClassicGroup, Member, Parked, State
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.runtime.ports import GroupLog
from kafkasim.model.group.runtime.shard import Complete, Deferred, Shard
from kafkasim.model.records import Record, batch_of

LANE = "group"


class Runtime:
    """What the coordinator's handlers share: configuration, rules, the log, timers, the trace."""

    def __init__(
        self, process: Process, config: BrokerConfig, rules: GroupRules, log: GroupLog
    ) -> None:
        self.process = process
        self.config = config
        self.rules = rules
        self.log = log
        self.timers = process.timers
        self.out = process.out
        self._ids = random.Random(process.rng.getrandbits(64))
        self._timeout_us = config.offsets_commit_timeout_ms * 1000

    def append(self, shard: Shard, records: tuple[Record, ...], now: int) -> Errors:
        """Append records; on an error nothing has changed."""
        assert shard.active, shard.tp
        error, end_offset = self.log.append(shard.tp, batch_of(records), now)
        if error is Errors.NONE:
            assert end_offset > shard.last_written, (shard.tp, end_offset, shard.last_written)
            shard.last_written = end_offset
        return error

    def defer(self, shard: Shard, complete: Complete, argument: Any, now: int) -> None:
        """Call ``complete(argument, error, now)`` once all that was appended is committed.

        The error is NONE, REQUEST_TIMED_OUT, or NOT_COORDINATOR if the partition is given up.
        """
        if shard.last_committed >= shard.last_written:
            complete(argument, Errors.NONE, now)
            return
        deadline = now + self._timeout_us
        if not shard.deferred:
            self._arm(shard, deadline)
        shard.deferred.append(Deferred(shard.last_written, deadline, complete, argument))

    def committed(self, shard: Shard, high_watermark: int, now: int) -> None:
        """Complete, in order of the log, what the new high watermark has passed."""
        if high_watermark <= shard.last_committed:
            return
        shard.last_committed = high_watermark
        deferred = shard.deferred
        while deferred and deferred[0].end_offset <= high_watermark:
            entry = deferred.popleft()
            entry.complete(entry.argument, Errors.NONE, now)
        self._rearm(shard)

    def fail_all(self, shard: Shard, error: Errors, now: int) -> None:
        """Complete all that waits with an error: the partition is given up."""
        waiting = list(shard.deferred)
        shard.deferred.clear()
        self._rearm(shard)
        for entry in waiting:
            entry.complete(entry.argument, error, now)

    def respond(self, parked: Parked, message: Any) -> None:
        """Answer a request."""
        self.out.append(Respond(parked[0], parked[1], message))

    def new_member_id(self, prefix: str) -> str:
        """Return a fresh member id: client id or instance id, and a random part."""
        return f"{prefix}-{self._ids.getrandbits(64):016x}"

    # Groups

    def transition(self, group: ClassicGroup, state: State, reason: str, now: int) -> None:
        """Change a group's state, for the trace too."""
        group.transition_to(state, self.process.wall_ms(now))
        self.record_state(group, reason)

    def record_state(self, group: ClassicGroup, reason: str) -> None:
        """Write the group's state to the trace."""
        self.out.append(
            GroupState(
                group.group_id,
                group.state.value,
                group.generation,
                tuple(group.members),
                group.protocol or "",
                reason,
            )
        )

    def record_assigned(self, group: ClassicGroup) -> None:
        """Write what each member owns to the trace."""
        for member in group.members.values():
            assignment = tuple([str(tp) for tp in member.assignment])
            self.out.append(
                GroupAssigned(group.group_id, group.generation, member.member_id, assignment)
            )

    def record_replaced(self, group: ClassicGroup, old_id: str, member: Member) -> None:
        """Write to the trace that a static member's partitions are now under another member id."""
        self.out.append(GroupAssigned(group.group_id, group.generation, old_id, ()))
        assignment = tuple([str(tp) for tp in member.assignment])
        self.out.append(
            GroupAssigned(group.group_id, group.generation, member.member_id, assignment)
        )

    # Timeouts of writes

    def _arm(self, shard: Shard, deadline: int) -> None:
        self.timers.arm(
            ("group-write", shard.partition),
            deadline,
            LANE,
            lambda now: self._on_timeout(shard, now),
        )

    def _rearm(self, shard: Shard) -> None:
        if shard.deferred:
            self._arm(shard, shard.deferred[0].deadline_us)
        else:
            self.timers.cancel(("group-write", shard.partition))

    def _on_timeout(self, shard: Shard, now: int) -> None:
        deferred = shard.deferred
        while deferred and deferred[0].deadline_us <= now:
            entry = deferred.popleft()
            entry.complete(entry.argument, Errors.REQUEST_TIMED_OUT, now)
        self._rearm(shard)


def client_error(error: Errors) -> Errors:
    """Return what a client is told of a failed append (CoordinatorOperationExceptionHelper)."""
    return _CLIENT_ERRORS.get(error, error)


_CLIENT_ERRORS = {
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
