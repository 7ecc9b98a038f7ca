"""Committed offsets: commit, fetch, expiry (OffsetMetadataManager).

A commit changes the state when it is appended, and is acknowledged when the high watermark has
passed it. A fetch with requireStable returns what was appended last, and is answered once that is
committed. A fetch without it returns what is committed now; a coordinator that was deposed and does
not know it yet may then answer with an old offset.

Commits of transactions are in ``transactional/``, OffsetDelete is in ``administration.py``. Not
modelled: explicit retention in the request (before 2.1).
"""

from __future__ import annotations

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.errors import Errors
from kafkasim.model.facts import FinalOffset, OffsetCommitted, OffsetExpired, OffsetFetched
from kafkasim.model.group.classic.cleanup import ScalaCleanup
from kafkasim.model.group.classic.group import ClassicGroup, ClassicGroupState
from kafkasim.model.group.classic.membership import ClassicMembership
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.offset_commits import offset_records, validate_offset_commit
from kafkasim.model.group.records import OffsetCommitKey, OffsetCommitValue, offset_commit_record
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from kafkasim.model.records import Record, TopicPartition

NO_OFFSET = -1
"""The offset in an OffsetFetch response when there is none."""


class OffsetMetadataManager:
    """Serves the offset requests of an active shard, and lets offsets expire."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        rebalance: ClassicRebalance,
        membership: ClassicMembership,
        config: BrokerConfig,
        new_coordinator: bool,
    ) -> None:
        self.runtime = runtime
        self.new_coordinator = new_coordinator  # not the Scala coordinator of ZooKeeper mode
        self.rebalance = rebalance
        self.membership = membership
        self.cleanup = ScalaCleanup(runtime, rebalance)
        self.rules = rebalance.rules
        self.metadata_max_bytes = config.offset_metadata_max_bytes
        self.retention_ms = config.offsets_retention_minutes * 60_000

    # OffsetCommit

    def on_commit(
        self, shard: GroupShard, parked: Parked, request: OffsetCommitRequest, now: int
    ) -> None:
        """Serve a commit: check it, append it, answer when it is committed."""
        group = shard.groups.get(request.group_id)
        modern = shard.consumer_groups.get(request.group_id)
        if modern is None:
            error = self._check(group, request)
        else:
            error = modern.validate_offset_commit(request.member_id, request.generation_id)
        if error is not Errors.NONE:
            if group is not None:
                place = (request.member_id, request.group_instance_id)
                self.membership.rebalance.trace.record_fenced(group, *place, error, now)
            self._answer_all(parked, request, error)
            return
        now_ms = self.runtime.wall_ms(now)
        records, results = offset_records(request, self.metadata_max_bytes, now_ms)
        if group is not None and request.member_id in group.members:
            # A commit keeps the session alive, even one without valid offsets (KAFKA-5273).
            if group.state in (ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE):
                self.rebalance.arm_session(shard, group, group.members[request.member_id], now)
        if records:
            error = self._write(shard, tuple(records), now)
            if error is not Errors.NONE:
                self._answer_append_failed(parked, request, error)
                return
            if group is None and modern is None:  # a simple consumer: its group has offsets only
                shard.put_classic(ClassicGroup(request.group_id, now_ms))
        answer = OffsetCommitResponse(results)
        argument = (shard, parked, request, answer, shard.context.last_written)
        self.runtime.defer(shard.context, self._on_committed, argument, now)

    def _check(self, group: ClassicGroup | None, request: OffsetCommitRequest) -> Errors:
        """Return why a commit is refused, or NONE."""
        generation = request.generation_id
        if group is None:
            if generation < 0:
                return Errors.NONE
            return self.rules.commit_to_unknown_group(self.new_coordinator)
        return validate_offset_commit(self.rules, group, request, transactional=False)

    def _on_committed(
        self,
        argument: tuple[GroupShard, Parked, OffsetCommitRequest, OffsetCommitResponse, int],
        error: Errors,
        now: int,
    ) -> None:
        shard, parked, request, answer, next_offset = argument
        if error is not Errors.NONE:
            self._answer_append_failed(parked, request, error)
            return
        out = self.runtime.out
        for (tp, result), asked in zip(answer.results, request.offsets):
            if result is Errors.NONE:
                out.append(
                    OffsetCommitted(
                        request.group_id,
                        tp.topic,
                        tp.partition,
                        asked[1],
                        request.generation_id,
                        request.member_id,
                        shard.context.epoch,
                        next_offset,
                    )
                )
        self.runtime.respond(parked, answer)

    def _answer_append_failed(
        self, parked: Parked, request: OffsetCommitRequest, error: Errors
    ) -> None:
        told = self.rules.commit_append_error(error, self.new_coordinator)
        self._answer_all(parked, request, told)

    def _answer_all(self, parked: Parked, request: OffsetCommitRequest, error: Errors) -> None:
        results = tuple([(offset[0], error) for offset in request.offsets])
        self.runtime.respond(parked, OffsetCommitResponse(results))

    def _write(self, shard: GroupShard, records: tuple[Record, ...], now: int) -> Errors:
        """Append records of offsets and apply them; on an error nothing has changed."""
        error = self.runtime.append(shard.context, records, now)
        if error is Errors.NONE:
            for record in records:
                key = record.key
                assert type(key) is OffsetCommitKey, record
                shard.replay_offset(key, record.value, shard.context.last_written)
        return error

    # OffsetFetch

    def on_fetch(
        self, shard: GroupShard, parked: Parked, request: OffsetFetchRequest, now: int
    ) -> None:
        """Serve a fetch; ``partitions`` None asks for all that the group has committed."""
        group_id = request.group_id
        error = self._check_fetch(shard, request)
        if error is not Errors.NONE:
            self.runtime.respond(parked, OffsetFetchResponse(error, ()))
            return
        look_up = shard.latest if request.require_stable else shard.committed
        wanted = request.partitions
        if wanted is None:
            wanted = tuple(
                [tp for tp in shard.offsets.get(group_id, ()) if look_up(group_id, tp) is not None]
            )
        if not self.new_coordinator:
            self._fetch_at_once(shard, parked, request, wanted, now)
            return
        found = tuple(
            [
                _unstable(tp)
                if request.require_stable and self._is_pending(shard, group_id, tp)
                else _fetched(tp, look_up(group_id, tp))
                for tp in wanted
            ]
        )
        argument = (shard, parked, group_id, OffsetFetchResponse(Errors.NONE, found))
        if request.require_stable:
            self.runtime.defer(shard.context, self._on_fetched, argument, now)
        else:
            self._on_fetched(argument, Errors.NONE, now)

    def _check_fetch(self, shard: GroupShard, request: OffsetFetchRequest) -> Errors:
        """Return why a fetch is refused, or NONE: members of consumer groups name their epoch."""
        group = shard.consumer_groups.get(request.group_id)
        if group is None:
            return Errors.NONE
        return group.validate_offset_fetch(request.member_id, request.member_epoch)

    def _fetch_at_once(
        self,
        shard: GroupShard,
        parked: Parked,
        request: OffsetFetchRequest,
        wanted: tuple[TopicPartition, ...],
        now: int,
    ) -> None:
        """Answer as the Scala coordinator does: each partition once, and UNSTABLE_OFFSET_COMMIT
        in place of an offset whose successor waits for replicas (getOffsets, KIP-447)."""
        found = []
        for tp in dict.fromkeys(wanted):
            committed = shard.committed(request.group_id, tp)
            unstable = committed is not shard.latest(request.group_id, tp)
            unstable = unstable or self._is_pending(shard, request.group_id, tp)
            if request.require_stable and unstable:
                found.append(_unstable(tp))
            else:
                found.append(_fetched(tp, committed))
        answer = OffsetFetchResponse(Errors.NONE, tuple(found))
        self._on_fetched((shard, parked, request.group_id, answer), Errors.NONE, now)

    def _is_pending(self, shard: GroupShard, group_id: str, tp: TopicPartition) -> bool:
        return self.rules.withholds_pending_offset() and shard.pending.has(group_id, tp)

    def _on_fetched(
        self, argument: tuple[GroupShard, Parked, str, OffsetFetchResponse], error: Errors, now: int
    ) -> None:
        shard, parked, group_id, answer = argument
        if error is not Errors.NONE:
            answer = OffsetFetchResponse(client_error(error), ())
        for p in answer.partitions:
            if p.error is Errors.NONE:
                tp, epoch, end = (
                    p.tp,
                    shard.context.epoch,
                    shard.record_end(group_id, p.tp, p.offset),
                )
                fact = OffsetFetched(group_id, tp.topic, tp.partition, p.offset, epoch, end)
                self.runtime.out.append(fact)
        self.runtime.respond(parked, answer)

    # Expiry

    def expire(self, shard: GroupShard, now: int) -> None:
        """Append tombstones of expired offsets, and of empty groups that have none left.

        Called every offsets.retention.check.interval.ms.
        """
        shard.drop_tombstones()
        now_ms = self.runtime.wall_ms(now)
        for group_id in list(shard.groups):
            group = shard.groups[group_id]
            stored = shard.stored(group_id)
            expired = {
                tp: fact
                for tp in stored
                if (fact := self._expired(shard, group, tp, now_ms)) is not None
                and not shard.pending.has(group_id, tp)
            }
            if self.new_coordinator:
                self._drop(shard, group, expired, len(stored), now)
            else:  # removeExpiredOffsets leaves those that wait for replicas
                settled = [
                    tp
                    for tp in expired
                    if shard.committed(group_id, tp) is shard.latest(group_id, tp)
                ]
                self.runtime.out.extend([expired[tp] for tp in settled])
                self.cleanup.clean(shard, group, settled, "expired", now)

    def expire_in_consumer_groups(self, shard: GroupShard, now: int) -> list[ConsumerGroup]:
        """Append tombstones of the expired offsets of consumer groups (KIP-848).

        Return the groups that have none left. An offset's age counts from its commit, and topics
        that somebody subscribes to keep theirs (cleanupExpiredOffsets).
        """
        now_ms = self.runtime.wall_ms(now)
        bare = []
        for group_id, group in list(shard.consumer_groups.items()):
            stored = shard.stored(group_id)
            gone: dict[TopicPartition, OffsetExpired] = {}
            for tp in stored:
                value = shard.latest(group_id, tp)
                assert value is not None, (group_id, tp)
                start_ms = value.commit_timestamp_ms
                expired = self.rules.offset_expired(start_ms, now_ms, self.retention_ms)
                pending = shard.pending.has(group_id, tp)
                if expired and not pending and not group.is_subscribed(tp.topic):
                    age_ms = now_ms - start_ms
                    gone[tp] = self._fact(group_id, tp, value, "commit", age_ms)
            dropped = self._drop_offsets(shard, group_id, gone, now) and len(gone) == len(stored)
            if dropped and not _has_transaction(shard, group_id, stored):
                bare.append(group)
        return bare

    def on_partitions_deleted(
        self, shard: GroupShard, partitions: tuple[TopicPartition, ...], now: int
    ) -> None:
        """Append tombstones of the offsets in deleted topics, and of no group.

        Models OffsetMetadataManager.onPartitionsDeleted; a group that is left without offsets goes
        with the next scan. The Scala coordinator cleans every group up at once
        (handleDeletedPartitions).
        """
        deleted = dict.fromkeys(partitions)
        for group_id in [*shard.groups, *shard.consumer_groups]:
            known = [*shard.stored(group_id), *shard.pending.partitions(group_id)]
            gone = [tp for tp in dict.fromkeys(known) if tp in deleted]
            if not self.new_coordinator:
                self.runtime.out.extend(self._deleted(shard, group_id, gone).values())
                self.cleanup.clean(shard, shard.groups[group_id], gone, "expired", now)
            elif gone:
                told = self._deleted(shard, group_id, gone)
                error = self.drop_offsets(shard, group_id, gone, now)
                if error is Errors.NONE:
                    self.runtime.out.extend(told.values())

    def _deleted(
        self, shard: GroupShard, group_id: str, gone: list[TopicPartition]
    ) -> dict[TopicPartition, OffsetExpired]:
        """Return the facts of the offsets among those of deleted topics."""
        return {
            tp: self._fact(group_id, tp, value, "topic-deleted", 0)
            for tp in gone
            if (value := shard.latest(group_id, tp)) is not None
        }

    def _fact(
        self, group_id: str, tp: TopicPartition, value: OffsetCommitValue, reason: str, age_ms: int
    ) -> OffsetExpired:
        return OffsetExpired(
            group_id, tp.topic, tp.partition, value.offset, reason, age_ms, self.retention_ms
        )

    def _drop(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        gone: dict[TopicPartition, OffsetExpired],
        stored: int,
        now: int,
    ) -> None:
        """Append tombstones of offsets, then of the group if it is empty and has none left.

        ``stored`` is how many offsets the group has. If an append fails, nothing changes and the
        next scan tries again (cleanupGroupMetadata).
        """
        if not self._drop_offsets(shard, group.group_id, gone, now) or len(gone) != stored:
            return
        if not _has_transaction(shard, group.group_id, [*gone]):
            self.membership.delete_if_empty(shard, group, now)

    def _drop_offsets(
        self, shard: GroupShard, group_id: str, gone: dict[TopicPartition, OffsetExpired], now: int
    ) -> bool:
        """Append tombstones of offsets that have expired; return whether that succeeded."""
        if self.drop_offsets(shard, group_id, [*gone], now) is not Errors.NONE:
            return False
        self.runtime.out.extend(gone.values())
        return True

    def drop_offsets(
        self, shard: GroupShard, group_id: str, gone: list[TopicPartition], now: int
    ) -> Errors:
        """Append tombstones of offsets; on an error nothing has changed."""
        now_ms = self.runtime.wall_ms(now)
        records = [offset_commit_record(group_id, tp, None, i, now_ms) for i, tp in enumerate(gone)]
        return self._write(shard, tuple(records), now) if records else Errors.NONE

    def _expired(
        self, shard: GroupShard, group: ClassicGroup, tp: TopicPartition, now_ms: int
    ) -> OffsetExpired | None:
        """Return the fact of an offset that has expired, None for one that has not."""
        value = shard.latest(group.group_id, tp)
        assert value is not None, (group.group_id, tp)
        rules = self.rules
        subscribed = group.is_subscribed(tp.topic)
        if not rules.offsets_may_expire(group.state, group.protocol_type, subscribed):
            return None
        start_ms = rules.retention_starts_ms(
            group.state,
            group.protocol_type,
            group.current_state_timestamp_ms,
            value.commit_timestamp_ms,
        )
        if not rules.offset_expired(start_ms, now_ms, self.retention_ms):
            return None
        reason = "commit" if start_ms == value.commit_timestamp_ms else "empty"
        return self._fact(group.group_id, tp, value, reason, now_ms - start_ms)

    def final_offsets(self, shard: GroupShard) -> list[FinalOffset]:
        """Return the shard's committed offsets, for the ground truth at the end of a run.

        A coordinator that has just loaded its log has them behind its high watermark, perhaps.
        """
        return [
            FinalOffset(group_id, tp.topic, tp.partition, value.offset)
            for group_id, slot in shard.offsets.items()
            for tp in slot
            if (value := shard.committed(group_id, tp) or shard.latest(group_id, tp)) is not None
        ]


def _has_transaction(shard: GroupShard, group_id: str, stored: list[TopicPartition]) -> bool:
    """Return whether an open transaction keeps a group that has lost its last offset.

    Kafka does not look if the group had none but the transaction's (cleanupExpiredOffsets).
    """
    return bool(stored) and shard.pending.has_open_transaction(group_id)


def _unstable(tp: TopicPartition) -> OffsetFetchPartitionResponse:
    return OffsetFetchPartitionResponse(tp, NO_OFFSET, -1, "", Errors.UNSTABLE_OFFSET_COMMIT)


def _fetched(tp: TopicPartition, value: OffsetCommitValue | None) -> OffsetFetchPartitionResponse:
    if value is None:
        return OffsetFetchPartitionResponse(tp, NO_OFFSET, -1, "", Errors.NONE)
    return OffsetFetchPartitionResponse(
        tp, value.offset, value.leader_epoch, value.metadata, Errors.NONE
    )
