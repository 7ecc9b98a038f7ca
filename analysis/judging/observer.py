"""Observations: events that a run has shown, by its facts.

``must-see``, ``in-time`` and ``never`` of a scenario name them. An observation is a word of
``language/vocabulary.py:OBSERVATIONS``, some with a detail after a colon (``isr-shrink:lag``). The
word without a detail stands for any detail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkasim.analysis.judging.observations import (
    LagObserver,
    LoadObserver,
    OldConsumerObserver,
    TransactionObserver,
)
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

SLOW_US = 1_000_000
"""From this latency on an acknowledgement counts as slow."""

HOT_AFTER = 400
"""How many of a topic's acknowledged records decide whether a partition is hot."""

COMMIT_REFUSED = (
    "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID", "STALE_MEMBER_EPOCH",
)  # fmt: skip
STANDSTILL_US = 1_000_000
"""How long a member without partitions waits in a rebalance until that is a standstill."""


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
        self._isr: dict[tuple[str, int], tuple[int, ...]] = {}
        self._leader: dict[tuple[str, int], int] = {}
        self._state: dict[tuple[str, int], facts.PartitionChanged] = {}
        self._deleted: dict[str, str] = {}  # topic -> id of the deleted one
        self._heirs: dict[tuple[str, int], tuple[int, int]] = {}
        """Partitions moved by a controlled shutdown whose new leader has not applied it yet, to
        (leader epoch, previous leader)"""
        self._fenced: dict[int, bool] = {}
        self._owned: dict[tuple[str, str], dict[str, None]] = {}  # by member's host and group
        self._bare: dict[tuple[str, str], int] = {}  # since when a member has revoked everything
        self._generation: dict[str, int] = {}
        self._revoked: dict[str, tuple[str, ...]] = {}  # consumer's host -> since its assignment
        self._coordinator: dict[int, str] = {}
        self._epochs: dict[tuple[str, str, int], int] = {}
        self._hosts = dict(hosts or {})
        self._voters = tuple(voters)
        self._voters_offset = -1
        self._running = dict.fromkeys(self._hosts.values(), False)
        self._quorum = True
        self._metadata = -1  # the highest offset committed
        self._trace = trace
        self._names: dict[str, str] = {}  # of topics, by id
        self._polled: dict[tuple[str, str, int], int] = {}
        self._acked: dict[str, dict[int, int]] = {}  # topic id -> partition -> records
        self._heated: dict[str, None] = {}  # ids of topics with enough records to tell
        for kind, handler in self._handlers().items():
            trace.subscribe(kind, handler)
        TransactionObserver(trace, self.note)
        OldConsumerObserver(trace, self.note)
        LagObserver(trace, self.note)
        LoadObserver(trace, self.note)

    def _handlers(self) -> dict[type, Callable[[int, int, str, Any], None]]:
        return {
            facts.Phase: self._on_phase,
            facts.PartitionChanged: self._on_partition,
            facts.BrokerRegistration: self._on_broker,
            facts.BrokerState: self._on_broker_state,
            facts.Operated: self._on_operated,
            facts.TopicCreated: self._on_topic,
            facts.TopicDeleted: self._on_topic_deleted,
            facts.LogDeleted: self._on_log_deleted,
            facts.LogDirOffline: self._on_log_dir_offline,
            facts.IsrChanged: self._on_isr,
            facts.IsrUpdateFailed: self._on_isr_refused,
            facts.BecameFollower: self._on_epoch,
            facts.Truncated: self._on_truncated,
            facts.ControllerActive: self._on_controller,
            facts.Acked: self._on_acked,
            facts.SendFailed: self._on_failed,
            facts.Throttled: self._on_throttled,
            facts.CommitResult: self._on_commit,
            facts.ControlRequest: self._on_control_request,
            facts.ZooKeeperSession: self._on_zk_session,
            facts.Polled: self._on_polled,
            facts.Positioned: self._on_positioned,
            facts.ReadReplica: self._on_read_replica,
            facts.Rebootstrapped: self._on_rebootstrapped,
            facts.GroupState: self._on_group,
            facts.GroupConverted: self._on_converted,
            facts.ConsumerRevoked: self._on_revoked,
            facts.ConsumerAssigned: self._on_assigned,
            facts.CoordinatorLoaded: self._on_coordinator,
            facts.LoadInProgress: self._on_load_in_progress,
            facts.LogLoaded: self._on_loaded,
            facts.LogStart: self._on_log_start,
            facts.Cleaned: self._on_cleaned,
            facts.CleaningFailed: self._on_cleaning_failed,
            facts.MetadataCommitted: self._on_metadata,
            facts.VotersChanged: self._on_voters,
            facts.MetadataSnapshot: self._on_snapshot,
            facts.HostStarted: self._on_started,
            facts.HostStopped: self._on_stopped,
            facts.ApplicationFailed: self._on_application_failed,
            facts.BecameLeader: self._on_leader,
        }

    def note(self, name: str, t_us: int) -> None:
        """Record an observation, under its name and its bare word."""
        for key in (name, name.partition(":")[0]):
            self.seen.setdefault(key, t_us)

    def _on_phase(self, _seq: int, t_us: int, _node: str, fact: facts.Phase) -> None:
        if fact.phase == "ready":
            self.ready_us = t_us

    def _on_partition(self, _seq: int, t_us: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        known = self._state.get(key)
        if known is not None and fact.partition_epoch < known.partition_epoch:
            return  # a newer state was told before
        before, self._isr[key] = self._isr.get(key), fact.isr
        if before is not None:
            if any(replica not in fact.isr for replica in before):
                self.note(f"isr-shrink:{fact.reason}", t_us)
            if any(replica not in before for replica in fact.isr):
                self.note(f"isr-expand:{fact.reason}", t_us)
        led, self._leader[key] = self._leader.get(key), fact.leader
        if led is not None and fact.leader != led:
            if fact.reason == "controlled-shutdown" and fact.leader != -1:
                self._heirs[key] = (fact.leader_epoch, led)
            if fact.leader == -1:
                self.note("leaderless", t_us)
            else:
                self.note(f"leader-change:{fact.reason}", t_us)
        if fact.unclean:
            self.note("unclean-election", t_us)
        self._state[key] = fact
        if known is not None and fact.partition_epoch > known.partition_epoch:
            self._note_replicas(t_us, known, fact)

    def _note_replicas(
        self, t_us: int, before: facts.PartitionChanged, fact: facts.PartitionChanged
    ) -> None:
        """Note the beginning and the end of a reassignment, and changes of the ELR."""
        was = before.adding_replicas or before.removing_replicas
        now = fact.adding_replicas or fact.removing_replicas
        if now and not was:
            self.note("reassigning", t_us)
        elif was and not now:
            adding = before.adding_replicas
            old = tuple([each for each in before.replicas if each not in adding])
            self.note("reassignment-cancelled" if fact.replicas == old else "reassigned", t_us)
        if not fact.isr and before.isr:
            self.note("isr-empty", t_us)
        if fact.leader in before.elr and fact.leader not in before.isr and not fact.unclean:
            self.note("elected-from-elr", t_us)
        if fact.reason == "registered" and any(each not in fact.elr for each in before.elr):
            self.note("out-of-elr", t_us)

    def _on_broker_state(self, _seq: int, t_us: int, _node: str, fact: facts.BrokerState) -> None:
        if fact.state == "DUPLICATE_BROKER_REGISTRATION":
            self.note("duplicate-refused", t_us)

    def _on_operated(self, _seq: int, t_us: int, _node: str, fact: facts.Operated) -> None:
        if fact.error == "NONE":
            self.note(f"operated:{fact.operation}", t_us)
        else:
            self.note(f"refused:{fact.error}", t_us)

    def _on_topic(self, _seq: int, t_us: int, _node: str, fact: facts.TopicCreated) -> None:
        self._names[fact.topic_id] = fact.topic
        if self._deleted.get(fact.topic, fact.topic_id) != fact.topic_id:
            self.note("topic-recreated", t_us)

    def _on_topic_deleted(self, _seq: int, t_us: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._deleted[fact.topic] = fact.topic_id
        self.note("topic-deleted", t_us)

    def _on_log_deleted(self, _seq: int, t_us: int, _node: str, _fact: facts.LogDeleted) -> None:
        self.note("log-deleted", t_us)

    def _on_log_dir_offline(self, _s: int, t_us: int, _n: str, _fact: facts.LogDirOffline) -> None:
        self.note("log-dir-offline", t_us)

    def _on_broker(self, _seq: int, t_us: int, _node: str, fact: facts.BrokerRegistration) -> None:
        if fact.change == "fenced":
            self.note("fenced", t_us)
        if fact.change == "bounced":
            self.note("bounced", t_us)
        if fact.change == "unfenced" and self.ready_us is not None:
            self.note("unfenced", t_us)
        self._fenced[fact.broker] = fact.fenced

    def _on_isr(self, _seq: int, t_us: int, _node: str, fact: facts.IsrChanged) -> None:
        if fact.change == "shrink" and len(fact.isr) == 1:
            self.note("isr-of-one", t_us)

    def _on_isr_refused(
        self, _seq: int, t_us: int, _node: str, fact: facts.IsrUpdateFailed
    ) -> None:
        self.note(f"isr-refused:{fact.error}", t_us)

    def _on_epoch(
        self, _seq: int, t_us: int, node: str, fact: facts.BecameLeader | facts.BecameFollower
    ) -> None:
        key = (node, fact.topic_id, fact.partition)
        known = self._epochs.get(key)
        self._epochs[key] = fact.leader_epoch
        if known is not None and fact.leader_epoch > known + 1:
            self.note("epochs-skipped", t_us)

    def _on_truncated(self, _seq: int, t_us: int, _node: str, fact: facts.Truncated) -> None:
        if fact.offset < fact.log_end_offset:
            self.note("truncated", t_us)

    def _on_controller(
        self, _seq: int, t_us: int, _node: str, fact: facts.ControllerActive
    ) -> None:
        if fact.active and self.ready_us is not None:
            self.note("failover", t_us)

    def _on_failed(self, _seq: int, t_us: int, _node: str, fact: facts.SendFailed) -> None:
        self.note(f"send-failed:{fact.error}", t_us)
        if fact.indeterminate:
            self.note("indeterminate", t_us)
        if fact.error.startswith("NOT_ENOUGH_REPLICAS"):
            self.note("min-isr-refused", t_us)

    def _on_throttled(self, _seq: int, t_us: int, _node: str, fact: facts.Throttled) -> None:
        self.note(f"throttled:{fact.client_id}", t_us)

    def _on_acked(self, _seq: int, t_us: int, node: str, fact: facts.Acked) -> None:
        if fact.latency_us >= SLOW_US:
            self.note(f"slow-acks:{node}", t_us)
        if fact.attempts > 1:
            self.note("retried", t_us)
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
                self.note("hot-partition", t_us)

    def _on_control_request(
        self, _seq: int, t_us: int, _node: str, fact: facts.ControlRequest
    ) -> None:
        if fact.error != "NONE":
            self.note(f"control-refused:{fact.error}", t_us)

    def _on_zk_session(
        self, _seq: int, t_us: int, _node: str, fact: facts.ZooKeeperSession
    ) -> None:
        if fact.event == "expired" and self.ready_us is not None:
            self.note(f"session-expired:{fact.client.partition('-')[0]}", t_us)

    def _on_commit(self, _seq: int, t_us: int, _node: str, fact: facts.CommitResult) -> None:
        if fact.error in COMMIT_REFUSED:
            self.note(f"commit-refused:{fact.error}", t_us)
        elif fact.error != "NONE":
            self.note(f"commit-failed:{fact.error}", t_us)

    def _on_read_replica(self, _seq: int, t_us: int, _node: str, fact: facts.ReadReplica) -> None:
        self.note("follower-read" if fact.replica >= 0 else "back-to-leader", t_us)

    def _on_rebootstrapped(
        self, _seq: int, t_us: int, _node: str, fact: facts.Rebootstrapped
    ) -> None:
        self.note(f"rebootstrapped:{fact.reason}", t_us)

    def _on_positioned(self, _seq: int, t_us: int, _node: str, fact: facts.Positioned) -> None:
        known = self._polled.get((fact.group, fact.topic_id, fact.partition), 0)
        if fact.reason != "latest" or fact.offset <= known:
            return
        if any(key[:2] == (fact.group, fact.topic_id) for key in self._polled):
            self.note("reset-past-records", t_us)

    def _on_polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        if not fact.offsets:
            return
        key = (fact.group, fact.topic_id, fact.partition)
        known = self._polled.get(key, 0)
        if fact.offsets[0] < known:
            self.note("redelivered", t_us)
        if fact.offsets[-1] >= known:
            self._polled[key] = fact.offsets[-1] + 1

    def _on_group(self, _seq: int, t_us: int, _node: str, fact: facts.GroupState) -> None:
        known = self._generation.get(fact.group, 0)
        if fact.generation > known:
            self._generation[fact.group] = fact.generation
            if known:
                self.note("rebalance", t_us)
        if fact.reason.startswith("session of"):
            self.note("member-expired:session", t_us)
        elif "poll timeout" in fact.reason:
            self.note("member-expired:poll-interval", t_us)
        elif "has not left epoch" in fact.reason:
            self.note("member-expired:rebalance-timeout", t_us)

    def _on_converted(self, _seq: int, t_us: int, _node: str, fact: facts.GroupConverted) -> None:
        self.note(f"group-converted:{fact.protocol}", t_us)

    def _on_revoked(self, _seq: int, t_us: int, node: str, fact: facts.ConsumerRevoked) -> None:
        owned = self._owned.setdefault((node, fact.group), {})
        for name in fact.assignment:
            owned.pop(name, None)
        if fact.lost:
            return
        self._revoked[node] = (*self._revoked.get(node, ()), *fact.assignment)
        if not owned:
            self._bare[node, fact.group] = t_us

    def _on_assigned(self, _seq: int, t_us: int, node: str, fact: facts.ConsumerAssigned) -> None:
        if not set(self._revoked.pop(node, ())).isdisjoint(fact.assignment):
            self.note("revoked-in-vain", t_us)
        since = self._bare.pop((node, fact.group), t_us)
        self._owned.setdefault((node, fact.group), {}).update(dict.fromkeys(fact.assignment))
        if fact.assignment and t_us - since >= STANDSTILL_US:
            self.note("standstill", t_us)

    def _on_coordinator(
        self, _seq: int, t_us: int, node: str, fact: facts.CoordinatorLoaded
    ) -> None:
        if fact.loaded and self._coordinator.setdefault(fact.partition, node) != node:
            self._coordinator[fact.partition] = node
            self.note("coordinator-moved", t_us)

    def _on_load_in_progress(
        self, _seq: int, t_us: int, _node: str, fact: facts.LoadInProgress
    ) -> None:
        self.note(f"load-in-progress:{fact.request}", t_us)

    def _on_loaded(self, _seq: int, t_us: int, _node: str, fact: facts.LogLoaded) -> None:
        if not fact.clean and self.ready_us is not None:
            self.note("recovered", t_us)

    def _on_snapshot(self, _seq: int, t_us: int, _n: str, fact: facts.MetadataSnapshot) -> None:
        self.note(f"snapshot:{fact.event}", t_us)

    def _on_log_start(self, _seq: int, t_us: int, _node: str, fact: facts.LogStart) -> None:
        if fact.reason == "retention":
            self.note("expired", t_us)
        elif fact.reason == "delete-records":
            self.note("records-deleted", t_us)
        elif fact.reason == "reset" and fact.offset > 0:
            self.note("log-reset", t_us)

    def _on_cleaned(self, _seq: int, t_us: int, _node: str, fact: facts.Cleaned) -> None:
        if fact.removed:
            self.note(f"cleaned:{self._names.get(fact.topic_id, fact.topic_id)}", t_us)

    def _on_cleaning_failed(
        self, _seq: int, t_us: int, _node: str, _fact: facts.CleaningFailed
    ) -> None:
        self.note("uncleanable", t_us)

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        if node in self._running:
            self._running[node] = True
            self._watch_quorum()

    def _on_application_failed(
        self, _seq: int, t_us: int, _node: str, fact: facts.ApplicationFailed
    ) -> None:
        self.note(f"application-failed:{fact.exception}", t_us)

    def _on_stopped(self, _seq: int, t_us: int, node: str, fact: facts.HostStopped) -> None:
        self._revoked.pop(node, None)
        for key in [key for key in self._owned if key[0] == node]:
            del self._owned[key]
            self._bare.pop(key, None)
        if node.startswith("broker") and node[-1].isdigit():  # not broker-1b, a second process
            if fact.reason == "shutdown":
                self.note("controlled-shutdown", t_us)
                if any(led == int(node.rpartition("-")[2]) for _, led in self._heirs.values()):
                    self.note("stopped-early", t_us)
            if int(node.rpartition("-")[2]) in self._leader.values():
                self.note("leader-down", t_us)
        if node in self._running:
            self._running[node] = False
            self._watch_quorum()

    def _on_voters(self, _seq: int, t_us: int, _node: str, fact: facts.VotersChanged) -> None:
        if fact.offset > self._voters_offset:  # the first node to apply it
            self._voters_offset = fact.offset
            self._voters = fact.voters
            self.note("voters-changed", t_us)
            self._watch_quorum()

    def _on_leader(self, seq: int, t_us: int, node: str, fact: facts.BecameLeader) -> None:
        self._on_epoch(seq, t_us, node, fact)
        key = (fact.topic_id, fact.partition)
        if key in self._heirs and fact.leader_epoch >= self._heirs[key][0]:
            del self._heirs[key]

    def _watch_quorum(self) -> None:
        """Subscribe to acknowledgements only while the quorum is down: they are many."""
        voters = self._voters
        running = sum(self._running[self._hosts[voter]] for voter in voters)
        quorum = self.ready_us is None or 2 * running > len(voters)
        if quorum != self._quorum:
            self._quorum = quorum
            change = self._trace.unsubscribe if quorum else self._trace.subscribe
            change(facts.Acked, self._on_acked_without_quorum)

    def _on_metadata(self, _seq: int, t_us: int, _n: str, fact: facts.MetadataCommitted) -> None:
        if fact.offset > self._metadata:  # the first node to see it committed
            self._metadata = fact.offset
            if not self._quorum:
                self.note("metadata-without-quorum", t_us)

    def _on_acked_without_quorum(self, _seq: int, t_us: int, _n: str, _fact: facts.Acked) -> None:
        self.note("acked-without-quorum", t_us)
