"""The process of a broker whose cluster keeps its metadata in ZooKeeper (KafkaServer).

    requests        SocketServer, KafkaApis, ReplicaManager, the controller's ControlRequests
    fetcher-N       one replica fetcher per source broker
    zookeeper       the ZooKeeper client
    zk-controller   KafkaController; zk-admin: ZkAdminManager; controller-to-N: queue to broker N
    zk-config       dynamic settings; zk-acl: access control entries
    alter-partition, producer-ids   links to the active controller
    shutdown        controlled shutdown
    group, transaction, txn-marker-sender, add-partitions-to-txn, purgatory, scheduler
                    as in every broker

These are the lanes. The broker registers by an ephemeral znode whose czxid is its broker epoch.
When the session expires it registers again in a new session, and serves clients in between. The
logs are loaded when the first LeaderAndIsr names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.broker.common.controller_link import ControllerAccess, ControllerLink
from kafkasim.model.broker.common.kafka_broker import KafkaBroker, KafkaBrokerProcess
from kafkasim.model.broker.common.log_dir_failures import SCHEDULER
from kafkasim.model.broker.incarnation import Incarnation
from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.broker.zk.acls import ZkAclManager
from kafkasim.model.broker.zk.configs import ZkConfigManager
from kafkasim.model.broker.zk.control import ControllerEpochs, ControlRequests
from kafkasim.model.broker.zk.isr import ZkIsrManager
from kafkasim.model.broker.zk.metadata_cache import ZkMetadataCache
from kafkasim.model.broker.zk.own_requests import OwnRequests, OwnTopicCreation
from kafkasim.model.broker.zk.shutdown import ZkControlledShutdown
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.responses import failed
from kafkasim.model.controller.zk.admin.manager import ZkAdminManager
from kafkasim.model.controller.zk.controller import KafkaController
from kafkasim.model.controller.zk.store.client import KafkaZkClient
from kafkasim.model.controller.zk.store.zk_data import (
    ACL_CHANGES,
    CONFIG_CHANGES,
    LOG_DIR_EVENTS,
    BrokerInfo,
)
from kafkasim.model.effects import Exit, Post, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerState
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    DescribeClientQuotasRequest,
    DescribeQuorumRequest,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
)
from kafkasim.model.zookeeper.ops import Create, WatchEvent, ZkError, ZkResult

if TYPE_CHECKING:
    import random

    from kafkasim.model.storage.directories import LogDirectory
    from kafkasim.model.storage.files import Files

RETRY_TIMEOUT_MS = 60_000  # of requests for producer ids
FOR_CONTROLLER = (
    AlterPartitionRequest,
    AllocateProducerIdsRequest,
    ControlledShutdownRequest,
)
"""Requests that a broker serves because it is, or was, the controller."""

NOT_SERVED = (
    AddRaftVoterRequest,
    DescribeQuorumRequest,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
)
"""Requests that no broker serves in ZooKeeper mode."""


class ZkBroker(KafkaBrokerProcess):
    """A broker in ZooKeeper mode. ``zookeepers`` are the endpoints of the ensemble's servers."""

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
        self.config = config
        self.incarnation = Incarnation(broker_id, name, rack)
        self.cache = ZkMetadataCache()
        session_ms = config.zookeeper_session_timeout_ms
        self.zk = KafkaZkClient(self, zookeepers, session_ms, rules.zk, self)
        info = BrokerInfo(broker_id, name, rack)
        self.controller = KafkaController(self, info, config, rules.zk, self.zk, self._registered)
        self.admin = ZkAdminManager(self.controller, self.cache.image, config, rng)
        self.acls = ZkAclManager.of(self, config, self.zk, self.cache.image, rng)
        self._links: list[ControllerLink] = []
        kafka = KafkaBroker(
            self,
            self.incarnation,
            config,
            rules,
            self.cache.image,
            self._link("alter-partition"),
            self._controller_access(),
            None,
            self._announce_failure,
            new_coordinator=False,
        )
        self._own(kafka)
        if kafka.gate is not None:
            kafka.gate.serve_operators(lambda: self.controller.is_active)
        self.configs = ZkConfigManager(
            self, self.zk, broker_id, self.cache.image, self.replicas, self.controller
        )
        epochs = self._obey_controller(rules)
        self.isr_manager: ZkIsrManager | None = None
        if not config.alter_partition_enabled:
            self.isr_manager = ZkIsrManager(self, self.zk, epochs)
            self.replicas.propose_isrs_through(self.isr_manager)
        self._sessions = 0  # of ZooKeeper, so far
        self._has_roles = False  # a LeaderAndIsr has been accepted
        self._shutdown: ZkControlledShutdown | None = None

    def _link(self, purpose: str, retry_timeout_ms: int | None = None) -> ControllerLink:
        timeout_ms = self.config.request_timeout_ms
        link = ControllerLink(self, self.cache, purpose, timeout_ms, retry_timeout_ms)
        self._links.append(link)
        return link

    def _controller_access(self) -> ControllerAccess:
        link = self._link("producer-ids", RETRY_TIMEOUT_MS)
        return ControllerAccess(
            OwnRequests(self.admin, self.acls),
            OwnTopicCreation(self.admin),
            link,
            self.cache.active,
            lambda: 0,
        )

    def _obey_controller(self, rules: BrokerRules) -> ControllerEpochs:
        """Serve what only a broker in ZooKeeper mode is asked; return the epochs it has seen."""
        apis, epochs = self.kafka.apis, ControllerEpochs()
        control = ControlRequests(
            self.out,
            self.incarnation,
            rules.zk,
            self.zk,
            epochs,
            self.cache,
            self.configs,
            self.replicas,
            self.kafka.coordinators,
            self.kafka.coordinator.on_partitions_deleted,
            apis.respond,
            self._on_roles,
            self.admin.purgatory.try_complete,
        )
        apis.add_handlers(control.handlers)
        apis.add_handlers(dict.fromkeys(FOR_CONTROLLER, self._ask_controller))
        apis.add_handlers(dict.fromkeys(NOT_SERVED, self._refuse))
        apis.add_handlers({DescribeClientQuotasRequest: apis.on_operator_request})
        return epochs

    # --------------------------------------------------------------------------- start and stop

    def start(self, now: int) -> None:
        """Open a ZooKeeper session; the registration and the controller's requests follow."""
        if not self.kafka.failures.check_started():
            return
        self._set_state("STARTING")
        self.out.append(Post("zookeeper", self._open_session, None))
        for link in self._links:
            link.start(now)
        self.kafka.start_isr_expiration(now)
        self.kafka.statistics.start(now)
        self.kafka.idle_connections.start(now)
        if self.isr_manager is not None:
            self.isr_manager.start(now)

    def _open_session(self, _: None, now: int) -> None:
        self.zk.start(now)

    def _set_state(self, state: str) -> None:
        self.out.append(BrokerState(state))

    def _registered(self, epoch: int, now: int) -> None:
        """Serve: the broker's znode exists. Called on lane ``zk-controller``."""
        first, self.incarnation.epoch = not self.incarnation.registered, epoch
        if first:
            self._set_state("RUNNING")
            self.configs.start()
            if self.acls is None:
                self.kafka.socket_server.enable_request_processing()
            else:
                self.acls.start(self._authorizer_loaded)

    def _authorizer_loaded(self, _now: int) -> None:
        self.kafka.socket_server.enable_request_processing()

    def _on_roles(self, now: int) -> None:
        """Begin the periodic tasks of the logs, after the first LeaderAndIsr."""
        if not self._has_roles:
            self._has_roles = True
            self.replicas.logs.start(now)

    def shutdown(self, now: int) -> None:
        """SIGTERM: begin a controlled shutdown, which a clean close of the logs follows."""
        if self._shutdown is not None:
            return
        self._set_state("PENDING_CONTROLLED_SHUTDOWN")
        self._shutdown = ZkControlledShutdown(
            self, self.incarnation, self.config, self.zk, self._stop
        )
        self._shutdown.begin()

    def _stop(self, now: int) -> None:
        """Close all parts: the logs with the clean-shutdown marker, the session last."""
        self._set_state("SHUTTING_DOWN")
        self.kafka.stop_serving(now)
        self.kafka.close_logs(self._has_roles, now, self._on_logs_closed)

    def _on_logs_closed(self, now: int) -> None:
        self.controller.shutdown(now)
        self.out.append(Post("zookeeper", self._close_session, None))

    def _close_session(self, _: None, now: int) -> None:
        self.zk.close(self._on_session_closed, now)

    def _on_session_closed(self, now: int) -> None:
        self.out.append(Exit("shutdown", True))

    # ---------------------------------------------------------------------- the ZooKeeper session

    def on_session(self, now: int) -> None:
        """Register in a new session, and compete to be the controller."""
        self._sessions += 1
        if self._sessions == 1:
            self.controller.startup()
        else:
            self.controller.on_new_session()
            self.configs.process_notifications()
            if self.acls is not None:
                self.acls.process_notifications()

    def on_expired(self, now: int) -> None:
        """Let the controller resign: the session expired."""
        self.controller.on_expired(now)

    def on_watch(self, event: WatchEvent, now: int) -> None:
        """Pass a watch event on to the settings or to the controller."""
        if event.path == CONFIG_CHANGES:
            self.configs.process_notifications()
        elif event.path in ACL_CHANGES.values():
            assert self.acls is not None
            self.acls.process_notifications()
        else:
            self.controller.on_watch(event)

    # ----------------------------------------------------------------------------------- requests

    def _refuse(self, item: Request, now: int) -> None:
        """Refuse a request that is not served in ZooKeeper mode."""
        refused = failed(item.message, Errors.UNSUPPORTED_VERSION)
        self.kafka.apis.respond(item, refused)

    def _ask_controller(self, item: Request, now: int) -> None:
        """Let this broker's controller serve a request; it refuses if it is not active."""

        def answer(response: Any, _at: int) -> None:
            self.kafka.apis.respond(item, response)

        self.controller.requests.serve(item.message, answer)

    def _announce_failure(self, directory: LogDirectory, now: int) -> None:
        """Tell the controller that a log directory failed (propagateLogDirEvent)."""
        create = Create(f"{LOG_DIR_EVENTS}/log_dir_event_", self.broker_id, sequential=True)

        def on_created(results: tuple[ZkResult, ...], at: int) -> None:
            expired = results[0].error is ZkError.SESSIONEXPIRED
            if expired and not self.incarnation.stopping:
                self._announce_failure(directory, at)

        self.zk.ask((create,), SCHEDULER, on_created)
