"""TxnOffsetCommit, and what a marker does to the offsets (OffsetMetadataManager).

    TxnOffsetCommit ──▶ checked, appended as a batch of the transaction ──▶ pending
    WriteTxnMarkers ──▶ the marker is appended ──▶ COMMIT: pending offsets are the group's now
                                                   ABORT: they are dropped
The marker takes effect when it is appended, and is answered when it is committed. A stable
OffsetFetch of a pending offset gets UNSTABLE_OFFSET_COMMIT, so that a consumer does not begin where
a transaction may have ended (KIP-447). In ZooKeeper mode Kafka's ReplicaManager writes the marker;
here the coordinator does in both.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.errors import Errors
from kafkasim.model.facts import OffsetCommitted
from kafkasim.model.group.offset_commits import offset_records, validate_offset_commit
from kafkasim.model.group.records import OffsetCommitKey
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.transactional.pending import PendingOffset, PendingOffsets
from kafkasim.model.messages import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    WritableTxnMarker,
)
from kafkasim.model.records import (
    EndTransactionMarker,
    Record,
    TopicPartition,
    batch_of,
    end_transaction_marker,
    names_producer,
)

NONE = Errors.NONE
Guard = object | None  # what the verification gave for the append
Done = Callable[[Errors, int], None]  # (error, now)


class TransactionalOffsets:
    """Serves transactional commits and markers of an active shard."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        rules: GroupRules,
        metadata_max_bytes: int,
        new_coordinator: bool,
    ) -> None:
        self.runtime = runtime
        self.new_coordinator = new_coordinator  # not the Scala coordinator of ZooKeeper mode
        self.rules = rules
        self.metadata_max_bytes = metadata_max_bytes

    # TxnOffsetCommit

    def on_commit(
        self,
        shard: GroupShard,
        parked: Parked,
        request: TxnOffsetCommitRequest,
        guard: Guard,
        now: int,
    ) -> None:
        """Serve a commit: check it, append it, answer when it is committed.

        (commitTransactionalOffset)
        """
        error = self._check(shard, request)
        if error is not NONE:
            self.refuse(parked, request, error)
            return
        now_ms = self.runtime.wall_ms(now)
        records, results = offset_records(request, self.metadata_max_bytes, now_ms)
        if records:
            error = self._append(shard, request, tuple(records), guard, now)
            if error is not NONE:
                self.refuse(parked, request, client_error(error))
                return
        answer = TxnOffsetCommitResponse(results)
        self.runtime.defer(shard.context, self._on_committed, (parked, request, answer), now)

    def _check(self, shard: GroupShard, request: TxnOffsetCommitRequest) -> Errors:
        """Return why a commit is refused, or NONE (validateTransactionalOffsetCommit)."""
        generation, member_id = request.generation_id, request.member_id
        if not self.rules.checks_transactional_commit():
            return NONE
        modern = shard.consumer_groups.get(request.group_id)
        if modern is not None:
            if generation < 0 and not member_id and request.group_instance_id is None:
                return NONE  # from a client before KIP-447
            error = modern.validate_offset_commit(member_id, generation)
            return Errors.ILLEGAL_GENERATION if error is Errors.STALE_MEMBER_EPOCH else error
        group = shard.groups.get(request.group_id)
        if group is None:
            if generation < 0:
                return NONE
            return self.rules.transactional_commit_to_unknown_group(self.new_coordinator)
        return validate_offset_commit(self.rules, group, request, transactional=True)

    def _append(
        self,
        shard: GroupShard,
        request: TxnOffsetCommitRequest,
        records: tuple[Record, ...],
        guard: Guard,
        now: int,
    ) -> Errors:
        producer_id, epoch = request.producer_id, request.producer_epoch
        if not names_producer(producer_id, epoch):
            return Errors.UNKNOWN_SERVER_ERROR
        batch = batch_of(records, producer_id=producer_id, producer_epoch=epoch, transactional=True)
        version = request.transaction_version
        error = self.runtime.append_batch(shard.context, batch, now, version, guard)
        if error is NONE:
            for record in records:
                key = record.key
                assert type(key) is OffsetCommitKey, record
                shard.pending.add(
                    producer_id,
                    key.group,
                    TopicPartition(key.topic, key.partition),
                    PendingOffset(
                        shard.context.last_written,
                        record.value,
                        request.generation_id,
                        request.member_id,
                    ),
                )
            shard.add_simple_group(request.group_id, self.runtime.wall_ms(now))
        return error

    def _on_committed(
        self,
        argument: tuple[Parked, TxnOffsetCommitRequest, TxnOffsetCommitResponse],
        error: Errors,
        now: int,
    ) -> None:
        parked, request, answer = argument
        if error is NONE:
            self.runtime.respond(parked, answer)
        else:
            self.refuse(parked, request, client_error(error))

    def refuse(self, parked: Parked, request: TxnOffsetCommitRequest, error: Errors) -> None:
        """Answer with one error for all partitions."""
        results = tuple([(offset[0], error) for offset in request.offsets])
        self.runtime.respond(parked, TxnOffsetCommitResponse(results))

    # Markers

    def complete(
        self,
        shard: GroupShard,
        marker: WritableTxnMarker,
        done: Done,
        timeout_us: int,
        now: int,
    ) -> None:
        """Append a marker and apply it; ``done(error, now)`` is called when it is committed.

        (CoordinatorRuntime.completeTransaction)
        """
        if not names_producer(marker.producer_id, marker.producer_epoch):
            done(Errors.UNKNOWN_SERVER_ERROR, now)
            return
        batch = end_transaction_marker(
            marker.producer_id,
            marker.producer_epoch,
            EndTransactionMarker(marker.committed, marker.coordinator_epoch),
            self.runtime.wall_ms(now),
        )
        context = shard.context
        error = self.runtime.append_batch(context, batch, now, marker.transaction_version)
        if error is not NONE:
            done(error, now)
            return
        ended = shard.replay_marker(marker.producer_id, marker.committed, context.last_written)
        argument = (shard, ended, done, context.last_written)
        self.runtime.defer(context, self._on_completed, argument, now, timeout_us)

    def _on_completed(
        self, argument: tuple[GroupShard, PendingOffsets, Done, int], error: Errors, now: int
    ) -> None:
        shard, ended, done, next_offset = argument
        if error is NONE:
            for group_id, offsets in ended.items():
                for tp, pending in offsets.items():
                    fact = OffsetCommitted(
                        group_id,
                        tp.topic,
                        tp.partition,
                        pending.value.offset,
                        pending.generation,
                        pending.member_id,
                        shard.context.epoch,
                        next_offset,
                    )
                    self.runtime.out.append(fact)
        done(error, now)
