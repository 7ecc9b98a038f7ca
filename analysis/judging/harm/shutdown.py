"""SHUTDOWNENDS: a controlled shutdown ends in bounded time.

KRaft: the broker's next heartbeat says that it wants to stop, and the controller moves its
leaderships at once, to metadata offset X. It lets the broker stop at the first heartbeat after
every other active broker has told that it replayed X (BrokerHeartbeatManager). So the wait is at
most

    2 × broker.heartbeat.interval.ms   the others' next heartbeat, then the broker's own
  + 0.5 s                              the wait of a metadata fetch
  + 1 s                                the ways, the disks and the threads

from the time at which every leadership of the broker has a successor: an active member of its ISR.
Faults of the broker or a controller explain any wait until connections have recovered. A fault of
another broker explains a wait until that broker is back or fenced: a session, an eighth of it until
the next check, and a heartbeat. A struck broker that still sends heartbeats is not fenced: with a
slow disk it replays the metadata log slowly, and delays the shutdown until it has caught up.
The wait of a broker that was unregistered ends there: the controller refuses its heartbeats
(ClusterControlManager.checkBrokerEpoch), and it asks on until controlled shutdown times out after
five minutes (BrokerLifecycleManager, BrokerServer.shutdown).

ZooKeeper: the controller elects the successors before it answers, and a broker that leads nothing
any more may stop (KafkaController.doControlledShutdown). So with successors the answer to the
broker's first request lets it go, within the 1.5 s that ways, disks and threads may take. If they
came later, the broker asks again after controlled.shutdown.retry.backoff.ms. Whatever the answers
are, the broker stops after controlled.shutdown.max.retries requests (KafkaServer), each with an
answer and each but the last with the backoff. Any server may be the controller, so what strikes
one explains any wait.
"""

from __future__ import annotations

from kafkasim.analysis.judging.harm.truth.disturbances import Disturbances
from kafkasim.analysis.judging.harm.truth.nodes import Nodes
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import BrokerLimits, PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of, node_of

INTERVAL = "broker.heartbeat.interval.ms"
SESSION = "broker.session.timeout.ms"
SPREAD_US = 1_500_000
REGISTERING = ("registered", "unregistered")


class ShutdownEnds:
    """Follows the brokers that wait for the controller to let them stop."""

    def __init__(
        self,
        cluster: TracedCluster,
        nodes: Nodes,
        disturbances: Disturbances,
        limits: BrokerLimits,
    ) -> None:
        self.cluster = cluster
        self._limits = limits
        self._zookeeper = False  # whether a ZooKeeper controller has written something
        self._begun: dict[int, int] = {}  # broker -> when its last wait began
        self._blocked: dict[int, None] = {}  # the brokers that wait without successors
        self._nodes = nodes
        self._disturbances = disturbances
        self._waiting: dict[int, int] = {}  # broker -> since when it waits with successors
        self._state: dict[PartitionKey, facts.PartitionChanged] = {}
        self._inactive: dict[int, bool] = {}
        self._moved: dict[int, int] = {}  # broker -> the metadata offset at which it began to stop
        self._replayed: dict[int, int] = {}  # broker -> the offset that its last heartbeat told
        self._registrations: dict[int, facts.BrokerRegistration] = {}  # the last, or its removal
        trace = cluster.trace
        trace.subscribe(facts.BrokerState, self._on_state)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.BrokerRegistration, self._on_registration)
        trace.subscribe(facts.BrokerHeartbeat, self._on_heartbeat)
        trace.subscribe(facts.ZkControllerWrite, self._on_zk_write)
        trace.subscribe(facts.Phase, self._on_phase)

    def _on_state(self, seq: int, t: int, node: str, fact: facts.BrokerState) -> None:
        if not node.rpartition("-")[2].isdigit():
            return  # a second process of a broker
        registered = self._registrations.get(broker_of(node))
        if registered is not None and registered.change == "unregistered":
            return
        if fact.state == "PENDING_CONTROLLED_SHUTDOWN":
            self._waiting[broker_of(node)] = self._begun[broker_of(node)] = t
            self._blocked.pop(broker_of(node), None)
        elif fact.state == "SHUTTING_DOWN" and broker_of(node) in self._waiting:
            self._judge(seq, t, broker_of(node))
            del self._waiting[broker_of(node)]

    def _on_stopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        if node.startswith("broker-") and node.rpartition("-")[2].isdigit():
            self._waiting.pop(broker_of(node), None)

    def _on_zk_write(self, _s: int, _t: int, _n: str, _fact: facts.ZkControllerWrite) -> None:
        self._zookeeper = True

    def _on_phase(self, seq: int, t: int, _node: str, fact: facts.Phase) -> None:
        """Judge the waits that go on: no heartbeats tell of those in ZooKeeper mode."""
        if fact.phase in ("liveness", "end"):
            for broker in list(self._waiting):
                if self._judge(seq, t, broker):
                    del self._waiting[broker]

    def _on_heartbeat(self, seq: int, t: int, _node: str, fact: facts.BrokerHeartbeat) -> None:
        self._replayed[fact.broker] = fact.offset
        if (
            fact.want_shut_down
            and fact.broker in self._waiting
            and self._judge(seq, t, fact.broker)
        ):
            del self._waiting[fact.broker]

    def _on_changed(self, _seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        known = self._state.get(key)
        if known is None or fact.partition_epoch > known.partition_epoch:
            self._state[key] = fact
            self._look_for_successors(t)

    def _on_topic_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        for key in [key for key in self._state if key[0] == fact.topic_id]:
            del self._state[key]

    def _on_registration(
        self, seq: int, t: int, _node: str, fact: facts.BrokerRegistration
    ) -> None:
        known = self._registrations.get(fact.broker)
        if fact.change in REGISTERING and (known is None or fact.offset > known.offset):
            self._registrations[fact.broker] = fact  # a new controller may tell of it again
            if fact.change == "unregistered" and fact.broker in self._waiting:
                self._judge(seq, t, fact.broker)
                del self._waiting[fact.broker]
        self._inactive[fact.broker] = fact.fenced or fact.shutting_down
        if fact.shutting_down:
            self._moved.setdefault(fact.broker, fact.offset)
        else:
            self._moved.pop(fact.broker, None)
        self._look_for_successors(t)

    def _look_for_successors(self, t: int) -> None:
        """Begin a wait anew once no leadership is left that has nobody to go to."""
        for broker in self._waiting:
            blocked = any(
                state.leader == broker
                and all(self._inactive.get(each, True) for each in _others(state, broker))
                for state in self._state.values()
            )
            if blocked:
                self._blocked[broker] = None
                self._waiting[broker] = t
            elif broker in self._blocked:
                del self._blocked[broker]
                self._waiting[broker] = t

    def _look_for_laggards(self, t: int) -> None:
        """Begin a wait anew while a struck broker heartbeats on and has not replayed its start."""
        for broker in self._waiting:
            start = self._moved.get(broker, -1)
            for other, replayed in self._replayed.items():
                holds = replayed < start and not self._inactive.get(other, True)
                if holds and self._disturbances.struck([node_of(other)], t, t, healing=True):
                    self._waiting[broker] = t
                    break

    def _judge(self, seq: int, t: int, broker: int) -> bool:
        """Judge a wait that goes on or ends now; return whether it was too long."""
        if self._zookeeper:
            return self._judge_zookeeper(seq, t, broker)
        since, node = self._waiting[broker], node_of(broker)
        interval = self._nodes.limit_us(node, INTERVAL)
        session = self._nodes.limit_us(node, SESSION)
        self._look_for_successors(t)
        self._look_for_laggards(t)
        if interval is None or session is None or self._waiting[broker] != since:
            return False
        bound = 2 * interval + SPREAD_US
        core = [node, *self._disturbances.controllers()]
        others = [each for each in self._disturbances.servers if each not in core]
        struck = self._disturbances.struck
        if struck(others, since, since + bound, healing=True):
            bound += session * 9 // 8 + interval
        waited = t - since
        if waited <= bound or struck(core, since, t, healing=True):
            return False
        self._violated(seq, t, node, waited, bound)
        return True

    def _judge_zookeeper(self, seq: int, t: int, broker: int) -> bool:
        """Judge a wait by the broker's attempts, and by those since it had successors."""
        self._look_for_successors(t)
        begun, since = self._begun[broker], self._waiting[broker]
        retries, backoff = self._limits.shutdown_retries, self._limits.shutdown_backoff_us
        attempts = retries * SPREAD_US + max(retries - 1, 0) * backoff
        asked = SPREAD_US + (backoff if since > begun else 0)
        for first, bound in ((begun, attempts), (since, asked)):
            servers = self._disturbances.servers
            if t - first > bound and not self._disturbances.struck(servers, first, t, healing=True):
                self._violated(seq, t, node_of(broker), t - first, bound)
                return True
        return False

    def _violated(self, seq: int, t: int, node: str, waited: int, bound: int) -> None:
        self.cluster.violated(
            "SHUTDOWNENDS", seq, t, ("", -1),
            f"{node} waits {waited / 1e6:.3f} s for the controller to let it stop; the others need"
            f" {bound / 1e6:.3f} s to take over",
        )  # fmt: skip


def _others(state: facts.PartitionChanged, broker: int) -> list[int]:
    return [each for each in (*state.isr, *state.elr) if each != broker]
