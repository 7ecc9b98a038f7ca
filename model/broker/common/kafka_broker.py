"""The parts that every broker has, wherever its metadata comes from (the trait KafkaBroker).

:class:`~kafkasim.model.broker.kraft.broker.Broker` follows a KRaft metadata log and
:class:`~kafkasim.model.broker.zk.broker.ZkBroker` obeys a controller that keeps its state in
ZooKeeper. Both are a :class:`KafkaBrokerProcess`, which holds one :class:`KafkaBroker`, and add the
parts that know the controller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.broker.common.acceptor import BrokerAcceptor
from kafkasim.model.broker.common.apis import KafkaApis
from kafkasim.model.broker.common.authorization.gate import AuthorizedApis
from kafkasim.model.broker.common.client_quotas import ClientQuotaManager
from kafkasim.model.broker.common.connection_quotas import ConnectionQuotas, ConnectionRules
from kafkasim.model.broker.common.coordinators.log import ReplicatedCoordinatorLog
from kafkasim.model.broker.common.coordinators.registry import (
    GROUP,
    SHARE,
    TRANSACTION,
    CoordinatorTopic,
    CoordinatorTopics,
    group_metadata_topic,
    share_group_state_topic,
    transaction_state_topic,
)
from kafkasim.model.broker.common.forwarding import ProducerIds
from kafkasim.model.broker.common.idle_connections import IdleConnections
from kafkasim.model.broker.common.log_dir_failures import SCHEDULER, LogDirFailureHandler
from kafkasim.model.broker.common.request_quotas import (
    ClientRequestQuotaManager,
    ThrottledApis,
)
from kafkasim.model.broker.common.share.apis import ShareApis
from kafkasim.model.broker.common.share.persister import DefaultStatePersister
from kafkasim.model.broker.common.share.settings import ShareSettings
from kafkasim.model.broker.common.socket_server import SocketServer
from kafkasim.model.broker.common.statistics import RequestStatistics
from kafkasim.model.broker.common.transactions.add_partitions import AddPartitionsToTxnManager
from kafkasim.model.broker.common.transactions.markers import PartitionLeaders, start_sender
from kafkasim.model.controller.common.acls import Authorizer
from kafkasim.model.effects import Exit
from kafkasim.model.group.coordinator import GROUP_REQUESTS, POOL, GroupCoordinator
from kafkasim.model.records import TRANSACTION_STATE_TOPIC, TopicPartition
from kafkasim.model.replication.manager import ReplicaManager
from kafkasim.model.replication.ports import BrokerProcess
from kafkasim.model.replication.quotas.rate import Windows
from kafkasim.model.replication.share.manager import SharePartitionManager
from kafkasim.model.share.coordinator import POOL as SHARE_POOL
from kafkasim.model.share.coordinator import SHARE_STATE_REQUESTS, ShareCoordinator
from kafkasim.model.storage.files import FLUSH_POOL
from kafkasim.model.transaction.coordinator import TransactionCoordinator

if TYPE_CHECKING:
    from kafkasim.model.broker.common.controller_link import ControllerAccess, ControllerChannel
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.broker.rules import BrokerRules
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.acls import AuthorizerRules
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.effects import Request
    from kafkasim.model.group.rules import GroupRules
    from kafkasim.model.replication.rules import ReplicationRules
    from kafkasim.model.replication.share.rules import ShareRules
    from kafkasim.model.storage.directories import LogDirectory
    from kafkasim.model.storage.files import DiskError

ISR_EXPIRATION = "isr-expiration"


class KafkaBroker:
    """ReplicaManager, GroupCoordinator, KafkaApis and SocketServer of one broker.

    ``image`` is the metadata cache, ``controller`` serves what this broker cannot, and
    ``alter_partition`` carries the leader's ISR changes to the controller. ``metadata_log`` and
    ``announce`` are explained in
    :class:`~kafkasim.model.broker.common.log_dir_failures.LogDirFailureHandler`. In ZooKeeper
    mode ``new_coordinator`` is False: groups have the Scala coordinator.
    """

    def __init__(
        self,
        process: BrokerProcess,
        incarnation: Incarnation,
        config: BrokerConfig,
        rules: BrokerRules,
        image: MetadataImage,
        alter_partition: ControllerChannel,
        controller: ControllerAccess,
        metadata_log: str | None,
        announce: Callable[[LogDirectory, int], None],
        new_coordinator: bool,
    ) -> None:
        self.process = process
        self.incarnation = incarnation
        self.config, self.image = config, image
        self._storage_rules = rules.storage
        self.replicas = ReplicaManager(
            process,
            config,
            rules.replication,
            rules.storage,
            image,
            alter_partition,
            self._coordinator_committed,
        )
        log = ReplicatedCoordinatorLog(incarnation, self.replicas)
        self.coordinator = GroupCoordinator(
            process, incarnation.broker_id, config, rules.group, log, new_coordinator, image
        )
        # The threads of the request handlers and of the group coordinator.
        self.lane_threads = self._lane_threads(rules.group, new_coordinator)
        self._coordinate_shares(log, rules.share)
        self._coordinate_transactions(rules, log, controller.producer_ids)
        self.add_partitions = self._verify_transactions()
        self._limit_clients(rules.replication)
        self._lead_shares(rules.share)
        self._serve_requests(controller, rules.group.has_share_groups())
        self.gate: AuthorizedApis | None = None
        if config.authorizer_class_name:
            self.gate = self._authorize_requests(rules.authorizer)
        served = self.socket_server.apis
        self.socket_server.apis = ThrottledApis(self.process, served, self.request_quota)
        self._limit_connections(rules.connections)
        self.failures = LogDirFailureHandler(process.out, self.replicas, metadata_log, announce)

    def _limit_connections(self, rules: ConnectionRules) -> None:
        """Hold connections to the limits of the settings and of the metadata."""
        process, config = self.process, self.config
        self.connection_queue = rules.connection_queue()
        self.idle_connections = IdleConnections(process, config.connections_max_idle_ms)
        process.acceptors[process.name] = BrokerAcceptor(
            process,
            ConnectionQuotas(config, self.image),
            rules,
            config.socket_listen_backlog_size,
        )

    def _serve_requests(self, controller: ControllerAccess, share_groups: bool) -> None:
        process, incarnation = self.process, self.incarnation
        self.statistics = RequestStatistics(process)
        self.apis = KafkaApis(
            process,
            incarnation,
            self.config,
            self.image,
            self.replicas,
            self.coordinator,
            self.coordinators,
            self.transactions,
            controller,
        )
        self.share_apis = self._share_apis()
        if share_groups:
            serve = self.share_coordinator.on_request
            self.apis.add_handlers(dict.fromkeys(SHARE_STATE_REQUESTS, serve))
            self.apis.add_handlers(self.share_apis.handlers)
        self.socket_server = SocketServer(process.out, incarnation, self.apis, self.lane_of)

    def _authorize_requests(self, rules: AuthorizerRules) -> AuthorizedApis:
        """Have an authorizer decide on every request (authorizer.class.name)."""
        config, image = self.config, self.image
        authorizer = Authorizer(
            image.acls, config.super_user_names, config.allow_everyone_if_no_acl_found, rules
        )
        gate = AuthorizedApis(self.process, self.apis, image, authorizer)
        self.socket_server.apis = gate
        self.replicas.fetching.refuses = gate.refuse_fetch
        self.share_apis.refuses = gate.refuse_share
        self.coordinator.consumer_groups.regexes.may_describe = gate.describes
        return gate

    def _verify_transactions(self) -> AddPartitionsToTxnManager:
        """Let the leaders ask the coordinators of transactions (KIP-890)."""
        timeout_ms = self.config.request_timeout_ms
        manager = AddPartitionsToTxnManager(
            self.process, self.image, self._partition_of_transaction, timeout_ms
        )
        self.replicas.verification.coordinators = manager
        self.replicas.markers.groups = self.coordinator
        return manager

    def _limit_clients(self, rules: ReplicationRules) -> None:
        """Hold clients to the quotas of the metadata (KIP-13, KIP-124)."""
        size_ms = self.config.quota_window_size_seconds * 1000
        windows = Windows(self.config.quota_window_num, size_ms)
        self.request_quota = ClientRequestQuotaManager(self.process, self.image, windows)
        for key, api, handler in (
            ("producer_byte_rate", "Produce", self.replicas.producing),
            ("consumer_byte_rate", "Fetch", self.replicas.fetching),
        ):
            out = self.process.out
            handler.quota = ClientQuotaManager(key, api, self.image, rules, out, windows)
            handler.request_quota = self.request_quota

    def _coordinate_shares(self, log: ReplicatedCoordinatorLog, rules: ShareRules) -> None:
        """Build the share coordinator, and the persister that asks those of all brokers."""
        process, image = self.process, self.image
        self.share_coordinator = ShareCoordinator(
            process, self.config, log, image, rules, self.replicas.deletion.delete_internal
        )
        partition_for = self.share_coordinator.partition_for
        self.persister = DefaultStatePersister(process, image, partition_for)
        self.coordinator.shares.initialization.persister = self.persister

    def on_topics_deleted(self, topic_ids: tuple[str, ...]) -> None:
        """Let the coordinators forget the share partitions of deleted topics."""
        self.coordinator.on_topics_deleted(topic_ids)
        self.share_coordinator.on_topics_deleted(topic_ids)

    def _lead_shares(self, rules: ShareRules) -> None:
        """Build what hands out the records of share groups (KIP-932)."""
        replicas = self.replicas
        self.shares = SharePartitionManager(
            self.process,
            ShareSettings(self.config, self.image),
            rules,
            self.persister,
            replicas.hosted,
            replicas.reader,
            replicas.offsets,
            replicas.purgatory,
        )

    def _share_apis(self) -> ShareApis:
        image = self.image
        return ShareApis(
            self.process,
            self.shares,
            self.replicas.hosted,
            lambda: image.share_version > 0,
            self.apis.respond,
        )

    def _coordinate_transactions(
        self,
        rules: BrokerRules,
        log: ReplicatedCoordinatorLog,
        producer_ids: ControllerChannel,
    ) -> None:
        """Build the transaction coordinator, and the table of all coordinators."""
        process, config, image = self.process, self.config, self.image
        self.transactions = TransactionCoordinator(
            process,
            config,
            rules.transaction,
            log,
            ProducerIds(self.incarnation, producer_ids),
            PartitionLeaders(image),
            lambda: image.transaction_version,
            rules.epochs_used,
        )
        timeout_ms = config.request_timeout_ms
        self.marker_sender = start_sender(process, timeout_ms, self.transactions.markers)
        internal = rules.storage.has_internal_segment_bytes()
        topics = group_metadata_topic(config, internal), transaction_state_topic(config, internal)
        groups = CoordinatorTopic(
            GROUP, topics[0], self.coordinator, self.coordinator.runtime.lane_of
        )
        transactions = CoordinatorTopic(TRANSACTION, topics[1], self.transactions, None)
        entries: tuple[CoordinatorTopic, ...] = (groups, transactions)
        if rules.group.has_share_groups():
            lane_of = self.share_coordinator.runtime.lane_of
            topic = share_group_state_topic(config, internal)
            entries += (CoordinatorTopic(SHARE, topic, self.share_coordinator, lane_of),)
        without_share = rules.group.find_share_coordinator()
        self.coordinators = CoordinatorTopics(process.out, entries, without_share)

    # --------------------------------------------------------------------------------- threads

    def _lane_threads(self, rules: GroupRules, new_coordinator: bool) -> dict[str, int]:
        config = self.config
        protocols = config.group_coordinator_rebalance_protocols
        own = rules.has_own_threads(protocols, new_coordinator)
        groups = config.group_coordinator_threads if own else config.num_io_threads
        return {
            self.process.default_lane: config.num_io_threads,
            FLUSH_POOL: config.background_threads,
            POOL: groups,
            SHARE_POOL: config.share_coordinator_threads,
        }

    def lane_of(self, request: Any) -> str:
        """Return the lane that serves a request: a group's partition has its own."""
        if type(request) in GROUP_REQUESTS:
            return self.coordinator.lane_of(request)
        return self.process.default_lane

    # ------------------------------------------------------------------------------ start and stop

    def start_isr_expiration(self, now: int) -> None:
        """Begin to propose ISR shrinks, every half of replica.lag.time.max.ms."""
        self.process.timers.arm(ISR_EXPIRATION, now, SCHEDULER, self._expire_isrs)

    def _expire_isrs(self, now: int) -> None:
        period_us = self.config.replica_lag_time_max_ms * 500
        timers = self.process.timers
        timers.arm(ISR_EXPIRATION, now + period_us, SCHEDULER, self._expire_isrs)
        self.replicas.shrink_isrs(now)

    def stop_serving(self, now: int) -> None:
        """Drop requests from now on and stop the replica fetchers."""
        self.incarnation.stopping = True
        self.replicas.fetchers.stop(now)
        self.add_partitions.thread.stop(now)
        self.marker_sender.stop(now)
        self.persister.thread.stop(now)

    def close_logs(self, loaded: bool, now: int, closed: Callable[[int], None]) -> None:
        """Close the logs, with the clean-shutdown marker if they were ``loaded``.

        Then ``closed(now)`` is called; the process exits instead when a log cannot be closed.
        """

        def done(error: DiskError | None, at: int) -> None:
            if error is None:
                closed(at)
            else:
                self.process.out.append(Exit(f"log directory failed: {error}", False))

        if self._storage_rules.marks_clean(loaded) and not self.failures.halting:
            self.replicas.logs.close_clean(self.incarnation.epoch, now, done)
        else:
            done(None, now)

    # --------------------------------------------------------------------------- the metadata cache

    def knows_partition(self, tp: TopicPartition) -> bool:
        """Return whether the metadata cache has the partition."""
        topic = self.image.topic_by_name(tp.topic)
        return topic is not None and tp.partition in topic.partitions

    def cached_leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return leader and leader epoch in the metadata cache (getCurrentLeader)."""
        topic = self.image.topic_by_name(tp.topic)
        entry = None if topic is None else topic.partitions.get(tp.partition)
        return None if entry is None else (entry.leader, entry.leader_epoch)

    def _partition_of_transaction(self, transactional_id: str) -> int:
        coordinator = self.coordinators.coordinator_of(TRANSACTION_STATE_TOPIC)
        return -1 if coordinator is None else coordinator.partition_for(transactional_id)

    def _coordinator_committed(self, tp: TopicPartition, high_watermark: int) -> None:
        self.coordinators.committed(tp, high_watermark)

    # ----------------------------------------------------------------------------------------- end

    def ground_truth(self) -> list[Any]:
        """Return the final state of replicas, committed offsets and share partitions, as facts."""
        return [
            *self.replicas.ground_truth(),
            *self.coordinator.ground_truth(),
            *self.shares.ground_truth(),
        ]


class KafkaBrokerProcess(BrokerProcess):
    """A broker in either mode: its :class:`KafkaBroker` answers the host and replication."""

    incarnation: Incarnation
    kafka: KafkaBroker

    def _own(self, kafka: KafkaBroker) -> None:
        """Take the parts that every broker has."""
        self.kafka = kafka
        self.replicas = kafka.replicas
        self.lane_threads = kafka.lane_threads
        self.network_threads = kafka.config.num_network_threads
        self.connection_queue = kafka.connection_queue
        self.queued_max_requests = kafka.config.queued_max_requests
        self.on_answered = kafka.statistics.count
        # Saves a call at every request.
        self.on_request = kafka.socket_server.on_request  # type: ignore[method-assign]

    # -------------------------------------------------------------- what the host asks the process

    def lane_of(self, message: Any, connection: int) -> str:
        """Return the lane that serves a request."""
        return self.kafka.lane_of(message)

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request."""
        self.kafka.socket_server.on_request(item, now)

    def on_barrier_failed(self, files: list[str], error: str, now: int) -> bool:
        """Return whether the broker goes on although these files could not be flushed."""
        return self.kafka.failures.on_barrier_failed(files, error, now)

    def ground_truth(self) -> list[Any]:
        """Return the final state of replicas, committed offsets and share partitions, as facts."""
        return self.kafka.ground_truth()

    # ------------------------------------------------------------ what replication asks the broker

    @property
    def broker_id(self) -> int:  # type: ignore[override]
        """The node id."""
        return self.incarnation.broker_id

    @property
    def broker_epoch(self) -> int:  # type: ignore[override]
        """The broker epoch, −1 before the registration."""
        return self.incarnation.epoch

    def knows_partition(self, tp: TopicPartition) -> bool:
        """Return whether the metadata cache has the partition."""
        return self.kafka.knows_partition(tp)

    def knows_topic_id(self, topic_id: str) -> bool:
        """Return whether the metadata cache has a topic of this id."""
        return topic_id in self.kafka.image.topics

    def cached_leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return leader and leader epoch in the metadata cache, None for an unknown partition."""
        return self.kafka.cached_leader(tp)

    def log_dir_failed(self, error: DiskError, now: int) -> None:
        """Take the log directory of a file offline; halt if the broker cannot go on."""
        self.kafka.failures.log_dir_failed(error, now)
