"""ACKED, MATCH, ISRDATA, HWMONO, MINISR, READISR: what replicas of a partition owe each other.

(KAFKA.md, 0; anomalies in the same words in Kafka's replication TLA+ model: KIP-966, KIP-101.)
"""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.logs import PartitionHistory, ReplicaLog
from kafkasim.analysis.judging.source import FORGOTTEN, PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of


class Acked:
    """ACKED: a leader that was not elected uncleanly has all that earlier leaders exposed.

    Only members of the ISR or of the ELR are elected cleanly, and both have all committed records
    (ReplicationControlManager, PartitionChangeBuilder.electLeader; KIP-966).
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings

    def finish(self) -> None:
        """Report the elections that History has taken note of."""
        for key, state in self._history.partitions.items():
            for each in state.lacking:
                self._findings.add(
                    "ACKED", each.seq, each.t_us, key,
                    f"{each.node} was elected for leader epoch {each.leader_epoch} with log end"
                    f" {each.log_end}, without the records below high watermark {each.exposed} of"
                    " an earlier leader",
                    each.reason,
                )  # fmt: skip


class Match:
    """MATCH: replicas with a batch of one end offset and epoch have equal logs up to there.

    A follower truncates to where the leader's epochs say that its log diverges (KIP-101,
    KIP-279; AbstractFetcherThread.truncateToEpochEndOffsets).
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings

    def finish(self) -> None:
        """Report the batches that differ, in the order of their rows."""
        found = [
            (each, key)
            for key, state in self._history.partitions.items()
            for each in state.mismatches
        ]
        for each, key in sorted(found, key=lambda pair: pair[0].seq):
            self._findings.add(
                "MATCH", each.seq, each.t_us, key,
                f"{each.node} holds another batch or prefix at offsets {each.base}–{each.end - 1}"
                f" of leader epoch {each.epoch} than another replica held",
            )  # fmt: skip


class IsrData:
    """ISRDATA: each member of the ISR has all records below the exposed high watermarks.

    A leader adds a follower to the ISR only once it has reached the high watermark
    (Partition.isFollowerInSync), and waits for every member before it moves the high watermark
    (Partition.maybeIncrementLeaderHW). A member that has lost its disk is no witness
    (:mod:`kafkasim.analysis.judging.history.budget`), nor is one of a topic that is being deleted.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings

    def on_HighWatermark(self, seq: int, t: int, _node: str, fact: facts.HighWatermark) -> None:
        """Members have what a leader exposes."""
        state = self._history.partitions[fact.topic_id, fact.partition]
        if state.exposed_at != seq:
            return
        exposed, prefix = state.exposed, state.exposed_hash
        for member in state.exposed_to:
            replica = state.replicas.get(member) or state.replica(member)
            nexts = replica.nexts
            if nexts and nexts[-1] == exposed and replica.hashes[-1] == prefix:
                continue  # it holds the prefix: the usual case, checked without a call
            if not (replica.suspect or replica.holds(exposed, prefix)):
                self._check(state, seq, t, member, replica, "is in the ISR")

    def on_PartitionChanged(
        self, seq: int, t: int, _node: str, fact: facts.PartitionChanged
    ) -> None:
        """Who joins the ISR has what was exposed."""
        state = self._history.partition(fact.topic_id, fact.partition)
        for node in state.joined:
            self._check(state, seq, t, node, state.replica(node), "joined the ISR")

    def on_Truncated(self, seq: int, t: int, node: str, fact: facts.Truncated) -> None:
        """No member truncates what was exposed, unless it had deleted all of that itself."""
        state = self._history.partition(fact.topic_id, fact.partition)
        replica = state.replica(node)
        if state.exposed > replica.trimmed:
            self._check(state, seq, t, node, replica, "truncated its log")

    def on_LogDeleted(self, seq: int, t: int, node: str, fact: facts.LogDeleted) -> None:
        """A member keeps its log unless its topic is deleted.

        A KRaft controller records the deletion before the brokers drop their logs; a ZooKeeper
        controller removes the leader before. The former leader goes on until it is told to stop.
        """
        state = self._history.partition(fact.topic_id, fact.partition)
        if state.leader >= 0 and not state.dropped[node].suspect:
            self._check(state, seq, t, node, ReplicaLog(), "dropped its log in the ISR")

    def _check(
        self, state: PartitionHistory, seq: int, t: int, node: str, replica: ReplicaLog, what: str
    ) -> None:
        if replica.suspect or broker_of(node) not in state.isr:
            return
        if state.key[0] in self._history.deleted_topics:
            return
        if state.led_epoch < state.unclean_epoch:  # what an unclean leader lacks is lost
            return
        if not state.holds_exposed(replica):
            self._findings.add(
                "ISRDATA", seq, t, state.key,
                f"{node} {what} of leader epoch {state.leader_epoch} without the records below high"
                f" watermark {state.exposed}, which its leaders have reached (its log ends at"
                f" {replica.log_end_offset})",
                FORGOTTEN if replica.was_forgotten(state.exposed) else "",
            )  # fmt: skip


class HighWatermarks:
    """HWMONO: a leader's high watermark does not go back within its leader epoch."""

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings

    def on_HighWatermark(self, seq: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        """Compare with the one before."""
        key = (fact.topic_id, fact.partition)
        _, mark, before = self._history.partitions[key].replicas[node].high_watermark
        if mark < before:
            self._findings.add(
                "HWMONO", seq, t, key,
                f"{node} moved its high watermark from {before} back to {mark} within leader epoch"
                f" {fact.leader_epoch}",
            )  # fmt: skip


class MinIsr:
    """MINISR: the high watermark passes only what min.insync.replicas replicas are known to hold.

    Partition.isUnderMinIsr stops it otherwise (KAFKA-15583). The fact says which minimum the leader
    had in force. In ZooKeeper mode a leader may put a replica back into the ISR that the controller
    takes out of the assignment meanwhile. It counts that member and does not wait for it
    (KAFKA-9672), so such members count here, too.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        self._isr: dict[tuple[PartitionKey, str], tuple[int, ...]] = {}
        """In ZooKeeper mode, by partition and leader: the ISR as the leader knows it"""

    def on_HighWatermark(self, seq: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        """Count who has told the leader such a log end."""
        if len(fact.acknowledged) >= fact.min_isr:
            return
        key = (fact.topic_id, fact.partition)
        replicas = self._history.partition(*key).assignment
        isr = self._isr.get((key, node), ())
        strangers = [each for each in isr if each not in replicas and each not in fact.acknowledged]
        if len(fact.acknowledged) + len(strangers) < fact.min_isr:
            self._findings.add(
                "MINISR", seq, t, key,
                f"{node} advanced the high watermark to {fact.high_watermark} with only"
                f" {fact.acknowledged} known to hold the records; the effective min.insync.replicas"
                f" is {fact.min_isr}",
            )  # fmt: skip

    def on_BecameLeader(self, _seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        """Note the ISR with which a leader begins."""
        if self._history.zookeeper:
            self._isr[(fact.topic_id, fact.partition), node] = fact.isr

    def on_IsrChanged(self, _seq: int, _t: int, node: str, fact: facts.IsrChanged) -> None:
        """Note the ISR that a leader has changed."""
        if self._history.zookeeper:
            self._isr[(fact.topic_id, fact.partition), node] = fact.isr


_Named = tuple[int, int, str, facts.PreferredReadReplica]
"""A row of the trace in which a leader told to whom it sends consumers"""


class ReadReplicas:
    """READISR: a leader sends consumers only to members of its ISR (KIP-392).

    A leader tells the partition epoch of the ISR that it knows, and the controller's change to that
    epoch tells who is a member. So a leader that has not heard of a later change is right, a member
    that it proposes to remove is still one, and one that it proposes to add is none yet
    (ReplicaManager.findPreferredReadReplica asks partition.inSyncReplicaIds, the committed ISR).
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._findings = findings
        self._members: dict[tuple[PartitionKey, int], tuple[int, ...]] = {}
        """The ISR of each partition epoch"""
        self._unknown: dict[tuple[PartitionKey, int], list[_Named]] = {}
        """What was told before any controller had recorded the change to that partition epoch"""

    def on_PartitionChanged(
        self, _seq: int, _t: int, _node: str, fact: facts.PartitionChanged
    ) -> None:
        """Remember the ISR; judge the leaders that knew it before a controller told it."""
        state = ((fact.topic_id, fact.partition), fact.partition_epoch)
        self._members.setdefault(state, fact.isr)
        for named in self._unknown.pop(state, ()):
            self._judge(*named)

    def on_PreferredReadReplica(
        self, seq: int, t: int, node: str, fact: facts.PreferredReadReplica
    ) -> None:
        """Judge a leader that names a replica."""
        state = ((fact.topic_id, fact.partition), fact.partition_epoch)
        if state in self._members:
            self._judge(seq, t, node, fact)
        else:
            self._unknown.setdefault(state, []).append((seq, t, node, fact))

    def _judge(self, seq: int, t: int, node: str, fact: facts.PreferredReadReplica) -> None:
        key = (fact.topic_id, fact.partition)
        isr = self._members[key, fact.partition_epoch]
        if fact.replica not in isr:
            self._findings.add(
                "READISR", seq, t, key,
                f"{node} sends consumers to replica {fact.replica}, though it knows the ISR {isr}"
                f" (partition epoch {fact.partition_epoch})",
            )  # fmt: skip
