"""ReplicaManager: the partitions of one broker and the parts that work on them.

Models kafka.server.ReplicaManager. The manager itself only applies metadata. Its parts do the rest:
producing, fetching, offsets, deletion, roles, fetchers, logs and directories. The package's README
shows the way of a record through them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.facts import FinalCleaned, FinalReplica
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.alter_partition import AlterPartitionManager, ControllerChannel
from kafkasim.model.replication.dynamic_config import DynamicBrokerConfig
from kafkasim.model.replication.fetching.fetchers import ReplicaFetchers
from kafkasim.model.replication.logs.log_manager import LogManager
from kafkasim.model.replication.partitions.hosted import HostedPartitions
from kafkasim.model.replication.partitions.ports import IsrChannel, PartitionContext
from kafkasim.model.replication.partitions.role_locks import RoleLocks
from kafkasim.model.replication.replica_directories import ReplicaDirectories
from kafkasim.model.replication.requests.delete_records import RecordDeletion
from kafkasim.model.replication.requests.fetch import FetchHandler
from kafkasim.model.replication.requests.fetch_reader import FetchReader
from kafkasim.model.replication.requests.fetch_sessions import FetchSessionCache
from kafkasim.model.replication.requests.offsets import OffsetQueries
from kafkasim.model.replication.requests.produce import ProduceHandler
from kafkasim.model.replication.requests.purgatory import Purgatory
from kafkasim.model.replication.requests.transactions.markers import TransactionMarkers
from kafkasim.model.replication.requests.transactions.verification import TransactionVerification
from kafkasim.model.replication.roles import PartitionStates, RoleChanges
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.final_replica import final_facts

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.storage.rules import StorageRules


class ReplicaManager:
    """Owns the table of partitions and builds the parts.

    ``controller`` is the link to the active controller. ``coordinator_committed(tp, offset)`` is
    called at each new high watermark of a coordinator's topic.
    """

    def __init__(
        self,
        process: BrokerProcess,
        config: BrokerConfig,
        rules: ReplicationRules,
        storage_rules: StorageRules,
        image: MetadataImage,
        controller: ControllerChannel,
        coordinator_committed: Callable[[TopicPartition, int], None],
    ) -> None:
        self._broker_id = process.broker_id
        self._image = image
        self.settings = settings = DynamicBrokerConfig(
            config, image, process.broker_id, storage_rules.has_internal_segment_bytes()
        )
        self.hosted = hosted = HostedPartitions(process)
        self.locks = locks = RoleLocks(process.out, process.on_request)
        verifies = rules.knows_verification()
        self.logs = logs = LogManager(process, settings, storage_rules, hosted.online, verifies)
        self.fetchers = fetchers = ReplicaFetchers(process, settings, rules, image.brokers)
        self.directories = ReplicaDirectories(process, image, hosted, logs, fetchers)
        self._context = context = PartitionContext(
            process,
            process.out,
            rules,
            image.brokers,
            config.replica_lag_time_max_ms * 1000,
            locks,
            AlterPartitionManager(process, controller),
            logs,
            coordinator_committed,
        )
        self.roles = RoleChanges(process, image, hosted, context, logs, fetchers)
        self.purgatory = purgatory = Purgatory(process.timers)
        self.sessions = FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots, rules, process.started_us
        )
        self.reader = reader = FetchReader(
            process, config, rules, image.brokers, hosted, settings.quotas
        )
        self.fetching = FetchHandler(
            process, rules, hosted, locks, purgatory, reader, self.sessions
        )
        self.verification = TransactionVerification(process, config, rules, hosted)
        self.producing = ProduceHandler(process, rules, hosted, locks, purgatory, self.verification)
        self.markers = TransactionMarkers(
            process, hosted, locks, self.producing, config.request_timeout_ms
        )
        self.deletion = RecordDeletion(process, hosted, purgatory)
        self.offsets = OffsetQueries(hosted, rules)

    @property
    def partitions(self) -> dict[TopicPartition, Partition]:
        """The hosted partitions, those in failed directories included."""
        return self.hosted.online

    def propose_isrs_through(self, channel: IsrChannel) -> None:
        """Propose ISRs in another way than by AlterPartition (ZooKeeper mode before IBP 2.7)."""
        self._context.isr_channel = channel

    # ----------------------------------------------------------------------------------- metadata

    def apply_delta(self, delta: MetadataDelta, now: int) -> None:
        """Bring the partitions to the state of ``delta.image``, which is already in effect.

        What this broker no longer hosts stops, then leaders, then followers (applyDelta). New logs
        have their topic's new settings, the others their old ones until :meth:`apply_configs`.
        """
        image, roles = self._image, self.roles
        deleted: list[TopicPartition] = []
        for topic_id, topic in delta.deleted_topics.items():
            for number in topic.partitions:
                tp = TopicPartition(topic.name, number)
                roles.stop(tp, topic_id, now)
                deleted.append(tp)
        states: PartitionStates = {}
        for (topic_id, number), registration in delta.changed_partitions.items():
            tp = TopicPartition(image.topics[topic_id].name, number)
            if self._broker_id in registration.replicas:
                states[tp] = (topic_id, registration)
            else:
                roles.stop(tp, topic_id, now)
        roles.checkpoint_deletions(now)
        roles.become_leader_or_follower(states, now)
        self.hosted.compare_names([*self.hosted.unnamed, *deleted])
        if self.logs.directory_ids():
            self.directories.report(delta, now)

    def apply_configs(self, delta: MetadataDelta) -> None:
        """Take over the settings that a delta changes (DynamicConfigPublisher)."""
        if delta.changed_broker_configs:
            self.config_changed(None)
        for name in delta.changed_configs:
            self.config_changed(name)

    def config_changed(self, topic: str | None) -> None:
        """Take over the metadata's settings of a topic, or of this broker (None).

        A broker's settings are defaults of the topics'.
        """
        topics = [topic]
        if topic is None:
            self.settings.update()
            topics = list(dict.fromkeys([tp.topic for tp in self.partitions]))
        for name in topics:
            assert name is not None
            config = self.settings.topic(name)
            for tp, partition in self.partitions.items():
                if tp.topic == name and partition.log.config != config:
                    partition.log.update_config(config)

    # ------------------------------------------------------------------------------ periodic, end

    def shrink_isrs(self, now: int) -> None:
        """Propose to remove lagging followers from ISRs (the isr-expiration task)."""
        for partition in self.partitions.values():
            leader = partition.leadership
            if leader is not None:
                leader.maybe_shrink(now)

    def ground_truth(self) -> list[FinalCleaned | FinalReplica]:
        """Return the state of every replica, as the run's last facts."""
        return [
            fact
            for partition in self.partitions.values()
            for fact in final_facts(partition.log, partition.leading, partition.leader_epoch)
        ]
