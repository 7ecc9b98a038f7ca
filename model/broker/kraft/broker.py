"""The process of a KRaft broker (BrokerServer): its parts, its start and its end.

    requests      SocketServer, KafkaApis, ReplicaManager (request handlers)
    fetcher-N     one replica fetcher per source broker
    raft          the observer of the metadata log
    metadata      MetadataLoader and BrokerMetadataPublisher
    heartbeat     BrokerLifecycle; alter-partition, forwarding, directory-assignments: other links
                  to the active controller
    group/N       the group coordinator, partition N; all share its threads; group-loader
    transaction   the transaction coordinator's scheduler; txn-marker-sender, add-partitions-to-txn:
                  requests to other brokers
    purgatory     expiry of parked requests
    scheduler     ISR expiration, checkpoints, retention, statistics

These are the lanes. Requests that arrive before the first publication of metadata wait. A broker
with several log directories goes on without one that failed, but not without that of the metadata
log.

Left out: dynamic settings but those that ``model/broker/README.md`` names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kafkasim.model.broker.common.controller_link import (
    ControllerAccess,
    ControllerLink,
    RaftControllerNodes,
)
from kafkasim.model.broker.common.kafka_broker import KafkaBroker, KafkaBrokerProcess
from kafkasim.model.broker.incarnation import Incarnation
from kafkasim.model.broker.kraft import assignments
from kafkasim.model.broker.kraft.assignments import AssignmentsManager
from kafkasim.model.broker.kraft.lifecycle import BrokerLifecycle
from kafkasim.model.broker.kraft.loader import MetadataLoader
from kafkasim.model.broker.kraft.publisher import BrokerMetadataPublisher
from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.config import BrokerConfig
from kafkasim.model.directories import metadata_root
from kafkasim.model.effects import Exit, Process
from kafkasim.model.raft.client import RaftClient
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.values import value

if TYPE_CHECKING:
    import random

    from kafkasim.model.storage.directories import LogDirectory
    from kafkasim.model.storage.files import Files

METADATA_TOPIC = TopicPartition("__cluster_metadata", 0)
RETRY_TIMEOUT_MS = 60_000  # of forwarded requests and directory assignments


def without_protocol(config: BrokerConfig) -> BrokerConfig:
    """Return the settings without inter.broker.protocol.version: metadata.version decides instead,
    and none of those is older than 2.7 (RemoteLeaderEndPoint, metadataVersionSupplier)."""
    return replace(config, inter_broker_protocol_version="")


def metadata_log(config: BrokerConfig) -> str:
    """Return the directory of the metadata log among the node's files."""
    return f"{metadata_root(config.log_dirs, config.metadata_log_dir)}{METADATA_TOPIC}"


@value
class SharedServer:
    """What the broker of a combined node shares with its controller (SharedServer).

    ``process`` is the process of both, and ``raft`` the client that votes. ``stop_controller(now)``
    is called when the broker has stopped cleanly.
    """

    process: Process
    raft: RaftClient
    stop_controller: Callable[[int], None]


class Broker(KafkaBrokerProcess):
    """A KRaft broker. ``voters`` maps controller id to endpoint.

    ``directory_id`` is the id of its only log directory, "" if its disk is the first one.
    """

    def __init__(
        self,
        name: str,
        broker_id: int,
        config: BrokerConfig,
        rack: str | None,
        voters: dict[int, str],
        rules: BrokerRules,
        files: Files,
        rng: random.Random,
        now: int,
        shared: SharedServer | None = None,
        directory_id: str = "",
    ) -> None:
        super().__init__(name, files, rng, now, None if shared is None else shared.process)
        self.config = config = without_protocol(config)
        self.shared = shared
        self.incarnation = Incarnation(broker_id, name, rack)
        self.loader = MetadataLoader(self.out, self.incarnation, config, now, rules.lifecycle)
        if shared is None:
            voters = dict(voters)  # the metadata log may change it (KIP-853)
        self.raft = self._observer(voters, rules, now) if shared is None else shared.raft
        self._nodes = RaftControllerNodes(self.raft, voters)
        self._links: list[ControllerLink] = []
        timeout_ms = config.request_timeout_ms
        kafka = KafkaBroker(
            self,
            self.incarnation,
            config,
            rules,
            self.loader.image,
            self._link("alter-partition", timeout_ms),
            self._controller_access(timeout_ms),
            metadata_log(config),
            self._announce_failure,
            new_coordinator=True,
        )
        self._own(kafka)
        kafka.replicas.logs.name_only_directory(directory_id)
        self.assignments = AssignmentsManager(
            self.timers,
            self.incarnation,
            self.loader.image,
            self._link(assignments.LANE, timeout_ms, RETRY_TIMEOUT_MS),
        )
        self.lifecycle = self._new_lifecycle(rules)
        self.lifecycle.shutdown_hook = self.shutdown
        self._publish_metadata()

    def _link(
        self, purpose: str, timeout_ms: int, retry_timeout_ms: int | None = None
    ) -> ControllerLink:
        link = ControllerLink(self, self._nodes, purpose, timeout_ms, retry_timeout_ms)
        self._links.append(link)
        return link

    def _controller_access(self, timeout_ms: int) -> ControllerAccess:
        """Return the way to the controller: requests are forwarded (ForwardingManager, KIP-590).

        Any broker can forward, so Metadata names a live one (KRaftMetadataCache.getControllerId).
        Kafka takes a random one; here it is this broker, or if that is fenced the first live one.
        """
        link = self._link("forwarding", timeout_ms, RETRY_TIMEOUT_MS)
        return ControllerAccess(link, link, link, self._forwarder, self.raft.kraft_version)

    def _forwarder(self) -> int:
        brokers = self.loader.image.brokers
        mine = brokers.get(self.broker_id)
        if mine is not None and not mine.fenced:
            return self.broker_id
        return min((number for number, each in brokers.items() if not each.fenced), default=-1)

    def _publish_metadata(self) -> None:
        """Let the parts hear of new metadata. A controller beside this broker takes snapshots."""
        publisher = BrokerMetadataPublisher(
            self.out,
            self.broker_id,
            self.loader.image,
            self.replicas,
            self.kafka.coordinators,
            self.kafka.coordinator.on_topics_changed,
            self.kafka.coordinator.on_partitions_deleted,
            self.kafka.on_topics_deleted,
            self._on_first_publish,
        )
        self.loader.install(publisher, self.raft.create_snapshot if self.shared is None else None)

    def _observer(self, voters: dict[int, str], rules: BrokerRules, now: int) -> RaftClient:
        """Return a client that follows the metadata log without a vote."""
        config = self.config
        log = UnifiedLog(
            self.files,
            self.out,
            metadata_log(config),
            METADATA_TOPIC,
            METADATA_TOPIC.topic,
            config.metadata_log_config(),
            rules.storage,
            clean=False,
            now_ms=self.wall_ms(now),
        )
        broker_id, listener = self.incarnation.broker_id, self.loader
        return RaftClient(self, broker_id, voters, log, config, rules.raft, listener, observer=True)

    def _new_lifecycle(self, rules: BrokerRules) -> BrokerLifecycle:
        logs = self.replicas.logs
        config, lifecycle = self.config, rules.lifecycle
        retry_ms = lifecycle.request_timeout_ms(
            config.broker_session_timeout_ms, config.broker_heartbeat_interval_ms
        )
        return BrokerLifecycle(
            self,
            self.incarnation,
            config,
            self._link("heartbeat", retry_ms, retry_ms),
            self.loader,
            self._stop,
            f"{self.rng.getrandbits(64):016x}",
            -1 if logs.clean_epoch is None else logs.clean_epoch,
            rules.features,
            logs.directory_ids(),
            lifecycle,
        )

    # --------------------------------------------------------------------------- start and stop

    def start(self, now: int) -> None:
        """Follow the metadata log and register."""
        if not self.kafka.failures.check_started():
            return
        if self.shared is None:
            self.raft.start(now)
        for link in self._links:
            link.start(now)
        self.lifecycle.start(now)
        if self.loader.rules.serves_before_load():
            self.kafka.socket_server.enable_request_processing()
        self.kafka.statistics.start(now)
        self.kafka.idle_connections.start(now)

    def _on_first_publish(self, now: int) -> None:
        """Serve: the logs are loaded and the partitions have their roles. Ask to be unfenced."""
        self.replicas.logs.start(now)
        self.kafka.start_isr_expiration(now)
        self.kafka.socket_server.enable_request_processing()
        self.lifecycle.set_ready_to_unfence()

    def shutdown(self, now: int) -> None:
        """SIGTERM: begin a controlled shutdown, which a clean close of the logs follows.

        (BrokerServer.shutdown)
        """
        if self.config.controlled_shutdown_enable:
            self.replicas.roles.in_controlled_shutdown = True
        self.lifecycle.begin_controlled_shutdown(now)

    def _stop(self, now: int) -> None:
        """Close all parts; the logs last, with the clean-shutdown marker if they were loaded."""
        self.kafka.stop_serving(now)
        if self.shared is None:
            self.raft.shutdown(now)
        self.kafka.close_logs(self.loader.published, now, self._on_logs_closed)

    def _on_logs_closed(self, now: int) -> None:
        if self.shared is None:
            self.out.append(Exit("shutdown", True))
        else:
            self.shared.stop_controller(now)

    def assign_directory(self, topic_id: str, partition: int, directory_id: str, now: int) -> None:
        """Tell the controller in which directory a replica lies."""
        self.assignments.assign(topic_id, partition, directory_id, now)

    def _announce_failure(self, directory: LogDirectory, now: int) -> None:
        self.lifecycle.propagate_directory_failure(directory.id)
