"""The group coordinator of a broker (GroupCoordinatorService over CoordinatorRuntime).

A broker becomes the coordinator of a group when it is elected leader of the group's partition of
``__consumer_offsets``. It replays that partition's log and answers COORDINATOR_LOAD_IN_PROGRESS
until it is done. When it resigns, it answers every parked request with NOT_COORDINATOR. The events
of one partition are served in order; group.coordinator.threads serve as many partitions at once
(MultiThreadedEventProcessor).

Groups of the classic protocol are in ``classic/``, consumer groups (KIP-848) in ``modern/``, share
groups (KIP-932) in ``share/``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.context import CoordinatorContext, Parked
from kafkasim.model.coordinator.hashing import KeyPartitions
from kafkasim.model.coordinator.log import CoordinatorLog
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.coordinator.shards import OwnedShards
from kafkasim.model.effects import Post, Process, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import FinalOffset, LoadInProgress
from kafkasim.model.group.administration import GroupAdministration, GroupDeletion
from kafkasim.model.group.classic.membership import ClassicMembership
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.classic.responses import join_error, refusal
from kafkasim.model.group.classic.trace import GroupTrace
from kafkasim.model.group.modern.description import described
from kafkasim.model.group.modern.heartbeat import ConsumerGroupHeartbeats
from kafkasim.model.group.modern.migration.classic_members import ClassicMembers
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.offsets import OffsetMetadataManager
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.share.groups import (
    OF_SHARE_GROUPS,
    SHARE_GROUP_REQUESTS,
    ShareGroups,
    group_ids_of,
)
from kafkasim.model.group.transactional.commits import Done, TransactionalOffsets
from kafkasim.model.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribedConsumerGroup,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    WritableTxnMarker,
)
from kafkasim.model.records import GROUP_METADATA_TOPIC, TopicPartition

POOL = "group"
"""The pool of threads; each partition of the offsets topic is a lane of it."""

SEVERAL = f"{POOL}/several"
"""The lane of requests about groups of several partitions.

Kafka divides them: each part waits for its partition.
"""

GROUP_REQUESTS: tuple[type, ...] = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    DeleteGroupsRequest,
    OffsetDeleteRequest,
    *SHARE_GROUP_REQUESTS,
)
"""What :meth:`GroupCoordinator.on_request` serves, on :meth:`GroupCoordinator.lane_of` it."""

Merge = Callable[[Any], Any]
Serve = Callable[[GroupShard, Parked, Any, int], None]  # (shard, parked, request, now)


class GroupCoordinator:
    """Serves the groups of the offsets partitions that this broker leads."""

    def __init__(
        self,
        process: Process,
        broker_id: int,
        config: BrokerConfig,
        rules: GroupRules,
        log: CoordinatorLog,
        new_coordinator: bool,
        image: TopicsImage,
    ) -> None:
        """``image`` is the broker's metadata; of it consumer groups read the topics."""
        self.process = process
        self.broker_id, self.config = broker_id, config
        self.runtime = _runtime(process, log, config, new_coordinator)
        self.runtime.on_reverted = self._on_reverted
        ids = random.Random(process.rng.getrandbits(64))
        self.rules = rules
        self.trace = trace = GroupTrace(process.out)
        self._rebalance = rebalance = ClassicRebalance(
            self.runtime, rules, trace, config.group_initial_rebalance_delay_ms
        )
        self.membership = ClassicMembership(self.runtime, rebalance, config, ids, new_coordinator)
        self.offsets = OffsetMetadataManager(
            self.runtime, rebalance, self.membership, config, new_coordinator
        )
        self.transactional = TransactionalOffsets(
            self.runtime, rules, config.offset_metadata_max_bytes, new_coordinator
        )
        self.consumer_groups = groups = ConsumerGroupHeartbeats(
            self.runtime, config, rules, image, trace, rebalance, new_coordinator
        )
        self.classic_members = ClassicMembers(
            self.runtime, config, groups.writer, groups.departures, groups.steps, ids
        )
        deletion = GroupDeletion(process.out, self.offsets, self.membership, groups)
        self.shares = ShareGroups(self.runtime, config, rules, image, self._find)
        self.administration = GroupAdministration(
            self.runtime, self._find, deletion, self.shares, new_coordinator
        )
        self.owned: OwnedShards[GroupShard] = OwnedShards(
            self.runtime,
            GROUP_METADATA_TOPIC,
            lambda context: GroupShard(context, rules),
            self._on_loaded,
            self._on_unloaded,
            config.offsets_load_buffer_size,
            rules.load_continues,
        )
        self._partitions = KeyPartitions(config.offsets_topic_num_partitions)
        self._serve = self._handlers()

    def _handlers(self) -> dict[type, Serve]:
        """Return what serves each request about one group."""
        return {
            JoinGroupRequest: self.membership.on_join,
            SyncGroupRequest: self.membership.on_sync,
            HeartbeatRequest: self.membership.on_heartbeat,
            LeaveGroupRequest: self.membership.on_leave,
            OffsetCommitRequest: self.offsets.on_commit,
            OffsetFetchRequest: self.offsets.on_fetch,
            OffsetDeleteRequest: self.administration.on_delete_offsets,
            ConsumerGroupHeartbeatRequest: self.consumer_groups.on_heartbeat,
        }

    @property
    def shards(self) -> dict[int, GroupShard]:
        """The shards by partition, those that load included."""
        return self.owned.by_partition

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that holds a group."""
        return self._partitions.of(group_id)

    def lane_of(self, request: Any) -> str:
        """Return the lane that serves a request of :data:`GROUP_REQUESTS`."""
        kind = type(request)
        if kind in SHARE_GROUP_REQUESTS:
            group_ids = group_ids_of(request)
        elif kind in _MANY_GROUPS:
            group_ids = () if kind is ListGroupsRequest else request.group_ids
        else:
            return self.runtime.lane_of(self.partition_for(request.group_id))
        lanes = dict.fromkeys(
            [self.runtime.lane_of(self.partition_for(each)) for each in group_ids]
        )
        return next(iter(lanes)) if len(lanes) == 1 else SEVERAL

    def on_known_partitions(
        self,
        item: Request,
        known: OffsetCommitRequest | OffsetDeleteRequest,
        merge: Merge,
        now: int,
    ) -> None:
        """Serve the part of an OffsetCommit or OffsetDelete that names known partitions.

        ``merge`` makes the answer to that part the answer to all of it.
        """
        self.runtime.merges[item.connection, item.correlation] = merge
        self.on_request(Request(item.connection, item.correlation, known, item.received_us), now)

    def on_txn_offset_commit(
        self, item: Request, known: TxnOffsetCommitRequest, guard: Any, merge: Merge, now: int
    ) -> None:
        """Serve the part of a TxnOffsetCommit that names known partitions, on the group's lane.

        ``guard`` is what the verification of the transaction gave for the append.
        """
        parked = (item.connection, item.correlation)
        self.runtime.merges[parked] = merge
        shard = self._active(self.partition_for(known.group_id))
        if not known.group_id:
            self.transactional.refuse(parked, known, Errors.INVALID_GROUP_ID)
        elif isinstance(shard, Errors):
            self.transactional.refuse(parked, known, shard)
        elif known.group_id in shard.share_groups:
            self.transactional.refuse(parked, known, Errors.GROUP_ID_NOT_FOUND)
        else:
            self.transactional.on_commit(shard, parked, known, guard, now)

    def complete_transaction(
        self, tp: TopicPartition, marker: WritableTxnMarker, done: Done, now: int
    ) -> None:
        """Write a transaction's marker to an offsets partition and apply it. Callable on any lane.

        ``done(error, now)`` is called once the marker is committed or refused.
        """
        timeout_us = self.config.request_timeout_ms * 1000

        def complete(_: None, at: int) -> None:
            shard = self._active(tp.partition)
            if isinstance(shard, Errors):
                done(shard, at)
            else:
                self.transactional.complete(shard, marker, done, timeout_us, at)

        self.process.out.append(Post(self.runtime.lane_of(tp.partition), complete, None))

    def _active(self, partition: int) -> GroupShard | Errors:
        shard = self.shards.get(partition)
        if shard is None:
            return Errors.NOT_COORDINATOR
        return shard if shard.context.is_active else Errors.COORDINATOR_LOAD_IN_PROGRESS

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request of :data:`GROUP_REQUESTS`; its answer may come later."""
        request = item.message
        parked = (item.connection, item.correlation)
        kind = type(request)
        if kind in _CONSUMER_GROUP_REQUESTS and not self.consumer_groups.enabled:
            self.runtime.respond(parked, refusal(request, Errors.UNSUPPORTED_VERSION))
            return
        if kind in SHARE_GROUP_REQUESTS:
            self.shares.on_request(parked, request, now)
            return
        if kind in _MANY_GROUPS:
            self._serve_many(parked, request, now)
            return
        shard = self.shards.get(self.partition_for(request.group_id))
        if not request.group_id and kind not in _EMPTY_GROUP_ID:
            self.runtime.respond(parked, refusal(request, Errors.INVALID_GROUP_ID))
        elif shard is None:
            self.runtime.respond(parked, refusal(request, Errors.NOT_COORDINATOR))
        elif not shard.context.is_active:
            api = kind.__name__.removesuffix("Request")
            self.process.out.append(LoadInProgress(request.group_id, api))
            error = Errors.COORDINATOR_LOAD_IN_PROGRESS
            if kind is SyncGroupRequest:
                error = self.rules.sync_while_loading(self.offsets.new_coordinator)
            self.runtime.respond(parked, refusal(request, error))
        else:
            self.trace.record_request(request, self.membership.keeps_timeouts(shard, request))
            if request.group_id in shard.share_groups and kind in OF_SHARE_GROUPS:
                self.runtime.respond(parked, refusal(request, OF_SHARE_GROUPS[kind]))
            elif request.group_id in shard.consumer_groups and kind in _CLASSIC_REQUESTS:
                self._serve_classic(shard, parked, request, now)
            else:
                self._serve[kind](shard, parked, request, now)

    def _serve_classic(self, shard: GroupShard, parked: Parked, request: Any, now: int) -> None:
        """Serve a request of the classic protocol to a consumer group.

        A member that joins an empty one makes it a classic group (maybeDeleteEmptyConsumerGroup).
        """
        group, kind = shard.consumer_groups[request.group_id], type(request)
        if kind is JoinGroupRequest and not group.members:
            if self.consumer_groups.delete_if_empty(shard, group, now):
                self._serve[JoinGroupRequest](shard, parked, request, now)
            else:
                self.runtime.respond(parked, join_error(Errors.COORDINATOR_NOT_AVAILABLE, ""))
        elif kind is JoinGroupRequest:
            self.classic_members.on_join(shard, parked, request, now)
        elif kind is SyncGroupRequest:
            self.classic_members.on_sync(shard, parked, request, now)
        elif kind is HeartbeatRequest:
            self.classic_members.on_heartbeat(shard, parked, request, now)
        else:
            self.classic_members.on_leave(shard, parked, request, now)

    def _serve_many(self, parked: Parked, request: Any, now: int) -> None:
        """Serve a request about groups that several shards may have."""
        kind = type(request)
        if kind is ConsumerGroupDescribeRequest:
            self._describe(parked, request)
        elif kind is DescribeGroupsRequest:
            self.administration.on_describe(parked, request)
        elif kind is ListGroupsRequest:
            self.administration.on_list(list(self.shards.values()), parked, request)
        else:
            self.administration.on_delete(parked, request, now)

    def _find(self, group_id: str) -> GroupShard | Errors:
        return self._active(self.partition_for(group_id))

    def _describe(self, parked: Parked, request: ConsumerGroupDescribeRequest) -> None:
        """Answer ConsumerGroupDescribe, of each group by its own shard.

        With an empty group id among them Kafka 4.0 cannot write its answer, so all of it fails.
        """
        if "" in request.group_ids and not self.rules.describes_empty_group_id():
            self.runtime.respond(parked, refusal(request, Errors.UNKNOWN_SERVER_ERROR))
            return
        groups = tuple([self._describe_one(group_id) for group_id in request.group_ids])
        self.runtime.respond(parked, ConsumerGroupDescribeResponse(groups))

    def _describe_one(self, group_id: str) -> DescribedConsumerGroup:
        if not group_id:
            return DescribedConsumerGroup(Errors.INVALID_GROUP_ID, group_id)
        shard = self._find(group_id)
        if isinstance(shard, Errors):
            return DescribedConsumerGroup(shard, group_id)
        groups = self.consumer_groups
        group = shard.consumer_groups.get(group_id)
        return described(group_id, group, groups.default_assignor, groups.image)

    def on_elected(self, partition: int, leader_epoch: int, now: int) -> None:
        """Take a partition over and load it on the loader's lane. Callable on any lane."""
        self.owned.on_elected(partition, leader_epoch, now)

    def on_resigned(self, partition: int, leader_epoch: int | None, now: int) -> None:
        """Give a partition up: a higher epoch, or for good (None). Callable on any lane."""
        if leader_epoch is None or self.rules.resigns_when_deposed():
            self.owned.on_resigned(partition, leader_epoch, now)

    def on_high_watermark(self, partition: int, offset: int, now: int) -> None:
        """Answer what the partition's high watermark has passed. On the partition's lane."""
        self.owned.on_high_watermark(partition, offset, now)
        shard = self.shards.get(partition)
        if shard is not None:
            self.consumer_groups.writer.on_committed(shard)

    def on_partitions_deleted(self, partitions: tuple[TopicPartition, ...], now: int) -> None:
        """Forget the offsets that groups committed in deleted topics. Callable on any lane."""
        for shard in self.owned.active():
            told = Post(shard.context.lane, self._forget_partitions, (shard, partitions))
            self.process.out.append(told)

    def on_topics_changed(self, names: tuple[str, ...], created_at: int | None) -> None:
        """Have consumer groups look at topics that were created, changed or deleted.

        ``created_at`` is the metadata offset if some were created. Callable on any lane: the
        metadata changes at once for all of them.
        """
        if created_at is not None:
            self.consumer_groups.regexes.created_at = created_at
        for shard in self.owned.active():
            self.consumer_groups.on_topics_changed(shard, names)
            self.shares.on_topics_changed(shard, names)

    def on_topics_deleted(self, topic_ids: tuple[str, ...]) -> None:
        """Forget the share partitions of deleted topics. Callable on any lane."""
        self.shares.on_topics_deleted(self.owned.active(), topic_ids)

    def ground_truth(self) -> list[FinalOffset]:
        """Return the committed offsets of the partitions that this broker coordinates."""
        return [fact for shard in self.owned.active() for fact in self.offsets.final_offsets(shard)]

    def _forget_partitions(
        self, message: tuple[GroupShard, tuple[TopicPartition, ...]], now: int
    ) -> None:
        shard, partitions = message
        if shard.context.is_active:
            self.offsets.on_partitions_deleted(shard, partitions, now)

    def _on_reverted(self, context: CoordinatorContext, error: Errors, now: int) -> None:
        """Undo the changes of a batch that could not be appended (revertLastWrittenOffset)."""
        shard = self.shards[context.partition]
        self.shares.on_reverted(shard)
        for group_id, (classic, modern) in shard.revert().items():
            known = shard.groups.get(group_id)
            if classic is not None and known is not classic:
                self._rebalance.fail_parked(classic, client_error(error))
                self._rebalance.cancel_timers(classic)
            if known is not None and known is not classic:
                self._rebalance.resume(shard, known, now)
            self.consumer_groups.writer.on_reverted(shard, group_id, classic, modern)

    # Loading, resigning, expiry

    def _on_loaded(self, shard: GroupShard, now: int) -> None:
        self.membership.on_loaded(shard, now)
        self.consumer_groups.on_loaded(shard, now)
        self.shares.on_loaded(shard, now)
        self._arm_expiry(shard, now)

    def _on_unloaded(self, shard: GroupShard) -> None:
        self.membership.on_unloaded(shard)
        self.consumer_groups.on_unloaded(shard)
        self.shares.on_unloaded(shard)
        self.runtime.cancel(("group-offsets-expiry", shard.context.partition))

    def _arm_expiry(self, shard: GroupShard, now: int) -> None:
        def on_scan(at: int) -> None:
            self._arm_expiry(shard, at)
            self.offsets.expire(shard, at)
            for group in self.offsets.expire_in_consumer_groups(shard, at):
                self.consumer_groups.delete_if_empty(shard, group, at)

        interval_us = self.config.offsets_retention_check_interval_ms * 1000
        key = ("group-offsets-expiry", shard.context.partition)
        self.runtime.arm(shard.context, key, now + interval_us, on_scan)


_EMPTY_GROUP_ID = (OffsetCommitRequest, OffsetFetchRequest, ConsumerGroupHeartbeatRequest)
"""A simple consumer may send an empty group id; of a heartbeat it is an INVALID_REQUEST."""

_CLASSIC_REQUESTS = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, LeaveGroupRequest)
_MANY_GROUPS = (
    ConsumerGroupDescribeRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    DeleteGroupsRequest,
)
_CONSUMER_GROUP_REQUESTS = (ConsumerGroupHeartbeatRequest, ConsumerGroupDescribeRequest)


def _runtime(
    process: Process, log: CoordinatorLog, config: BrokerConfig, new_coordinator: bool
) -> CoordinatorRuntime:
    """Return the coordinator's runtime; the Scala coordinator appends at once."""
    linger_ms = config.group_coordinator_append_linger_ms if new_coordinator else 0
    timeout_ms, max_bytes = config.offsets_commit_timeout_ms, config.message_max_bytes
    return CoordinatorRuntime(process, POOL, log, timeout_ms, linger_ms, max_bytes, pooled=True)
