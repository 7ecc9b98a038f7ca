"""The broker process (BrokerServer): its parts, how they start, stop and find each other.

    requests      KafkaApis (:mod:`kafkasim.model.broker.common.apis`) over ReplicaManager
    fetcher-N     one replica fetcher per source broker
    raft          the observer of the metadata log;  metadata  the publisher
    heartbeat, alter-partition, forwarding           links to the active controller
    group         the group coordinator;  purgatory  expiry of parked requests
    scheduler     isr-expiration, checkpoints, retention, statistics

Until the first metadata is published requests wait, as connections do that a starting broker has
accepted and not yet processed. A broker with several log directories goes on without one that
failed (KIP-112, KIP-858), but not without that of the metadata log.

Left out: dynamic configuration, quotas, transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.broker.common.apis import KafkaApis
from kafkasim.model.broker.common.base import ISR_EXPIRATION, SCHEDULER, BrokerBase
from kafkasim.model.broker.common.controller_link import ControllerLink
from kafkasim.model.broker.common.statistics import RequestStatistics
from kafkasim.model.broker.kraft.assignments import AssignmentsManager
from kafkasim.model.broker.kraft.lifecycle import BrokerLifecycle
from kafkasim.model.broker.kraft.publisher import MetadataPublisher
from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.config import BrokerConfig
from kafkasim.model.directories import metadata_root
from kafkasim.model.effects import Post, Process, Request
from kafkasim.model.group.coordinator import GroupCoordinator
from kafkasim.model.raft.client import RaftClient
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.manager import ReplicaManager
from kafkasim.model.storage.log.unified_log import UnifiedLog

if TYPE_CHECKING:
    import random

    from kafkasim.model.storage.directories import LogDirectory
    from kafkasim.model.storage.files import Files

METADATA_TOPIC = TopicPartition("__cluster_metadata", 0)


class Broker(BrokerBase):
    """A broker. ``voters``: controller id to endpoint address.

    Beside a controller in one process (``whole``) it follows that one's ``raft`` client.
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
        whole: Process | None = None,
        raft: RaftClient | None = None,
    ) -> None:
        super().__init__(name, files, rng, now, whole)
        self.lane_threads = {"requests": config.num_io_threads}
        self.broker_id = broker_id
        voters = dict(voters)  # the metadata log may change it (KIP-853)
        self.broker_epoch = -1
        self.config = config
        self.rack = rack
        self.features = rules.features
        self.stopping = False
        self.failed = False
        root = metadata_root(config.log_dirs, config.metadata_log_dir)
        self.metadata_path = f"{root}{METADATA_TOPIC}"
        self._early: list[Request] = []  # before the first metadata
        self.publisher: MetadataPublisher = MetadataPublisher(self)
        self.owns_raft = raft is None
        self.raft = self._observer(voters, rules, now) if raft is None else raft
        session_ms = config.broker_session_timeout_ms
        timeout_ms = config.request_timeout_ms
        self.heartbeat_link = ControllerLink(
            self, self.raft, voters, "heartbeat", session_ms // 2, session_ms // 2
        )
        self.forwarding_link = ControllerLink(
            self, self.raft, voters, "forwarding", timeout_ms, 60_000
        )
        alter_link = ControllerLink(self, self.raft, voters, "alter-partition", timeout_ms)
        self.replicas = ReplicaManager(
            self,
            config,
            rules.replication,
            rules.storage,
            self.publisher.image,
            alter_link,
            self._offsets_committed,
        )
        self.coordinator = GroupCoordinator(self, broker_id, config, rules.group, self)
        self.statistics = RequestStatistics(self)
        self.count_request = self.statistics.count  # type: ignore[method-assign]  # saves a call
        self.apis = KafkaApis(self)
        self.assignments = AssignmentsManager(self, voters)
        clean_epoch = self.replicas.logs.clean_epoch
        self.lifecycle = BrokerLifecycle(
            self, f"{rng.getrandbits(64):016x}", -1 if clean_epoch is None else clean_epoch
        )
        self.lifecycle.log_dirs = self.replicas.logs.directory_ids()

    def _observer(self, voters: dict[int, str], rules: BrokerRules, now: int) -> RaftClient:
        """Build the client that follows the metadata log without a vote."""
        config = self.config
        log = UnifiedLog(
            self.files,
            self.out,
            self.metadata_path,
            METADATA_TOPIC,
            METADATA_TOPIC.topic,
            config.metadata_log_config(),
            rules.storage,
            clean=False,
            now_ms=self.wall_ms(now),
        )
        publisher = self.publisher
        return RaftClient(
            self, self.broker_id, voters, log, config, rules.raft, publisher, observer=True
        )

    # --------------------------------------------------------------------------- start and stop

    def start(self, now: int) -> None:
        """Follow the metadata log and register."""
        if not self._has_directory():
            return
        if self.owns_raft:
            self.raft.start(now)
        self.lifecycle.start(now)
        self.statistics.start(now)

    def on_first_publish(self, now: int) -> None:
        """The logs are loaded and the partitions have their roles: serve, ask to be unfenced."""
        self.replicas.logs.start(now)
        self.timers.arm(ISR_EXPIRATION, now, SCHEDULER, self._expire_isrs)
        early, self._early = self._early, []
        for item in early:
            lane = self.request_lanes.get(type(item.message), self.default_lane)
            self.out.append(Post(lane, self.on_request, item))
        self.out.append(Post("heartbeat", self.lifecycle.set_ready_to_unfence, None))

    def _needs(self, directory: LogDirectory) -> bool:
        return self.metadata_path.startswith(directory.root)

    def _tell_controller(self, directory: LogDirectory, now: int) -> None:
        self.out.append(Post("heartbeat", self.lifecycle.directory_failed, directory.id))

    def assign_directory(self, topic_id: str, partition: int, directory_id: str, now: int) -> None:
        """Tell the controller where a replica lies."""
        self.assignments.assign(topic_id, partition, directory_id, now)

    def shutdown(self, now: int) -> None:
        """SIGTERM: a controlled shutdown, then a clean close."""
        self.lifecycle.begin_controlled_shutdown(now)

    def finish_shutdown(self, now: int) -> None:
        """Close all parts; the logs last, with the clean-shutdown marker."""
        self.stopping = True
        self.replicas.stop_fetchers(now)
        if self.owns_raft:
            self.raft.shutdown(now)
        if self.publisher.published and not self.failed:
            self.replicas.logs.close_clean(self.broker_epoch, now, self._on_logs_closed)
        else:
            self._on_logs_closed(None, now)

    # ----------------------------------------------------------------------------------- requests

    def on_request(self, item: Request, now: int) -> None:
        """Route a request (KafkaApis.handle)."""
        if self.stopping:
            return
        if not self.publisher.published:
            self._early.append(item)
            return
        self.apis.handlers[type(item.message)](item, now)
