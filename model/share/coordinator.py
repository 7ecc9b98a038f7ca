"""The share coordinator of a broker (ShareCoordinatorService, KIP-932).

A broker is the coordinator of every share partition whose key ``groupId:topicId:partition`` belongs
to a partition of ``__share_group_state`` that it leads. A request names share partitions of one
group; each is an operation of its own on the lane of its state partition, ``share/17``, and the
answer goes out when all of them are done. share.coordinator.threads serve these lanes.

Left out: compression of the topic, metrics, and share partitions of a number of state partitions
that is not the configured one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.context import CoordinatorContext
from kafkasim.model.coordinator.hashing import KeyPartitions
from kafkasim.model.coordinator.log import CoordinatorLog
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.coordinator.shards import OwnedShards
from kafkasim.model.effects import Post, Process, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import HoleEntered, ShareStateInitialized, ShareStatesLoaded
from kafkasim.model.messages.share import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)
from kafkasim.model.records import SHARE_GROUP_STATE_TOPIC, Record, TopicPartition
from kafkasim.model.share.calls import KINDS, Call, Gathered
from kafkasim.model.share.operations import (
    StateOperations,
    TopicsById,
    WriteRules,
    cleanup,
    cold_snapshots,
)
from kafkasim.model.share.shard import ShareShard

POOL = "share"
"""The pool of lanes ``share/0``, ``share/1``, …, one for each state partition."""
PRUNING = "share-group-state-prune"
COLD_SNAPSHOTS = "share-group-state-snapshot"

SHARE_STATE_REQUESTS = (
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    WriteShareGroupStateRequest,
    DeleteShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
)
"""What :meth:`ShareCoordinator.on_request` serves."""

Deleted = Callable[[Errors, int], None]  # (error, now)
DeleteRecords = Callable[[TopicPartition, int, Deleted, int], None]
"""(partition, offset, done, now): have its leader remove the records below an offset."""


class ShareCoordinator:
    """Serves the share partitions whose state partitions this broker leads."""

    def __init__(
        self,
        process: Process,
        config: BrokerConfig,
        log: CoordinatorLog,
        image: TopicsById,
        rules: WriteRules,
        delete_records: DeleteRecords,
    ) -> None:
        self.process = process
        self.config = config
        self._delete_records = delete_records
        self.runtime = CoordinatorRuntime(
            process,
            POOL,
            log,
            config.share_coordinator_write_timeout_ms,
            config.share_coordinator_append_linger_ms,
            config.message_max_bytes,
            pooled=True,
        )
        self.runtime.on_reverted = self._on_reverted
        operations = StateOperations(image, rules)
        self._operations = {
            InitializeShareGroupStateRequest: operations.initialize,
            ReadShareGroupStateRequest: operations.read,
            WriteShareGroupStateRequest: operations.write,
            DeleteShareGroupStateRequest: operations.delete,
            ReadShareGroupStateSummaryRequest: operations.summarize,
        }
        updates = config.share_coordinator_snapshot_update_records_per_snapshot
        self.owned: OwnedShards[ShareShard] = OwnedShards(
            self.runtime,
            SHARE_GROUP_STATE_TOPIC,
            lambda context: ShareShard(context, updates),
            self._on_loaded,
            _ignore_unloaded,
            config.share_coordinator_load_buffer_size,
            _load_continues,
            ShareStatesLoaded,
        )
        self._partitions = KeyPartitions(config.share_coordinator_state_topic_num_partitions)
        self._pruned: dict[int, int] = {}  # up to where a state partition was pruned last

    # -------------------------------------------------------------------------- partitions

    def partition_for(self, key: str) -> int:
        """Return the partition of ``__share_group_state`` that holds a share partition's key."""
        return self._partitions.of(key)

    def on_elected(self, partition: int, leader_epoch: int, now: int) -> None:
        """Take a partition over and load it on the loader's lane. Callable on any lane."""
        self.owned.on_elected(partition, leader_epoch, now)

    def on_resigned(self, partition: int, leader_epoch: int | None, now: int) -> None:
        """Give a partition up: a higher epoch, or for good (None). Callable on any lane."""
        self._pruned.pop(partition, None)
        self.owned.on_resigned(partition, leader_epoch, now)

    def on_high_watermark(self, partition: int, offset: int, now: int) -> None:
        """Answer what the partition's high watermark has passed. On the partition's lane."""
        self.owned.on_high_watermark(partition, offset, now)

    def on_topics_deleted(self, topic_ids: tuple[str, ...]) -> None:
        """Forget the share partitions of deleted topics. Callable on any lane."""
        for shard in self.owned.active():
            post = Post(shard.context.lane, self._cleanup, (shard, topic_ids))
            self.process.out.append(post)

    def _on_reverted(self, context: CoordinatorContext, _error: Errors, _now: int) -> None:
        self.owned.by_partition[context.partition].revert()

    def _on_loaded(self, _shard: ShareShard, now: int) -> None:
        self._arm_jobs(now)

    # ---------------------------------------------------------------------------- requests

    def on_request(self, item: Request, _now: int) -> None:
        """Serve a request of :data:`SHARE_STATE_REQUESTS`: each share partition on its own lane.

        A request without a group, a topic or a partition is answered without results.
        """
        request = item.message
        kind = KINDS[type(request)]
        gathered = Gathered(kind, request, partial(self.runtime.respond, _parked(item)))
        for call in gathered.calls:
            lane = self.runtime.lane_of(self.partition_for(call.key.as_coordinator_key()))
            self.process.out.append(Post(lane, self._run, call))
        if not gathered.calls:
            gathered.respond(kind.response(()))

    def _run(self, call: Call, now: int) -> None:
        """Run the operation on one share partition (scheduleWriteOperation)."""
        shard = self.owned.by_partition.get(self.partition_for(call.key.as_coordinator_key()))
        if shard is None:
            call.fail(Errors.NOT_COORDINATOR)
        elif not shard.context.is_active:
            call.fail(Errors.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            operation: Any = self._operations[type(call.request)]
            begun = call.key in shard.states
            records, result = operation(shard, call.key, call.asked, self.runtime.wall_ms(now))
            error = self._append(shard, records, now)
            if error is not Errors.NONE:
                call.fail(client_error(error))
                return
            if records and type(call.request) is InitializeShareGroupStateRequest:
                self._tell_initialized(shard, call, begun)
            # Also a result without a record waits for what it has seen (CoordinatorWriteEvent).
            self.runtime.defer(shard.context, _complete, (call, result), now)

    def _tell_initialized(self, shard: ShareShard, call: Call, begun: bool) -> None:
        """Tell of an initialization, and whether it resets a state that has begun before.

        The request was overtaken by a later one, or its sender does not know any more that the
        share partition was initialized (KAFKA.md, 3.6).
        """
        key, asked = call.key, call.asked
        if begun and asked.start_offset == -1:
            self.process.out.append(
                HoleEntered("late-initialization", key.topic_id, key.partition, key.group_id)
            )
        self.process.out.append(
            ShareStateInitialized(
                key.group_id,
                key.topic_id,
                key.partition,
                asked.state_epoch,
                asked.start_offset,
                shard.context.last_written - 1,
            )
        )

    def _append(self, shard: ShareShard, records: tuple[Record, ...], now: int) -> Errors:
        """Append the records of one operation and apply them; on an error nothing has changed."""
        if not records:
            return Errors.NONE
        error = self.runtime.append(shard.context, records, now)
        if error is Errors.NONE:
            offset = shard.context.last_written - len(records)
            for place, record in enumerate(records):
                shard.apply(record, offset + place)
        return error

    def _cleanup(self, message: tuple[ShareShard, tuple[str, ...]], now: int) -> None:
        shard, topic_ids = message
        if shard.context.is_active:
            self._append(shard, cleanup(shard, topic_ids, self.runtime.wall_ms(now)), now)

    # -------------------------------------------------------------------------------- jobs

    def _arm_jobs(self, now: int) -> None:
        """Run the jobs at the multiples of their intervals since the start of the broker.

        As long as it leads a state partition: without share groups there is none.
        """
        config = self.config
        prune_ms = config.share_coordinator_state_topic_prune_interval_ms
        snapshot_ms = config.share_coordinator_cold_partition_snapshot_interval_ms
        for name, interval_ms, job in (
            (PRUNING, prune_ms, self._prune),
            (COLD_SNAPSHOTS, snapshot_ms, self._snapshot_cold_partitions),
        ):
            if not self.process.timers.armed(name):
                self._arm(name, interval_ms * 1000, job, now)

    def _arm(
        self, name: str, interval_us: int, job: Callable[[ShareShard, int], None], now: int
    ) -> None:
        def on_time(at: int) -> None:
            shards = self.owned.active()
            for shard in shards:
                self.process.out.append(Post(shard.context.lane, partial(_on_lane, job), shard))
            if self.owned.by_partition:
                self._arm(name, interval_us, job, at)

        started = self.process.started_us
        next_us = started + ((now - started) // interval_us + 1) * interval_us
        self.process.timers.arm(name, next_us, POOL, on_time)

    def _prune(self, shard: ShareShard, now: int) -> None:
        """Delete what is redundant, once everything before is committed (performRecordPruning)."""
        offset = shard.offsets_manager.last_redundant_offset
        if offset is not None:
            self.runtime.defer(shard.context, self._delete, (shard, offset), now)

    def _delete(self, argument: tuple[ShareShard, int], error: Errors, now: int) -> None:
        shard, offset = argument
        partition = shard.context.partition
        if error is Errors.NONE and self._pruned.get(partition) != offset:

            def done(failed: Errors, _at: int) -> None:
                if failed is Errors.NONE:
                    self._pruned[partition] = offset

            self._delete_records(shard.context.tp, offset, done, now)

    def _snapshot_cold_partitions(self, shard: ShareShard, now: int) -> None:
        interval_ms = self.config.share_coordinator_cold_partition_snapshot_interval_ms
        self._append(shard, cold_snapshots(shard, interval_ms, self.runtime.wall_ms(now)), now)


def _on_lane(job: Callable[[ShareShard, int], None], shard: ShareShard, now: int) -> None:
    if shard.context.is_active:
        job(shard, now)


def _complete(argument: tuple[Call, Any], error: Errors, _now: int) -> None:
    call, result = argument
    if error is Errors.NONE:
        call.succeed(result)
    else:
        call.fail(client_error(error))


def _parked(item: Request) -> tuple[int, int]:
    return item.connection, item.correlation


def _load_continues(offset: int, start: int, end: int) -> bool:
    return start <= offset < end


def _ignore_unloaded(_shard: ShareShard) -> None:
    """Leave the shard alone: what waited for a commit has failed with NOT_COORDINATOR."""
