"""STALESERVE: a broker that lost a role stops serving it once it could know of the change.

Each heartbeat of a KRaft broker has the offset of the last metadata record that it has published to
its parts (BrokerLifecycleManager). After a heartbeat that covers the change it has stepped down: it
appends nothing in the old leader epoch, answers no read in it, answers no OffsetFetch and takes no
commit as coordinator of the old epoch, and neither appends what it fetched for a partition that it
lost nor answers reads of it. And the change reaches it in time: the metadata fetch waits 500 ms at
most, and a second covers the network and the publishing. A later heartbeat that does not cover the
change shows that the broker is alive and reachable, but late. Faults of the broker or of a
controller explain that until connections have recovered, and for that time once more. In ZooKeeper
mode :mod:`.control_requests` judges whether the change arrives.

In both modes a broker that has recorded that it follows no longer serves the old leader epoch. A
broker that has deleted a replica does not serve it until metadata names it again.

A replica that knows its leader epoch still answers some reads only as that epoch's leader
(Partition.getLocalLog, requireLeader): fetches of followers, ListOffsets, OffsetForLeaderEpoch. A
Fetch of a consumer that names its rack may be answered by a follower (KIP-392). ReadServed tells
the first read of each kind after the broker has applied the loss of a role. So a replica that goes
on serving is told once, whatever its heartbeats say by then, and an honest one almost never.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.judging.harm.truth.disturbances import Disturbances
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of, node_of

SPREAD_US = 1_500_000


@dataclass(slots=True)
class _Loss:
    """A role that a broker lost: leader below an epoch, or replica."""

    key: PartitionKey
    offset: int  # of the metadata record
    t_us: int
    epoch: int  # what is below it is not served any more


class StaleService:
    """Follows who lost which role, and what they do afterwards."""

    def __init__(self, cluster: TracedCluster, disturbances: Disturbances) -> None:
        self.cluster = cluster
        self._disturbances = disturbances
        self._state: dict[PartitionKey, facts.PartitionChanged] = {}
        self._named: dict[PartitionKey, tuple[int, tuple[int, ...]]] = {}
        """Since which metadata offset, or zxid, a partition has which replicas"""
        self._spreading: dict[str, list[_Loss]] = {}  # node -> what it may not have heard of yet
        self._deposed: dict[tuple[PartitionKey, str], int] = {}  # to the epoch that it knows
        self._left: dict[tuple[PartitionKey, str], int] = {}  # who is no replica since which offset
        self._removed: dict[tuple[PartitionKey, str], None] = {}  # replicas that know it
        self._leaders: dict[tuple[PartitionKey, int], int] = {}  # of each leader epoch
        trace = cluster.trace
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.BrokerHeartbeat, self._on_heartbeat)
        trace.subscribe(facts.BecameFollower, self._on_follower)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.Appended, self._on_appended)
        trace.subscribe(facts.Replicated, self._on_replicated)
        trace.subscribe(facts.LogDeleted, self._on_deleted)
        trace.subscribe(facts.ReadServed, self._on_read)
        trace.subscribe(facts.OffsetFetched, self._on_coordinated)
        trace.subscribe(facts.OffsetCommitted, self._on_coordinated)

    def _on_changed(self, _seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.offset > self._named.get(key, (-1, ()))[0]:
            self._named[key] = (fact.offset, fact.replicas)
            for broker in fact.replicas:
                self._left.pop((key, node_of(broker)), None)
                self._removed.pop((key, node_of(broker)), None)
        before = self._state.get(key)
        if before is not None and fact.partition_epoch <= before.partition_epoch:
            return
        self._state[key] = fact
        self._leaders[key, fact.leader_epoch] = fact.leader
        if before is None:
            return
        gone = [each for each in before.replicas if each not in fact.replicas]
        for broker in gone:
            self._left[key, node_of(broker)] = fact.offset
        if before.leader >= 0 and fact.leader != before.leader:
            gone = [before.leader, *[each for each in gone if each != before.leader]]
        for broker in gone:
            loss = _Loss(key, fact.offset, t, fact.leader_epoch)
            self._spreading.setdefault(node_of(broker), []).append(loss)

    def _on_heartbeat(self, seq: int, t: int, _node: str, fact: facts.BrokerHeartbeat) -> None:
        broker = node_of(fact.broker)
        spreading = self._spreading.get(broker)
        if not spreading:
            return
        for loss in [each for each in spreading if each.offset <= fact.offset]:
            spreading.remove(loss)
            known = self._deposed.get((loss.key, broker), -1)
            self._deposed[loss.key, broker] = max(known, loss.epoch)
            if self._left.get((loss.key, broker), fact.offset + 1) <= fact.offset:
                self._removed[loss.key, broker] = None
        for loss in [each for each in spreading if t - each.t_us > SPREAD_US]:
            hosts = [broker, *self._disturbances.controllers()]
            since = max(loss.t_us, t - SPREAD_US)
            if not self._disturbances.struck(hosts, since, t, healing=True):
                spreading.remove(loss)
                self._violated(
                    seq, t, loss.key,
                    f"{broker} has not heard of metadata offset {loss.offset} that takes a role"
                    f" from it, {(t - loss.t_us) / 1e6:.3f} s after it was committed",
                )  # fmt: skip

    def _on_follower(self, _seq: int, _t: int, node: str, fact: facts.BecameFollower) -> None:
        self._deposed[(fact.topic_id, fact.partition), node] = fact.leader_epoch

    def _on_leader(self, _seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.leader_epoch >= self._deposed.get((key, node), 0):
            self._deposed.pop((key, node), None)

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._spreading.pop(node, None)
        for known in (self._deposed, self._removed):
            for place in [each for each in known if each[1] == node]:
                del known[place]

    def _on_deleted(self, _seq: int, _t: int, node: str, fact: facts.LogDeleted) -> None:
        key = (fact.topic_id, fact.partition)
        _, replicas = self._named.get(key, (-1, ()))
        if replicas and broker_of(node) not in (-1, *replicas):
            self._removed[key, node] = None

    def _on_appended(self, seq: int, t: int, node: str, fact: facts.Appended) -> None:
        key = (fact.topic_id, fact.partition)
        known = self._deposed.get((key, node))
        if known is not None and fact.leader_epoch < known:
            self._violated(
                seq, t, key,
                f"{node} appends at offset {fact.base_offset} as leader of epoch"
                f" {fact.leader_epoch}, though it knows of epoch {known}",
            )  # fmt: skip

    def _on_replicated(self, seq: int, t: int, node: str, fact: facts.Replicated) -> None:
        if self._removed and ((fact.topic_id, fact.partition), node) in self._removed:
            self._violated(
                seq, t, (fact.topic_id, fact.partition),
                f"{node} goes on to fetch offset {fact.base_offset}, though it knows that it is no"
                f" replica any more",
            )  # fmt: skip

    def _on_read(self, seq: int, t: int, node: str, fact: facts.ReadServed) -> None:
        key = (fact.topic_id, fact.partition)
        known = self._deposed.get((key, node))
        leader = self._leaders.get((key, fact.leader_epoch))
        newest = self._state.get(key)
        if fact.leading and newest is not None and fact.leader_epoch < newest.leader_epoch:
            why = f"as leader of epoch {fact.leader_epoch}, though it has applied a later epoch"
        elif known is not None and fact.leader_epoch < known:
            why = f"in leader epoch {fact.leader_epoch}, though it knows of epoch {known}"
        elif (key, node) in self._removed:
            why = "though it knows that it is no longer a replica"
        elif fact.only_leader and leader is not None and broker_of(node) not in (-1, leader):
            why = f"that only the leader of epoch {fact.leader_epoch} may answer"
        else:
            return
        self._violated(seq, t, key, f"{node} answers a {fact.request} {why}")

    def _on_coordinated(
        self, seq: int, t: int, node: str, fact: facts.OffsetFetched | facts.OffsetCommitted
    ) -> None:
        if not self._deposed:
            return
        key = self.cluster.group_key(fact.group)
        known = self._deposed.get((key, node))
        if known is not None and fact.coordinator_epoch < known:
            self._violated(
                seq, t, key,
                f"{node} serves group {fact.group} as coordinator of epoch"
                f" {fact.coordinator_epoch}, though it knows of epoch {known}",
            )  # fmt: skip

    def _violated(self, seq: int, t: int, key: PartitionKey, text: str) -> None:
        self.cluster.violated("STALESERVE", seq, t, key, text)
