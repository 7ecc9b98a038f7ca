"""The controller inside every broker of a ZooKeeper cluster (KafkaController).

The brokers compete for the znode /controller. The winner loads the cluster's state, sends control
requests to the brokers, and reacts to watches and requests. Everything runs on one thread (lane
``zk-controller``, :mod:`kafkasim.model.controller.zk.events`) in Kafka's order:

    Startup, Reelect, ControllerChange, Expire, RegisterBrokerAndReelect     the election
    BrokerChange, TopicChange, TopicDeletion, IsrChangeNotification, …       watches
    AlterPartition, ControlledShutdown, ApiPartitionReassignment, …          requests

This file registers the broker, turns watches into events, and says what becoming active and
resigning mean. The changes themselves are in ``changes/``. As in Kafka, failed log directories are
watched only if this broker itself has several. Left out: broker modifications, the migration to
KRaft.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.admin import features
from kafkasim.model.controller.zk.changes.brokers import BrokerChanges
from kafkasim.model.controller.zk.changes.isr import IsrChanges
from kafkasim.model.controller.zk.changes.leaders import LeaderElections
from kafkasim.model.controller.zk.changes.log_dirs import LogDirFailures
from kafkasim.model.controller.zk.changes.producer_ids import ProducerIds
from kafkasim.model.controller.zk.changes.reassignments import Reassignments
from kafkasim.model.controller.zk.changes.shutdown import ControlledShutdown
from kafkasim.model.controller.zk.changes.topics import TopicChanges
from kafkasim.model.controller.zk.channels import ControllerChannelManager, RequestBatch
from kafkasim.model.controller.zk.context import ControllerContext
from kafkasim.model.controller.zk.election import ControllerElection
from kafkasim.model.controller.zk.events import EventQueue, Pause, Steps, ZkFailed
from kafkasim.model.controller.zk.requests import BrokerAnswers, ControllerRequests
from kafkasim.model.controller.zk.states.deletion import TopicDeletionManager
from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
from kafkasim.model.controller.zk.store.controller_store import ControllerStore
from kafkasim.model.controller.zk.store.loading import ContextLoader
from kafkasim.model.controller.zk.store.zk_data import (
    BROKER_IDS,
    CONTROLLER,
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PERSISTENT_PATHS,
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    BrokerInfo,
    broker_path,
    state_path,
)
from kafkasim.model.effects import Post
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
)
from kafkasim.model.zookeeper.ops import Create, Delete, Exists, GetData, WatchEvent, ZkError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.store.client import KafkaZkClient
    from kafkasim.model.effects import Process

LANE = "zk-controller"
UNCLEAN = "unclean.leader.election.enable"
REGISTER_AGAIN_US = 1_000_000


class KafkaController:
    """The controller of one broker.

    It calls ``registered(epoch, now)`` when the broker's znode exists; ``epoch`` is the broker
    epoch.
    """

    def __init__(
        self,
        process: Process,
        info: BrokerInfo,
        config: BrokerConfig,
        rules: ZkControllerRules,
        zk: KafkaZkClient,
        registered: Callable[[int, int], None],
    ) -> None:
        self.process = process
        self.info = info
        self.rules = rules
        self.zk = zk
        self.registered = registered
        self._last_owner = 0  # the session that registered this broker last
        context = self.context = ControllerContext()
        store = self.store = ControllerStore(process.out, context, rules)
        self.election = ControllerElection(info.id, zk, context, store, self)
        self.events = events = EventQueue(process, zk, LANE, self.election.maybe_resign)
        self.loading = ContextLoader(context, store, rules, config)
        self.channels = ControllerChannelManager(process, events, self._on_answer)
        batch = self.batch = RequestBatch(info.id, context, self.channels, rules)
        self.partitions = PartitionStateMachine(
            context,
            store,
            batch,
            unclean_default=config.unclean_leader_election_enable,
            recovery_supported=config.leader_recovery_supported,
        )
        self.replicas = ReplicaStateMachine(context, store, batch, rules)
        self.deletion = TopicDeletionManager(context, store, batch, self.partitions, self.replicas)
        self._build_changes(config)
        self._build_requests()

    def _build_changes(self, config: BrokerConfig) -> None:
        context, store, batch = self.context, self.store, self.batch
        partitions, replicas, deletion = self.partitions, self.replicas, self.deletion
        self.reassignments = Reassignments(
            context, store, batch, self.rules, self.events, self.election,
            partitions, replicas, deletion, watches_isr=not config.alter_partition_enabled,
        )  # fmt: skip
        self.broker_changes = BrokerChanges(
            context, store, batch, self.channels, self.rules,
            partitions, replicas, deletion, self.reassignments,
        )  # fmt: skip
        self.topic_changes = TopicChanges(
            context, store, self.loading, partitions, replicas, deletion
        )
        self.isr_changes = IsrChanges(context, store, batch, self.rules, self.reassignments)
        self.log_dirs = LogDirFailures(context, store, replicas, self.broker_changes)
        self.leader_elections = LeaderElections(
            self.process.timers, self.events, self.election, config, context, store, partitions
        )

    def _build_requests(self) -> None:
        shutdown = ControlledShutdown(
            self.context, self.store, self.batch, self.rules, self.zk, self.partitions,
            self.replicas,
        )  # fmt: skip
        self.requests = ControllerRequests(
            self.events,
            self.election,
            {
                AlterPartitionRequest: self.isr_changes.alter,
                ControlledShutdownRequest: shutdown.move_leaders,
                ElectLeadersRequest: self.leader_elections.on_request,
                AllocateProducerIdsRequest: ProducerIds(self.context, self.store).allocate,
                AlterPartitionReassignmentsRequest: self.reassignments.alter,
                ListPartitionReassignmentsRequest: self.reassignments.ongoing,
                UpdateFeaturesRequest: features.update,
            },
            {AlterPartitionRequest: self.isr_changes.complete_reassignments},
        )
        self._answers = BrokerAnswers(
            self.events, self.election, self.context, self.deletion, self.log_dirs
        )

    def _on_answer(self, broker: int, request: object, response: object) -> None:
        self._answers.on_answer(broker, request, response)

    @property
    def is_active(self) -> bool:
        """Whether this broker believes that it is the controller."""
        return self.election.is_active

    # ---------------------------------------------------------------------- what the broker tells

    def startup(self) -> None:
        """Register the broker and compete: the first session began."""
        self.events.put("Startup", self._startup)

    def on_new_session(self) -> None:
        """Register the broker and compete again: the last session expired, another began."""
        self.events.put("RegisterBrokerAndReelect", self._register_and_reelect)

    def on_expired(self, now: int) -> None:
        """Resign, then begin a new session: the session expired."""
        if self.rules.requests_outlive_session():
            self.events.put("Expire", self._expire)
        else:
            self.events.clear_and_put("Expire", self._expire, now)

    def shutdown(self, now: int) -> None:
        """Stop: the broker stops."""
        self.events.close()
        self.election.resign("its broker stops")

    def topic_config_changed(
        self, topic: str, entries: tuple[tuple[str, str], ...], zxid: int
    ) -> None:
        """Take over a topic's settings as of transaction ``zxid``, if this is the controller.

        If they allow unclean elections, elect leaders for the topic.
        """
        if not self.is_active:
            return
        if topic in self.context.topic_ids:
            self.context.configs[topic] = entries, zxid
        if dict(entries).get(UNCLEAN) == "true":
            steps = partial(self.partitions.trigger_online, topic)
            self._when_active("TopicUncleanLeaderElectionEnable", steps)

    def unclean_default_changed(self, before: bool, after: bool) -> None:
        """Take over the broker's unclean.leader.election.enable; elect if it was switched on."""
        self.partitions.unclean_default = after
        if after and not before:
            self._when_active("UncleanLeaderElectionEnable", self.partitions.trigger_online)

    # ------------------------------------------------------------------------------------ watches

    def on_watch(self, event: WatchEvent) -> None:
        """Turn a watch into an event."""
        path = event.path
        if path == CONTROLLER:
            if event.type == "NodeDeleted":
                self.events.put("Reelect", self.election.reelect)
            else:
                self.events.put("ControllerChange", self.election.maybe_resign)
        elif path == BROKER_IDS:
            self._when_active("BrokerChange", self.broker_changes.process)
        elif path == TOPICS:
            self._when_active("TopicChange", self.topic_changes.process)
        elif path == DELETE_TOPICS:
            self._when_active("TopicDeletion", self.topic_changes.process_deletions)
        elif path == ISR_CHANGES:
            self._when_active("IsrChangeNotification", self.isr_changes.on_notifications)
        elif path == LOG_DIR_EVENTS:
            self._when_active("LogDirEventNotification", self.log_dirs.on_notifications)
        elif path == PREFERRED_ELECTION:
            self._when_active("ReplicaLeaderElection", self.leader_elections.from_znode)
        elif path == REASSIGN_PARTITIONS:
            if event.type == "NodeCreated":
                self.reassignments.look_at_znode()
        else:
            self._on_topic_watch(event)

    def _on_topic_watch(self, event: WatchEvent) -> None:
        """A topic's assignment has changed, or the state of a partition being reassigned."""
        path = event.path
        if path.startswith(f"{TOPICS}/") and path.count("/") == TOPICS.count("/") + 1:
            if event.type == "NodeDataChanged":
                modified = partial(self.topic_changes.modified, path.rpartition("/")[2])
                self._when_active("PartitionModifications", modified)
            return
        for tp in self.context.reassigning:
            if state_path(tp) == path:
                steps = partial(self.reassignments.maybe_complete, tp)
                self._when_active("PartitionReassignmentIsrChange", steps)

    def _when_active(self, name: str, steps: Callable[[], Steps]) -> None:
        self.events.put(name, self.election.when_active(steps))

    # ------------------------------------------------------------------------ session and broker

    def _startup(self) -> Steps:
        yield tuple([Create(path, ()) for path in PERSISTENT_PATHS])
        if self.loading.watches_log_dirs:
            yield (Create(LOG_DIR_EVENTS, ()),)
        yield from self._register()
        yield (Exists(CONTROLLER, watch=True),)
        yield from self.election.elect()

    def _register_and_reelect(self) -> Steps:
        yield from self._register()
        yield from self.election.reelect()

    def _register(self) -> Steps:
        """Create /brokers/ids/N (KafkaZkClient.registerBroker).

        If the znode still belongs to this process's last session, it is deleted first (KAFKA-7165).
        If it belongs to another process, Kafka exits, and a supervisor starts it again; here the
        registration is tried again every second.
        """
        path = broker_path(self.info.id)
        while True:
            session = self.zk.session_id
            (created,) = yield (Create(path, self.info, ephemeral=True),)
            if created.error not in (ZkError.OK, ZkError.NODEEXISTS):
                raise ZkFailed(created.error)
            (found,) = yield (GetData(path),)
            if found.error is not ZkError.OK:
                continue
            owner = found.stat.ephemeral_owner
            if owner == self.zk.session_id:
                self._last_owner = owner
                self.registered(found.stat.czxid, self.events.now)
                return
            if owner == self._last_owner:
                yield (Delete(path),)
            else:
                yield Pause(REGISTER_AGAIN_US)
            assert session >= 0, session

    def _expire(self) -> Steps:
        self.election.resign("its session with ZooKeeper has expired")
        self.process.out.append(Post("zookeeper", self.zk.reinitialise, None))
        yield from ()

    # --------------------------------------------------------------- the outcome of the election

    def elected(self) -> Steps:
        """Become active (onControllerFailover)."""
        context = self.context
        self.store.because("fenced")
        yield from self.loading.load()
        for info in context.brokers.values():
            self.channels.add(info)
        self.batch.send_update_metadata(context.live_or_shutting_down(), ())
        yield from self.replicas.startup()
        yield from self.partitions.startup()
        self.broker_changes.record_missing()
        yield from self.reassignments.initialize()
        yield from self.deletion.resume()
        yield from self.leader_elections.from_znode()
        self.leader_elections.start()

    def resigned(self) -> None:
        """Stop being active (onControllerResignation)."""
        self.leader_elections.stop()
        self.channels.shutdown()
        self.context.reset()
