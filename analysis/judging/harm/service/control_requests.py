"""STALESERVE in ZooKeeper mode: a broker that lost a role gets the controller's request about it.

A broker in ZooKeeper mode knows its roles only from the controller's LeaderAndIsr and StopReplica.
The controller queues them in the step that writes the partition's state, and a thread for each
broker sends them one at a time. A request without an answer is sent again 100 ms later, until it is
answered or the broker is removed (ControllerChannelManager, RequestSendThread.doWork), so it is
never given up. So a deposed leader becomes follower, and a removed replica deletes its log, within
100 ms for one connection that had ended, and a second for the network, the requests queued before
it and the lock of role changes.

The bound restarts when a controller is elected, because it sends all online replicas their roles
(ReplicaStateMachine.startup), and when the broker has registered, because the controller then sends
it all its roles (KafkaController.onBrokerStartup). Faults of the broker, the controller, the new
leader or the ensemble extend it, and so does the recovery of their connections: a request on a dead
connection fails after controller.socket.timeout.ms, 30 s. The controller may not have used its
connection to a broker for long, so the fault that killed it may lie far back, behind the last
request that the broker has got from it.

These requests may legally be missing, so they are not judged:

- nothing is sent to a broker without a session (KafkaController.onBrokerFailure);
- a StopReplica is lost with the controller or the registration that it was meant for; the replica
  is a stray then, which the next controller does not know;
- a leader stays leader while the metadata names none, or one that it does not know to be alive
  (ReplicaManager.makeFollowers);
- a replica in a failed log directory takes no role, and a topic that is being deleted has none.
"""

from __future__ import annotations

from kafkasim.analysis.judging.harm.truth.disturbances import REQUEST_TIMEOUT_US, Disturbances
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import node_of

SPREAD_US = 1_100_000

Place = tuple[PartitionKey, str]
"""A partition and the host of a replica of it."""


class ControlRequests:
    """Follows what brokers have to hear of, and when they act on it."""

    def __init__(self, cluster: TracedCluster, disturbances: Disturbances) -> None:
        self._cluster = cluster
        self._disturbances = disturbances
        self._ensemble: dict[str, None] = {}  # its servers; none in KRaft mode
        self._controller = ""  # the host of the active one
        self._gone: dict[str, None] = {}  # brokers without registration
        self._leaders: dict[PartitionKey, tuple[int, int]] = {}  # leader and its epoch
        self._epochs: dict[PartitionKey, int] = {}  # the newest partition epoch
        self._replicas: dict[PartitionKey, int] = {}  # the zxid of the newest assignment
        self._hosted: dict[PartitionKey, dict[str, int]] = {}
        """The replicas by their own account: −1, or the leader epoch under which it leads"""
        self._deposed: dict[Place, int] = {}  # who has to hear of a new leader, and since when
        self._removed: dict[Place, int] = {}  # who has to delete a replica, and since when
        self._heard: dict[tuple[str, str], int] = {}  # (broker, controller) -> its last request
        trace = cluster.trace
        trace.subscribe(facts.ZooKeeperRole, self._on_ensemble)
        trace.subscribe(facts.ZooKeeperSession, self._on_session)
        trace.subscribe(facts.ControllerActive, self._on_controller)
        trace.subscribe(facts.ControlRequest, self._on_request)
        trace.subscribe(facts.BrokerRegistration, self._on_registration)
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.BecameFollower, self._on_follower)
        trace.subscribe(facts.LogDeleted, self._on_lost)
        trace.subscribe(facts.ReplicaFailed, self._on_lost)
        trace.subscribe(facts.HostStarted, self._on_host)
        trace.subscribe(facts.HostStopped, self._on_host)
        trace.subscribe(facts.RequestStats, self._on_time)
        trace.subscribe(facts.Phase, self._on_time)

    # ---------------------------------------------------------------- controllers and sessions

    def _on_ensemble(self, _seq: int, _t: int, node: str, _fact: facts.ZooKeeperRole) -> None:
        self._ensemble[node] = None

    def _on_controller(self, _seq: int, t: int, node: str, fact: facts.ControllerActive) -> None:
        self._removed.clear()
        if fact.active:
            self._controller = node
            self._deposed = dict.fromkeys(self._deposed, t)
        elif node == self._controller:
            self._controller = ""

    def _on_session(self, _seq: int, _t: int, _n: str, fact: facts.ZooKeeperSession) -> None:
        if fact.event in ("closed", "expired"):
            self._leaves(fact.client)

    def _on_registration(self, _s: int, t: int, _n: str, fact: facts.BrokerRegistration) -> None:
        node = node_of(fact.broker)
        if fact.fenced:
            self._leaves(node)
        elif fact.change == "registered":
            self._gone.pop(node, None)
            for key in [each for each, hosts in self._hosted.items() if node in hosts]:
                self._judge_leader(key, node, t)

    def _leaves(self, node: str) -> None:
        self._gone[node] = None
        for waiting in (self._deposed, self._removed):
            for place in [each for each in waiting if each[1] == node]:
                del waiting[place]

    # --------------------------------------------------------------------------- what is written

    def _on_changed(self, _seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        if not self._ensemble:
            return
        if fact.reason == "deletion":
            self._forget(key)
            return
        if fact.offset > self._replicas.get(key, -1):
            self._replicas[key] = fact.offset
            named = [node_of(broker) for broker in fact.replicas]
            for node in self._hosted.get(key, ()):
                if node in named:
                    self._removed.pop((key, node), None)
                elif node not in self._gone:
                    self._removed.setdefault((key, node), t)
        if fact.partition_epoch > self._epochs.get(key, -1):
            self._epochs[key] = fact.partition_epoch
            self._leaders[key] = (fact.leader, fact.leader_epoch)
            for node in self._hosted.get(key, ()):
                self._judge_leader(key, node, t)

    def _judge_leader(self, key: PartitionKey, node: str, t: int) -> None:
        """Let the wait of a leader by its own account begin, if another one is written."""
        leader, epoch = self._leaders.get(key, (-1, -1))
        own = self._hosted[key][node]
        if own < 0 or leader < 0 or node_of(leader) == node or epoch <= own:
            self._deposed.pop((key, node), None)
        elif node not in self._gone:
            self._deposed[key, node] = t

    def _on_topic_deleted(self, _seq: int, _t: int, _n: str, fact: facts.TopicDeleted) -> None:
        for key in [each for each in self._epochs if each[0] == fact.topic_id]:
            self._forget(key)

    def _forget(self, key: PartitionKey) -> None:
        for node in self._hosted.pop(key, ()):
            self._deposed.pop((key, node), None)
            self._removed.pop((key, node), None)

    # ---------------------------------------------------------------------------- what is heard

    def _on_request(self, _seq: int, t: int, node: str, fact: facts.ControlRequest) -> None:
        self._heard[node, node_of(fact.controller)] = t

    def _on_leader(self, _seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        self._hosted.setdefault(key, {})[node] = fact.leader_epoch
        if self._ensemble:
            self._judge_leader(key, node, t)

    def _on_follower(self, _seq: int, _t: int, node: str, fact: facts.BecameFollower) -> None:
        key = (fact.topic_id, fact.partition)
        self._hosted.setdefault(key, {})[node] = -1
        self._deposed.pop((key, node), None)

    def _on_lost(
        self, _seq: int, _t: int, node: str, fact: facts.LogDeleted | facts.ReplicaFailed
    ) -> None:
        self._lose((fact.topic_id, fact.partition), node)

    def _lose(self, key: PartitionKey, node: str) -> None:
        self._hosted.get(key, {}).pop(node, None)
        self._deposed.pop((key, node), None)
        self._removed.pop((key, node), None)

    def _on_host(
        self, _seq: int, _t: int, node: str, _fact: facts.HostStarted | facts.HostStopped
    ) -> None:
        if node == self._controller:
            self._controller = ""
        for key, hosts in self._hosted.items():
            if node in hosts:
                self._lose(key, node)

    # ---------------------------------------------------------------------------- what is overdue

    def _on_time(
        self, seq: int, t: int, _node: str, _fact: facts.RequestStats | facts.Phase
    ) -> None:
        if self._controller == "" or not (self._deposed or self._removed):
            return
        for waiting, what in (
            (self._deposed, "LeaderAndIsr that names another leader"),
            (self._removed, "StopReplica that deletes its replica"),
        ):
            for place, since in list(waiting.items()):
                if t - since > SPREAD_US and not self._explained(place, since, t):
                    del waiting[place]
                    self._cluster.violated(
                        "STALESERVE", seq, t, place[0],
                        f"{place[1]} has not obeyed a {what},"
                        f" {(t - since) / 1e6:.3f} s after the controller wrote the change",
                    )  # fmt: skip

    def _explained(self, place: Place, since: int, t: int) -> bool:
        key, node = place
        leader = self._leaders[key][0]
        hosts = [node, self._controller, *self._ensemble]
        if leader >= 0:
            hosts.append(node_of(leader))
        if self._disturbances.struck(hosts, max(since, t - SPREAD_US), t, healing=True):
            return True
        in_time = t - since <= REQUEST_TIMEOUT_US + SPREAD_US
        heard = self._heard.get((node, self._controller), 0)
        ends = (node, self._controller)
        return in_time and self._disturbances.killed_unseen(ends, heard, since)
