"""A broker of a cluster that keeps its metadata in ZooKeeper (KafkaServer).

    requests        KafkaApis, control requests of the controller (:mod:`kafkasim.model.broker.zk.control`)
    fetcher-N       one replica fetcher per source broker
    zookeeper       the ZooKeeper client
    zk-controller   KafkaController; zk-admin: topics; controller-to-N: its queue to broker N
    zk-config       dynamic settings
    alter-partition, forwarding   links to the active controller
    group, purgatory, scheduler   as in every broker

It registers by an ephemeral znode whose czxid is its broker epoch, and again in a new session when
the last one expired; it serves clients all the same in between. Logs are loaded when the first
LeaderAndIsr names them. Left out: quotas, transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.broker.common.apis import KafkaApis
from kafkasim.model.broker.common.base import ISR_EXPIRATION, SCHEDULER, BrokerBase
from kafkasim.model.broker.common.controller_link import ControllerLink
from kafkasim.model.broker.common.statistics import RequestStatistics
from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.broker.zk.configs import ZkConfigManager
from kafkasim.model.broker.zk.control import ControlRequests, ZkMetadataCache
from kafkasim.model.broker.zk.isr import ZkIsrManager
from kafkasim.model.broker.zk.shutdown import ZkControlledShutdown
from kafkasim.model.channel import Channel, Done
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.kraft.ports import failed
from kafkasim.model.controller.zk.admin import ZkAdminManager
from kafkasim.model.controller.zk.controller import KafkaController
from kafkasim.model.controller.zk.store.client import KafkaZkClient
from kafkasim.model.controller.zk.store.zk_data import CONFIG_CHANGES, LOG_DIR_EVENTS, BrokerInfo
from kafkasim.model.effects import Exit, Post, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerState
from kafkasim.model.group.coordinator import GroupCoordinator
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    DescribeQuorumRequest,
    EnvelopeRequest,
    LeaderAndIsrRequest,
    RemoveRaftVoterRequest,
    StopReplicaRequest,
    UnregisterBrokerRequest,
    UpdateMetadataRequest,
)
from kafkasim.model.replication.manager import ReplicaManager
from kafkasim.model.storage.files import DiskError
from kafkasim.model.zookeeper.ops import Create, WatchEvent, ZkError, ZkResult

if TYPE_CHECKING:
    import random

    from kafkasim.model.storage.directories import LogDirectory
    from kafkasim.model.storage.files import Files

SHUTDOWN = "shutdown"
KRAFT_ONLY = (
    AddRaftVoterRequest,
    DescribeQuorumRequest,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
)


class ZkControllerLink(ControllerLink):
    """A link to the broker that the metadata cache names as the controller."""

    def __init__(
        self,
        broker: ZkBroker,
        purpose: str,
        request_timeout_ms: int,
        retry_timeout_ms: int | None = None,
    ) -> None:
        cache = broker.cache
        super().__init__(broker, cache, {}, purpose, request_timeout_ms, retry_timeout_ms)
        self.cache = cache
        self.request_timeout_ms = request_timeout_ms

    def send(self, message: Any, now: int, done: Done) -> None:
        """Queue a request; what clients asked travels in an envelope."""
        if not isinstance(message, AlterPartitionRequest | AllocateProducerIdsRequest):
            message = EnvelopeRequest(message)
        super().send(message, now, done)

    def _pump(self, now: int) -> None:
        leader = self.cache.leader_id
        known = self.cache.image.brokers.get(leader)
        if leader not in self._channels and known is not None:
            self._channels[leader] = Channel(
                self.process, known.address, self.lane, self.lane, self.request_timeout_ms,
                patient=True,
            )  # fmt: skip
        super()._pump(now)


class ZkBroker(BrokerBase):
    """A broker. ``zookeepers``: the addresses of the ensemble's servers."""

    def __init__(
        self,
        name: str,
        broker_id: int,
        config: BrokerConfig,
        rack: str | None,
        zookeepers: tuple[str, ...],
        rules: BrokerRules,
        files: Files,
        rng: random.Random,
        now: int,
    ) -> None:
        super().__init__(name, files, rng, now)
        self.lane_threads = {"requests": config.num_io_threads}
        self.broker_id = broker_id
        self.broker_epoch = -1
        self.config = config
        self.rack = rack
        self.stopping = False
        self.failed = False
        self._early: list[Request] = []  # before the first registration
        self._sessions = 0
        self._started = False  # a LeaderAndIsr has been obeyed
        self.cache = self.publisher = ZkMetadataCache()
        timeout_ms = config.request_timeout_ms
        self.forwarding_link = ZkControllerLink(self, "forwarding", timeout_ms, 60_000)
        self.replicas = ReplicaManager(
            self,
            config,
            rules.replication,
            rules.storage,
            self.cache.image,
            ZkControllerLink(self, "alter-partition", timeout_ms),
            self._offsets_committed,
        )
        self.coordinator = GroupCoordinator(self, broker_id, config, rules.group, self)
        self.statistics = RequestStatistics(self)
        self.count_request = self.statistics.count  # type: ignore[method-assign]  # saves a call
        self.zk = KafkaZkClient(
            self, zookeepers, config.zookeeper_session_timeout_ms, rules.zk, self
        )
        info = BrokerInfo(broker_id, name, rack)
        self.controller = KafkaController(self, info, config, rules.zk, self.zk, self._registered)
        self.admin = ZkAdminManager(self.controller, self.cache.image, config, rng)
        self.control = ControlRequests(self, self.cache, rules.zk)
        self.configs = ZkConfigManager(self)
        self.apis = KafkaApis(self)
        self._add_handlers()
        self.isr_manager = None if config.alter_partition_enabled else self._own_isr_changes()
        self._shutdown: ZkControlledShutdown | None = None

    def _own_isr_changes(self) -> ZkIsrManager:
        manager = ZkIsrManager(self)
        self.replicas.alter_partition = manager  # type: ignore[assignment]
        return manager

    def _add_handlers(self) -> None:
        self.apis.handlers.update(
            {
                LeaderAndIsrRequest: self.control.on_leader_and_isr,
                UpdateMetadataRequest: self.control.on_update_metadata,
                StopReplicaRequest: self.control.on_stop_replica,
                AlterPartitionRequest: self._ask_controller,
                AllocateProducerIdsRequest: self._ask_controller,
                ControlledShutdownRequest: self._ask_controller,
                EnvelopeRequest: self._ask_controller,
                **dict.fromkeys(KRAFT_ONLY, self._refuse),
            }
        )

    # --------------------------------------------------------------------------- start and stop

    def start(self, now: int) -> None:
        """Open a session; everything else follows from it."""
        if not self._has_directory():
            return
        self._set_state("STARTING")
        self.out.append(Post("zookeeper", self._open_session, None))
        self.timers.arm(ISR_EXPIRATION, now, "scheduler", self._expire_isrs)
        self.statistics.start(now)
        if self.isr_manager is not None:
            self.isr_manager.start(now)

    def _open_session(self, _: Any, now: int) -> None:
        self.zk.start(now)

    def _set_state(self, state: str) -> None:
        self.out.append(BrokerState(state))

    def _registered(self, epoch: int, now: int) -> None:
        """The znode of this broker is there: on lane ``zk-controller``."""
        first, self.broker_epoch = self.broker_epoch == -1, epoch
        if not first:
            return
        self._set_state("RUNNING")
        self.configs.start()
        early, self._early = self._early, []
        for item in early:
            lane = self.request_lanes.get(type(item.message), self.default_lane)
            self.out.append(Post(lane, self.on_request, item))

    def on_first_roles(self, now: int) -> None:
        """The first LeaderAndIsr is carried out: begin to checkpoint what is hosted."""
        if not self._started:
            self._started = True
            self.replicas.logs.start(now)

    def _tell_controller(self, directory: LogDirectory, now: int) -> None:
        """Announce that a log directory failed (propagateLogDirEvent)."""
        path = f"{LOG_DIR_EVENTS}/log_dir_event_"

        def told(results: tuple[ZkResult, ...], at: int) -> None:
            if results[0].error is ZkError.SESSIONEXPIRED and not self.stopping:
                self._tell_controller(directory, at)

        self.zk.ask((Create(path, self.broker_id, sequential=True),), SCHEDULER, told)

    def shutdown(self, now: int) -> None:
        """SIGTERM: a controlled shutdown, then a clean close."""
        if self._shutdown is not None:
            return
        self._shutdown = ZkControlledShutdown(self)
        self._set_state("PENDING_CONTROLLED_SHUTDOWN")
        if self.broker_epoch == -1 or not self.config.controlled_shutdown_enable:
            self._shutdown.left = 0
        self.out.append(Post(SHUTDOWN, self._shutdown.begin, None))

    def finish_shutdown(self, now: int) -> None:
        """Close all parts: the logs with the clean-shutdown marker, the session last."""
        self._set_state("SHUTTING_DOWN")
        self.stopping = True
        self.replicas.stop_fetchers(now)
        if self._started and not self.failed:
            self.replicas.logs.close_clean(self.broker_epoch, now, self._on_logs_closed)
        else:
            self._on_logs_closed(None, now)

    def _on_logs_closed(self, error: DiskError | None, now: int) -> None:
        if error is not None:
            super()._on_logs_closed(error, now)
            return
        self.controller.shutdown(now)
        self.out.append(Post("zookeeper", self._close_session, None))

    def _close_session(self, _: Any, now: int) -> None:
        self.zk.close(self._on_session_closed, now)

    def _on_session_closed(self, now: int) -> None:
        self.out.append(Exit("shutdown", True))

    # ---------------------------------------------------------------------- the ZooKeeper session

    def on_session(self, now: int) -> None:
        """A session began, the first or another one."""
        self._sessions += 1
        if self._sessions == 1:
            self.controller.startup()
        else:
            self.controller.on_new_session()
            self.configs.process_notifications()

    def on_expired(self, now: int) -> None:
        """The session expired."""
        self.controller.on_expired(now)

    def on_watch(self, event: WatchEvent, now: int) -> None:
        """A watch fired: the controller's, or that of the settings."""
        if event.path == CONFIG_CHANGES:
            self.configs.process_notifications()
        else:
            self.controller.on_watch(event)

    # ----------------------------------------------------------------------------------- requests

    def on_request(self, item: Request, now: int) -> None:
        """Route a request; until the broker is registered it waits."""
        if self.broker_epoch == -1 and not self.stopping:
            self._early.append(item)
        else:
            super().on_request(item, now)

    def _refuse(self, item: Request, now: int) -> None:
        """Refuse what only a KRaft cluster serves."""
        self.apis.respond(item, failed(item.message, Errors.UNSUPPORTED_VERSION), now)

    def _ask_controller(self, item: Request, now: int) -> None:
        request = item.message

        def answer(response: Any, at: int) -> None:
            self.apis.respond(item, response, at, now)

        if isinstance(request, EnvelopeRequest):
            self.admin.serve(request.request, answer)
        else:
            self.controller.requests.serve(request, answer)
