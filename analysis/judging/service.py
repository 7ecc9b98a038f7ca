"""STALESERVE: a broker that lost a role hears of it in time, and serves it no more.

Metadata that names another leader reaches the old one: in KRaft by its metadata fetch, which waits
500 ms at most (KafkaRaftClient), in ZooKeeper mode by the controller's LeaderAndIsr, which is sent
until it is answered (ControllerChannelManager, RequestSendThread). A second covers the network, the
disk and the locks. Faults of the broker, the controllers and the new leader explain more, until
connections have recovered. In ZooKeeper mode these also explain it: no session, an election or a
registration since then, and links that failed at any time before, since a dead connection may not
have been used until now.

Once a broker has recorded that it follows, it appends nothing in an older leader epoch, answers no
read in it, and coordinates no group of the partition (GroupCoordinatorService.onResignation). A
replica that knows its epoch still answers some reads only as the leader of that epoch
(Partition.getLocalLog, requireLeader). ReadServed tells the first read after the broker has applied
the loss.
"""

from __future__ import annotations

from kafkasim.analysis.judging.disturbances import Disturbances
from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of, node_of

SPREAD_US = 1_500_000
RESIGN_US = 1_000_000
"""How long a coordinator's lane may be busy before it resigns."""

Place = tuple[PartitionKey, str]
"""A partition and the host of a replica of it."""


class StaleService:
    """Follows who lost which leadership, and what they do afterwards."""

    def __init__(self, history: History, findings: Findings, disturbances: Disturbances) -> None:
        self._history = history
        self._findings = findings
        self._disturbances = disturbances
        self._state: dict[PartitionKey, facts.PartitionChanged] = {}
        self._leaders: dict[tuple[PartitionKey, int], int] = {}  # of each leader epoch
        self._leads: dict[Place, int] = {}  # the epoch that the broker takes itself for leader of
        self._losing: dict[Place, int] = {}  # who has to hear of a successor, and since when
        self._follows: dict[Place, tuple[int, int]] = {}  # the leader epoch, and since when
        self._away: dict[str, None] = {}  # brokers without a ZooKeeper session
        self._controller = ""  # the host of the active one
        self._looked = 0

    # --------------------------------------------------------------------- who lost a leadership

    def on_PartitionChanged(self, seq: int, t: int, _n: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        before = self._state.get(key)
        if before is not None and fact.partition_epoch <= before.partition_epoch:
            return
        self._look(seq, t)
        self._state[key] = fact
        self._leaders[key, fact.leader_epoch] = fact.leader
        for place in [each for each in self._losing if each[0] == key]:
            if fact.leader < 0 or fact.reason == "deletion":
                del self._losing[place]
        if before is None or fact.leader < 0 or fact.reason == "deletion":
            return
        former = (key, node_of(before.leader))
        if fact.leader != before.leader and self._leads.get(former, -1) < fact.leader_epoch:
            if former in self._leads:
                self._losing.setdefault(former, t)

    def on_BecameLeader(self, _seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        place = ((fact.topic_id, fact.partition), node)
        self._leads[place] = fact.leader_epoch
        self._losing.pop(place, None)
        if fact.leader_epoch >= self._follows.get(place, (0, 0))[0]:
            self._follows.pop(place, None)

    def on_BecameFollower(self, _seq: int, t: int, node: str, fact: facts.BecameFollower) -> None:
        place = ((fact.topic_id, fact.partition), node)
        self._leads.pop(place, None)
        self._losing.pop(place, None)
        _, since = self._follows.get(place, (0, t))
        self._follows[place] = (fact.leader_epoch, since)

    def on_CoordinatorLoaded(
        self, _s: int, _t: int, node: str, fact: facts.CoordinatorLoaded
    ) -> None:
        """Forget that the broker followed: the coordinator may be ahead of the replica."""
        if fact.loaded:
            for place in [each for each in self._follows if each[1] == node]:
                if place[0][1] == fact.partition and self._is_offsets(place[0][0]):
                    del self._follows[place]

    def _is_offsets(self, topic_id: str) -> bool:
        created = self._history.topics.get(topic_id)
        return created is not None and created.topic == "__consumer_offsets"

    def on_HostStopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        self._forget(node)
        for place in [each for each in self._follows if each[1] == node]:
            del self._follows[place]

    def on_LogDeleted(self, _seq: int, _t: int, node: str, fact: facts.LogDeleted) -> None:
        self._forget(node, (fact.topic_id, fact.partition))

    def on_ReplicaFailed(self, _seq: int, _t: int, node: str, fact: facts.ReplicaFailed) -> None:
        self._forget(node, (fact.topic_id, fact.partition))

    def on_TopicDeleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        for place in [each for each in self._losing if each[0][0] == fact.topic_id]:
            del self._losing[place]

    def _forget(self, node: str, key: PartitionKey | None = None) -> None:
        for known in (self._losing, self._leads):
            for place in [each for each in known if each[1] == node and key in (None, each[0])]:
                del known[place]

    # ------------------------------------------------------------------------ whether they hear

    def on_ControllerActive(self, _s: int, t: int, node: str, fact: facts.ControllerActive) -> None:
        """A new controller of a ZooKeeper cluster sends all online replicas their roles."""
        if fact.active:
            self._controller = node
            self._losing = dict.fromkeys(self._losing, t)

    def on_ZooKeeperSession(self, _s: int, t: int, _n: str, fact: facts.ZooKeeperSession) -> None:
        if fact.event in ("closed", "expired"):
            self._away[fact.client] = None
        elif fact.event == "created":
            self._away.pop(fact.client, None)
            for place in [each for each in self._losing if each[1] == fact.client]:
                self._losing[place] = t

    def on_RequestStats(self, seq: int, t: int, _node: str, _fact: facts.RequestStats) -> None:
        self._look(seq, t)

    def on_Phase(self, seq: int, t: int, _node: str, _fact: facts.Phase) -> None:
        self._look(seq, t)

    def _look(self, seq: int, t: int) -> None:
        if not self._losing or t - self._looked < 100_000:
            return
        self._looked = t
        for (key, node), since in list(self._losing.items()):
            if t - since <= SPREAD_US:
                continue
            hosts = [node, self._controller, node_of(self._state[key].leader)]
            hosts += self._disturbances.controllers()
            struck = self._disturbances.struck(hosts, since - SPREAD_US, t, healing=True)
            silent = self._history.zookeeper and self._disturbances.killed_unseen(hosts, 0, t)
            if not (struck or silent or node in self._away):
                del self._losing[key, node]
                self._violated(
                    seq, t, key,
                    f"{node} has not heard that broker {self._state[key].leader} leads,"
                    f" {(t - since) / 1e6:.3f} s after that was committed",
                )  # fmt: skip

    # ------------------------------------------------------------------------- what they serve

    def on_Appended(self, seq: int, t: int, node: str, fact: facts.Appended) -> None:
        key = (fact.topic_id, fact.partition)
        known = self._follows.get((key, node))
        if known is not None and fact.leader_epoch < known[0]:
            self._violated(
                seq, t, key,
                f"{node} appends at offset {fact.base_offset} as leader of epoch"
                f" {fact.leader_epoch}, though it knows of epoch {known[0]}",
            )  # fmt: skip

    def on_ReadServed(self, seq: int, t: int, node: str, fact: facts.ReadServed) -> None:
        key = (fact.topic_id, fact.partition)
        known, _ = self._follows.get((key, node), (-1, 0))
        leader = self._leaders.get((key, fact.leader_epoch))
        newest = self._state.get(key)
        if fact.leading and newest is not None and fact.leader_epoch < newest.leader_epoch:
            why = f"as leader of epoch {fact.leader_epoch}, though it has applied a later epoch"
        elif fact.leader_epoch < known:
            why = f"in leader epoch {fact.leader_epoch}, though it knows of epoch {known}"
        elif fact.only_leader and leader is not None and broker_of(node) not in (-1, leader):
            why = f"that only the leader of epoch {fact.leader_epoch} may answer"
        else:
            return
        self._violated(seq, t, key, f"{node} answers a {fact.request} {why}")

    def on_OffsetFetched(self, seq: int, t: int, node: str, fact: facts.OffsetFetched) -> None:
        self._coordinates(seq, t, node, fact.group, "OffsetFetch")

    def on_MemberRequest(self, seq: int, t: int, node: str, fact: facts.MemberRequest) -> None:
        self._coordinates(seq, t, node, fact.group, fact.api)

    def _coordinates(self, seq: int, t: int, node: str, group: str, request: str) -> None:
        if not self._follows:
            return
        key = self._history.group_key(group)
        known = self._follows.get((key, node))
        if known is None or t - known[1] <= RESIGN_US:
            return
        if not self._disturbances.struck([node], t - RESIGN_US, t):
            self._violated(
                seq, t, key,
                f"{node} serves {request} of group {group}, {(t - known[1]) / 1e6:.3f} s after it"
                f" heard that broker {self._state[key].leader if key in self._state else -1} leads",
            )  # fmt: skip

    def _violated(self, seq: int, t: int, key: PartitionKey, text: str) -> None:
        self._findings.add("STALESERVE", seq, t, key, text)
