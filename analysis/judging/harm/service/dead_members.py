"""DEADINISR: a dead broker is removed from all ISRs and leaderships in bounded time.

A dead member holds back the high watermark of every partition in whose ISR it stays. Without new
records only the controller removes it, because a follower that lacks no record does not lag
(KAFKA-7152). So the controller removes it from every ISR, also if no leader is elected.

KRaft: a broker is alive while the active controller receives its heartbeats. A session ends after
broker.session.timeout.ms without one, by the controller's clock. A new active controller restarts
all sessions. It looks for a stale broker when the first session ends (3.9), or eight times a
session (4.0 and later, QuorumController.maybeFenceStaleBrokerPeriodNs). The batch that fences the
broker removes it from all ISRs (ReplicationControlManager.handleBrokerFenced). So the bound is

    9/8 × broker.session.timeout.ms   the session, and the time until the next look
  + 1.5 s                             the records' way to a majority's disks, and more stale brokers

ZooKeeper: a broker is alive while it has a session. A session without touches expires after its
timeout and two ticks: the trace has one touch in a tick, and the end is rounded up to a tick
(SessionTrackerImpl, ExpiryQueue.roundToNextInterval). When the broker's znode is deleted, the
controller removes the broker from every ISR (KafkaController.onBrokerFailure: OfflineReplica,
removeReplicasFromIsr). A new controller does this for all dead brokers (KAFKA-3143). Both take

    1.5 s   the watch, the reads of the brokers and of the states, and the writes

from the end of the session or the election. A session without touches has 1.5 s more to expire.

Faults of a controller, or of a server of the ensemble, extend this until connections have
recovered, and by 1.5 s. These members may stay, so they are not judged:

- the last member of an ISR, which then has no leader (without unclean.leader.election.enable);
- with ZooKeeper, a member that joined after its session's end and after the election of the
  controller. The controller that found it in no ISR wrote nothing, so the leader's write succeeds,
  which may add a dead broker (``invariants/metadata.py``);
- with ZooKeeper, a replica of a topic that is being deleted
  (KafkaController.onReplicasBecomeOffline leaves it to the deletion).
"""

from __future__ import annotations

from kafkasim.analysis.judging.harm.truth.disturbances import Disturbances
from kafkasim.analysis.judging.harm.truth.nodes import Nodes
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of, node_of

SPREAD_US = 1_500_000
SESSION = "broker.session.timeout.ms"
ZK_SESSION = "zookeeper.session.timeout.ms"
LOOK_US = 500_000
"""How often the judge looks while nothing changes."""


class DeadMembers:
    """Compares the members of ISRs with the brokers that are alive."""

    def __init__(self, cluster: TracedCluster, nodes: Nodes, disturbances: Disturbances) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._disturbances = disturbances
        self._controller = ("", 0)  # the active one, and since when; "": none
        self._epochs: dict[int, tuple[int, int]] = {}  # broker -> offset, epoch of its registration
        self._heard: dict[tuple[int, int], int] = {}
        """By broker and epoch: when its last heartbeat came"""
        self._state: dict[PartitionKey, facts.PartitionChanged] = {}
        self._joined: dict[PartitionKey, dict[int, int]] = {}  # since when each member is one
        self._told: dict[PartitionKey, dict[int, None]] = {}  # members that are judged already
        self._deleting: dict[str, None] = {}  # topic ids
        self._looked = 0
        trace = cluster.trace
        trace.subscribe(facts.ZooKeeperSession, self._on_session)
        self._zookeeper = ZooKeeperSessions(trace, nodes)
        trace.subscribe(facts.ControllerActive, self._on_controller)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.BrokerRegistration, self._on_registration)
        trace.subscribe(facts.BrokerHeartbeat, self._on_heartbeat)
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.RequestStats, self._on_time)
        trace.subscribe(facts.Phase, self._on_time)

    def _on_session(self, seq: int, t: int, _node: str, fact: facts.ZooKeeperSession) -> None:
        if fact.event == "created":
            self._look(seq, t)  # before the broker counts as alive again

    def _on_controller(self, seq: int, t: int, node: str, fact: facts.ControllerActive) -> None:
        self._look(seq, t)
        if fact.active:
            self._controller = (node, t)
        elif node == self._controller[0]:
            self._controller = ("", t)

    def _on_stopped(self, seq: int, t: int, node: str, _fact: facts.HostStopped) -> None:
        if node == self._controller[0]:
            self._look(seq, t)
            self._controller = ("", t)

    def _on_registration(self, _s: int, _t: int, _n: str, fact: facts.BrokerRegistration) -> None:
        offset, epoch = self._epochs.get(fact.broker, (-1, -1))
        if fact.offset < offset:
            return
        self._epochs[fact.broker] = (fact.offset, fact.broker_epoch)
        # The session of the incarnation before goes on until it ends.
        if fact.broker_epoch != epoch:
            self._heard[fact.broker, fact.broker_epoch] = self._heard.get((fact.broker, epoch), 0)

    def _on_heartbeat(self, seq: int, t: int, node: str, fact: facts.BrokerHeartbeat) -> None:
        self._look(seq, t)
        if node == self._controller[0]:
            self._heard[fact.broker, fact.broker_epoch] = t

    def _on_changed(self, seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.reason == "deletion":
            self._deleting[fact.topic_id] = None
        before = self._state.get(key)
        if before is not None and fact.partition_epoch <= before.partition_epoch:
            return
        self._look(seq, t)
        self._state[key] = fact
        joined = self._joined.get(key, {})
        self._joined[key] = {broker: joined.get(broker, t) for broker in fact.isr}
        self._told.pop(key, None)

    def _on_topic_deleted(self, seq: int, t: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._look(seq, t)
        for key in [each for each in self._state if each[0] == fact.topic_id]:
            del self._state[key], self._joined[key]

    def _on_time(
        self, seq: int, t: int, _node: str, fact: facts.RequestStats | facts.Phase
    ) -> None:
        if t - self._looked >= LOOK_US or isinstance(fact, facts.Phase):
            self._look(seq, t)

    def _look(self, seq: int, t: int) -> None:
        """Judge the members that should have left by now."""
        self._looked = t
        controller, since = self._controller
        if controller == "":
            return
        for broker in self._epochs:
            dead = self._dead_since(broker, t)
            if dead is not None and t - max(dead, since) > SPREAD_US:
                self._judge(seq, t, broker, max(dead, since))

    def _dead_since(self, broker: int, t: int) -> int | None:
        """Return since when the controller should take a broker for dead, None if it need not."""
        if self._zookeeper.servers:
            return self._zookeeper.dead_since(broker, t)
        controller, since = self._controller
        session = self._nodes.limit_us(controller, SESSION)
        if session is None:
            return None
        heard = max(since, self._heard.get((broker, self._epochs[broker][1]), 0))
        silent = self._nodes.elapsed_us(controller, heard, t)
        due = session + session // 8
        return t - (silent - due) if silent > due else None

    def _judge(self, seq: int, t: int, broker: int, since: int) -> None:
        ensemble = list(self._zookeeper.servers)
        hosts = [self._controller[0], *ensemble] if ensemble else self._disturbances.controllers()
        if self._disturbances.struck(hosts, max(since, t - SPREAD_US), t, healing=True):
            return
        for key, state in self._state.items():
            told = self._told.setdefault(key, {})
            if broker not in state.isr or broker in told or key[0] in self._deleting:
                continue
            is_last = len(state.isr) == 1 and state.leader != broker
            if is_last or (ensemble and self._joined[key][broker] > since):
                continue
            told[broker] = None
            self._cluster.violated(
                "DEADINISR", seq, t, key,
                f"broker {broker} is not alive but in the ISR {state.isr} of leader {state.leader},"
                f" {(t - since) / 1e6:.3f} s after the controller should have known",
            )  # fmt: skip


class ZooKeeperSessions:
    """The sessions of brokers, as the leaders of the ensemble tell them."""

    def __init__(self, trace: FactSource, nodes: Nodes) -> None:
        self.servers: dict[str, None] = {}  # none in KRaft mode
        self._nodes = nodes
        self._leader = ("", 0)  # of the ensemble, and since when; "": none
        self._zxid = -1  # the last one that told of a session
        self._open: dict[int, dict[int, int]] = {}  # broker -> session -> when it was touched last
        self._ended: dict[int, int] = {}  # broker without a session -> since when
        trace.subscribe(facts.ZooKeeperRole, self._on_role)
        trace.subscribe(facts.ZooKeeperSession, self._on_session)

    def dead_since(self, broker: int, t: int) -> int | None:
        """Return since when a broker has no session, or should have none; None if it may."""
        if broker in self._ended:
            return self._ended[broker]
        server, since = self._leader
        wanted = self._nodes.limit_us(node_of(broker), ZK_SESSION)
        low = self._nodes.limit_us(server, "minSessionTimeout")
        high = self._nodes.limit_us(server, "maxSessionTimeout")
        if wanted is None or low is None or high is None:
            return None
        two_ticks = max(low, high // 10)  # their defaults are 2 and 20 ticks
        due = min(max(wanted, low), high) + two_ticks + SPREAD_US
        touched = max([since, *self._open.get(broker, {}).values()])
        silent = self._nodes.elapsed_us(server, touched, t)
        return t - (silent - due) if silent > due else None

    def _on_role(self, _seq: int, t: int, node: str, fact: facts.ZooKeeperRole) -> None:
        self.servers[node] = None
        if fact.role == "leading":
            self._leader = (node, t)
        elif node == self._leader[0]:
            self._leader = ("", t)

    def _on_session(self, _seq: int, t: int, _node: str, fact: facts.ZooKeeperSession) -> None:
        broker = broker_of(fact.client)
        if broker < 0 or -1 < fact.zxid <= self._zxid:
            return  # a new leader tells again what was told
        self._zxid = max(self._zxid, fact.zxid)
        own = self._open.setdefault(broker, {})
        if fact.event in ("created", "touched", "moved"):
            own[fact.session_id] = t
            self._ended.pop(broker, None)
        elif fact.event in ("closed", "expired") and own.pop(fact.session_id, None) is not None:
            if not own:
                self._ended[broker] = t
