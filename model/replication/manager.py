"""ReplicaManager: the partitions of one broker, and metadata turned into roles.

:meth:`ReplicaManager.apply_delta` is Kafka's applyDelta: what this broker no longer hosts stops,
then leaders, then followers; of a delta that spans several leader epochs only the last state is
seen. Serving is in :mod:`model.replication.serving`, logs on disk in :mod:`model.replication.logs`.

Left out: DeleteRecords, log directory reassignment, stray logs (their files stay unused).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.errors import Errors
from model.facts import FinalReplica, ReplicaFailed
from model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    OffsetForLeaderEpochPartition,
)
from model.records import RecordBatch, TopicPartition
from model.replication.alter_partition import AlterPartitionManager, ControllerLink
from model.replication.fetcher import ReplicaFetcher
from model.replication.logs import LogManager
from model.replication.partition import Partition
from model.replication.purgatory import Purgatory
from model.replication.rules import ReplicationRules
from model.replication.serving import ReplicaServing
from model.replication.sessions import FetchSessionCache
from model.storage.files import DiskError

if TYPE_CHECKING:
    from collections.abc import Callable

    from model.config import BrokerConfig
    from model.controller.image import MetadataDelta, MetadataImage, PartitionRegistration
    from model.replication.ports import BrokerProcess
    from model.storage.rules import StorageRules

NONE = Errors.NONE


class ReplicaManager(ReplicaServing):
    """Hosts partitions. ``offsets_committed(partition, high_watermark)`` hears of HW advances of
    ``__consumer_offsets``."""

    def __init__(
        self,
        process: BrokerProcess,
        config: BrokerConfig,
        rules: ReplicationRules,
        storage_rules: StorageRules,
        image: MetadataImage,
        link: ControllerLink,
        offsets_committed: Callable[[int, int], None],
    ) -> None:
        self.process = process
        self.config = config
        self.rules = rules
        self.image = image
        self.brokers = image.brokers
        self.broker_id = process.broker_id
        self.out = process.out
        self.timers = process.timers
        self.lag_us = config.replica_lag_time_max_ms * 1000
        self.purgatory = Purgatory(process.timers)
        self.partitions: dict[TopicPartition, Partition] = {}
        self.fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self.sessions = FetchSessionCache()
        self.alter_partition = AlterPartitionManager(process, link)
        self.logs = LogManager(process, config, storage_rules, self.partitions)
        self.offsets_committed = offsets_committed

    # ----------------------------------------------------------------------------------- metadata

    def apply_delta(self, delta: MetadataDelta, now: int) -> None:
        """Bring the partitions to the state of ``delta.image``, which is already in effect."""
        image = self.image
        for topic_id, topic in delta.deleted_topics.items():
            for number in topic.partitions:
                self._stop(TopicPartition(topic.name, number), topic_id, now)
        leaders: dict[TopicPartition, tuple[str, PartitionRegistration]] = {}
        followers: dict[TopicPartition, tuple[str, PartitionRegistration]] = {}
        for (topic_id, number), registration in delta.changed_partitions.items():
            tp = TopicPartition(image.topics[topic_id].name, number)
            if registration.leader == self.broker_id:
                leaders[tp] = (topic_id, registration)
            elif self.broker_id in registration.replicas:
                followers[tp] = (topic_id, registration)
            else:
                self._stop(tp, topic_id, now)
        for name in delta.changed_configs:
            self._update_config(name)
        if leaders:
            self._apply_leaders(leaders, now)
        if followers:
            self._apply_followers(followers, now)
        for key, fetcher in list(self.fetchers.items()):
            if fetcher.idle():
                del self.fetchers[key]
                fetcher.stop(now)

    def _apply_leaders(
        self, changed: dict[TopicPartition, tuple[str, PartitionRegistration]], now: int
    ) -> None:
        for tp in changed:
            self._remove_from_fetchers(tp)
        for tp, (topic_id, registration) in changed.items():
            partition = self._get_or_create(tp, topic_id, now)
            if partition is None:
                continue
            try:
                if partition.make_leader(registration, now):
                    partition.wake(now)
            except DiskError as error:
                self.process.log_dir_failed(error, now)

    def _apply_followers(
        self, changed: dict[TopicPartition, tuple[str, PartitionRegistration]], now: int
    ) -> None:
        started: list[Partition] = []
        for tp, (topic_id, registration) in changed.items():
            partition = self._get_or_create(tp, topic_id, now)
            if partition is None:
                continue
            was_leading = partition.leading
            if partition.make_follower(registration, now):
                self._remove_from_fetchers(tp)
                if registration.leader != -1:
                    started.append(partition)
            if was_leading:
                partition.fail_waiters(Errors.NOT_LEADER_OR_FOLLOWER, now)
        for partition in started:
            self._fetcher(partition.leader, partition.tp).add(partition, now)

    def _get_or_create(self, tp: TopicPartition, topic_id: str, now: int) -> Partition | None:
        partition = self.partitions.get(tp)
        if partition is None:
            log = self.logs.open(tp, topic_id, self.image.configs.get(tp.topic, {}), now)
            if log is None:
                return None
            partition = self.partitions[tp] = Partition(self, tp, topic_id, log)
        return None if partition.offline or partition.topic_id != topic_id else partition

    def _update_config(self, topic: str) -> None:
        config = self.config.topic_config(self.image.configs.get(topic, {}))
        for tp, partition in self.partitions.items():
            if tp.topic == topic and partition.log.config != config:
                partition.log.update_config(config)
                partition.min_isr = min(config.min_insync_replicas, len(partition.replicas) or 1)

    def _stop(self, tp: TopicPartition, topic_id: str, now: int) -> None:
        """Host a partition no longer, and delete its log."""
        partition = self.partitions.get(tp)
        if partition is None or partition.topic_id != topic_id:
            return
        self._remove_from_fetchers(tp)
        del self.partitions[tp]
        partition.leading = False
        partition.fail_waiters(Errors.NOT_LEADER_OR_FOLLOWER, now)
        for entry in list(partition.watchers):
            entry.detach()
        self.logs.delete(partition, now)

    # ----------------------------------------------------------------------------------- fetchers

    def _fetcher(self, leader: int, tp: TopicPartition) -> ReplicaFetcher:
        key = (leader, tp.partition % self.config.num_replica_fetchers)
        fetcher = self.fetchers.get(key)
        if fetcher is None:
            broker = self.brokers.get(leader)
            address = f"broker-{leader}" if broker is None else broker.address
            fetcher = self.fetchers[key] = ReplicaFetcher(self, leader, key[1], address)
        return fetcher

    def _remove_from_fetchers(self, tp: TopicPartition) -> None:
        for fetcher in self.fetchers.values():
            fetcher.remove(tp)

    # ------------------------------------------------------------------------- other requests

    def append_from_coordinator(
        self, tp: TopicPartition, batch: RecordBatch, now: int
    ) -> tuple[Errors, int]:
        """Append a coordinator's batch; return the offset after it. Replies wait for the HW."""
        partition = self.partitions.get(tp)
        if partition is None:
            return self.unknown_partition(tp), -1
        error = partition.check_leader(-1)
        if error is not NONE:
            return error, -1
        if not self.rules.enough_replicas(partition):
            return Errors.NOT_ENOUGH_REPLICAS, -1
        try:
            result = partition.append_as_leader(batch, now, "coordinator")
        except DiskError as failure:
            partition.mark_offline()
            self.process.log_dir_failed(failure, now)
            return Errors.KAFKA_STORAGE_ERROR, -1
        if result.error is not NONE:
            return result.error, -1
        if partition.advance_high_watermark(now):
            partition.wake(now)
        partition.wake_followers(now)
        return NONE, result.last_offset + 1

    def list_offset(
        self, request: ListOffsetsRequest, asked: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        """Answer one partition of ListOffsets (Partition.fetchOffsetForTimestamp)."""
        partition = self.partitions.get(asked.tp)
        if partition is None:
            error = self.unknown_partition(asked.tp)
        else:
            error = partition.check_leader(asked.current_leader_epoch)
        if partition is None or error is not NONE:
            return ListOffsetsPartitionResponse(asked.tp, error, -1, -1, -1)
        log = partition.log
        if asked.timestamp == EARLIEST_TIMESTAMP:
            found: tuple[int, int] | None = (-1, log.log_start_offset)
        elif request.replica_id >= 0:
            found = (
                (-1, log.log_end_offset)
                if asked.timestamp == LATEST_TIMESTAMP
                else log.offset_for_timestamp(asked.timestamp)
            )
        else:
            bound = log.last_stable_offset if request.isolation_level else log.high_watermark
            if asked.timestamp == LATEST_TIMESTAMP:
                found = (-1, bound)
            else:
                found = log.offset_for_timestamp(asked.timestamp)
            if log.high_watermark < partition.leader_epoch_start and (
                asked.timestamp == LATEST_TIMESTAMP or (found is not None and found[1] >= bound)
            ):
                # a new leader does not know yet what the old one had exposed
                return ListOffsetsPartitionResponse(
                    asked.tp, Errors.OFFSET_NOT_AVAILABLE, -1, -1, -1
                )
            if found is not None and asked.timestamp >= 0 and found[1] >= bound:
                found = None
        if found is None:
            return ListOffsetsPartitionResponse(asked.tp, NONE, -1, -1, -1)
        epoch = log.epochs.epoch_for(found[1]) if asked.timestamp >= 0 else partition.leader_epoch
        return ListOffsetsPartitionResponse(asked.tp, NONE, found[0], found[1], epoch)

    def epoch_end_offset(self, asked: OffsetForLeaderEpochPartition) -> EpochEndOffset:
        """Answer one partition of OffsetsForLeaderEpoch."""
        partition = self.partitions.get(asked.tp)
        if partition is None:
            return EpochEndOffset(asked.tp, self.unknown_partition(asked.tp), -1, -1)
        error = partition.check_leader(asked.current_leader_epoch)
        if error is not NONE:
            return EpochEndOffset(asked.tp, error, -1, -1)
        log = partition.log
        epoch, end = log.epochs.end_offset_for(asked.leader_epoch, log.log_end_offset)
        return EpochEndOffset(asked.tp, NONE, epoch, end)

    # ------------------------------------------------------------------------------ periodic, end

    def shrink_isrs(self, now: int) -> None:
        """The isr-expiration task."""
        for partition in self.partitions.values():
            partition.maybe_shrink(now)

    def go_offline(self, reason: str, now: int) -> None:
        """The only log directory failed: serve nothing any more."""
        for partition in self.partitions.values():
            partition.mark_offline()
            self.out.append(ReplicaFailed(partition.topic_id, partition.tp.partition, reason))
        for partition in self.partitions.values():
            partition.fail_waiters(Errors.KAFKA_STORAGE_ERROR, now)
        for fetcher in self.fetchers.values():
            fetcher.stop(now)
        self.fetchers.clear()

    def stop_fetchers(self, now: int) -> None:
        """End all fetchers (clean shutdown)."""
        for fetcher in self.fetchers.values():
            fetcher.stop(now)
        self.fetchers.clear()

    def ground_truth(self) -> list[FinalReplica]:
        """Return the state of every replica, as the run's last facts."""
        return [
            partition.log.ground_truth(partition.leading, partition.leader_epoch)
            for partition in self.partitions.values()
        ]
