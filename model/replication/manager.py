"""ReplicaManager: the partitions of one broker, and metadata turned into roles.

:meth:`ReplicaManager.apply_delta` is Kafka's applyDelta: what this broker no longer hosts stops,
then leaders, then followers; of a delta that spans several leader epochs only the last state is
seen. Serving is in :mod:`kafkasim.model.replication.requests.serving`, logs on disk in :mod:`kafkasim.model.replication.logs.logs`.

Log directories are in :mod:`kafkasim.model.replication.logs.log_dirs`.
Left out: moves between them, stray logs (their files stay unused).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasim.model.effects import Post, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import FinalReplica
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    OffsetForLeaderEpochPartition,
)
from kafkasim.model.records import RecordBatch, TopicPartition
from kafkasim.model.replication.fetcher.fetcher import ReplicaFetcher
from kafkasim.model.replication.fetcher.quota import quota
from kafkasim.model.replication.logs.log_dirs import ReplicaDirectories
from kafkasim.model.replication.logs.logs import LogManager
from kafkasim.model.replication.partition.alter_partition import (
    AlterPartitionManager,
    ControllerLink,
)
from kafkasim.model.replication.partition.partition import Partition
from kafkasim.model.replication.requests.deletion import RecordDeletion
from kafkasim.model.replication.requests.purgatory import Purgatory
from kafkasim.model.replication.requests.serving import ReplicaServing
from kafkasim.model.replication.requests.sessions import FetchSessionCache
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.files import DiskError
from kafkasim.model.storage.final_replica import final_replica

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import (
        MetadataDelta,
        MetadataImage,
        PartitionRegistration,
    )
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.storage.rules import StorageRules

NONE = Errors.NONE
REQUESTS = "requests"  # the lane of the request handlers

States: TypeAlias = "dict[TopicPartition, tuple[str, PartitionRegistration]]"
"""Partition states as they arrive: topic id and registration."""


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
        self.config = self._static = config  # with and without the dynamic settings
        self.rules = rules
        self.image = image
        self.brokers = image.brokers
        self.broker_id = process.broker_id
        self.out = process.out
        self.timers = process.timers
        self.lag_us = config.replica_lag_time_max_ms * 1000
        self.truncation_on_fetch = config.truncation_on_fetch
        self.selects_replicas = config.replica_selector_class != ""
        self.purgatory = Purgatory(process.timers)
        self.partitions: dict[TopicPartition, Partition] = {}
        self.fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self.sessions = FetchSessionCache(rules)
        self.send_delay_us = rules.fetch_send_delay_us(process.broker_id)
        self._set_quotas()
        self.alter_partition = AlterPartitionManager(process, link)
        self.logs = LogManager(process, config, storage_rules, self.partitions)
        self.log_dirs = ReplicaDirectories(self)
        self.deletion = RecordDeletion(self)
        self.settling: dict[TopicPartition, Partition] = {}  # leaders, once their epoch is durable
        self.held: list[Request] = []  # that touch one of those
        self.offsets_committed = offsets_committed

    # ----------------------------------------------------------------------------------- metadata

    def apply_delta(self, delta: MetadataDelta, now: int) -> None:
        """Bring the partitions to the state of ``delta.image``, which is already in effect."""
        image = self.image
        for topic_id, topic in delta.deleted_topics.items():
            for number in topic.partitions:
                self.stop_replica(TopicPartition(topic.name, number), topic_id, now)
        states: States = {}
        for (topic_id, number), registration in delta.changed_partitions.items():
            tp = TopicPartition(image.topics[topic_id].name, number)
            if self.broker_id in registration.replicas:
                states[tp] = (topic_id, registration)
            else:
                self.stop_replica(tp, topic_id, now)
        if delta.changed_broker_configs:
            self._update_broker_config()
        for name in delta.changed_configs:
            self._update_config(name)
        self.become_leader_or_follower(states, now)
        if self.logs.several:
            self.log_dirs.report(delta, now)

    def become_leader_or_follower(self, states: States, now: int) -> dict[TopicPartition, Errors]:
        """Take partition states that name this broker as a replica, wherever they come from.

        Leaders first, then followers (becomeLeaderOrFollower, applyLocalLeadersDelta). Returns the
        partitions that could not take their role: KAFKA_STORAGE_ERROR, INCONSISTENT_TOPIC_ID. A
        state with an older partition epoch than the known one is ignored.
        """
        leaders: States = {}
        followers: States = {}
        for tp, state in states.items():
            chosen = leaders if state[1].leader == self.broker_id else followers
            chosen[tp] = state
        failed: dict[TopicPartition, Errors] = {}
        if leaders:
            self._apply_leaders(leaders, failed, now)
        if followers:
            self._apply_followers(followers, failed, now)
        for key, fetcher in list(self.fetchers.items()):
            if fetcher.idle():
                del self.fetchers[key]
                fetcher.stop(now)
        return failed

    def _apply_leaders(
        self, changed: States, failed: dict[TopicPartition, Errors], now: int
    ) -> None:
        for tp in changed:
            self.remove_from_fetchers(tp)
        for tp, (topic_id, registration) in changed.items():
            partition = self._get_or_create(tp, topic_id, registration, failed, now)
            if partition is None:
                continue
            try:
                partition.make_leader(registration, now)
            except DiskError as error:
                failed[tp] = Errors.KAFKA_STORAGE_ERROR
                partition.mark_offline()
                self.process.log_dir_failed(error, now)

    def _apply_followers(
        self, changed: States, failed: dict[TopicPartition, Errors], now: int
    ) -> None:
        started: list[Partition] = []
        for tp, (topic_id, registration) in changed.items():
            partition = self._get_or_create(tp, topic_id, registration, failed, now)
            if partition is None:
                continue
            waits = partition.leading or tp in self.settling  # may have led before that epoch
            if partition.make_follower(registration, now):
                self.remove_from_fetchers(tp)
                if registration.leader != -1:
                    started.append(partition)
                waits = waits or bool(partition.waiting_consumers)
            if waits:
                partition.fail_waiters(Errors.NOT_LEADER_OR_FOLLOWER, now)
        for partition in started:
            self._fetcher(partition.leader, partition.tp).add(partition, now)

    def _get_or_create(
        self,
        tp: TopicPartition,
        topic_id: str,
        registration: PartitionRegistration,
        failed: dict[TopicPartition, Errors],
        now: int,
    ) -> Partition | None:
        partition = self.partitions.get(tp)
        if partition is None or (partition.offline and partition.topic_id != topic_id):
            wanted = self.log_dirs.wanted(tp, registration)
            log = self.logs.open(tp, topic_id, self.image.configs.get(tp.topic, {}), now, wanted)
            if log is None:
                failed[tp] = Errors.KAFKA_STORAGE_ERROR
                self.log_dirs.offline[tp] = None
                return None
            self.log_dirs.offline.pop(tp, None)
            partition = self.partitions[tp] = Partition(self, tp, topic_id, log)
        elif partition.offline:
            failed[tp] = Errors.KAFKA_STORAGE_ERROR
            return None
        elif partition.topic_id != topic_id:
            failed[tp] = Errors.INCONSISTENT_TOPIC_ID
            return None
        return partition

    def config_changed(self, topic: str | None) -> None:
        """Settings of a topic, or of this broker (None), are others in the image."""
        if topic is None:
            self._update_broker_config()
        else:
            self._update_config(topic)

    def _update_broker_config(self) -> None:
        """Take over dynamic settings: those that are defaults of topics (LogManager's)."""
        dynamic = self.image.dynamic_config(self.broker_id)
        self.config = self.logs.config = self._static.with_properties(dynamic)
        self._set_quotas()
        for topic in dict.fromkeys([tp.topic for tp in self.partitions]):
            self._update_config(topic)

    def _update_config(self, topic: str) -> None:
        config = self.config.topic_config(self.image.configs.get(topic, {}))
        for tp, partition in self.partitions.items():
            if tp.topic == topic and partition.log.config != config:
                partition.log.update_config(config)
                partition.min_isr = min(config.min_insync_replicas, len(partition.replicas) or 1)

    def stop_replica(
        self, tp: TopicPartition, topic_id: str, now: int, delete: bool = True
    ) -> None:
        """Serve and fetch a partition no longer (stopReplicas); ``delete`` its log, too.

        Without ``delete`` the replica stays hosted, with no role until the next state.
        """
        self.log_dirs.offline.pop(tp, None)
        partition = self.partitions.get(tp)
        if partition is None or partition.topic_id != topic_id:
            return
        self.remove_from_fetchers(tp)
        partition.leading = False
        self.settled(tp)
        partition.fail_waiters(Errors.NOT_LEADER_OR_FOLLOWER, now)
        if not delete:
            return
        for entry in list(partition.watchers):
            entry.detach()
        if partition.offline:
            return
        del self.partitions[tp]
        self.logs.delete(partition, now)

    def _set_quotas(self) -> None:
        config = self.config
        self.leader_quota = quota(config.leader_replication_throttled_rate, self.broker_id)
        self.follower_quota = quota(config.follower_replication_throttled_rate, self.broker_id)

    # ------------------------------------------------------------- leaderships not yet durable

    def hold(self, item: Request) -> bool:
        """Keep a request that touches a settling partition; return whether it does.

        Callers ask only while ``settling`` is not empty. Kafka's handler waits for the partition's
        lock instead; the connection is muted meanwhile either way.
        """
        asked: dict[TopicPartition, Any] = {part.tp: None for part in item.message.partitions}
        session = self.sessions.sessions.get(getattr(item.message, "session_id", 0))
        if session is not None:
            asked.update(session.entries)
        if any(tp in asked for tp in self.settling):
            self.held.append(item)
            return True
        return False

    def settled(self, tp: TopicPartition) -> None:
        """A partition leads, or will not: what was held is served, each in an event of its own."""
        if self.settling.pop(tp, None) is not None and self.held:
            held, self.held = self.held, []
            for item in held:
                self.out.append(Post(REQUESTS, self.process.on_request, item))

    # ----------------------------------------------------------------------------------- fetchers

    def _fetcher(self, leader: int, tp: TopicPartition) -> ReplicaFetcher:
        key = (leader, tp.partition % self.config.num_replica_fetchers)
        fetcher = self.fetchers.get(key)
        if fetcher is None:
            broker = self.brokers.get(leader)
            address = f"broker-{leader}" if broker is None else broker.address
            fetcher = self.fetchers[key] = ReplicaFetcher(self, leader, key[1], address)
        return fetcher

    def remove_from_fetchers(self, tp: TopicPartition) -> None:
        """Fetch a partition no longer."""
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
            start = log.log_start_offset
            epoch = log.epochs.epoch_for(start)
            return ListOffsetsPartitionResponse(asked.tp, NONE, -1, start, epoch)
        found: tuple[int, int] | None
        if request.replica_id >= 0:
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
        found = log.epochs.end_offset_for(asked.leader_epoch, log.log_end_offset)
        epoch, end = self.rules.lookup_reply(*found)
        return EpochEndOffset(asked.tp, NONE, epoch, end)

    # ------------------------------------------------------------------------------ periodic, end

    def shrink_isrs(self, now: int) -> None:
        """The isr-expiration task."""
        for partition in self.partitions.values():
            partition.maybe_shrink(now)

    def stop_fetchers(self, now: int) -> None:
        """End all fetchers (clean shutdown)."""
        for fetcher in self.fetchers.values():
            fetcher.stop(now)
        self.fetchers.clear()

    def ground_truth(self) -> list[FinalReplica]:
        """Return the state of every replica, as the run's last facts."""
        return [
            final_replica(partition.log, partition.leading, partition.leader_epoch)
            for partition in self.partitions.values()
        ]
