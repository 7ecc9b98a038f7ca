"""KafkaController: the controller inside every broker of a ZooKeeper cluster.

All of them compete for the ephemeral znode /controller; the winner loads the cluster's state, talks
to the brokers, and reacts to what its watches tell. Everything runs on one thread (lane
``zk-controller``, :mod:`kafkasim.model.controller.zk.events`) in Kafka's order.

    Startup, Reelect       compete (elect); ControllerChange: somebody else has won (maybeResign)
    Expire                 resign before a new session begins; RegisterBrokerAndReelect: in it
    BrokerChange, TopicChange, TopicDeletion, IsrChangeNotification…   watches
    AlterPartition, ControlledShutdown, ApiPartitionReassignment…      requests

The epoch is the fence: it rises with every election in one multi with the creation of /controller,
every write checks it, and brokers refuse control requests of a lower one. Failed log directories
are watched for where this broker has several itself. Left out: broker modifications, features,
migration to KRaft.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.zk.changes.brokers import BrokerChanges
from kafkasim.model.controller.zk.changes.maintenance import Maintenance
from kafkasim.model.controller.zk.changes.reassignments import Reassignments
from kafkasim.model.controller.zk.changes.topics import TopicChanges
from kafkasim.model.controller.zk.channels import ControllerChannelManager, RequestBatch
from kafkasim.model.controller.zk.context import ControllerContext
from kafkasim.model.controller.zk.events import (
    ControllerMoved,
    Event,
    EventQueue,
    Pause,
    Steps,
    ZkFailed,
)
from kafkasim.model.controller.zk.loading import Loading
from kafkasim.model.controller.zk.requests import ControllerRequests
from kafkasim.model.controller.zk.states.deletion import TopicDeletionManager
from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
from kafkasim.model.controller.zk.store.writes import ControllerStore
from kafkasim.model.controller.zk.store.zk_data import (
    BROKER_IDS,
    CONTROLLER,
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    ISR_CHANGES,
    LOG_DIR_EVENTS,
    PERSISTENT_PATHS,
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    BrokerInfo,
    ControllerInfo,
    broker_path,
    state_path,
)
from kafkasim.model.effects import Post
from kafkasim.model.facts import ControllerActive, ZkControllerWrite
from kafkasim.model.zookeeper.ops import (
    Create,
    Delete,
    Exists,
    GetData,
    Multi,
    SetData,
    WatchEvent,
    ZkError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.store.client import KafkaZkClient
    from kafkasim.model.effects import Process

LANE = "zk-controller"
OK, NODEEXISTS = ZkError.OK, ZkError.NODEEXISTS
REGISTER_AGAIN_US = 1_000_000


class KafkaController:
    """One broker's controller. ``registered(epoch, now)`` hears of its broker's registration."""

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
        self.config = config
        self.rules = rules
        self.zk = zk
        self.registered = registered
        self.watches_log_dirs = len(config.log_dirs) > 1
        self.active_id = -1
        self.queue = EventQueue(process, zk, LANE, self._on_moved)
        context = self.context = ControllerContext()
        store = self.store = ControllerStore(process.out, context, rules)
        self.channels = ControllerChannelManager(process, self._answered)
        self.batch = RequestBatch(info.id, context, self.channels, rules)
        self.partitions = PartitionStateMachine(context, store, self.batch)
        self.partitions.unclean_default = config.unclean_leader_election_enable
        self.partitions.recovery_supported = config.leader_recovery_supported
        self.replicas = ReplicaStateMachine(context, store, self.batch)
        self.deletion = TopicDeletionManager(
            context, store, self.batch, self.partitions, self.replicas
        )
        self.loading = Loading(self)
        self.broker_changes = BrokerChanges(self)
        self.topic_changes = TopicChanges(self)
        self.maintenance = Maintenance(self)
        self.reassignments = Reassignments(self)
        self.requests = ControllerRequests(self)
        self._last_owner = 0  # the session that registered this broker last

    @property
    def is_active(self) -> bool:
        """Whether this broker believes to be the controller."""
        return self.active_id == self.info.id

    # ------------------------------------------------------------------- events, from any lane

    def put(self, name: str, steps: Callable[[], Steps], preempt: Any = None) -> None:
        """Queue an event."""

        def run(now: int) -> Steps:
            self.clock(now)
            return steps()

        self.queue.put(Event(name, run, preempt))

    def clock(self, now: int) -> None:
        """Let all parts know the time at which their event began."""
        self.partitions.now = self.replicas.now = self.deletion.now = now

    def startup(self) -> None:
        """The session began: register the broker, then compete."""
        self.put("Startup", self._startup)

    def on_new_session(self) -> None:
        """A session followed the one that expired."""
        self.put("RegisterBrokerAndReelect", self._register_and_reelect)

    def on_expired(self, now: int) -> None:
        """The session expired: resign before anything else, then begin a new one."""

        def run(at: int) -> Steps:
            self.clock(at)
            return self._expire()

        event = Event("Expire", run)
        if self.rules.survives_expiry():
            self.queue.put(event)
        else:
            self.queue.clear_and_put(event, now)

    def on_watch(self, event: WatchEvent) -> None:
        """Turn a watch into an event."""
        path = event.path
        if path == CONTROLLER:
            if event.type == "NodeDeleted":
                self.put("Reelect", self._reelect)
            else:
                self.put("ControllerChange", self._maybe_resign)
        elif path == BROKER_IDS:
            self.put("BrokerChange", self._if_active(self.broker_changes.process))
        elif path == TOPICS:
            self.put("TopicChange", self._if_active(self.topic_changes.process))
        elif path == DELETE_TOPICS:
            self.put("TopicDeletion", self._if_active(self.topic_changes.process_deletions))
        elif path == ISR_CHANGES:
            self.put("IsrChangeNotification", self._if_active(self.maintenance.isr_changes))
        elif path == LOG_DIR_EVENTS:
            self.put("LogDirEventNotification", self._if_active(self.maintenance.log_dir_events))
        elif path == PREFERRED_ELECTION:
            self.put("ReplicaLeaderElection", self._if_active(self.maintenance.zk_preferred))
        elif path == REASSIGN_PARTITIONS:
            if event.type == "NodeCreated":
                self.on_reassign_znode()
        elif path.startswith(f"{TOPICS}/") and path.count("/") == TOPICS.count("/") + 1:
            if event.type == "NodeDataChanged":
                modified = partial(self.topic_changes.modified, path.rpartition("/")[2])
                self.put("PartitionModifications", self._if_active(modified))
        else:
            self._on_state(path)

    def _on_state(self, path: str) -> None:
        """A partition's state has changed, which only matters while it is being reassigned."""
        for tp in self.context.reassigning:
            if state_path(tp) == path:
                steps = self._if_active(partial(self.reassignments.maybe_complete, tp))
                self.put("PartitionReassignmentIsrChange", steps)

    def on_reassign_znode(self) -> None:
        """Look into /admin/reassign_partitions, watching."""
        self.put("ZkPartitionReassignment", self._if_active(self.reassignments.from_znode))

    def enable_unclean(self, topic: str | None = None) -> None:
        """Unclean elections are allowed from now on, of a topic or by default."""
        if topic is None:
            name, steps = "UncleanLeaderElectionEnable", self.partitions.trigger_online
        else:
            name = "TopicUncleanLeaderElectionEnable"
            steps = partial(self.partitions.trigger_online, topic)
        self.put(name, self._if_active(steps))

    def topic_config_changed(
        self, topic: str, entries: tuple[tuple[str, str], ...], zxid: int
    ) -> None:
        """Take over a topic's settings as of transaction ``zxid``, if this is the controller."""
        if not self.is_active:
            return
        if topic in self.context.topic_ids:
            self.context.configs[topic] = entries, zxid
        if dict(entries).get("unclean.leader.election.enable") == "true":
            self.enable_unclean(topic)

    def unclean_default_changed(self, before: bool, after: bool) -> None:
        """Take over the broker's unclean.leader.election.enable."""
        self.partitions.unclean_default = after
        if after and not before:
            self.enable_unclean()

    def _if_active(self, steps: Callable[[], Steps]) -> Callable[[], Steps]:
        def run() -> Steps:
            if self.is_active:
                yield from steps()

        return run

    def _answered(self, broker: int, request: Any, response: Any, now: int) -> None:
        self.requests.on_answer(broker, request, response)

    # ------------------------------------------------------------------------------- registration

    def _startup(self) -> Steps:
        yield tuple([Create(path, ()) for path in PERSISTENT_PATHS])
        if self.watches_log_dirs:
            yield (Create(LOG_DIR_EVENTS, ()),)
        yield from self._register()
        yield (Exists(CONTROLLER, watch=True),)
        yield from self._elect()

    def _register_and_reelect(self) -> Steps:
        yield from self._register()
        yield from self._reelect()

    def _register(self) -> Steps:
        """Create /brokers/ids/N (registerBroker).

        Where the znode of our own last session still is there it is deleted (KAFKA-7165). That of
        another process makes Kafka exit, to be started again by whoever supervises it; here the
        registration alone is tried again every second.
        """
        path = broker_path(self.info.id)
        while True:
            session = self.zk.session_id
            (created,) = yield (Create(path, self.info, ephemeral=True),)
            if created.error not in (OK, NODEEXISTS):
                raise ZkFailed(created.error)
            (found,) = yield (GetData(path),)
            if found.error is not OK:
                continue
            owner = found.stat.ephemeral_owner
            if owner == self.zk.session_id:
                self._last_owner = owner
                self.registered(found.stat.czxid, self.queue.now)
                return
            if owner == self._last_owner:
                yield (Delete(path),)
            else:
                yield Pause(REGISTER_AGAIN_US)
            assert session >= 0, session

    # ----------------------------------------------------------------------------------- election

    def _reelect(self) -> Steps:
        yield from self._maybe_resign()
        yield from self._elect()

    def _on_moved(self, now: int) -> Steps:
        self.clock(now)
        return self._maybe_resign()

    def _maybe_resign(self) -> Steps:
        """Read who is controller, watching; resign if that is no longer this broker."""
        was_active = self.is_active
        yield from self._read_controller()
        if was_active and not self.is_active:
            self._resign()

    def _read_controller(self) -> Steps:
        _, found = yield (Exists(CONTROLLER, watch=True), GetData(CONTROLLER))
        self.active_id = found.data.broker_id if found.error is OK else -1

    def _elect(self) -> Steps:
        """Compete for /controller; the winner becomes active."""
        (found,) = yield (GetData(CONTROLLER),)
        self.active_id = found.data.broker_id if found.error is OK else -1
        if self.active_id != -1:
            return
        try:
            yield from self._take_epoch()
        except ControllerMoved:
            yield from self._maybe_resign()
            return
        self.active_id = self.info.id
        epoch = self.context.epoch
        self.process.out.append(ControllerActive(epoch, True))
        try:
            yield from self._failover()
        except ZkFailed:
            yield from self._trigger_move()

    def _take_epoch(self) -> Steps:
        """Create /controller and raise the epoch in one multi (registerController…).

        Raises:
            ControllerMoved: somebody else was faster.
        """
        (found,) = yield (GetData(CONTROLLER_EPOCH),)
        if found.error is ZkError.NONODE:
            yield (Create(CONTROLLER_EPOCH, 0),)
            (found,) = yield (GetData(CONTROLLER_EPOCH),)
        if found.error is not OK:
            raise ZkFailed(found.error)
        epoch, version = found.data + 1, found.stat.version
        me = ControllerInfo(self.info.id)
        take = Multi(
            (Create(CONTROLLER, me, ephemeral=True), SetData(CONTROLLER_EPOCH, epoch, version))
        )
        (result,) = yield (take,)
        zxid = result.zxid
        if result.error in (NODEEXISTS, ZkError.BADVERSION):
            # Perhaps it was us, and the answer was lost (checkControllerAndEpoch).
            who, stored = yield (GetData(CONTROLLER), GetData(CONTROLLER_EPOCH))
            mine = who.error is OK and who.data.broker_id == self.info.id
            if not mine or who.stat.ephemeral_owner != self.zk.session_id or stored.data != epoch:
                raise ControllerMoved(CONTROLLER)
            zxid = stored.stat.mzxid
        elif result.error is not OK:
            raise ZkFailed(result.error)
        self.context.epoch, self.context.epoch_zk_version = epoch, version + 1
        fact = ZkControllerWrite(zxid, epoch, CONTROLLER_EPOCH, version + 1)
        self.process.out.append(fact)

    def _failover(self) -> Steps:
        """Become active (onControllerFailover)."""
        context, store = self.context, self.store
        store.reason = "fenced"
        yield from self.loading.load()
        yield from self.send_update_metadata(context.live_or_shutting_down(), [])
        yield from self.replicas.startup()
        yield from self.partitions.startup()
        self.broker_changes.tell_dead()
        yield from self.reassignments.initialize()
        yield from self.deletion.resume()
        yield from self.maintenance.zk_preferred()
        self.maintenance.start()

    def _trigger_move(self) -> Steps:
        """Becoming active failed: let somebody else try (triggerControllerMove)."""
        yield from self._read_controller()
        if self.is_active:
            delete = self.store.guarded(Delete(CONTROLLER))
            self.active_id = -1
            self._resign()
            yield (delete,)

    def _expire(self) -> Steps:
        if self.is_active:
            self.active_id = -1
            self._resign()
        self.active_id = -1
        self.process.out.append(Post("zookeeper", self.zk.reinitialise, None))
        yield from ()

    def _resign(self) -> None:
        """Stop being active (onControllerResignation)."""
        now = self.queue.now
        self.process.out.append(ControllerActive(self.context.epoch, False))
        self.maintenance.stop()
        self.channels.shutdown(now)
        self.context.reset()

    def shutdown(self, now: int) -> None:
        """The broker stops."""
        self.queue.close()
        if self.is_active:
            self.active_id = -1
            self._resign()

    # ---------------------------------------------------------------------------------- for parts

    def send_update_metadata(self, brokers: tuple[int, ...], partitions: list[Any]) -> Steps:
        """Send UpdateMetadata alone (sendUpdateMetadataRequest)."""
        self.batch.new_batch()
        self.batch.add_update_metadata(brokers, partitions)
        self.batch.send(self.partitions.now)
        yield from ()
