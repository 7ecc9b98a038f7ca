"""META, ISRELIG, ONELEADER: what controllers, brokers and the metadata quorum agree on.

In ZooKeeper mode a metadata offset is a zxid. A partition's assignment is in the topic's znode
there, which has a version of its own. When the controller writes it, the fact repeats the state
that the controller knew, so that state is not judged again.
"""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.model import facts
from kafkasim.model.controller.zk.store.zk_data import CONTROLLER_EPOCH, TOPICS


def writes_assignment(path: str) -> bool:
    """Return whether a path of ZooKeeper is that of a topic, which holds its assignment."""
    return path.startswith(f"{TOPICS}/") and path.count("/") == TOPICS.count("/") + 1


class SameMetadata:
    """META: all nodes that have applied the metadata up to an offset have applied the same.

    The committed metadata log is on a majority of the voters and never changes (KIP-595,
    KafkaRaftClient).
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._findings = findings
        self._digests: dict[int, tuple[str, int]] = {}  # offset -> who told it first, its digest

    def on_MetadataCommitted(
        self, seq: int, t: int, node: str, fact: facts.MetadataCommitted
    ) -> None:
        """Compare a node with the first one that told this offset."""
        known = self._digests.setdefault(fact.offset, (node, fact.digest))
        if known[1] != fact.digest:
            self._findings.add(
                "META", seq, t, ("", -1),
                f"{node} and {known[0]} applied different metadata up to offset {fact.offset}",
            )  # fmt: skip


class PartitionEpochs:
    """META: each change of a partition has a higher partition epoch than the one before.

    (ReplicationControlManager.replay; with ZooKeeper the version of the state's znode.) A later
    controller records again what an earlier one committed.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._findings = findings
        self._epochs: dict[tuple[str, int], tuple[int, int]] = {}  # partition epoch, offset
        self._assigned: dict[int, None] = {}  # zxids of writes of a topic's assignment

    def on_ZkControllerWrite(
        self, _seq: int, _t: int, _node: str, fact: facts.ZkControllerWrite
    ) -> None:
        """Note the writes of assignments: they have no version of the partition's state."""
        if writes_assignment(fact.path):
            self._assigned[fact.offset] = None

    def on_PartitionChanged(
        self, seq: int, t: int, _node: str, fact: facts.PartitionChanged
    ) -> None:
        """Compare a change with the last one."""
        key = (fact.topic_id, fact.partition)
        partition_epoch, offset = self._epochs.get(key, (-1, -1))
        if fact.offset <= offset or fact.offset in self._assigned:
            return
        if fact.partition_epoch <= partition_epoch:
            self._findings.add(
                "META", seq, t, key,
                f"partition epoch {fact.partition_epoch} at metadata offset {fact.offset} is not"
                f" above {partition_epoch} at offset {offset}",
            )  # fmt: skip
        self._epochs[key] = (fact.partition_epoch, fact.offset)


class AclEntries:
    """META: no entry of the access control lists is in the metadata twice.

    The authorizers refuse a second one under another id, and learn of nothing behind it
    (StandardAuthorizerData.addAcl, KAFKA-19347).
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._findings = findings
        self._ids: dict[tuple[str, ...], str] = {}  # by what an entry says

    def on_AclChanged(self, seq: int, t: int, _node: str, fact: facts.AclChanged) -> None:
        """Compare an entry with those that are there; a later controller may tell of it again."""
        entry = (
            fact.resource_type, fact.name, fact.pattern_type, fact.principal, fact.host,
            fact.operation, fact.permission,
        )  # fmt: skip
        if not fact.added:
            self._ids.pop(entry, None)
        elif self._ids.setdefault(entry, fact.id) != fact.id:
            self._findings.add(
                "META", seq, t, ("", -1),
                f"the entry {' '.join(entry)} is added at metadata offset {fact.offset}, and is"
                " there already",
            )  # fmt: skip


class IsrEligible:
    """ISRELIG: members of an ISR are registered, unfenced, not shutting down; the leader is one.

    A last member stays in the ISR, whatever becomes of it, and then nobody leads. The batch that
    fences a broker takes it out of all other ISRs (ReplicationControlManager.handleBrokerFenced).

    In KRaft mode a broker that was fenced while it shut down may be unfenced by a late heartbeat of
    its own process. The batch that unfences it takes it for an acceptable leader, whatever its
    registration says (generateLeaderAndIsrUpdates: brokerToAdd). So that batch may make it the
    leader of partitions that have none, and it stays in their ISRs; no other change may let it in.

    In ZooKeeper mode only brokers that a controller adds are judged. It writes one partition after
    the other, an ISR that a leader writes is not checked by it (before IBP 2.7), and which brokers
    are shutting down is in one controller's memory.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        self._isr: dict[tuple[str, int], facts.PartitionChanged] = {}
        self._offsets: dict[tuple[str, int], int] = {}  # of the last change, deleted topics too
        self._brokers: dict[int, facts.BrokerRegistration] = {}
        self._fenced_at: dict[int, tuple[int, int]] = {}  # broker -> (t_us, seq), not yet judged
        self._unfenced: dict[int, int] = {}  # broker -> when, in controlled shutdown
        self._controller = (0, "")  # with ZooKeeper: the highest (controller epoch, its node)
        self._written: dict[int, bool] = {}  # zxid of a controller's write -> of an assignment?

    def finish(self) -> None:
        """Judge the brokers that were fenced last."""
        self._check_fenced(1 << 62)

    def on_ZkControllerWrite(
        self, _seq: int, _t: int, node: str, fact: facts.ZkControllerWrite
    ) -> None:
        """Note what controllers have written; all else leaders have."""
        self._written[fact.offset] = writes_assignment(fact.path)
        if fact.path == CONTROLLER_EPOCH:
            self._controller = max(self._controller, (fact.controller_epoch, node))

    def on_BrokerRegistration(
        self, seq: int, t: int, node: str, fact: facts.BrokerRegistration
    ) -> None:
        """Follow the registrations; with ZooKeeper those that the newest controller tells."""
        self._check_fenced(t)
        known = self._brokers.get(fact.broker)
        if self._history.zookeeper:
            if self._controller[1] != node:
                return
        elif known is not None and fact.offset <= known.offset:
            return
        if fact.broker in self._fenced_at:  # its registration changes again at the same instant
            self._judge_fenced(fact.broker)
        self._brokers[fact.broker] = fact
        self._unfenced.pop(fact.broker, None)
        if fact.change == "unfenced":
            if fact.shutting_down:
                self._unfenced[fact.broker] = t
        elif (fact.fenced or fact.shutting_down) and not self._history.zookeeper:
            self._fenced_at[fact.broker] = (t, seq)

    def _check_fenced(self, t: int) -> None:
        """After the batch that fenced a broker, an ISR holds it as its last member only."""
        for broker in [each for each, (since, _) in self._fenced_at.items() if since != t]:
            self._judge_fenced(broker)

    def _judge_fenced(self, broker: int) -> None:
        since, seq = self._fenced_at.pop(broker)
        for key, change in self._isr.items():
            if broker in change.isr and not (len(change.isr) == 1 and change.leader == -1):
                self._findings.add(
                    "ISRELIG", seq, since, key,
                    f"broker {broker} is fenced or shutting down but still in the ISR {change.isr}",
                )  # fmt: skip

    def on_TopicDeleted(self, _seq: int, t: int, _node: str, fact: facts.TopicDeleted) -> None:
        """Forget the ISRs of a topic."""
        self._check_fenced(t)
        for key in [key for key in self._isr if key[0] == fact.topic_id]:
            del self._isr[key]

    def on_PartitionChanged(
        self, seq: int, t: int, _node: str, fact: facts.PartitionChanged
    ) -> None:
        """Judge the leader and the members of a new ISR."""
        self._check_fenced(t)
        key = (fact.topic_id, fact.partition)
        before = self._isr.get(key)
        if fact.offset <= self._offsets.get(key, -1) or self._written.get(fact.offset, False):
            return
        self._isr[key], self._offsets[key] = fact, fact.offset
        if fact.leader == -1 and (len(fact.isr) <= 1 or self._history.zookeeper):
            return  # the last member stays; with ELR the ISR is empty
        if fact.leader not in fact.isr:
            self._findings.add(
                "ISRELIG", seq, t, key,
                f"leader {fact.leader} is not in the ISR {fact.isr} (leader epoch"
                f" {fact.leader_epoch}, {fact.reason})",
            )  # fmt: skip
        stays = self._stays(t, fact, before)
        for broker in [member for member in fact.isr if member not in stays]:
            known = self._brokers.get(broker)
            if known is None or known.fenced or known.shutting_down:
                state = "not registered" if known is None else known.change
                self._findings.add(
                    "ISRELIG", seq, t, key,
                    f"broker {broker} is {state} but in the ISR {fact.isr} (partition epoch"
                    f" {fact.partition_epoch}, {fact.reason})",
                )  # fmt: skip

    def _stays(
        self, t: int, fact: facts.PartitionChanged, before: facts.PartitionChanged | None
    ) -> tuple[int, ...]:
        """Return the members that may be in the ISR whatever their registrations say."""
        members = () if before is None else before.isr
        if self._history.zookeeper:
            return members if fact.offset in self._written else fact.isr
        led = before is not None and before.leader != -1
        return tuple(
            broker
            for broker, at_us in self._unfenced.items()
            if (led and broker in members) or (broker == fact.leader and at_us == t)
        )


class OneLeader:
    """ONELEADER: one replica leads in a leader epoch, and begins to once while its host lives.

    And one voter leads the metadata quorum in an epoch, ever (KIP-595; TLA+ NoTwoLeaders).
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        self._leaders: dict[tuple[str, int, int], tuple[str, int]] = {}
        """Who leads in each leader epoch, and the row in which it began to"""
        self._loaded: dict[tuple[str, str, int], int] = {}  # the row in which a log was loaded last
        self._raft_leaders: dict[int, str] = {}

    def on_RaftRole(self, seq: int, t: int, node: str, fact: facts.RaftRole) -> None:
        """Judge a voter that leads."""
        if fact.role != "leader":
            return
        known = self._raft_leaders.setdefault(fact.epoch, node)
        if known != node:
            self._findings.add(
                "ONELEADER", seq, t, ("", -1),
                f"{known} and {node} both lead the metadata quorum in epoch {fact.epoch}",
            )  # fmt: skip

    def on_LogLoaded(self, seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        """Note that a replica begins anew."""
        self._loaded[node, fact.topic_id, fact.partition] = seq

    def on_BecameLeader(self, seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        """Judge a replica that leads."""
        key = (fact.topic_id, fact.partition, fact.leader_epoch)
        known, since = self._leaders.get(key, (node, -1))
        self._leaders[key] = (known, seq)
        began = max(
            self._history.hosts.started.get(node, -1), self._loaded.get((node, *key[:2]), -1)
        )
        if known != node:
            text = f"{known} and {node} both lead in leader epoch {fact.leader_epoch}"
        elif since > began:
            text = f"{node} begins to lead again in leader epoch {fact.leader_epoch}"
        else:
            return
        self._findings.add("ONELEADER", seq, t, key[:2], text)


class ZooKeeperWrites:
    """META in ZooKeeper mode: only the newest controller's writes and requests take effect.

    There is no metadata log to compare. A controller's epoch begins at the transaction that raised
    /controller_epoch. No write of a lower epoch may have a higher zxid (KafkaZkClient: each write
    checks the znode's version). A controller records a write when it gets the answer, which a pause
    may delay, so a late write is found whichever fact comes first. And a broker that has accepted a
    request of a controller accepts none of an earlier one until it restarts
    (KafkaApis: isStaleControllerEpoch).
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._findings = findings
        self._elected: dict[int, tuple[int, str]] = {}  # epoch -> (zxid, node)
        self._last: dict[int, tuple[int, str, str]] = {}  # epoch -> (zxid, node, path) written last
        self._heard: dict[str, tuple[int, int]] = {}  # node -> (controller epoch, its broker)

    def on_HostStarted(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        """A broker forgets which controllers it has heard."""
        self._heard.pop(node, None)

    def on_ControlRequest(self, seq: int, t: int, node: str, fact: facts.ControlRequest) -> None:
        """Judge a request that a broker has accepted."""
        if fact.error != "NONE":
            return
        epoch, controller = self._heard.get(node, (-1, -1))
        if fact.controller_epoch < epoch:
            self._found(
                seq, t,
                f"{node} accepted {fact.api} of broker {fact.controller} with controller epoch"
                f" {fact.controller_epoch}, after a request with epoch {epoch} of broker"
                f" {controller}",
            )  # fmt: skip
        else:
            self._heard[node] = (fact.controller_epoch, fact.controller)

    def on_ZkControllerWrite(
        self, seq: int, t: int, node: str, fact: facts.ZkControllerWrite
    ) -> None:
        """Compare a write with all elections."""
        epoch, zxid = fact.controller_epoch, fact.offset
        if fact.path == CONTROLLER_EPOCH:
            known = self._elected.setdefault(epoch, (zxid, node))
            if known[1] != node:
                text = f"{known[1]} and {node} were both elected with controller epoch {epoch}"
                self._found(seq, t, text)
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
        self._found(
            seq, t,
            f"{node} wrote {path} at zxid {zxid} as controller of epoch {epoch}, after {winner} was"
            f" elected with epoch {newer} at zxid {elected}",
        )  # fmt: skip

    def _found(self, seq: int, t: int, text: str) -> None:
        self._findings.add("META", seq, t, ("", -1), text)
