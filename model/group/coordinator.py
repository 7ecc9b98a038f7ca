"""The group coordinator of a broker: which offsets partitions it owns, and who serves what.

Kafka: GroupCoordinatorService over CoordinatorRuntime. A broker becomes coordinator of a group by
being elected leader of the group's partition of ``__consumer_offsets``: it replays the whole log,
and until then answers COORDINATOR_LOAD_IN_PROGRESS; when it resigns, all that is parked is answered
with NOT_COORDINATOR. Leader epochs guard against a stale election or resignation. All requests are
served on lane ``group``.

Not modelled: several load threads, loading in chunks, transactional offsets, KIP-848 groups,
DescribeGroups, DeleteGroups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.effects import Post, Process, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import CoordinatorLoaded, FinalOffset
from kafkasim.model.group.classic.group import Parked
from kafkasim.model.group.classic.membership import Membership
from kafkasim.model.group.classic.rebalance import Rebalance, join_error, sync_error
from kafkasim.model.group.hashing import partition_for
from kafkasim.model.group.offsets import Offsets
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.runtime.ports import OFFSETS_TOPIC, GroupLog
from kafkasim.model.group.runtime.runtime import LANE, Runtime
from kafkasim.model.group.runtime.shard import Shard
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
from kafkasim.model.records import RecordBatch, TopicPartition

GROUP_REQUESTS: tuple[type, ...] = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
"""What :meth:`GroupCoordinator.on_request` serves; a broker routes these to lane ``group``."""

Serve = Callable[[Shard, Parked, Any, int], None]


class GroupCoordinator:
    """Owns the shards of the offsets partitions that this broker leads."""

    def __init__(
        self,
        process: Process,
        broker_id: int,
        config: BrokerConfig,
        rules: GroupRules,
        port: GroupLog,
    ) -> None:
        self.process = process
        self.broker_id = broker_id
        self.config = config
        self.port = port
        self.runtime = Runtime(process, config, rules, port)
        rebalance = Rebalance(self.runtime)
        self.membership = Membership(self.runtime, rebalance)
        self.offsets = Offsets(self.runtime, rebalance, self.membership)
        self.shards: dict[int, Shard] = {}
        self._partitions: dict[str, int] = {}  # group id -> partition, as computed before
        self._serve: dict[type, Serve] = {
            JoinGroupRequest: self.membership.on_join,
            SyncGroupRequest: self.membership.on_sync,
            HeartbeatRequest: self.membership.on_heartbeat,
            LeaveGroupRequest: self.membership.on_leave,
            OffsetCommitRequest: self.offsets.on_commit,
            OffsetFetchRequest: self.offsets.on_fetch,
        }

    def partition_for(self, group_id: str) -> int:
        """Return the partition of ``__consumer_offsets`` that holds a group."""
        partition = self._partitions.get(group_id)
        if partition is None:
            partition = partition_for(group_id, self.config.offsets_topic_num_partitions)
            self._partitions[group_id] = partition
        return partition

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request of :data:`GROUP_REQUESTS`; its answer may come later."""
        request = item.message
        parked = (item.connection, item.correlation)
        shard = self.shards.get(self.partition_for(request.group_id))
        if not request.group_id and type(request) not in _EMPTY_GROUP_ID:
            self.runtime.respond(parked, _refusal(request, Errors.INVALID_GROUP_ID))
        elif shard is None:
            self.runtime.respond(parked, _refusal(request, Errors.NOT_COORDINATOR))
        elif not shard.active:
            self.runtime.respond(parked, _refusal(request, Errors.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            self._serve[type(request)](shard, parked, request, now)

    def on_elected(self, partition: int, leader_epoch: int, now: int) -> None:
        """Take a partition over: load it, on lane ``group``. Callable on any lane.

        A re-election of this broker without a resignation in between keeps what is loaded.
        """
        shard = self.shards.get(partition)
        if shard is None:
            tp = TopicPartition(OFFSETS_TOPIC, partition)
            shard = self.shards[partition] = Shard(partition, tp, leader_epoch)
            self.process.out.append(Post(LANE, self._load, shard))
        elif shard.epoch < leader_epoch:
            shard.epoch = leader_epoch
            if shard.active:
                self.process.out.append(CoordinatorLoaded(partition, leader_epoch, True))

    def on_resigned(self, partition: int, leader_epoch: int | None, now: int) -> None:
        """Give a partition up under a higher epoch, or for good (None). Callable on any lane."""
        shard = self.shards.get(partition)
        if shard is None or (leader_epoch is not None and leader_epoch <= shard.epoch):
            return
        del self.shards[partition]
        was_active, shard.active = shard.active, False
        self.runtime.fail_all(shard, Errors.NOT_COORDINATOR, now)
        if was_active:
            self.membership.on_unloaded(shard)
            self.process.timers.cancel(("group-offsets-expiry", partition))
            epoch = shard.epoch if leader_epoch is None else leader_epoch
            self.process.out.append(CoordinatorLoaded(partition, epoch, False))

    def on_topics_deleted(self, topics: tuple[str, ...], now: int) -> None:
        """Forget what groups committed in topics that are gone. Callable on any lane."""
        self.process.out.append(Post(LANE, self._forget, topics))

    def on_high_watermark(self, partition: int, offset: int, now: int) -> None:
        """Answer what the partition's high watermark has passed. On lane ``group``."""
        shard = self.shards.get(partition)
        if shard is not None and shard.active:
            self.runtime.committed(shard, offset, now)

    def ground_truth(self) -> list[FinalOffset]:
        """Return the committed offsets of the partitions this broker is coordinator of."""
        return [
            fact
            for partition in sorted(self.shards)
            if self.shards[partition].active
            for fact in self.offsets.final_offsets(self.shards[partition])
        ]

    def _forget(self, topics: tuple[str, ...], now: int) -> None:
        for partition in sorted(self.shards):
            if self.shards[partition].active:
                self.offsets.on_topics_deleted(self.shards[partition], topics, now)

    # Loading and expiry

    def _load(self, shard: Shard, now: int) -> None:
        if self.shards.get(shard.partition) is not shard:
            return  # given up before it was loaded
        now_ms = self.process.wall_ms(now)
        for batch in self.port.read_all(shard.tp):
            if type(batch) is not RecordBatch:
                # CoordinatorLoader fails: nobody's coordinator until the next election.
                del self.shards[shard.partition]
                return
            if not batch.control:
                for record in batch.records:
                    shard.load(record, batch.next_offset, now_ms)
            shard.last_written = batch.next_offset
        shard.last_committed = min(self.port.high_watermark(shard.tp), shard.last_written)
        shard.active = True
        self.process.out.append(CoordinatorLoaded(shard.partition, shard.epoch, True))
        self.membership.on_loaded(shard, now)
        self._arm_expiry(shard, now)

    def _arm_expiry(self, shard: Shard, now: int) -> None:
        def on_scan(at: int) -> None:
            self._arm_expiry(shard, at)
            self.offsets.expire(shard, at)

        interval_us = self.config.offsets_retention_check_interval_ms * 1000
        key = ("group-offsets-expiry", shard.partition)
        self.process.timers.arm(key, now + interval_us, LANE, on_scan)


_EMPTY_GROUP_ID = (OffsetCommitRequest, OffsetFetchRequest)
"""Requests that simple consumers may send without a group id."""


def _refusal(request: Any, error: Errors) -> Any:
    """Return the answer to a request that no shard serves."""
    kind = type(request)
    loading = error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    if kind is JoinGroupRequest:
        return join_error(error, request.member_id)
    if kind is SyncGroupRequest:
        # A rebalance in progress did not survive: the member must join again, here.
        return sync_error(Errors.REBALANCE_IN_PROGRESS if loading else error)
    if kind is HeartbeatRequest:
        return HeartbeatResponse(Errors.NONE if loading else error)
    if kind is LeaveGroupRequest:
        return LeaveGroupResponse(error, ())
    if kind is OffsetCommitRequest:
        return OffsetCommitResponse(tuple([(offset[0], error) for offset in request.offsets]))
    assert kind is OffsetFetchRequest, request
    return OffsetFetchResponse(error, ())
