"""HWSTALL: the high watermark advances while every member of the maximal ISR has more records.

A follower that has appended its fetched records fetches again at once, and the fetch names its log
end. So once all members have appended records above the high watermark, and min.insync.replicas of
them are in the ISR, the leader knows it after one fetch: replica.fetch.wait.max.ms for a fetch that
waits on the same connection, and a second for the network, the disk and the threads
(Partition.maybeIncrementLeaderHW). A member's append proves that its connection to the leader
worked when the response left, at most a second before. So only faults of the leader or a member
since the earliest of these proofs explain that the high watermark does not advance: a pause, a
crash, a fault of a disk or of links. A connection that died then without either end knowing is
still dead when the bound begins.

The ISR is the one that the leader knows. In KRaft mode it learns a change from the metadata log:
an observer is given the record and, with its next fetch, the high watermark that commits it, so a
controller that pauses in between keeps the change from it. In ZooKeeper mode the controller sends
LeaderAndIsr. A change that the leader itself proposed is in the answer, too. A leader that learns
no change of its ISR is not judged here; STALESERVE judges it if the change takes a role from it.

Not judged are the cases in which Kafka's leader waits for more: a proposed ISR without a response
of the controller; an ISR that has just changed; replication under a throttle (KIP-73); a replica
outside the ISR that is not fenced, since the leader may wait for it to join
(shouldWaitForReplicaToJoinIsr). If such a replica is fenced, the high watermark does not advance at
once: the leader checks again at the next append, at the next fetch with a higher offset of a
replica (Partition.updateFollowerFetchState), or when the partition itself changes. It learns of the
fence as it learns of its ISR, in ZooKeeper mode by UpdateMetadata.
"""

from __future__ import annotations

from bisect import bisect_left

from kafkasim.analysis.judging.harm.truth.disturbances import Disturbances
from kafkasim.analysis.judging.harm.truth.logs import Leader, Logs
from kafkasim.analysis.judging.harm.truth.nodes import Nodes
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of, node_of

WAIT = "replica.fetch.wait.max.ms"
MIN_ISR = "min.insync.replicas"
SLACK_US = 1_000_000


class WatermarkStalls:
    """Looks at each high watermark that stood still."""

    def __init__(self, cluster: TracedCluster, nodes: Nodes, disturbances: Disturbances) -> None:
        self.cluster = cluster
        self.logs: Logs | None = None
        self._nodes = nodes
        self._disturbances = disturbances
        self._state: dict[PartitionKey, facts.PartitionChanged] = {}
        self._changed_us: dict[PartitionKey, int] = {}
        self._newest_offset = -1  # of all changes of partitions
        self._learnt: dict[str, list[tuple[int, int]]] = {}  # node -> up to which offset, and when
        self._answered: dict[PartitionKey, tuple[int, int]] = {}  # partition epoch, and when
        self._pending: dict[tuple[PartitionKey, int], None] = {}  # proposals, with leader epoch
        # The brokers that are fenced: since which offset of the metadata, and since when.
        self._fenced: dict[int, tuple[int, int]] = {}
        self._updated: dict[str, list[int]] = {}  # node -> when it got each UpdateMetadata
        self._config_us = -1  # when a setting changed last
        self._min_isr: dict[str, list[tuple[int, int]]] = {}  # resource -> when it was set, to what
        self._throttled = False
        trace = cluster.trace
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.MetadataCommitted, self._on_metadata)
        trace.subscribe(facts.ControlRequest, self._on_control)
        trace.subscribe(facts.IsrProposed, self._on_proposed)
        trace.subscribe(facts.IsrChanged, self._on_isr)
        trace.subscribe(facts.BrokerRegistration, self._on_broker)
        trace.subscribe(facts.ConfigChanged, self._on_config)
        trace.subscribe(facts.ReplicaFailed, self._on_failed)

    def _on_changed(self, seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        self._newest_offset = max(self._newest_offset, fact.offset)
        key = (fact.topic_id, fact.partition)
        known = self._state.get(key)
        if known is None or fact.partition_epoch > known.partition_epoch:
            leader = None if self.logs is None else self.logs.newest.get(key)
            if leader is not None:
                self.stood_still(leader, seq, t)
            self._state[key] = fact
            self._changed_us[key] = t

    def _on_metadata(self, _seq: int, t: int, node: str, fact: facts.MetadataCommitted) -> None:
        self._learns(node, fact.offset, t)

    def _on_control(self, _seq: int, t: int, node: str, fact: facts.ControlRequest) -> None:
        if fact.api == "LeaderAndIsr" and fact.error == "NONE":
            self._learns(node, self._newest_offset, t)
        elif fact.api == "UpdateMetadata" and fact.error == "NONE":
            self._updated.setdefault(node, []).append(t)

    def _learns(self, node: str, offset: int, t: int) -> None:
        learnt = self._learnt.setdefault(node, [])
        if not learnt or learnt[-1][0] < offset:  # a broker that has restarted replays its log
            learnt.append((offset, t))

    def _on_proposed(self, seq: int, t: int, node: str, fact: facts.IsrProposed) -> None:
        key = (fact.topic_id, fact.partition)
        leader = None if self.logs is None else self.logs.leaders.get((key, node))
        if leader is not None:
            self.stood_still(leader, seq, t)
        self._pending[key, fact.leader_epoch] = None

    def _on_isr(self, _seq: int, t: int, _node: str, fact: facts.IsrChanged) -> None:
        key = (fact.topic_id, fact.partition)
        self._changed_us[key] = t
        self._answered[key] = (fact.partition_epoch, t)
        self._pending.pop((key, fact.leader_epoch), None)

    def _on_broker(self, _seq: int, t: int, _n: str, fact: facts.BrokerRegistration) -> None:
        if fact.fenced:
            self._fenced.setdefault(fact.broker, (fact.offset, t))
        else:
            self._fenced.pop(fact.broker, None)

    def _on_config(self, _seq: int, t: int, _node: str, fact: facts.ConfigChanged) -> None:
        self._config_us = t
        if fact.config == MIN_ISR:
            value = 1 if fact.value is None else int(fact.value)
            self._min_isr.setdefault(fact.resource, []).append((t, value))
        self._throttled = self._throttled or "throttled" in fact.config

    def _on_failed(self, _seq: int, _t: int, _node: str, fact: facts.ReplicaFailed) -> None:
        key = (fact.topic_id, fact.partition)
        self._pending[key, self._state[key].leader_epoch if key in self._state else -1] = None

    def stood_still(self, leader: Leader, seq: int, now: int) -> None:
        """Judge a high watermark that has not moved since ``leader.hw_us``."""
        hw = leader.high_watermark
        wait = self._nodes.limit_us(leader.node, WAIT)
        state = self._state.get(leader.key)
        if leader.end <= hw or state is None or wait is None or self.logs is None:
            return
        bound = wait + SLACK_US
        if now - leader.hw_us < bound or not self._may_move(leader, state):
            return
        known = self._known_us(leader, state)
        if known is None:
            return
        since = max(self._changed_us[leader.key], self._config_us) + SLACK_US
        since = max(since, known, leader.hw_us, leader.since_us)
        own = broker_of(leader.node)
        ahead = [leader.grown_us] if state.isr == (own,) else []
        for member in [each for each in state.isr if each != own]:
            follower = self.logs.followers.get((leader.key, node_of(member)))
            if follower is None or follower.epoch != leader.epoch or follower.above != hw:
                return
            ahead.append(follower.ahead_us)
        since = max([since, *ahead])
        outside = [each for each in state.replicas if each not in state.isr]
        fenced = max([self._fenced_us(leader.node, each, now) for each in outside], default=0)
        if fenced > known and fenced >= min(ahead, default=0):
            return
        hosts = [leader.node, *[node_of(member) for member in state.isr]]
        proven = min(ahead, default=since) - SLACK_US
        if now - since >= bound and not self._disturbances.struck(hosts, proven, since + bound):
            self.cluster.violated(
                "HWSTALL", seq, now, leader.key,
                f"{leader.node}'s high watermark stands at {hw} for {(now - since) / 1e6:.3f} s"
                f" after all of the ISR {list(state.isr)} had more (its log ends at {leader.end})",
            )  # fmt: skip

    def _known_us(self, leader: Leader, state: facts.PartitionChanged) -> int | None:
        """Return since when the leader knows the state of its partition, None if it does not."""
        learnt = self._learnt.get(leader.node, [])
        at = bisect_left(learnt, state.offset, key=lambda each: each[0])
        answered = self._answered.get(leader.key)
        known = [learnt[at][1]] if at < len(learnt) else []
        if answered is not None and answered[0] >= state.partition_epoch:
            known.append(answered[1])
        return min(known, default=None)

    def _fenced_us(self, node: str, broker: int, now: int) -> int:
        """Return since when a node knows that a broker is fenced; ``now``, if it does not."""
        if broker not in self._fenced:
            return now
        offset, fenced_us = self._fenced[broker]
        if node in self._updated:
            updated = self._updated[node]
            at = bisect_left(updated, fenced_us)
            return updated[at] if at < len(updated) else now
        learnt = self._learnt.get(node, [])
        at = bisect_left(learnt, offset, key=lambda each: each[0])
        return learnt[at][1] if at < len(learnt) else now

    def _may_move(self, leader: Leader, state: facts.PartitionChanged) -> bool:
        """Return whether Kafka has no reason to hold the high watermark."""
        return (
            not self._throttled
            and (leader.key, leader.epoch) not in self._pending
            and state.leader_epoch == leader.epoch
            and len(state.isr) >= self._needed(leader, state)
        )

    def _needed(self, leader: Leader, state: facts.PartitionChanged) -> int:
        """Return the greatest min.insync.replicas since the high watermark moved.

        It is the one that the leader told then, or the topic's first one, and each that has been
        in force since.
        """
        created = self.cluster.topics.get(leader.key[0])
        if created is None:
            return len(state.replicas)
        values = [leader.min_isr or created.min_isr]
        own = broker_of(leader.node)
        for resource in (f"topic:{created.topic}", "broker:", f"broker:{own}"):
            changes = self._min_isr.get(resource, [])
            first = bisect_left(changes, (leader.hw_us, 0))
            values += [value for _, value in changes[max(first - 1, 0) :]]
        return min(max(values), len(state.replicas))
