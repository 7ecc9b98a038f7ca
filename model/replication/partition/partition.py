"""One replica of one partition (kafka.cluster.Partition): its log, its role, what waits for it.

A partition leads, follows, or is not served at all (``leading`` False and ``leader`` −1, or
``offline``). This module holds the state, the change of roles and the appends; what a leader does
with followers' fetches and with its ISR is in :mod:`kafkasim.model.replication.partition.leader`.

Left out: future replicas (log directory moves), remote log storage, hanging transactions' late
checks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkasim.model.effects import Then
from kafkasim.model.errors import Errors
from kafkasim.model.facts import Appended, BecameFollower, BecameLeader, Replicated, Truncated
from kafkasim.model.messages import FetchPartition, FetchPartitionResponse
from kafkasim.model.records import RecordBatch, TopicPartition
from kafkasim.model.replication.partition.isr import Committed
from kafkasim.model.replication.partition.leader import LeaderPartition
from kafkasim.model.replication.partition.replica import RemoteReplica

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import PartitionRegistration
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.storage.log.unified_log import AppendResult, UnifiedLog

NONE = Errors.NONE
EMPTY: tuple[RecordBatch, ...] = ()


class Partition(LeaderPartition):
    """A local replica."""

    __slots__ = ()

    def __init__(
        self, manager: ReplicaManager, tp: TopicPartition, topic_id: str, log: UnifiedLog
    ) -> None:
        self.manager = manager
        self.rules = manager.rules
        self.out = manager.out
        self.brokers = manager.brokers
        self.local_id = manager.broker_id
        self.lag_us = manager.lag_us
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.internal = tp.topic.startswith("__")
        self.offsets_topic = tp.topic == "__consumer_offsets"
        self.offline = False
        self.leading = False
        self.leader = -1
        self.leader_epoch = -1
        self.partition_epoch = -1
        self.leader_epoch_start = -1
        self.replicas: tuple[int, ...] = ()
        self.min_isr = 1
        self.state: Committed = Committed(())
        self.isr: tuple[int, ...] = ()
        self.maximal_isr: tuple[int, ...] = ()
        self.remotes: dict[int, RemoteReplica] = {}
        self.waiting_produces = {}
        self.waiting_followers = {}
        self.waiting_consumers = {}
        self.waiting_deletes = {}
        self.watchers = {}
        self.empty_answer: FetchPartitionResponse | None = None

    def __repr__(self) -> str:
        role = "leader" if self.leading else f"follower of {self.leader}"
        return (
            f"Partition({self.tp}, {role} e{self.leader_epoch}/p{self.partition_epoch},"
            f" isr {self.isr}, hw {self.log.high_watermark}, leo {self.log.log_end_offset})"
        )

    # --------------------------------------------------------------------------- change of roles

    def make_leader(self, registration: PartitionRegistration, now: int) -> None:
        """Lead under ``registration`` (Partition.makeLeader).

        Kafka holds the partition's lock while the entry of the new epoch is fsynced, so nobody can
        see the leadership before. Here the partition *settles*: it does not lead until that is
        durable, and requests that touch it are held (ReplicaManager.hold).
        """
        if registration.partition_epoch < self.partition_epoch:
            return
        new_leadership = self.rules.starts_leadership(self, registration.leader_epoch)
        was_leader = self.leading
        self._adopt(registration)
        self._set_state(Committed(registration.isr))
        remotes = self.remotes
        self.remotes = {
            member: remotes.get(member) or RemoteReplica(member)
            for member in registration.replicas
            if member != self.local_id
        }
        log = self.log
        if new_leadership:
            self.leader_epoch = registration.leader_epoch
            self.leader_epoch_start = log.log_end_offset
            if self.rules.assigns_epoch_at_election():
                log.epochs.assign(registration.leader_epoch, log.log_end_offset)
            self.rules.reset_remote_replicas(self, was_leader, now)
            self.leading = False
            self.manager.settling[self.tp] = self
            self.out.append(Then(partial(self._lead, self.leader_epoch)))
            return
        if self.tp not in self.manager.settling:
            self.leading = True
            if self.advance_high_watermark(now):
                self.wake(now)

    def _lead(self, leader_epoch: int, now: int) -> None:
        """The entry of the new epoch is durable: lead."""
        if self.manager.settling.get(self.tp) is not self or self.leader_epoch != leader_epoch:
            return
        self.leading = True
        self.out.append(
            BecameLeader(
                self.topic_id,
                self.tp.partition,
                self.leader_epoch,
                self.partition_epoch,
                self.leader_epoch_start,
                self.log.high_watermark,
                self.isr,
            )
        )
        if self.advance_high_watermark(now):
            self.wake(now)
        self.manager.settled(self.tp)

    def make_follower(self, registration: PartitionRegistration, now: int) -> bool:
        """Follow under ``registration`` (Partition.makeFollower); return whether the epoch rose."""
        if registration.partition_epoch < self.partition_epoch:
            return False
        new_epoch = registration.leader_epoch > self.leader_epoch
        self.leading = False
        self.manager.settled(self.tp)
        self._adopt(registration)
        self.leader_epoch = registration.leader_epoch
        self.leader_epoch_start = -1
        self._set_state(Committed(()))
        self.remotes = {}
        if new_epoch:
            self.out.append(
                BecameFollower(
                    self.topic_id,
                    self.tp.partition,
                    self.leader_epoch,
                    self.leader,
                    self.log.log_end_offset,
                )
            )
        return new_epoch

    def _adopt(self, registration: PartitionRegistration) -> None:
        self.leader = registration.leader
        self.partition_epoch = registration.partition_epoch
        self.replicas = registration.replicas
        self.min_isr = min(self.log.config.min_insync_replicas, len(registration.replicas))

    def mark_offline(self) -> None:
        """The log directory failed: serve nothing any more."""
        self._set_state(Committed(()))
        self.offline = True
        self.leading = False
        self.manager.settled(self.tp)

    # ----------------------------------------------------------------------------------- appends

    def append_as_leader(self, batch: RecordBatch, now: int, origin: str) -> AppendResult:
        """Append a client's or the coordinator's batch; the caller tries the high watermark.

        Raises:
            DiskError: the log directory failed.
        """
        result = self.log.append_as_leader(
            batch, self.leader_epoch, self.manager.process.wall_ms(now), origin
        )
        written = result.batch
        if written is not None and not result.duplicate:
            self.changed()
            self.out.append(
                Appended(
                    self.topic_id,
                    self.tp.partition,
                    self.leader_epoch,
                    written.base_offset,
                    written.last_offset + 1,
                    written.producer_id,
                    written.producer_epoch,
                    written.base_sequence,
                    () if self.internal else tuple([record.value for record in written.records]),
                )
            )
        return result

    def append_as_follower(
        self, batches: tuple[RecordBatch, ...], fetch_epoch: int
    ) -> AppendResult:
        """Append what a fetch under ``fetch_epoch`` brought; the log decides which batches it takes.

        An empty log whose start lies inside the first batch starts anew at that batch
        (Partition.appendRecordsToFollowerOrFutureReplica, UnexpectedAppendOffsetException).

        Raises:
            DiskError: the log directory failed.
        """
        log = self.log
        first = batches[0]
        end = log.log_end_offset
        if (
            first.base_offset < end == log.log_start_offset <= first.last_offset
            and type(first) is RecordBatch
            and log.rules.follower_accepts(first.leader_epoch, fetch_epoch)
        ):
            self.truncate_fully(first.base_offset)
        result = log.append_as_follower(batches, fetch_epoch)
        last = result.batch
        if last is not None:
            self.out.append(
                Replicated(
                    self.topic_id,
                    self.tp.partition,
                    fetch_epoch,
                    last.leader_epoch,
                    result.base_offset,
                    last.last_offset + 1,
                )
            )
        return result

    def follow_offsets(self, high_watermark: int, leader_log_start: int, now: int) -> None:
        """Take the leader's high watermark (it may go down) and log start from a fetch reply."""
        log = self.log
        if log.high_watermark != high_watermark:
            log.update_high_watermark(high_watermark)
            if self.waiting_consumers:
                self.wake(now)
        if leader_log_start > log.log_start_offset:
            log.raise_log_start(min(leader_log_start, log.high_watermark))

    # -------------------------------------------------------------------------------- truncation

    def truncate_to(self, offset: int) -> None:
        """Cut the log at ``offset``; at or above the log end only the epoch cache is cut."""
        log = self.log
        before = log.log_end_offset
        recovery_point = log.recovery_point
        log.truncate_to(offset)
        if log.recovery_point < recovery_point:
            self.manager.logs.checkpoint_recovery_points(self.tp)
        if log.log_end_offset < before:
            self.out.append(
                Truncated(
                    self.topic_id,
                    self.tp.partition,
                    self.leader_epoch,
                    before,
                    log.log_end_offset,
                )
            )

    def truncate_fully(self, offset: int) -> None:
        """Drop the whole log and go on at ``offset``."""
        log = self.log
        before = log.log_end_offset
        recovery_point = log.recovery_point
        log.truncate_fully_and_start_at(offset)
        if log.recovery_point < recovery_point:
            self.manager.logs.checkpoint_recovery_points(self.tp)
        self.out.append(
            Truncated(self.topic_id, self.tp.partition, self.leader_epoch, before, offset)
        )

    # ------------------------------------------------------------------------------ fetch checks

    def check_fetch(self, asked: FetchPartition, replica: int) -> FetchPartitionResponse | None:
        """Return why a fetch is refused (in Kafka's order, 1.4), or None if it may read."""
        log = self.log
        last = asked.last_fetched_epoch
        if (
            asked.current_leader_epoch == self.leader_epoch
            and self.leading
            and asked.topic_id == self.topic_id
            and (last < 0 or last == log.epochs.latest_epoch)
            and log.log_start_offset <= asked.fetch_offset <= log.log_end_offset
            and (replica < 0 or replica in self.remotes)
        ):
            return None
        error = self._refusal(asked, replica)
        if error is not NONE:
            return self.fetch_error(error)
        if last >= 0:
            epoch, end = log.epochs.end_offset_for(last, log.log_end_offset)
            if epoch == -1 or end == -1 or asked.fetch_offset < log.log_start_offset:
                return self.fetch_error(Errors.OFFSET_OUT_OF_RANGE)
            if epoch < last or end < asked.fetch_offset:
                return FetchPartitionResponse(
                    self.tp,
                    NONE,
                    log.high_watermark,
                    log.last_stable_offset,
                    log.log_start_offset,
                    EMPTY,
                    (epoch, end),
                )
        if not log.log_start_offset <= asked.fetch_offset <= log.log_end_offset:
            return self.fetch_error(Errors.OFFSET_OUT_OF_RANGE)
        return None

    def _refusal(self, asked: FetchPartition, replica: int) -> Errors:
        if self.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if asked.topic_id not in ("", self.topic_id):
            return Errors.INCONSISTENT_TOPIC_ID
        if replica < 0:  # a follower serves consumers, too (KIP-392)
            return self.rules.check_leader_epoch(asked.current_leader_epoch, self.leader_epoch)
        error = self.check_leader(asked.current_leader_epoch)
        if error is not NONE:
            return error
        if replica not in self.remotes:
            if asked.current_leader_epoch >= 0:
                return Errors.UNKNOWN_LEADER_EPOCH
            return Errors.NOT_LEADER_OR_FOLLOWER
        return NONE

    def check_leader(self, requested_epoch: int) -> Errors:
        """Fence by leader epoch, then ask for leadership (getLocalLog)."""
        if self.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if requested_epoch != self.leader_epoch:
            error = self.rules.check_leader_epoch(requested_epoch, self.leader_epoch)
            if error is not NONE:
                return error
        return NONE if self.leading else Errors.NOT_LEADER_OR_FOLLOWER

    def fetch_error(self, error: Errors) -> FetchPartitionResponse:
        """Build the answer to a refused fetch (KIP-951: with the leader, if that is the error)."""
        leader = None
        if error in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH):
            leader = (self.leader, self.leader_epoch)
        return FetchPartitionResponse(self.tp, error, -1, -1, -1, EMPTY, None, leader)

    def nothing_new(self, high_watermark: int) -> FetchPartitionResponse:
        """Return the answer without records; it is built once per state of the offsets."""
        log = self.log
        answer = self.empty_answer
        if (
            answer is None
            or answer.high_watermark != high_watermark
            or answer.log_start_offset != log.log_start_offset
        ):
            answer = self.empty_answer = FetchPartitionResponse(
                self.tp,
                NONE,
                high_watermark,
                high_watermark,
                log.log_start_offset,
                EMPTY,
            )
        return answer
