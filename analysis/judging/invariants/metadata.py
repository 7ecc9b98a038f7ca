"""META, ISRELIG, ONELEADER, READISR: rules about the metadata of controllers and brokers.

ISRELIG judges less in ZooKeeper mode, for four reasons:

- The controller writes one partition at a time: first it elects leaders, then it removes each
  dead broker from the ISRs. So only brokers that join an ISR are judged, not those still in it,
  and a partition without a leader may have any ISR.
- Before inter.broker.protocol.version 2.7 a leader writes its ISR itself, without a check by the
  controller, and knows only the live brokers of its own metadata cache. A broker that dies or
  shuts down may join, so ISRs that leaders write are not judged.
- Which brokers are shutting down is in one controller's memory. Its successor does not know.
- What a deposed controller records about brokers counts no more.

In KRaft mode one excuse, "unfenced in controlled shutdown": a broker that was fenced while it shut
down is unfenced by a late heartbeat of its own process, which has the registered broker epoch. That
registration says in controlled shutdown still (BrokerRegistration.cloneWith), but the batch that
unfences a broker takes it for an acceptable leader whatever its registration says
(ReplicationControlManager.handleBrokerUnfenced, generateLeaderAndIsrUpdates: brokerToAdd). So that
batch may make it the leader of partitions that have none, and it stays in their ISRs; no other
change may let it in (ineligibleReplicasForIsr, ClusterControlManager.isActive).

In ZooKeeper mode a metadata offset is a zxid; see also ``zookeeper.py``. A partition's assignment
is in the topic's znode there, which has a version of its own. When the controller writes it, the
fact repeats the state that the controller knew, so that state is not judged again.
"""

from __future__ import annotations

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.controller.zk.store.zk_data import CONTROLLER_EPOCH, TOPICS

_Named = tuple[int, int, str, facts.PreferredReadReplica]
"""A row of the trace in which a leader told to whom it sends consumers"""


class Metadata:
    """Follows the metadata log, the brokers' registrations, and the leaders of partitions."""

    def __init__(self, cluster: TracedCluster) -> None:
        self.cluster = cluster
        self._digests: dict[int, tuple[str, int]] = {}
        self._committed: dict[int, facts.PartitionChanged] = {}
        self._epochs: dict[tuple[str, int], tuple[int, int]] = {}
        self._brokers: dict[int, facts.BrokerRegistration] = {}
        self._registered: dict[int, int] = {}  # broker -> metadata offset
        self._zookeeper = False
        self._controller = (0, "")  # with ZooKeeper: the highest (controller epoch, its node)
        self._written: set[int] = set()  # the zxids of all controllers' writes
        self._assigned: set[int] = set()  # those that wrote a topic's assignment
        self._started: dict[str, int] = {}  # node -> the row in which it started last
        self._loaded: dict[tuple[str, str, int], int] = {}  # the row in which a log was loaded last
        self._leaders: dict[tuple[str, int, int], tuple[str, int]] = {}
        """Who leads in each leader epoch, and the row in which it began to"""
        self._raft_leaders: dict[int, str] = {}
        self._isr: dict[tuple[str, int], facts.PartitionChanged] = {}
        self._fenced_at: dict[int, tuple[int, int]] = {}  # broker -> (t_us, seq), not yet judged
        self._unfenced: dict[int, int] = {}  # broker -> when, in controlled shutdown
        trace = cluster.trace
        trace.subscribe(facts.MetadataCommitted, self._on_metadata)
        trace.subscribe(facts.BrokerRegistration, self._on_broker)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.LogLoaded, self._on_loaded)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.RaftRole, self._on_role)
        trace.subscribe(facts.ZkControllerWrite, self._on_zk_write)

    def _on_zk_write(self, _seq: int, _t: int, node: str, fact: facts.ZkControllerWrite) -> None:
        self._zookeeper = True
        self._written.add(fact.offset)
        if fact.path.startswith(f"{TOPICS}/") and fact.path.count("/") == TOPICS.count("/") + 1:
            self._assigned.add(fact.offset)
        if fact.path == CONTROLLER_EPOCH:
            self._controller = max(self._controller, (fact.controller_epoch, node))

    def finish(self) -> None:
        """Judge the brokers that were fenced last."""
        self._check_fenced(1 << 62)

    def _on_metadata(self, seq: int, t: int, node: str, fact: facts.MetadataCommitted) -> None:
        known = self._digests.setdefault(fact.offset, (node, fact.digest))
        if known[1] != fact.digest:
            self.cluster.violated(
                "META", seq, t, ("", -1),
                f"{node} and {known[0]} applied different metadata up to offset {fact.offset}",
            )  # fmt: skip

    def _on_broker(self, seq: int, t: int, node: str, fact: facts.BrokerRegistration) -> None:
        self._check_fenced(t)
        if self._zookeeper:  # only the newest controller counts, in the order of its facts
            if self._controller[1] != node:
                return
        elif fact.offset <= self._registered.get(fact.broker, -1):
            return
        if fact.broker in self._fenced_at:  # its registration changes again at the same instant
            self._judge_fenced(fact.broker)
        self._registered[fact.broker] = fact.offset
        self._brokers[fact.broker] = fact
        self._unfenced.pop(fact.broker, None)
        if fact.change == "unfenced":
            if fact.shutting_down:
                self._unfenced[fact.broker] = t
        elif (fact.fenced or fact.shutting_down) and not self._zookeeper:
            self._fenced_at[fact.broker] = (t, seq)

    def _check_fenced(self, t: int) -> None:
        """After the batch that fenced a broker, an ISR holds it as its last member only."""
        for broker in [each for each, (since, _) in self._fenced_at.items() if since != t]:
            self._judge_fenced(broker)

    def _judge_fenced(self, broker: int) -> None:
        since, seq = self._fenced_at.pop(broker)
        for key, change in self._isr.items():
            if broker in change.isr and not (len(change.isr) == 1 and change.leader == -1):
                self.cluster.violated(
                    "ISRELIG", seq, since, key,
                    f"broker {broker} is fenced or shutting down but still in the ISR {change.isr}",
                )  # fmt: skip

    def _on_partition(self, seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        self._check_fenced(t)
        key = (fact.topic_id, fact.partition)
        partition_epoch, offset = self._epochs.get(key, (-1, -1))
        if fact.offset == offset:
            return
        if fact.offset < offset:
            return  # a later controller replays what an earlier one committed
        if fact.offset in self._assigned:
            return  # the state is not new, and may be older than what the leader wrote meanwhile
        if fact.partition_epoch <= partition_epoch:
            self.cluster.violated(
                "META", seq, t, key,
                f"partition epoch {fact.partition_epoch} at metadata offset {fact.offset} is not"
                f" above {partition_epoch} at offset {offset}",
            )  # fmt: skip
        self._epochs[key] = (fact.partition_epoch, fact.offset)
        before, self._isr[key] = self._isr.get(key), fact
        stays: tuple[int, ...] = self._added(t, fact, before) if self._unfenced else ()
        if self._zookeeper:
            by_leader = fact.offset not in self._written
            stays = fact.isr if by_leader else () if before is None else before.isr
        self._check_eligible(seq, t, key, fact, stays)

    def _added(
        self, t: int, fact: facts.PartitionChanged, before: facts.PartitionChanged | None
    ) -> tuple[int, ...]:
        """Return the members that their unfencing in controlled shutdown has made leaders.

        Who was in the ISR before stays, unless nobody led: a last member stays then, whoever it is.
        """
        known = () if before is None or before.leader == -1 else before.isr
        return tuple(
            broker
            for broker, at_us in self._unfenced.items()
            if broker in known or (broker == fact.leader and at_us == t)
        )

    def _on_topic_deleted(self, _seq: int, t: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._check_fenced(t)
        for key in [key for key in self._isr if key[0] == fact.topic_id]:
            del self._isr[key]

    def _check_eligible(
        self,
        seq: int,
        t: int,
        key: tuple[str, int],
        fact: facts.PartitionChanged,
        stays: tuple[int, ...],
    ) -> None:
        if fact.leader == -1 and (len(fact.isr) <= 1 or self._zookeeper):
            return  # the last member stays; with ELR the ISR is empty
        if fact.leader not in fact.isr:
            self.cluster.violated(
                "ISRELIG", seq, t, key,
                f"leader {fact.leader} is not in the ISR {fact.isr} (leader epoch"
                f" {fact.leader_epoch}, {fact.reason})",
            )  # fmt: skip
        for broker in [member for member in fact.isr if member not in stays]:
            known = self._brokers.get(broker)
            if known is None or known.fenced or known.shutting_down:
                state = "not registered" if known is None else known.change
                self.cluster.violated(
                    "ISRELIG", seq, t, key,
                    f"broker {broker} is {state} but in the ISR {fact.isr} (partition epoch"
                    f" {fact.partition_epoch}, {fact.reason})",
                )  # fmt: skip

    def _on_role(self, seq: int, t: int, node: str, fact: facts.RaftRole) -> None:
        """At most one voter leads the metadata quorum in an epoch, ever (TLA+ NoTwoLeaders)."""
        if fact.role != "leader":
            return
        known = self._raft_leaders.setdefault(fact.epoch, node)
        if known != node:
            self.cluster.violated(
                "ONELEADER", seq, t, ("", -1),
                f"{known} and {node} both lead the metadata quorum in epoch {fact.epoch}",
            )  # fmt: skip

    def _on_leader(self, seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        """A replica leads in a leader epoch, and begins to once while its host lives."""
        key = (fact.topic_id, fact.partition, fact.leader_epoch)
        known, since = self._leaders.get(key, (node, -1))
        self._leaders[key] = (known, seq)
        if known != node:
            self.cluster.violated(
                "ONELEADER", seq, t, key[:2],
                f"{known} and {node} both lead in leader epoch {fact.leader_epoch}",
            )  # fmt: skip
        elif since > max(self._started.get(node, -1), self._loaded.get((node, *key[:2]), -1)):
            self.cluster.violated(
                "ONELEADER", seq, t, key[:2],
                f"{node} begins to lead again in leader epoch {fact.leader_epoch}",
            )  # fmt: skip

    def _on_started(self, seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._started[node] = seq

    def _on_loaded(self, seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        self._loaded[node, fact.topic_id, fact.partition] = seq


class ReadReplicas:
    """READISR: a leader sends consumers only to members of its ISR (KIP-392).

    A leader tells the partition epoch of the ISR that it knows, and the controller's change to that
    epoch tells who is a member. So a leader that has not heard of a later change is right, a member
    that it proposes to remove is still one, and one that it proposes to add is none yet
    (ReplicaManager.findPreferredReadReplica asks partition.inSyncReplicaIds, the committed ISR).

    Kafka asks the metadata cache for live endpoints, too. In KRaft mode that adds nothing: the
    batch that fences a broker takes it out of every ISR that another broker leads (ISRELIG), and
    a leader applies both at once. In ZooKeeper mode the trace does not tell which brokers a leader
    takes for alive, so a dead member is not judged. Nor is whether a replica holds the offset.
    """

    def __init__(self, cluster: TracedCluster) -> None:
        self.cluster = cluster
        self._members: dict[tuple[PartitionKey, int], tuple[int, ...]] = {}
        """The ISR of each partition epoch"""
        self._unknown: dict[tuple[PartitionKey, int], list[_Named]] = {}
        """What was told before any controller had recorded the change to that partition epoch"""
        cluster.trace.subscribe(facts.PartitionChanged, self._on_partition)
        cluster.trace.subscribe(facts.PreferredReadReplica, self._on_named)

    def _on_partition(self, _seq: int, _t: int, _node: str, fact: facts.PartitionChanged) -> None:
        state = ((fact.topic_id, fact.partition), fact.partition_epoch)
        self._members.setdefault(state, fact.isr)
        for named in self._unknown.pop(state, ()):
            self._judge(*named)

    def _on_named(self, seq: int, t: int, node: str, fact: facts.PreferredReadReplica) -> None:
        state = ((fact.topic_id, fact.partition), fact.partition_epoch)
        if state in self._members:
            self._judge(seq, t, node, fact)
        else:
            self._unknown.setdefault(state, []).append((seq, t, node, fact))

    def _judge(self, seq: int, t: int, node: str, fact: facts.PreferredReadReplica) -> None:
        key = (fact.topic_id, fact.partition)
        isr = self._members[key, fact.partition_epoch]
        if fact.replica not in isr:
            self.cluster.violated(
                "READISR", seq, t, key,
                f"{node} sends consumers to replica {fact.replica}, though it knows the ISR {isr}"
                f" (partition epoch {fact.partition_epoch})",
            )  # fmt: skip
