"""Partition: one replica of one partition on this broker (kafka.cluster.Partition).

A partition holds a log and one role: a :class:`LeaderState` or a :class:`FollowerState`. A new
partition is a follower without a leader (−1). Only metadata changes the role:

    FollowerState --make_leader--> LeaderState, locked --epoch durable--> leading
    LeaderState   --make_leader--> LeaderState; locked again if the leader epoch is new
    any           --make_follower--> FollowerState
    any           --stopped, or its log directory failed--> not leading

Partition changes the role, appends, truncates, and checks requests against the role.
:mod:`kafkasim.model.replication.partitions.leader_state` has followers' progress and the ISR.

Left out: future replicas (moves between log directories), remote log storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from kafkasim.model.effects import Then
from kafkasim.model.errors import Errors
from kafkasim.model.facts import (
    Appended,
    BecameFollower,
    BecameLeader,
    ReadServed,
    Replicated,
    Truncated,
)
from kafkasim.model.messages import FetchPartition, FetchPartitionResponse
from kafkasim.model.records import COORDINATOR_TOPICS, RecordBatch, TopicPartition
from kafkasim.model.replication.logs.keys import keys_appended, marker_written, summary
from kafkasim.model.replication.logs.log_truncation import truncate_log
from kafkasim.model.replication.partitions.delayed_operations import DelayedOperations
from kafkasim.model.replication.partitions.leader_state import LeaderState

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import PartitionRegistration
    from kafkasim.model.replication.partitions.ports import PartitionContext
    from kafkasim.model.replication.partitions.remote_replica import RemoteReplica
    from kafkasim.model.storage.log.producers.verification import VerificationStateEntry
    from kafkasim.model.storage.log.unified_log import UnifiedLog
    from kafkasim.model.storage.log.validation import AppendOrigin, AppendResult

NONE = Errors.NONE
EMPTY: tuple[RecordBatch, ...] = ()
FETCHES = ("Fetch", "Fetch by a follower")
READS = (*FETCHES, "ListOffsets", "OffsetForLeaderEpoch")
"""Kinds of reads, of which :class:`ReadServed` tells the first one each."""


@dataclass(frozen=True, slots=True)
class FollowerState:
    """The metadata of a partition that this broker does not lead."""

    leadership: ClassVar[None] = None
    leader_id: int = -1  # −1: the partition has no leader
    leader_epoch: int = -1  # −1: no metadata yet
    partition_epoch: int = -1
    replicas: tuple[int, ...] = ()


Role: TypeAlias = LeaderState | FollowerState


class Partition:
    """One local replica, with its role and what waits for it."""

    __slots__ = (
        "_context", "_empty_answer", "delayed", "log", "offline", "role", "topic_id", "tp", "untold"
    )  # fmt: skip

    def __init__(
        self, context: PartitionContext, tp: TopicPartition, topic_id: str, log: UnifiedLog
    ) -> None:
        self._context = context
        self.tp = tp
        self.topic_id = topic_id
        self.log = log
        self.role: Role = FollowerState()
        self.offline = False  # the log directory failed: served no more until the process ends
        self.delayed = DelayedOperations(tp)
        self._empty_answer: FetchPartitionResponse | None = None
        self.untold: tuple[str, ...] = ()  # kinds of reads to be told when the first is answered

    def __repr__(self) -> str:
        role = self.role
        name = "leader" if self.leadership else f"follower of {role.leader_id}"
        return (
            f"Partition({self.tp}, {name} e{role.leader_epoch}/p{role.partition_epoch},"
            f" hw {self.log.high_watermark}, leo {self.log.log_end_offset})"
        )

    # ---------------------------------------------------------------------------------- the role

    @property
    def leadership(self) -> LeaderState | None:
        """The leader's state while this replica leads and its epoch is durable, else None."""
        return self.role.leadership

    @property
    def leading(self) -> bool:
        """Whether this replica leads and its leader epoch is durable."""
        return self.leadership is not None

    @property
    def leader_id(self) -> int:
        """The broker that leads the partition, −1 if there is none."""
        return self.role.leader_id

    @property
    def leader_epoch(self) -> int:
        """The leader epoch, −1 before any metadata."""
        return self.role.leader_epoch

    @property
    def partition_epoch(self) -> int:
        """The partition epoch (the ZooKeeper version of its state), −1 before any metadata."""
        return self.role.partition_epoch

    @property
    def min_isr(self) -> int:
        """The effective min.insync.replicas; since 3.7 never more than there are replicas."""
        minimum = self.log.config.min_insync_replicas
        if not self._context.rules.caps_min_isr():
            return minimum
        return min(minimum, len(self.role.replicas) or 1)

    def remote(self, replica: int) -> RemoteReplica | None:
        """Return a follower's progress, None if this replica has no leader's state of it."""
        role = self.role
        return role.remotes.get(replica) if isinstance(role, LeaderState) else None

    # --------------------------------------------------------------------------- change of roles

    def make_leader(self, registration: PartitionRegistration, now: int) -> None:
        """Lead the partition; ignore metadata older than the known partition epoch.

        A new leadership takes effect once the entry of its leader epoch is durable. The partition
        is locked until then (:class:`RoleLocks`).

        Raises:
            DiskError: the log directory failed.
        """
        role, context = self.role, self._context
        if registration.partition_epoch < role.partition_epoch:
            return
        leader_epoch = registration.leader_epoch
        new_leadership = context.rules.starts_leadership(role.leader_epoch, leader_epoch)
        was_leader = self.leading
        if not isinstance(role, LeaderState):
            self.role = role = LeaderState(
                context, self.tp, self.topic_id, self.log, self.delayed, role.leader_epoch
            )
        role.adopt(registration)
        if new_leadership:
            role.begin(leader_epoch, was_leader, now)
            context.locks.acquire(self.tp, self)
            context.out.append(Then(partial(self._lead, leader_epoch)))
        elif self.tp not in context.locks.held:
            role.leadership = role
            role.advance_high_watermark(now)

    def _lead(self, leader_epoch: int, now: int) -> None:
        """Take the leadership into effect: the entry of its leader epoch is durable."""
        role, locks = self.role, self._context.locks
        if locks.held.get(self.tp) is not self or role.leader_epoch != leader_epoch:
            return  # another role, or a newer epoch, came first
        assert isinstance(role, LeaderState), self
        role.leadership = role
        self._context.out.append(
            BecameLeader(
                self.topic_id,
                self.tp.partition,
                role.leader_epoch,
                role.partition_epoch,
                role.leader_epoch_start,
                self.log.high_watermark,
                role.isr,
            )
        )
        role.advance_high_watermark(now)
        locks.release(self.tp)

    def make_follower(self, registration: PartitionRegistration) -> bool:
        """Follow the leader in ``registration``; return whether its leader epoch is new.

        Metadata older than the known partition epoch is ignored.
        """
        role = self.role
        if registration.partition_epoch < role.partition_epoch:
            return False
        new_epoch = registration.leader_epoch > role.leader_epoch
        if isinstance(role, LeaderState):
            role.end()
        else:
            self.delayed.mark_dirty()
        self._context.locks.release(self.tp)
        self.role = FollowerState(
            registration.leader,
            registration.leader_epoch,
            registration.partition_epoch,
            registration.replicas,
        )
        if new_epoch:
            leader, epoch = registration.leader, registration.leader_epoch
            end = self.log.log_end_offset
            fact = BecameFollower(self.topic_id, self.tp.partition, epoch, leader, end)
            self._context.out.append(fact)
        return new_epoch

    def stop_leading(self) -> None:
        """Stop leading until the next metadata; followers' progress and the ISR are kept."""
        if isinstance(self.role, LeaderState):
            self.role.leadership = None
        self._context.locks.release(self.tp)

    def mark_offline(self) -> None:
        """Take the replica offline until the process ends: its log directory failed."""
        if isinstance(self.role, LeaderState):
            self.role.end()
        else:
            self.delayed.mark_dirty()
        self.offline = True
        self._context.locks.release(self.tp)

    # ----------------------------------------------------------------------------------- appends

    def append_as_leader(
        self,
        leader: LeaderState,
        batch: RecordBatch,
        now: int,
        origin: AppendOrigin,
        transaction_version: int = 0,
        guard: VerificationStateEntry | None = None,
    ) -> AppendResult:
        """Append a batch of a client or of a coordinator, markers too.

        The caller advances the high watermark. ``transaction_version`` is that of a marker.

        Raises:
            DiskError: the log directory failed.
        """
        context = self._context
        leader_epoch = leader.leader_epoch
        wall_ms = context.host.wall_ms(now)
        result = self.log.append_as_leader(
            batch, leader_epoch, wall_ms, origin, transaction_version, guard
        )
        written = result.batch
        if written is not None and not result.duplicate:
            self.delayed.mark_dirty()
            no_data = written.control or self.tp.topic in COORDINATOR_TOPICS
            if self.log.compacted and not no_data:
                context.out.append(keys_appended(self.topic_id, self.tp.partition, written))
            context.out.append(
                Appended(
                    self.topic_id,
                    self.tp.partition,
                    leader_epoch,
                    written.base_offset,
                    written.last_offset + 1,
                    written.producer_id,
                    written.producer_epoch,
                    written.base_sequence,
                    () if no_data else tuple([record.value for record in written.records]),
                )
            )
            if written.control:
                context.out.append(marker_written(self.topic_id, self.tp.partition, written))
        return result

    def append_as_follower(
        self, batches: tuple[RecordBatch, ...], fetch_epoch: int
    ) -> AppendResult:
        """Append fetched batches; the log leaves out those of a newer epoch than ``fetch_epoch``.

        If the log is empty and its start lies inside the first batch, the log restarts at that
        batch (Partition.appendRecordsToFollowerOrFutureReplica, UnexpectedAppendOffsetException).

        Raises:
            DiskError: the log directory failed.
        """
        log = self.log
        first = batches[0]
        end = log.local.log_end_offset
        if (
            first.base_offset < end == log.log_start_offset <= first.last_offset
            and type(first) is RecordBatch
            and log.rules.follower_accepts(first.leader_epoch, fetch_epoch)
        ):
            self.truncate_fully(first.base_offset)
        result = log.append_as_follower(batches, fetch_epoch)
        last = result.batch
        if last is not None:
            self._context.out.append(
                Replicated(
                    self.topic_id,
                    self.tp.partition,
                    fetch_epoch,
                    last.leader_epoch,
                    result.base_offset,
                    last.last_offset + 1,
                    summary(batches, last),
                )
            )
        return result

    def follow_offsets(self, high_watermark: int, leader_log_start: int, now: int) -> None:
        """Take the leader's high watermark and log start from a fetch reply.

        A follower's high watermark may go down; it never passes its own log end.

        Raises:
            DiskError: the log directory failed.
        """
        log = self.log
        if log.high_watermark != high_watermark:
            log.update_high_watermark(high_watermark)
            if self.delayed.consumer_fetches or self.delayed.consumer_entries:
                self.delayed.high_watermark_changed(now)
        if leader_log_start > log.log_start_offset:
            log.raise_log_start(min(leader_log_start, log.high_watermark))

    # -------------------------------------------------------------------------------- truncation

    def truncate_to(self, offset: int, now: int) -> None:
        """Truncate the log to ``offset``; at or above the log end only the epoch cache shrinks."""
        log, wall_ms = self.log, self._context.host.wall_ms(now)
        kept = self._context.recovery_points
        before = truncate_log(log, kept, lambda end: log.truncate_to(end, wall_ms), offset)
        if log.log_end_offset < before:
            self._tell_truncated(before, log.log_end_offset)

    def truncate_fully(self, offset: int) -> None:
        """Delete the whole log and restart it, empty, at ``offset``."""
        kept, restart = self._context.recovery_points, self.log.truncate_fully_and_start_at
        self._tell_truncated(truncate_log(self.log, kept, restart, offset), offset)

    def _tell_truncated(self, before: int, offset: int) -> None:
        told = Truncated(self.topic_id, self.tp.partition, self.leader_epoch, before, offset)
        self._context.out.append(told)

    # ------------------------------------------------------------------------------ fetch checks

    def check_fetch(
        self, asked: FetchPartition, replica: int, only_leader: bool
    ) -> FetchPartitionResponse | None:
        """Return None if a fetch may read, else its response.

        The order of the checks is Kafka's (Partition.fetchRecords). A follower whose log diverged
        gets no error but the epoch and offset to truncate to. ``replica`` is −1 for a consumer;
        ``only_leader``: a follower refuses it (FetchParams.fetchOnlyLeader).
        """
        log = self.log
        last = asked.last_fetched_epoch
        leader = self.role.leadership
        if (
            leader is not None
            and asked.current_leader_epoch == leader.leader_epoch
            and asked.topic_id == self.topic_id
            and (last < 0 or last == log.epochs.latest_epoch)
            and log.log_start_offset <= asked.fetch_offset <= log.local.log_end_offset
            and (replica < 0 or replica in leader.remotes)
        ):
            return None  # what most fetches come to
        error = self._refusal(asked, replica, only_leader)
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

    def _refusal(self, asked: FetchPartition, replica: int, only_leader: bool) -> Errors:
        if self.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if asked.topic_id not in ("", self.topic_id):
            return Errors.INCONSISTENT_TOPIC_ID
        requested_epoch = asked.current_leader_epoch
        if replica < 0:  # a follower serves consumers, too (KIP-392)
            return self.check_leader(requested_epoch, only_leader)
        error = self.check_leader(requested_epoch)
        if error is NONE and self.remote(replica) is None:
            known = requested_epoch >= 0
            return Errors.UNKNOWN_LEADER_EPOCH if known else Errors.NOT_LEADER_OR_FOLLOWER
        return error

    def check_leader(self, requested_epoch: int, only_leader: bool = True) -> Errors:
        """Return why a request is refused, NONE if it is not (getLocalLog).

        ``requested_epoch`` is −1 where the client names no leader epoch. ``only_leader``: a
        follower refuses it.
        """
        if self.offline:
            return Errors.KAFKA_STORAGE_ERROR
        leader_epoch = self.role.leader_epoch
        if requested_epoch != leader_epoch:
            error = self._context.rules.check_leader_epoch(requested_epoch, leader_epoch)
            if error is not NONE:
                return error
        if only_leader and self.leadership is None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        return NONE

    def tell_read(self, kind: str, replica: int, only_leader: bool) -> None:
        """Tell of a read that this replica answers, if it is the first of its kind."""
        if kind in self.untold:
            self.untold = tuple([each for each in self.untold if each != kind])
            partition, epoch, leads = self.tp.partition, self.leader_epoch, self.leading
            told = (self.topic_id, partition, epoch, kind.split()[0], replica, only_leader, leads)
            self._context.out.append(ReadServed(*told))

    def fetch_error(self, error: Errors) -> FetchPartitionResponse:
        """Build the response to a refused fetch; it names the leader where that helps (KIP-951)."""
        leader = None
        if error in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH):
            leader = (self.leader_id, self.leader_epoch)
        return FetchPartitionResponse(self.tp, error, -1, -1, -1, EMPTY, None, leader)

    def nothing_new(self, high_watermark: int) -> FetchPartitionResponse:
        """Return a response without records; the same object is reused while no offset changes."""
        log = self.log
        stable = log.last_stable_offset
        if stable > high_watermark:
            stable = high_watermark
        answer = self._empty_answer
        if (
            answer is None
            or answer.high_watermark != high_watermark
            or answer.last_stable_offset != stable
            or answer.log_start_offset != log.log_start_offset
        ):
            answer = self._empty_answer = FetchPartitionResponse(
                self.tp, NONE, high_watermark, stable, log.log_start_offset, EMPTY
            )
        return answer
