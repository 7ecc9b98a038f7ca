"""The group coordinator of a broker (GroupCoordinatorService over CoordinatorRuntime).

A broker becomes the coordinator of a group when it is elected leader of the group's partition of
``__consumer_offsets``. It replays that partition's log and answers COORDINATOR_LOAD_IN_PROGRESS
until it is done. When it resigns, it answers every parked request with NOT_COORDINATOR. All
requests are served on lane ``group``.

Not modelled: transactional offset commits, KIP-848 and share groups, DescribeGroups, DeleteGroups.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.hashing import partition_for
from kafkasim.model.coordinator.log import CoordinatorLog
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.coordinator.shards import OwnedShards
from kafkasim.model.effects import Post, Process, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import FinalOffset, LoadInProgress
from kafkasim.model.group.classic.membership import ClassicMembership
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.classic.responses import join_error, sync_error
from kafkasim.model.group.classic.trace import GroupTrace
from kafkasim.model.group.offsets import OffsetMetadataManager
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
)
from kafkasim.model.records import GROUP_METADATA_TOPIC

LANE = "group"

GROUP_REQUESTS: tuple[type, ...] = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
"""What :meth:`GroupCoordinator.on_request` serves; a broker routes these to lane ``group``."""

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
        new_coordinator: bool = True,
    ) -> None:
        self.process = process
        self.broker_id = broker_id
        self.config = config
        self.runtime = CoordinatorRuntime(process, LANE, log, config.offsets_commit_timeout_ms)
        ids = random.Random(process.rng.getrandbits(64))
        self.rules = rules
        self.trace = trace = GroupTrace(process.out)
        rebalance = ClassicRebalance(
            self.runtime, rules, trace, config.group_initial_rebalance_delay_ms
        )
        self.membership = ClassicMembership(self.runtime, rebalance, config, ids, new_coordinator)
        self.offsets = OffsetMetadataManager(
            self.runtime, rebalance, self.membership, config, new_coordinator
        )
        self.owned: OwnedShards[GroupShard] = OwnedShards(
            self.runtime,
            GROUP_METADATA_TOPIC,
            GroupShard,
            self._on_loaded,
            self._on_unloaded,
            config.offsets_load_buffer_size,
            rules.load_continues,
        )
        self._partitions: dict[str, int] = {}  # group id -> partition, as computed before
        self._serve: dict[type, Serve] = {
            JoinGroupRequest: self.membership.on_join,
            SyncGroupRequest: self.membership.on_sync,
            HeartbeatRequest: self.membership.on_heartbeat,
            LeaveGroupRequest: self.membership.on_leave,
            OffsetCommitRequest: self.offsets.on_commit,
            OffsetFetchRequest: self.offsets.on_fetch,
        }

    @property
    def shards(self) -> dict[int, GroupShard]:
        """The shards by partition, those that load included."""
        return self.owned.by_partition

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that holds a group."""
        partition = self._partitions.get(group_id)
        if partition is None:
            partition = partition_for(group_id, self.config.offsets_topic_num_partitions)
            self._partitions[group_id] = partition
        return partition

    def on_offset_commit(
        self, item: Request, known: OffsetCommitRequest, merge: Merge, now: int
    ) -> None:
        """Serve the part of an OffsetCommit that names known partitions.

        ``merge`` makes the answer to that part the answer to all of it.
        """
        self.runtime.merges[item.connection, item.correlation] = merge
        self.on_request(Request(item.connection, item.correlation, known, item.received_us), now)

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request of :data:`GROUP_REQUESTS`; its answer may come later."""
        request = item.message
        parked = (item.connection, item.correlation)
        shard = self.shards.get(self.partition_for(request.group_id))
        if not request.group_id and type(request) not in _EMPTY_GROUP_ID:
            self.runtime.respond(parked, _refusal(request, Errors.INVALID_GROUP_ID))
        elif shard is None:
            self.runtime.respond(parked, _refusal(request, Errors.NOT_COORDINATOR))
        elif not shard.context.is_active:
            kind = type(request).__name__.removesuffix("Request")
            self.process.out.append(LoadInProgress(request.group_id, kind))
            self.runtime.respond(parked, _refusal(request, Errors.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self.trace.record_request(request)
            self._serve[type(request)](shard, parked, request, now)

    def on_elected(self, partition: int, leader_epoch: int, now: int) -> None:
        """Take a partition over and load it on lane ``group``. Callable on any lane."""
        self.owned.on_elected(partition, leader_epoch, now)

    def on_resigned(self, partition: int, leader_epoch: int | None, now: int) -> None:
        """Give a partition up: a higher epoch, or for good (None). Callable on any lane."""
        if leader_epoch is None or self.rules.resigns_when_deposed():
            self.owned.on_resigned(partition, leader_epoch, now)

    def on_high_watermark(self, partition: int, offset: int, now: int) -> None:
        """Answer what the partition's high watermark has passed. On lane ``group``."""
        self.owned.on_high_watermark(partition, offset, now)

    def on_topics_deleted(self, topics: tuple[str, ...], now: int) -> None:
        """Forget the offsets that groups committed in deleted topics. Callable on any lane."""
        self.process.out.append(Post(LANE, self._forget_topics, topics))

    def ground_truth(self) -> list[FinalOffset]:
        """Return the committed offsets of the partitions that this broker coordinates."""
        return [fact for shard in self.owned.active() for fact in self.offsets.final_offsets(shard)]

    def _forget_topics(self, topics: tuple[str, ...], now: int) -> None:
        for shard in self.owned.active():
            self.offsets.on_topics_deleted(shard, topics, now)

    # Loading, resigning, expiry

    def _on_loaded(self, shard: GroupShard, now: int) -> None:
        self.membership.on_loaded(shard, now)
        self._arm_expiry(shard, now)

    def _on_unloaded(self, shard: GroupShard) -> None:
        self.membership.on_unloaded(shard)
        self.runtime.cancel(("group-offsets-expiry", shard.context.partition))

    def _arm_expiry(self, shard: GroupShard, now: int) -> None:
        def on_scan(at: int) -> None:
            self._arm_expiry(shard, at)
            self.offsets.expire(shard, at)

        interval_us = self.config.offsets_retention_check_interval_ms * 1000
        key = ("group-offsets-expiry", shard.context.partition)
        self.runtime.arm(key, now + interval_us, on_scan)


_EMPTY_GROUP_ID = (OffsetCommitRequest, OffsetFetchRequest)
"""Requests that a simple consumer may send with an empty group id."""


def _refusal(request: Any, error: Errors) -> Any:
    """Return the answer to a request that no active shard can serve."""
    kind = type(request)
    loading = error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    if kind is JoinGroupRequest:
        return join_error(error, request.member_id)
    if kind is SyncGroupRequest:
        # A rebalance does not survive a failover: the member must join again.
        return sync_error(Errors.REBALANCE_IN_PROGRESS if loading else error)
    if kind is HeartbeatRequest:
        return HeartbeatResponse(Errors.NONE if loading else error)
    if kind is LeaveGroupRequest:
        return LeaveGroupResponse(error, ())
    if kind is OffsetCommitRequest:
        return OffsetCommitResponse(tuple([(offset[0], error) for offset in request.offsets]))
    assert kind is OffsetFetchRequest, request
    return OffsetFetchResponse(error, ())
