"""META in ZooKeeper mode: only the newest controller's writes and requests take effect.

There is no metadata log to compare. A controller's epoch begins at the transaction that raised
/controller_epoch. No write of a lower epoch may have a higher zxid. (``metadata.py`` judges the
versions of partitions.) A controller records a write when it gets the answer, which a pause may
delay, so a late write is found whichever fact comes first. And a broker that has accepted a
request of a controller accepts none of an earlier one until it restarts.

MINISR asks here for the members of ISRs that are no replicas.
"""

from __future__ import annotations

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.controller.zk.store.zk_data import CONTROLLER_EPOCH


class ZooKeeperWrites:
    """Compares the writes and requests of controllers with their elections."""

    def __init__(self, cluster: TracedCluster) -> None:
        self.cluster = cluster
        self._elected: dict[int, tuple[int, str]] = {}  # epoch -> (zxid, node)
        self._last: dict[int, tuple[int, str, str]] = {}  # epoch -> (zxid, node, path) written last
        self._heard: dict[str, tuple[int, int]] = {}  # node -> (controller epoch, its broker)
        cluster.trace.subscribe(facts.ZkControllerWrite, self._on_write)
        cluster.trace.subscribe(facts.ControlRequest, self._on_request)
        cluster.trace.subscribe(facts.HostStarted, self._on_started)

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._heard.pop(node, None)

    def _on_request(self, seq: int, t: int, node: str, fact: facts.ControlRequest) -> None:
        if fact.error != "NONE":
            return
        epoch, controller = self._heard.get(node, (-1, -1))
        if fact.controller_epoch < epoch:
            self._violated(
                seq,
                t,
                f"{node} accepted {fact.api} of broker {fact.controller} with controller epoch"
                f" {fact.controller_epoch}, after a request with epoch {epoch} of broker"
                f" {controller}",
            )
        else:
            self._heard[node] = (fact.controller_epoch, fact.controller)

    def _on_write(self, seq: int, t: int, node: str, fact: facts.ZkControllerWrite) -> None:
        epoch, zxid = fact.controller_epoch, fact.offset
        if fact.path == CONTROLLER_EPOCH:
            known = self._elected.setdefault(epoch, (zxid, node))
            if known[1] != node:
                self._violated(
                    seq, t, f"{known[1]} and {node} were both elected with controller epoch {epoch}"
                )
            for older, (at, writer, path) in self._last.items():
                if older < epoch and at > zxid:
                    self._late(seq, t, older, (at, writer, path), epoch)
            return
        if zxid > self._last.get(epoch, (-1, "", ""))[0]:
            self._last[epoch] = (zxid, node, fact.path)
        for newer, (elected, _) in self._elected.items():
            if newer > epoch and zxid > elected:
                self._late(seq, t, epoch, (zxid, node, fact.path), newer)

    def _late(self, seq: int, t: int, epoch: int, write: tuple[int, str, str], newer: int) -> None:
        zxid, node, path = write
        elected, winner = self._elected[newer]
        self._violated(
            seq,
            t,
            f"{node} wrote {path} at zxid {zxid} as controller of epoch {epoch}, after {winner} was"
            f" elected with epoch {newer} at zxid {elected}",
        )

    def _violated(self, seq: int, t: int, text: str) -> None:
        self.cluster.violated("META", seq, t, ("", -1), text)


class Strangers:
    """Members of ISRs that are no replicas, as the leaders have them.

    A ZooKeeper controller takes a replica out of the ISR and out of the replicas in two writes. A
    leader may put it back into the ISR between them, since the ISR's znode and the assignment's are
    not written together. The leader counts its ISR against min.insync.replicas and waits only for
    the log ends of replicas, so a stranger stands for a replica that has the records: until the
    leader removes it (isFollowerOutOfSync; before 3.0 nobody does, KAFKA-9672).
    """

    def __init__(self, cluster: TracedCluster) -> None:
        self._cluster = cluster
        # By partition and leader epoch: the replicas in the row that begins the epoch.
        self._replicas: dict[tuple[PartitionKey, int], tuple[int, ...]] = {}
        # By partition and leader: the leader epoch, and how many strangers its ISR has.
        self._known: dict[tuple[PartitionKey, str], tuple[int, int]] = {}
        cluster.trace.subscribe(facts.PartitionChanged, self._on_changed)
        cluster.trace.subscribe(facts.BecameLeader, self._on_isr)
        cluster.trace.subscribe(facts.IsrChanged, self._on_isr)

    def count(self, key: PartitionKey, leader_epoch: int, leader: str) -> int:
        """Return how many members of the leader's ISR are no replicas."""
        epoch, strangers = self._known.get((key, leader), (-1, 0))
        return strangers if epoch == leader_epoch else 0

    def _on_changed(self, _s: int, _t: int, _n: str, fact: facts.PartitionChanged) -> None:
        if self._cluster.zookeeper:
            place = ((fact.topic_id, fact.partition), fact.leader_epoch)
            self._replicas.setdefault(place, fact.replicas)

    def _on_isr(
        self, _s: int, _t: int, node: str, fact: facts.BecameLeader | facts.IsrChanged
    ) -> None:
        if self._cluster.zookeeper:
            key = (fact.topic_id, fact.partition)
            replicas = self._replicas.get((key, fact.leader_epoch), fact.isr)
            strangers = len([each for each in fact.isr if each not in replicas])
            self._known[key, node] = (fact.leader_epoch, strangers)
