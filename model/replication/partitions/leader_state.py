"""LeaderState: what a partition knows and does only while it leads (Partition.scala's leader side).

Followers' progress, the high watermark and the ISR. The order inside
:meth:`LeaderState.update_follower` is Kafka's: follower state, ISR expansion, high watermark. The
caller has checked the follower's broker epoch in the same handler.

Left out: leader recovery after an unclean election (LeaderRecoveryState is always RECOVERED).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.facts import (
    ExpansionForgotten,
    HighWatermark,
    IsrChanged,
    IsrProposed,
    IsrUpdateFailed,
    PreferredReadReplica,
)
from kafkasim.model.messages import AlterPartitionData, AlterPartitionResult, FetchPartition
from kafkasim.model.records import COORDINATOR_TOPICS
from kafkasim.model.replication.partitions.isr import IsrState, committed
from kafkasim.model.replication.partitions.remote_replica import RemoteReplica

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import PartitionRegistration
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.delayed_operations import DelayedOperations
    from kafkasim.model.replication.partitions.ports import PartitionContext
    from kafkasim.model.storage.log.unified_log import UnifiedLog

NONE = Errors.NONE

ROLL_BACK = frozenset({Errors.INELIGIBLE_REPLICA, Errors.OPERATION_NOT_ATTEMPTED})
"""The controller refused the proposal: the leader returns to the last committed ISR."""

STAY_PENDING = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
        Errors.INVALID_REQUEST,
        Errors.NEW_LEADER_ELECTED,
    }
)
"""The proposal may be committed, or the leader is outdated: the next metadata decides."""


class LeaderState:
    """The leader's state of one partition; it is kept as long as this broker is re-elected."""

    __slots__ = (
        "brokers",
        "context",
        "delayed",
        "forgotten",
        "isr",
        "lag_us",
        "leader_epoch",
        "leader_epoch_start",
        "leader_id",
        "leadership",
        "log",
        "maximal_isr",
        "named",
        "out",
        "partition_epoch",
        "remotes",
        "replicas",
        "rules",
        "state",
        "topic_id",
        "tp",
    )

    def __init__(
        self,
        context: PartitionContext,
        tp: TopicPartition,
        topic_id: str,
        log: UnifiedLog,
        delayed: DelayedOperations,
        leader_epoch: int,
    ) -> None:
        self.context = context
        self.rules = context.rules
        self.out = context.out
        self.brokers = context.brokers
        self.lag_us = context.lag_us
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.delayed = delayed
        self.leader_id = context.host.broker_id
        self.leader_epoch = leader_epoch
        self.partition_epoch = -1
        self.leader_epoch_start = -1  # the log end offset when this leadership began
        # Itself from when the epoch is durable until the role ends, else None.
        self.leadership: LeaderState | None = None
        self.replicas: tuple[int, ...] = ()
        self.remotes: dict[int, RemoteReplica] = {}  # the replicas but ourselves
        self.forgotten: tuple[int, ...] = ()  # of an expansion whose answer will be ignored
        # To which followers consumers were sent, and of which partition epoch that was told.
        self.named: dict[int, int] = {}
        self.state = committed(())
        self.isr: tuple[int, ...] = ()  # state.isr
        self.maximal_isr: tuple[int, ...] = ()  # state.maximal

    @property
    def leading(self) -> bool:
        """Whether the leader epoch is durable and the role has not ended."""
        return self.leadership is not None

    @property
    def min_isr(self) -> int:
        """The effective min.insync.replicas; since 3.7 never more than there are replicas."""
        minimum = self.log.config.min_insync_replicas
        return min(minimum, len(self.replicas)) if self.rules.caps_min_isr() else minimum

    def adopt(self, registration: PartitionRegistration) -> None:
        """Take over the controller's state; the progress of followers that stay is kept.

        Metadata of the known partition epoch counts, too, though the answer to a proposal may have
        told it already: it replaces the next proposal, and the leader ignores that one's answer
        (KAFKA.md, 1.6).
        """
        if registration.partition_epoch > self.partition_epoch:
            self._forget((), registration.partition_epoch)
        elif self.state.change == "expand":
            self._forget(self.state.moving, registration.partition_epoch)
        self.partition_epoch = registration.partition_epoch
        self.replicas = registration.replicas
        self._set_isr(committed(registration.isr))
        remotes = self.remotes
        self.remotes = {
            member: remotes.get(member) or RemoteReplica(member)
            for member in registration.replicas
            if member != self.leader_id
        }

    def _forget(self, members: tuple[int, ...], partition_epoch: int) -> None:
        """Remember, and tell, which proposed members no longer hold back the high watermark."""
        if members != self.forgotten:
            self.forgotten = members
            self.out.append(
                ExpansionForgotten(
                    self.topic_id, self.tp.partition, self.leader_epoch, partition_epoch, members
                )
            )

    def begin(self, leader_epoch: int, was_leader: bool, now: int) -> None:
        """Begin a new leader epoch; the partition lets it take effect once its entry is durable."""
        log = self.log
        self.leadership = None
        self.leader_epoch = leader_epoch
        self.leader_epoch_start = log.log_end_offset
        if self.rules.assigns_epoch_at_election():
            log.epochs.assign(leader_epoch, log.log_end_offset)
        self.rules.reset_remote_replicas(self, was_leader, now)

    def _set_isr(self, state: IsrState) -> None:
        self.delayed.mark_dirty()
        self.state = state
        self.isr = state.isr
        self.maximal_isr = state.maximal

    # ---------------------------------------------------------------------- followers' progress

    def update_follower(
        self, asked: FetchPartition, replica: int, replica_epoch: int, leader_end: int, now: int
    ) -> None:
        """Record a follower's progress from a successful fetch (updateFollowerFetchState).

        ``leader_end`` is the log end offset at the time of the read.
        """
        remote = self.remotes[replica]
        offset = asked.fetch_offset
        if offset >= leader_end:
            remote.last_caught_up_us = now
        elif offset >= remote.last_fetch_leader_end:
            if remote.last_fetch_us > remote.last_caught_up_us:
                remote.last_caught_up_us = remote.last_fetch_us
        if leader_end > remote.last_fetch_leader_end:
            remote.last_fetch_leader_end = leader_end
        remote.last_fetch_us = now
        if remote.log_start_offset != asked.log_start_offset:
            remote.log_start_offset = asked.log_start_offset
            if self.delayed.deletes:
                self.delayed.log_start_changed(now)
        remote.broker_epoch = replica_epoch
        moved = remote.leo != offset
        remote.leo = offset
        if replica not in self.maximal_isr:
            self._maybe_expand(remote, now)
        if moved:
            self.advance_high_watermark(now)

    def read_failed(self, replica: int) -> None:
        """Record that a follower's fetch could not be read; by the rules nothing changes."""
        offset = self.rules.offset_after_failed_read()
        if offset is not None:
            self.remotes[replica].leo = offset

    def advance_high_watermark(self, now: int) -> None:
        """Raise the high watermark as far as the rules allow; complete what waits for it.

        Models Partition.maybeIncrementLeaderHW.
        """
        log = self.log
        high_watermark = self.rules.high_watermark(self, now)
        if high_watermark <= log.high_watermark:
            return
        log.update_high_watermark(high_watermark)
        self.delayed.mark_dirty()
        acknowledged = [self.leader_id]
        for replica, remote in self.remotes.items():
            if remote.leo >= high_watermark:
                acknowledged.append(replica)
        self.out.append(
            HighWatermark(
                self.topic_id,
                self.tp.partition,
                self.leader_epoch,
                high_watermark,
                self.min_isr if self.rules.high_watermark_needs_min_isr() else 1,
                tuple(acknowledged),
            )
        )
        if self.tp.topic in COORDINATOR_TOPICS:
            self.context.coordinator_committed(self.tp, high_watermark)
        self.delayed.high_watermark_changed(now)

    def tell_read_replica(self, replica: int) -> None:
        """Tell, once in a partition epoch, that consumers are sent to a follower (KIP-392)."""
        if self.named.get(replica) == self.partition_epoch:
            return
        self.named[replica] = self.partition_epoch
        self.out.append(
            PreferredReadReplica(
                self.topic_id, self.tp.partition, self.leader_epoch, self.partition_epoch, replica
            )
        )

    # ------------------------------------------------------------------------------- the ISR

    def _maybe_expand(self, remote: RemoteReplica, now: int) -> None:
        if not self.state.in_flight and self.rules.may_join_isr(self, remote):
            self._propose(self.state.expand(remote.id), now)

    def maybe_shrink(self, now: int) -> None:
        """Propose the removal of lagging members (the isr-expiration task, maybeShrinkIsr)."""
        if not self.leading or self.state.in_flight:
            return
        out = self.rules.out_of_sync(self, now)
        if out:
            self._propose(self.state.shrink(out), now)

    def _propose(self, pending: IsrState, now: int) -> None:
        self._set_isr(pending)
        self.out.append(self._proposal(pending, now))
        pending.sent = AlterPartitionData(
            self.topic_id,
            self.tp.partition,
            self.leader_epoch,
            tuple([(member, self._broker_epoch(member)) for member in pending.proposed]),
            self.partition_epoch,
            0,
            pending.reason,
        )
        self._submit(pending, now)

    def _proposal(self, pending: IsrState, now: int) -> IsrProposed:
        """Return the fact of a decision to change the ISR, and what a shrink was decided on."""
        proposed = IsrProposed(
            self.topic_id,
            self.tp.partition,
            self.leader_epoch,
            self.partition_epoch,
            pending.change,
            pending.moving,
        )
        if pending.change != "shrink":
            return proposed
        remotes = [self.remotes.get(member) for member in pending.moving]
        return replace(
            proposed,
            leader_end=self.log.log_end_offset,
            replica_ends=tuple([-1 if each is None else each.leo for each in remotes]),
            behind_us=tuple(
                [-1 if each is None else now - each.last_caught_up_us for each in remotes]
            ),
            limit_us=self.lag_us,
        )

    def _submit(self, pending: IsrState, now: int) -> None:
        assert pending.sent is not None, pending.proposed
        if not self.context.isr_channel.submit(pending.sent, self, pending, now):
            self._on_alter_error(pending, Errors.OPERATION_NOT_ATTEMPTED, now)

    def _broker_epoch(self, member: int) -> int:
        if member == self.leader_id:
            return self.context.host.broker_epoch
        remote = self.remotes.get(member)
        return -1 if remote is None else self.rules.isr_member_epoch(remote.broker_epoch)

    def on_alter_result(self, pending: IsrState, result: AlterPartitionResult, now: int) -> None:
        """Take the controller's answer to the proposal ``pending`` (submitAlterPartition).

        Ignore the answer if newer metadata replaced the proposal meanwhile. Kafka does not tick its
        meter then; the trace records a success all the same.
        """
        if self.state is not pending:
            if result.error is NONE and self.leading and result.leader_epoch == self.leader_epoch:
                self._record_change(pending, result)
            return
        if result.error is not NONE:
            self._on_alter_error(pending, result.error, now)
            return
        if (
            result.leader_epoch != self.leader_epoch
            or result.partition_epoch < self.partition_epoch
        ):
            self._on_alter_error(pending, Errors.INVALID_UPDATE_VERSION, now)
            return
        self._forget((), result.partition_epoch)
        self.partition_epoch = result.partition_epoch
        self._set_isr(committed(result.isr))
        self._record_change(pending, result)
        if self.rules.advances_after_isr_change():
            self.advance_high_watermark(now)

    def _record_change(self, pending: IsrState, result: AlterPartitionResult) -> None:
        self.out.append(
            IsrChanged(
                self.topic_id,
                self.tp.partition,
                self.leader_epoch,
                result.partition_epoch,
                pending.change,
                pending.moving,
                result.isr,
            )
        )

    def _on_alter_error(self, pending: IsrState, error: Errors, now: int) -> None:
        self.out.append(
            IsrUpdateFailed(self.topic_id, self.tp.partition, self.leader_epoch, error.name)
        )
        if error in ROLL_BACK:
            assert pending.last is not None, pending.proposed
            self._set_isr(pending.last)
        elif error not in STAY_PENDING:
            self._submit(pending, now)

    def end(self) -> None:
        """End the role for good; answers to its proposals change nothing any more."""
        self.leadership = None
        self._set_isr(committed(()))
