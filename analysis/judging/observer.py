"""Observations: events that a run has shown, by its facts.

``must-see``, ``in-time`` and ``never`` of a scenario name them. An observation is a word of
``language/vocabulary.py:OBSERVATIONS``, some with a detail after a colon (``isr-shrink:lag``). The
word without a detail stands for any detail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from kafkasim.analysis.judging.observations import (
    LagObserver,
    LoadObserver,
    OldConsumerObserver,
    TransactionObserver,
)
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

SLOW_US = 1_000_000
"""From this latency on an acknowledgement counts as slow."""

HOT_AFTER = 400
"""How many of a topic's acknowledged records decide whether a partition is hot."""

COMMIT_REFUSED = (
    "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "STALE_MEMBER_EPOCH",
)  # fmt: skip
STANDSTILL_US = 1_000_000
"""How long a member without partitions waits in a rebalance until that is a standstill."""

REMOVED = {
    "session of": "session",
    "poll timeout": "poll-interval",
    "has not left epoch": "rebalance-timeout",
}
"""What the reason of a group's state says of a member that the coordinator removed."""


def _operated(fact: facts.Operated) -> str:
    done = fact.error == "NONE"
    return f"operated:{fact.operation}" if done else f"refused:{fact.error}"


def _committed(fact: facts.CommitResult) -> str:
    if fact.error == "NONE":
        return ""
    how = "refused" if fact.error in COMMIT_REFUSED else "failed"
    return f"commit-{how}:{fact.error}"


def _log_start(fact: facts.LogStart) -> str:
    if fact.reason == "reset":
        return "log-reset" if fact.offset > 0 else ""
    if fact.reason == "retention":
        return f"expired:{fact.config}"
    return "records-deleted" if fact.reason == "delete-records" else ""


LONG_RESTORE = 1000
"""Records that a task of Kafka Streams has to read before it runs: a long restore."""

TOLD: dict[type, Callable[[Any], str]] = {
    facts.BrokerState: lambda fact: (
        "duplicate-refused" if fact.state == "DUPLICATE_BROKER_REGISTRATION" else ""
    ),
    facts.Operated: _operated,
    facts.LogDeleted: lambda _: "log-deleted",
    facts.LogDirOffline: lambda _: "log-dir-offline",
    facts.IsrChanged: lambda fact: (
        "isr-of-one" if fact.change == "shrink" and len(fact.isr) == 1 else ""
    ),
    facts.IsrUpdateFailed: lambda fact: f"isr-refused:{fact.error}",
    facts.Truncated: lambda fact: "truncated" if fact.offset < fact.log_end_offset else "",
    facts.Throttled: lambda fact: f"throttled:{fact.client_id}",
    facts.ConnectionLimited: lambda fact: f"connection-limited:{fact.limit}",
    facts.Authorized: lambda fact: "" if fact.allowed else f"denied:{fact.principal}",
    facts.CommitResult: _committed,
    facts.ControlRequest: lambda fact: (
        "" if fact.error == "NONE" else f"control-refused:{fact.error}"
    ),
    facts.ReadReplica: lambda fact: "follower-read" if fact.replica >= 0 else "back-to-leader",
    facts.Rebootstrapped: lambda fact: f"rebootstrapped:{fact.reason}",
    facts.GroupConverted: lambda fact: f"group-converted:{fact.protocol}",
    facts.LoadInProgress: lambda fact: f"load-in-progress:{fact.request}",
    facts.LogStart: _log_start,
    facts.CleaningFailed: lambda _: "uncleanable",
    facts.CreationRefused: lambda fact: f"creation-refused:{fact.topic}",
    facts.ReplicaFailed: lambda _: "replica-failed",
    facts.OffsetExpired: lambda fact: f"offset-expired:{fact.group}",
    facts.GroupState: lambda fact: f"group-removed:{fact.group}" if fact.state == "Dead" else "",
    facts.ProducerIdExpired: lambda _: "producer-id-expired",
    facts.TransactionState: lambda fact: (
        f"transactional-id-expired:{fact.transactional_id}" if fact.reason == "expired" else ""
    ),
    facts.InstanceIdHeld: lambda fact: f"instance-id-held:{fact.error}",
    facts.MetadataSnapshot: lambda fact: f"snapshot:{fact.event}",
    facts.RestoreBegan: lambda fact: (
        "long-restore"
        if fact.role == "active" and fact.end_offset - fact.start_offset >= LONG_RESTORE
        else ""
    ),
    facts.RecordDropped: lambda fact: f"record-dropped:{fact.reason}",
    facts.StreamsSent: lambda fact: f"emitted:{fact.topic}",
    facts.StreamThreadState: lambda fact: (
        "thread-failed" if fact.state == "DEAD" and fact.reason else ""
    ),
    facts.TaskState: lambda fact: (
        f"recycled:{fact.role}" if (fact.state, fact.reason) == ("CLOSED", "recycled") else ""
    ),
    facts.StateWiped: lambda fact: f"state-wiped:{fact.reason}",
    facts.ApplicationFailed: lambda fact: f"application-failed:{fact.exception}",
    facts.DiskFilled: lambda _: "disk-filled",
    facts.RestartBackOff: lambda _: "restarted",
}
"""What one fact shows, whatever happened before: the observation, or ""."""

ONCE_READY: dict[type, Callable[[Any], str]] = {
    facts.ControllerActive: lambda fact: "failover" if fact.active else "",
    facts.LogLoaded: lambda fact: "" if fact.clean else "recovered",
    facts.ZooKeeperSession: lambda fact: (
        f"session-expired:{fact.client.partition('-')[0]}" if fact.event == "expired" else ""
    ),
}
"""The same, of facts that tell something only once the cluster is ready."""


class Observer:
    """Collects the observations of a run from the trace, with the time of the first of each."""

    def __init__(
        self, trace: FactSource, hosts: Mapping[int, str] | None = None, voters: Iterable[int] = ()
    ) -> None:
        """Subscribe to the trace.

        ``hosts`` are the hosts of controllers, or of ZooKeeper servers, by node id; ``voters`` are
        the ids of the first voters.
        """
        self.seen: dict[str, int] = {}
        self.ready_us: int | None = None
        for kind, told in TOLD.items():
            trace.subscribe(kind, partial(self._tell, told))
        for kind, told in ONCE_READY.items():
            trace.subscribe(kind, partial(self._tell_once_ready, told))
        for part in (self, _Partitions(self.note), _Clients(self.note), _Groups(self.note)):
            follow(trace, part)
        follow(trace, _Quorum(trace, self.note, dict(hosts or {}), tuple(voters)))
        TransactionObserver(trace, self.note)
        OldConsumerObserver(trace, self.note)
        LagObserver(trace, self.note)
        LoadObserver(trace, self.note)

    def note(self, name: str, t_us: int) -> None:
        """Record an observation, under its name and its bare word."""
        for key in (name, name.partition(":")[0]):
            self.seen.setdefault(key, t_us)

    def _tell(
        self, told: Callable[[Any], str], _seq: int, t_us: int, _node: str, fact: Any
    ) -> None:
        if name := told(fact):
            self.note(name, t_us)

    def _tell_once_ready(
        self, told: Callable[[Any], str], seq: int, t_us: int, node: str, fact: Any
    ) -> None:
        if self.ready_us is not None:
            self._tell(told, seq, t_us, node, fact)

    def on_Phase(self, _seq: int, t_us: int, _node: str, fact: facts.Phase) -> None:
        """Note when the cluster is ready."""
        if fact.phase == "ready":
            self.ready_us = t_us

    def on_BrokerRegistration(
        self, _seq: int, t_us: int, _node: str, fact: facts.BrokerRegistration
    ) -> None:
        """Note a broker that is fenced, unfenced, or back before its session ended."""
        if fact.change in ("fenced", "bounced"):
            self.note(fact.change, t_us)
        if fact.change == "unfenced" and self.ready_us is not None:
            self.note("unfenced", t_us)


Note = Callable[[str, int], None]
Partition = tuple[str, int]


class _Partitions:
    """What happens to ISRs, leaders, replicas and topics."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._state: dict[Partition, facts.PartitionChanged] = {}
        self._deleted: dict[str, str] = {}  # topic -> id of the deleted one
        self._names: dict[str, str] = {}  # of topics, by id
        self._heirs: dict[Partition, tuple[int, int]] = {}
        """Partitions moved by a controlled shutdown whose new leader has not applied it yet, to
        (leader epoch, previous leader)"""
        self._epochs: dict[tuple[str, str, int], int] = {}

    def on_PartitionChanged(
        self, _seq: int, t_us: int, _node: str, fact: facts.PartitionChanged
    ) -> None:
        key = (fact.topic_id, fact.partition)
        before = self._state.get(key)
        if before is not None and fact.partition_epoch < before.partition_epoch:
            return  # a newer state was told before
        self._state[key] = fact
        if fact.unclean:
            self._note("unclean-election", t_us)
        if before is None:
            return
        if fact.leader != before.leader:
            if fact.reason == "controlled-shutdown" and fact.leader != -1:
                self._heirs[key] = (fact.leader_epoch, before.leader)
            gone = fact.leader == -1
            self._note("leaderless" if gone else f"leader-change:{fact.reason}", t_us)
        for name in _of_members(before, fact):
            self._note(name, t_us)

    def on_BecameLeader(self, seq: int, t_us: int, node: str, fact: facts.BecameLeader) -> None:
        self.on_BecameFollower(seq, t_us, node, fact)
        key = (fact.topic_id, fact.partition)
        if key in self._heirs and fact.leader_epoch >= self._heirs[key][0]:
            del self._heirs[key]

    def on_BecameFollower(
        self, _seq: int, t_us: int, node: str, fact: facts.BecameLeader | facts.BecameFollower
    ) -> None:
        key = (node, fact.topic_id, fact.partition)
        known = self._epochs.get(key)
        self._epochs[key] = fact.leader_epoch
        if known is not None and fact.leader_epoch > known + 1:
            self._note("epochs-skipped", t_us)

    def on_HostStopped(self, _seq: int, t_us: int, node: str, fact: facts.HostStopped) -> None:
        broker = broker_of(node)
        if broker < 0:
            return
        if fact.reason == "shutdown":
            self._note("controlled-shutdown", t_us)
            if any(led == broker for _, led in self._heirs.values()):
                self._note("stopped-early", t_us)
        if any(state.leader == broker for state in self._state.values()):
            self._note("leader-down", t_us)

    def on_TopicCreated(self, _seq: int, t_us: int, _node: str, fact: facts.TopicCreated) -> None:
        self._names[fact.topic_id] = fact.topic
        if self._deleted.get(fact.topic, fact.topic_id) != fact.topic_id:
            self._note("topic-recreated", t_us)

    def on_TopicDeleted(self, _seq: int, t_us: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._deleted[fact.topic] = fact.topic_id
        self._note("topic-deleted", t_us)

    def on_Cleaned(self, _seq: int, t_us: int, _node: str, fact: facts.Cleaned) -> None:
        if fact.removed:
            self._note(f"cleaned:{self._names.get(fact.topic_id, fact.topic_id)}", t_us)


def _of_members(before: facts.PartitionChanged, fact: facts.PartitionChanged) -> Iterator[str]:
    """Yield what a change tells of the ISR, of a reassignment, and of the ELR."""
    if any(replica not in fact.isr for replica in before.isr):
        yield f"isr-shrink:{fact.reason}"
    if any(replica not in before.isr for replica in fact.isr):
        yield f"isr-expand:{fact.reason}"
    if fact.partition_epoch == before.partition_epoch:
        return
    was = before.adding_replicas or before.removing_replicas
    now = fact.adding_replicas or fact.removing_replicas
    if now and not was:
        yield "reassigning"
    elif was and not now:
        adding = before.adding_replicas
        old = tuple([each for each in before.replicas if each not in adding])
        yield "reassignment-cancelled" if fact.replicas == old else "reassigned"
    if not fact.isr and before.isr:
        yield "isr-empty"
    if fact.leader in before.elr and fact.leader not in before.isr and not fact.unclean:
        yield "elected-from-elr"
    if fact.reason == "registered" and any(each not in fact.elr for each in before.elr):
        yield "out-of-elr"


class _Clients:
    """What producers and consumers meet."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._polled: dict[tuple[str, str, int], int] = {}
        self._acked: dict[str, dict[int, int]] = {}  # topic id -> partition -> records
        self._heated: dict[str, None] = {}  # ids of topics with enough records to tell

    def on_Acked(self, _seq: int, t_us: int, node: str, fact: facts.Acked) -> None:
        if fact.latency_us >= SLOW_US:
            self._note(f"slow-acks:{node}", t_us)
        if fact.attempts > 1:
            self._note("retried", t_us)
        if fact.topic_id not in self._heated:
            self._note_hot(t_us, fact)

    def _note_hot(self, t_us: int, fact: facts.Acked) -> None:
        """Note once of a topic whether most of its first records are in one partition."""
        acked = self._acked.setdefault(fact.topic_id, {})
        acked[fact.partition] = acked.get(fact.partition, 0) + len(fact.record_ids)
        total = sum(acked.values())
        if total >= HOT_AFTER:
            self._heated[fact.topic_id] = None
            if 2 * max(acked.values()) > total:
                self._note("hot-partition", t_us)

    def on_SendFailed(self, _seq: int, t_us: int, _node: str, fact: facts.SendFailed) -> None:
        self._note(f"send-failed:{fact.error}", t_us)
        if fact.indeterminate:
            self._note("indeterminate", t_us)
        if (fact.last_error or fact.error).startswith("NOT_ENOUGH_REPLICAS"):
            self._note("min-isr-refused", t_us)

    def on_Positioned(self, _seq: int, t_us: int, _node: str, fact: facts.Positioned) -> None:
        known = self._polled.get((fact.group, fact.topic_id, fact.partition), 0)
        if fact.reason != "latest" or fact.offset <= known:
            return
        if any(key[:2] == (fact.group, fact.topic_id) for key in self._polled):
            self._note("reset-past-records", t_us)

    def on_Polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        if not fact.offsets:
            return
        key = (fact.group, fact.topic_id, fact.partition)
        known = self._polled.get(key, 0)
        if fact.offsets[0] < known:
            self._note("redelivered", t_us)
        if fact.offsets[-1] >= known:
            self._polled[key] = fact.offsets[-1] + 1


class _Groups:
    """What happens to groups, their members and their coordinators."""

    def __init__(self, note: Note) -> None:
        self._note = note
        self._owned: dict[tuple[str, str], dict[str, None]] = {}  # by member's host and group
        self._bare: dict[tuple[str, str], int] = {}  # since when a member has revoked everything
        self._generation: dict[str, int] = {}
        self._revoked: dict[str, tuple[str, ...]] = {}  # consumer's host -> since its assignment
        self._coordinator: dict[int, str] = {}

    def on_GroupState(self, _seq: int, t_us: int, _node: str, fact: facts.GroupState) -> None:
        known = self._generation.get(fact.group, 0)
        if fact.generation > known:
            self._generation[fact.group] = fact.generation
            if known:
                self._note("rebalance", t_us)
        cause = next((name for words, name in REMOVED.items() if words in fact.reason), "")
        if cause:
            self._note(f"member-expired:{cause}", t_us)

    def on_ConsumerRevoked(
        self, _seq: int, t_us: int, node: str, fact: facts.ConsumerRevoked
    ) -> None:
        owned = self._owned.setdefault((node, fact.group), {})
        for name in fact.assignment:
            owned.pop(name, None)
        if fact.lost:
            return
        self._revoked[node] = (*self._revoked.get(node, ()), *fact.assignment)
        if not owned:
            self._bare[node, fact.group] = t_us

    def on_ConsumerAssigned(
        self, _seq: int, t_us: int, node: str, fact: facts.ConsumerAssigned
    ) -> None:
        if not set(self._revoked.pop(node, ())).isdisjoint(fact.assignment):
            self._note("revoked-in-vain", t_us)
        since = self._bare.pop((node, fact.group), t_us)
        self._owned.setdefault((node, fact.group), {}).update(dict.fromkeys(fact.assignment))
        if fact.assignment and t_us - since >= STANDSTILL_US:
            self._note("standstill", t_us)

    def on_HostStopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        self._revoked.pop(node, None)
        for key in [key for key in self._owned if key[0] == node]:
            del self._owned[key]
            self._bare.pop(key, None)

    def on_CoordinatorLoaded(
        self, _seq: int, t_us: int, node: str, fact: facts.CoordinatorLoaded
    ) -> None:
        if fact.loaded and self._coordinator.setdefault(fact.partition, node) != node:
            self._coordinator[fact.partition] = node
            self._note("coordinator-moved", t_us)


class _Quorum:
    """What goes on while no majority of the voters, or of ZooKeeper servers, runs."""

    def __init__(
        self, trace: FactSource, note: Note, hosts: Mapping[int, str], voters: tuple[int, ...]
    ) -> None:
        self._trace = trace
        self._note = note
        self._hosts = hosts
        self._voters = voters
        self._voters_offset = -1
        self._running = dict.fromkeys(hosts.values(), False)
        self._ready = False
        self._quorum = True
        self._metadata = -1  # the highest offset committed

    def on_Phase(self, _seq: int, _t: int, _node: str, fact: facts.Phase) -> None:
        self._ready = self._ready or fact.phase == "ready"

    def on_HostStarted(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._set_running(node, True)

    def on_HostStopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        self._set_running(node, False)

    def on_VotersChanged(self, _seq: int, t_us: int, _node: str, fact: facts.VotersChanged) -> None:
        if fact.offset > self._voters_offset:  # the first node to apply it
            self._voters_offset = fact.offset
            self._voters = fact.voters
            self._note("voters-changed", t_us)
            self._watch()

    def on_MetadataCommitted(
        self, _seq: int, t_us: int, _node: str, fact: facts.MetadataCommitted
    ) -> None:
        if fact.offset > self._metadata:  # the first node to see it committed
            self._metadata = fact.offset
            if not self._quorum:
                self._note("metadata-without-quorum", t_us)

    def _set_running(self, node: str, running: bool) -> None:
        if node in self._running:
            self._running[node] = running
            self._watch()

    def _watch(self) -> None:
        """Subscribe to acknowledgements only while the quorum is down: they are many."""
        running = sum(self._running[self._hosts[voter]] for voter in self._voters)
        quorum = not self._ready or 2 * running > len(self._voters)
        if quorum != self._quorum:
            self._quorum = quorum
            change = self._trace.unsubscribe if quorum else self._trace.subscribe
            change(facts.Acked, self._on_acked)

    def _on_acked(self, _seq: int, t_us: int, _node: str, _fact: facts.Acked) -> None:
        self._note("acked-without-quorum", t_us)
