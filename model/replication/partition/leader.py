"""The leader's side of a partition: followers' progress, high watermark, ISR (Partition.scala).

The order inside :meth:`LeaderPartition.update_follower` is Kafka's: follower state, ISR expansion,
high watermark. The caller has checked the follower's broker epoch, in the same handler. Whoever changes the high watermark then calls :meth:`wake`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.facts import HighWatermark, IsrChanged, IsrUpdateFailed
from kafkasim.model.messages import AlterPartitionData, AlterPartitionResult, FetchPartition
from kafkasim.model.replication.partition.isr import (
    Committed,
    Pending,
    PendingExpand,
    PendingShrink,
)

if TYPE_CHECKING:
    from typing import Any

    from kafkasim.model.controller.common.image import BrokerImage
    from kafkasim.model.messages import FetchPartitionResponse, FetchRequest
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.fetcher.quota import ReplicationQuota
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.replication.partition.replica import RemoteReplica
    from kafkasim.model.replication.requests.deletion import DelayedDeleteRecords
    from kafkasim.model.replication.requests.purgatory import DelayedFetch, DelayedProduce
    from kafkasim.model.replication.requests.sessions import CachedPartition, FetchSession
    from kafkasim.model.replication.rules import ReplicationRules
    from kafkasim.model.storage.log.unified_log import UnifiedLog

NONE = Errors.NONE

ROLL_BACK = frozenset({Errors.INELIGIBLE_REPLICA, Errors.OPERATION_NOT_ATTEMPTED})
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


class LeaderPartition:
    """What a partition does while it leads; the state is set up by Partition."""

    __slots__ = (
        "brokers",
        "empty_answer",
        "internal",
        "isr",
        "lag_us",
        "leader",
        "leader_epoch",
        "leader_epoch_start",
        "leading",
        "local_id",
        "log",
        "manager",
        "maximal_isr",
        "min_isr",
        "offline",
        "offsets_topic",
        "out",
        "partition_epoch",
        "remotes",
        "replicas",
        "rules",
        "state",
        "topic_id",
        "tp",
        "waiting_consumers",
        "waiting_deletes",
        "waiting_followers",
        "waiting_produces",
        "watchers",
    )

    manager: ReplicaManager
    rules: ReplicationRules
    out: list[Any]
    brokers: dict[int, BrokerImage]  # the metadata cache's, live
    local_id: int
    lag_us: int  # replica.lag.time.max.ms
    tp: TopicPartition
    topic_id: str
    log: UnifiedLog
    internal: bool
    offsets_topic: bool
    offline: bool
    leading: bool
    leader: int  # −1: none
    leader_epoch: int
    partition_epoch: int
    leader_epoch_start: int  # the LEO when this leadership began; −1 for a follower
    replicas: tuple[int, ...]
    min_isr: int  # effective: never above the number of replicas
    state: Committed
    isr: tuple[int, ...]  # state.isr
    maximal_isr: tuple[int, ...]  # state.maximal
    remotes: dict[int, RemoteReplica]  # replicas but ourselves
    waiting_produces: dict[DelayedProduce, tuple[int, int]]  # (required offset, index)
    waiting_followers: dict[DelayedFetch, FetchPartition]
    waiting_consumers: dict[DelayedFetch, FetchPartition]
    waiting_deletes: dict[DelayedDeleteRecords, int]  # the log start that all must reach
    watchers: dict[CachedPartition, None]  # followers' sessions that fetch this partition
    empty_answer: FetchPartitionResponse | None

    def _set_state(self, state: Committed) -> None:
        self.changed()
        self.state = state
        self.isr = state.isr
        self.maximal_isr = state.maximal

    # ---------------------------------------------------------------------- followers' progress

    def update_follower(
        self, asked: FetchPartition, replica: int, replica_epoch: int, leader_end: int, now: int
    ) -> None:
        """Take what a successful fetch tells about a follower (updateFollowerFetchState)."""
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
            if self.waiting_deletes:
                self._check_deletes(now)
        remote.broker_epoch = replica_epoch
        moved = remote.leo != offset
        remote.leo = offset
        if replica not in self.maximal_isr:
            self._maybe_expand(remote, now)
        if moved and self.advance_high_watermark(now):
            self.wake(now)

    def read_failed(self, replica: int) -> None:
        """A follower's fetch could not be read: that tells nothing about the follower."""
        offset = self.rules.offset_after_failed_read()
        if offset is not None:
            self.remotes[replica].leo = offset

    def advance_high_watermark(self, now: int) -> bool:
        """Raise the high watermark as far as the rules allow (maybeIncrementLeaderHW)."""
        log = self.log
        high_watermark = self.rules.high_watermark(self, now)
        if high_watermark <= log.high_watermark:
            return False
        log.update_high_watermark(high_watermark)
        self.changed()
        acknowledged = [self.local_id]
        for replica, remote in self.remotes.items():
            if remote.leo >= high_watermark:
                acknowledged.append(replica)
        self.out.append(
            HighWatermark(
                self.topic_id,
                self.tp.partition,
                self.leader_epoch,
                high_watermark,
                self.min_isr,
                tuple(acknowledged),
            )
        )
        if self.offsets_topic:
            self.manager.offsets_committed(self.tp.partition, high_watermark)
        return True

    # ------------------------------------------------------------------------ completing waiters

    def wake(self, now: int) -> None:
        """The high watermark rose: complete what waits for it (DelayedOperations)."""
        if self.waiting_produces:
            high_watermark = self.log.high_watermark
            waiting = self.waiting_produces
            for operation, (required, index) in list(waiting.items()):
                if high_watermark >= required:
                    del waiting[operation]
                    operation.satisfied(index, self.rules.after_append_error(self), now)
        if self.waiting_consumers:
            self._wake_fetches(self.waiting_consumers, now)
        if self.waiting_deletes:
            self._check_deletes(now)

    def wake_followers(self, now: int) -> None:
        """The log grew: complete followers' fetches. A HW change alone never wakes them."""
        quota = self.manager.leader_quota
        for entry in list(self.watchers):
            parked = entry.session.parked
            if parked is not None and entry.asked.fetch_offset < self.log.log_end_offset:
                request = parked.item.message
                if (quota is None and request.min_bytes <= 1) or (
                    session_bytes(entry.session, request, quota, now) >= request.min_bytes
                ):
                    parked.complete(now)
        if self.waiting_followers:
            self._wake_fetches(self.waiting_followers, now)

    def _check_deletes(self, now: int) -> None:
        for operation in list(self.waiting_deletes):
            operation.check(self, now)  # type: ignore[arg-type]  # a Partition it is

    def changed(self) -> None:
        """Something that followers must hear of changed: their sessions look again."""
        for entry in self.watchers:
            if entry.clean:
                entry.soil()

    def _wake_fetches(self, waiting: dict[DelayedFetch, FetchPartition], now: int) -> None:
        log, epoch = self.log, self.leader_epoch
        for operation, asked in list(waiting.items()):
            request = operation.request
            if request.replica_id >= 0:
                bound = log.log_end_offset
            elif request.isolation_level:
                bound = log.last_stable_offset
            else:
                bound = log.high_watermark
            if asked.current_leader_epoch not in (epoch, -1) or (
                asked.fetch_offset < bound
                and (
                    request.min_bytes <= 1
                    or self.manager.available_bytes(request) >= request.min_bytes
                )
            ):
                operation.complete(now)

    def fail_waiters(self, error: Errors, now: int) -> None:
        """Leadership is lost or the log is gone: answer everything that waits here."""
        waiting, self.waiting_produces = self.waiting_produces, {}
        for operation, (_, index) in waiting.items():
            operation.satisfied(index, error, now)
        if self.waiting_deletes:
            self._check_deletes(now)
        for fetch in [*self.waiting_followers, *self.waiting_consumers]:
            if not fetch.done:
                fetch.complete(now)
        self.changed()
        for entry in list(self.watchers):
            if entry.session.parked is not None:
                entry.session.parked.complete(now)

    # ------------------------------------------------------------------------------- the ISR

    def _maybe_expand(self, remote: RemoteReplica, now: int) -> None:
        if not self.state.in_flight and self.rules.may_join_isr(self, remote):
            self._propose(PendingExpand(self.state, remote.id), "caught-up", now)

    def maybe_shrink(self, now: int) -> None:
        """Propose the removal of lagging members (the isr-expiration task)."""
        if not self.leading or self.state.in_flight:
            return
        out = self.rules.out_of_sync(self, now)
        if out:
            self._propose(PendingShrink(self.state, out), "lag", now)

    def _propose(self, pending: Pending, reason: str, now: int) -> None:
        self._set_state(pending)
        self._submit(pending, reason, now)

    def _submit(self, pending: Pending, reason: str, now: int) -> None:
        data = AlterPartitionData(
            self.topic_id,
            self.tp.partition,
            self.leader_epoch,
            tuple([(member, self._known_epoch(member)) for member in pending.proposed]),
            self.partition_epoch,
            0,
            reason,
        )
        if not self.manager.alter_partition.submit(data, self, pending, now):
            self._on_alter_error(pending, Errors.OPERATION_NOT_ATTEMPTED, now)

    def _known_epoch(self, member: int) -> int:
        if member == self.local_id:
            return self.manager.process.broker_epoch
        remote = self.remotes.get(member)
        return -1 if remote is None else self.rules.isr_member_epoch(remote.broker_epoch)

    def on_alter_result(self, pending: Pending, result: AlterPartitionResult, now: int) -> None:
        """Take the controller's answer to ``pending``; metadata that overtook it stands (1.6).

        Kafka then does not tick its meter either; the trace has the success all the same.
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
        self.partition_epoch = result.partition_epoch
        self._set_state(Committed(result.isr))
        self._record_change(pending, result)
        if self.advance_high_watermark(now):
            self.wake(now)

    def _record_change(self, pending: Pending, result: AlterPartitionResult) -> None:
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

    def _on_alter_error(self, pending: Pending, error: Errors, now: int) -> None:
        self.out.append(
            IsrUpdateFailed(self.topic_id, self.tp.partition, self.leader_epoch, error.name)
        )
        if error in ROLL_BACK:
            self._set_state(pending.last)
        elif error not in STAY_PENDING:
            reason = "lag" if pending.change == "shrink" else "caught-up"
            self._submit(pending, reason, now)


def session_bytes(
    session: FetchSession, request: FetchRequest, quota: ReplicationQuota | None, now: int
) -> int:
    """Return what a session's fetch could read now, up to its ``min_bytes`` (DelayedFetch).

    What the throttle holds back does not count. A follower on an older segment than the log's end
    waits for nothing more: a read does not go beyond its segment.
    """
    total = 0
    for entry in session.dirty:
        partition = entry.partition
        if partition is None or not partition.leading:
            continue
        if quota is not None and not quota.sends(partition, request.replica_id, now):
            continue
        log = partition.log
        offset = entry.asked.fetch_offset
        if offset < log.segments[-1].base_offset:
            return request.min_bytes
        for batch in log.read(offset, request.min_bytes - total, log.log_end_offset):
            total += batch.size
        if total >= request.min_bytes:
            break
    return total
