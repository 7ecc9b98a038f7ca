"""MATCH, ISRDATA, ACKED, HWMONO, MINISR, NODUP: rules about the logs of all replicas.

Each check costs at most O(log n) of the log's batches for the fact that triggers it. With a rolling
prefix hash, "the same batch and the same prefix" is one dictionary look-up per batch and replica.
"""

from __future__ import annotations

from typing import Any

from kafkasim.analysis.judging.invariants.cleaned.latest import Cleanings
from kafkasim.analysis.judging.invariants.settings.min_isr import MinimaInForce
from kafkasim.analysis.judging.invariants.traced import (
    TracedBatch,
    TracedCluster,
    TracedLog,
    TracedPartition,
)
from kafkasim.analysis.judging.invariants.zookeeper import Strangers
from kafkasim.analysis.judging.source import (
    DELETING,
    FORGOTTEN,
    LAST_REPLICA,
    UNCLEAN,
    Loss,
    PartitionKey,
)
from kafkasim.analysis.judging.transactions.known.reused_epochs import ReusedEpochs
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of, node_of

_ALL = 1 << 60

BY_LEADER = ("lag", "caught-up")
"""Reasons of changes that a leader proposes; in ZooKeeper mode it may write them itself."""


def _read(log: Any, offset: int, end: int) -> list[Any]:
    """Return the batches of a range of offsets, across segments."""
    found: list[Any] = []
    while offset < end:
        batches = log.read(offset, _ALL, end)
        if not batches:
            break
        found += batches
        offset = batches[-1].last_offset + 1
    return found


class Logs:
    """Follows appends, truncations, high watermarks and elections."""

    def __init__(self, cluster: TracedCluster, producer_us: int) -> None:
        """``producer_us`` is producer.id.expiration.ms."""
        self.cluster = cluster
        self._epochs = ReusedEpochs(cluster.trace, cluster.losses, producer_us)
        self._partition = cluster.partition
        self._partitions = cluster.partitions
        self._view = cluster.view
        self._sequences: dict[tuple[str, int, int, int, int], tuple[int, int, int, int]] = {}
        """Partition, producer id, epoch, sequence -> offset, leader epoch, first record id, row"""
        self._hw: dict[tuple[PartitionKey, int, str], int] = {}
        self._minima = MinimaInForce(cluster.trace)
        self._deleted: dict[str, None] = {}  # topic ids
        self._strangers = Strangers(cluster)
        trace = cluster.trace
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.Appended, self._on_appended)
        trace.subscribe(facts.Replicated, self._on_replicated)
        trace.subscribe(facts.HighWatermark, self._on_high_watermark)
        trace.subscribe(facts.ExpansionForgotten, self._on_forgotten)
        trace.subscribe(facts.Truncated, self._on_truncated)
        trace.subscribe(facts.LogLoaded, self._on_loaded)
        trace.subscribe(facts.LogStart, self._on_log_start)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.LogDeleted, self._on_deleted)
        trace.subscribe(facts.DiskReplaced, self._on_disk_replaced)
        trace.subscribe(facts.BrokerRegistration, self._on_broker)
        trace.subscribe(facts.ZkControllerWrite, self._on_zk_write)

    def _on_zk_write(self, _seq: int, _t: int, _n: str, _fact: facts.ZkControllerWrite) -> None:
        self.cluster.zookeeper = True

    # Following the logs.

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self.cluster.topics.setdefault(fact.topic_id, fact)

    def _on_appended(self, seq: int, t: int, node: str, fact: facts.Appended) -> None:
        key = (fact.topic_id, fact.partition)
        state = self._partitions.get(key) or self._partition(*key)
        ids = fact.record_ids
        content = (
            fact.producer_id,
            fact.producer_epoch,
            fact.base_sequence,
            ids[0] if ids else None,
            ids[-1] if ids else None,
        )
        replica = state.replicas.get(node) or state.replica(node)
        batch = (fact.base_offset, fact.next_offset, fact.leader_epoch, content)
        if state.compacted or fact.base_sequence < 0 <= fact.producer_id:
            # markers, too, that stand before the first key
            state.originals[fact.next_offset, fact.leader_epoch] = batch
        if not state.extend(replica, batch):
            self._mismatch(seq, t, node, state, batch)
        if fact.base_sequence >= 0:
            self._check_no_duplicate(state, seq, t, node, fact)

    def _on_replicated(self, seq: int, t: int, node: str, fact: facts.Replicated) -> None:
        key = (fact.topic_id, fact.partition)
        state = self._partitions.get(key) or self._partition(*key)
        replica = state.replicas.get(node) or state.replica(node)
        log = replica.log or self._log(replica, node, fact)
        last = log.last_batch
        if (
            last is not None
            and last.base_offset == fact.base_offset
            and last.last_offset + 1 == fact.next_offset
        ):
            batches = [last]  # the usual case, without a search
        else:
            batches = _read(log, fact.base_offset, fact.next_offset)
        for each in batches:
            batch = None
            if state.removed:
                Cleanings.fill(state, replica, each.base_offset)
                if each.offset_deltas is not None:
                    batch = Cleanings.original(state, each)
            if batch is None:
                records = each.records
                user = bool(records) and isinstance(records[0].value, int)
                content = (
                    each.producer_id,
                    each.producer_epoch,
                    each.base_sequence,
                    records[0].value if user else None,
                    records[-1].value if user else None,
                )
                batch = (each.base_offset, each.last_offset + 1, each.leader_epoch, content)
            if not state.extend(replica, batch):
                self._mismatch(seq, t, node, state, batch)

    def _mismatch(
        self, seq: int, t: int, node: str, state: TracedPartition, batch: TracedBatch
    ) -> None:
        base, end, epoch, _ = batch
        self.cluster.violated(
            "MATCH", seq, t, state.key,
            f"{node} holds another batch or prefix at offsets {base}–{end - 1} of leader epoch"
            f" {epoch} than another replica held",
        )  # fmt: skip

    def _log(self, replica: TracedLog, node: str, fact: Any) -> Any:
        if replica.log is None:
            replica.log = self.cluster.view(node, fact.topic_id, fact.partition)
        return replica.log

    def _on_truncated(self, seq: int, t: int, node: str, fact: facts.Truncated) -> None:
        state = self._partition(fact.topic_id, fact.partition)
        replica = state.replica(node)
        state.cut(replica, fact.offset)
        if state.exposed > replica.trimmed:  # else it had deleted all of that itself
            self._check_isr_member(state, seq, t, node, replica, "truncated its log")

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        state = self._partition(fact.topic_id, fact.partition)
        if node in state.dropped:
            log = self._view(node, *state.key)
            if log is not None and (last := log.last_batch) is not None:
                state.come_back(node, last.last_offset + 1, last.leader_epoch)
        replica = state.replica(node)
        replica.log = None
        state.cut(replica, fact.log_end_offset)

    def _on_log_start(self, _seq: int, _t: int, node: str, fact: facts.LogStart) -> None:
        state = self._partition(fact.topic_id, fact.partition)
        replica = state.replica(node)
        if fact.reason == "reset":  # truncated fully: it continues at the leader's log start
            state.restart(replica, fact.offset)
            return
        replica.trimmed = max(replica.trimmed, fact.offset)
        if fact.reason in DELETING:
            state.deleted = max(state.deleted, fact.offset)

    def _on_stopped(self, _seq: int, _t: int, node: str, fact: facts.HostStopped) -> None:
        for state in self.cluster.partitions.values():
            replica = state.replicas.get(node)
            if replica is not None:
                replica.log = None
                if fact.reason == "power-loss" and not replica.suspect:
                    member = broker_of(node) in state.isr
                    replica.lost(member, state.exposed, state.exposed_hash)

    def _on_deleted(self, seq: int, t: int, node: str, fact: facts.LogDeleted) -> None:
        """A member of the ISR keeps its log unless its topic is deleted.

        A KRaft controller records the deletion before the brokers drop their logs; a ZooKeeper
        controller records it afterwards, and removes the leader before. The former leader goes on
        until it is told to stop, also when others have dropped their logs.
        """
        state = self._partition(fact.topic_id, fact.partition)
        replica = state.replicas.pop(node, None)
        if replica is not None:
            state.dropped[node] = replica
        suspect = replica is not None and replica.suspect
        if state.leader >= 0 and not suspect:
            self._check_isr_member(state, seq, t, node, TracedLog(), "dropped its log in the ISR")
        elif state.leader < 0 and self.cluster.zookeeper and broker_of(node) in state.isr:
            self._deleted[fact.topic_id] = None

    def _on_topic_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._deleted[fact.topic_id] = None

    def _on_disk_replaced(self, _seq: int, _t: int, node: str, _f: facts.DiskReplaced) -> None:
        for state in self.cluster.partitions.values():
            replica = state.replicas.get(node)
            if replica is not None:
                replica.lost(broker_of(node) in state.isr, state.exposed, state.exposed_hash)
                state.restart(replica, 0)

    def _on_broker(self, _seq: int, _t: int, _node: str, fact: facts.BrokerRegistration) -> None:
        """In KRaft mode no broker joins an ISR with an earlier broker epoch (KIP-903)."""
        if fact.change == "registered" and fact.fenced:
            for state in self.cluster.partitions.values():
                replica = state.replicas.get(node_of(fact.broker))
                if replica is not None:
                    replica.joining = False

    def _on_forgotten(self, _seq: int, _t: int, node: str, fact: facts.ExpansionForgotten) -> None:
        """Remember for which members a leader does not wait, until it tells an empty set."""
        state = self._partition(fact.topic_id, fact.partition)
        if fact.replica_ids:
            state.forgotten[node, fact.leader_epoch] = fact.replica_ids
        else:
            state.forgotten.pop((node, fact.leader_epoch), None)

    # What must hold.

    def _check_no_duplicate(
        self, state: TracedPartition, seq: int, t: int, node: str, fact: facts.Appended
    ) -> None:
        key = (*state.key, fact.producer_id, fact.producer_epoch, fact.base_sequence)
        earlier = self._sequences.get(key)
        first = fact.record_ids[0] if fact.record_ids else -1
        self._sequences[key] = (fact.base_offset, fact.leader_epoch, first, seq)
        if earlier is None or earlier[0] == fact.base_offset:
            return
        log = self._log(state.replica(node), node, fact)
        for batch in log.read(earlier[0], 1, earlier[0] + 1 + fact.next_offset - fact.base_offset):
            if (batch.base_offset, batch.leader_epoch) == earlier[:2] and (
                batch.producer_id == fact.producer_id and batch.base_sequence == fact.base_sequence
            ):
                why = ""
                if earlier[2] != first:  # other records: their epoch was used before
                    why = self._epochs.excuse(state.key, fact.producer_id, earlier[3], t)
                self.cluster.violated(
                    "NODUP", seq, t, state.key,
                    f"producer {fact.producer_id} epoch {fact.producer_epoch} sequence"
                    f" {fact.base_sequence} is at offsets {earlier[0]} and {fact.base_offset}",
                    why,
                )  # fmt: skip

    def _on_high_watermark(self, seq: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        place = (fact.topic_id, fact.partition)
        state = self._partitions.get(place) or self._partition(*place)
        hw = fact.high_watermark
        key = (place, fact.leader_epoch, node)
        before = self._hw.get(key, 0)
        if hw < before:
            self.cluster.violated(
                "HWMONO", seq, t, state.key,
                f"{node} moved its high watermark from {before} back to {hw} within leader"
                f" epoch {fact.leader_epoch}",
            )  # fmt: skip
        self._hw[key] = hw
        created = self.cluster.topics.get(fact.topic_id)
        needed = 0 if created is None else self._minima.needed(created, node, t, fact)
        if len(fact.acknowledged) < needed:
            needed -= self._strangers.count(place, fact.leader_epoch, node)
        if len(fact.acknowledged) < needed:
            self.cluster.violated(
                "MINISR", seq, t, state.key,
                f"{node} advanced the high watermark to {hw} with only {fact.acknowledged}"
                f" known to hold the records; the effective min.insync.replicas is {needed}",
            )  # fmt: skip
        members = state.members
        if fact.leader_epoch < state.unclean_epoch and (why := self._unclean_excuse(state)):
            if state.expose_deposed(node, fact, before, seq, t, why):
                return
            members = ()  # the leader does not know the ISR that the election made
        if state.forgotten and state.expose_unawaited(node, fact, before, seq, t):
            return
        if hw > state.exposed:
            leader = state.replicas.get(node) or state.replica(node)
            if leader.log_end_offset < hw:
                self.cluster.violated(
                    "LOGORDER", seq, t, state.key,
                    f"{node} has high watermark {hw} above its log end {leader.log_end_offset}",
                )  # fmt: skip
            state.exposed = hw
            state.exposed_hash = exposed_hash = leader.prefix(hw)
            state.marks.append((hw, exposed_hash))
            for member in members:
                replica = state.replicas.get(member) or state.replica(member)
                nexts = replica.nexts
                if nexts and nexts[-1] == hw and replica.hashes[-1] == exposed_hash:
                    continue  # it holds the prefix: the usual case, checked without a call
                if not (replica.suspect or replica.holds(hw, exposed_hash)):
                    self._check_isr_member(state, seq, t, member, replica, "is in the ISR")

    def _check_isr_member(
        self, state: TracedPartition, seq: int, t: int, node: str, replica: TracedLog, what: str
    ) -> None:
        if replica.suspect or broker_of(node) not in state.isr:
            return
        if state.key[0] in self._deleted:  # its brokers drop their logs one by one
            return
        if state.led_epoch < state.unclean_epoch:  # what an unclean leader lacks is lost: see below
            return
        if not state.holds_exposed(replica):
            self.cluster.violated(
                "ISRDATA", seq, t, state.key,
                f"{node} {what} of leader epoch {state.leader_epoch} without the records below high"
                f" watermark {state.exposed}, which its leaders have reached (its log ends at"
                f" {replica.log_end_offset})",
                FORGOTTEN if replica.was_forgotten(state.exposed) else "",
            )  # fmt: skip

    def _on_leader(self, seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        state = self._partition(fact.topic_id, fact.partition)
        replica = state.replica(node)
        led, state.led_epoch = state.led_epoch, max(state.led_epoch, fact.leader_epoch)
        if fact.leader_epoch < led:  # it applied its election late; others have led since
            return
        state.led_by = replica
        again = self.cluster.zookeeper and fact.leader_epoch == led
        unclean = state.unclean_epoch
        leads_on = again and fact.leader_epoch == unclean  # it answers for what it has exposed
        if not leads_on and (fact.leader_epoch <= unclean or led < unclean):
            # After an unclean election, a clean leader must hold what the unclean one had.
            # A partition outside the budget elects its last-known leader uncleanly (KIP-966).
            lacks = not state.holds_exposed(replica)
            state.lose(replica, seq, t, self._unclean_excuse(state) if lacks else "")
            return
        lacks = not state.holds_exposed(replica)
        reason = ""
        if lacks or (again and state.was_longer(replica, led)):
            reason = self.cluster.excuse(state.key, node)
            if reason and again:
                state.reopened.append((fact.leader_epoch, replica.log_end_offset))
        if lacks and not reason and replica.was_forgotten(state.exposed):
            reason = FORGOTTEN
        rewritten = None if reason or not lacks else state.only_rewritten(replica)
        if rewritten is not None:
            reason = LAST_REPLICA
        if lacks:
            self.cluster.violated(
                "ACKED", seq, t, state.key,
                f"{node} was elected for leader epoch {fact.leader_epoch} with log end"
                f" {replica.log_end_offset}, without the records below high watermark"
                f" {state.exposed} of an earlier leader", reason,
            )  # fmt: skip
            if rewritten is None:
                state.lose(replica, seq, t, reason)
            else:
                state.rewrite(replica, Loss(*rewritten, seq, t, reason))

    def _unclean_excuse(self, state: TracedPartition) -> str:
        """Return why an unclean election may cost records: a fault, the configuration, or ""."""
        created = self.cluster.topics.get(state.key[0])
        allowed = created is not None and self.cluster.allows_unclean(created.topic)
        return self.cluster.excuse(state.key, "") or (UNCLEAN if allowed else "")

    def _replicas(self, state: TracedPartition, fact: facts.PartitionChanged) -> tuple[int, ...]:
        """Return the partition's replicas, as its controller assigned them.

        In ZooKeeper mode a leader that writes the ISR itself may add a replica that the controller
        has just removed and deleted, because it learns of that later.
        """
        if not self.cluster.zookeeper:
            return fact.replicas
        if fact.reason not in BY_LEADER and fact.offset > state.assigned_at:
            state.assignment, state.assigned_at = fact.replicas, fact.offset
        return state.assignment

    def _set_isr(self, state: TracedPartition, isr: tuple[int, ...]) -> None:
        state.isr, state.members = isr, tuple([node_of(broker) for broker in isr])

    def _on_changed(self, seq: int, t: int, _node: str, fact: facts.PartitionChanged) -> None:
        state = self._partition(fact.topic_id, fact.partition)
        replicas = self._replicas(state, fact)
        if fact.partition_epoch < state.partition_epoch:
            # A later controller records again what an earlier one committed. In ZooKeeper mode an
            # assignment may repeat a state that the leader has replaced: the replicas that it takes
            # out are to delete their logs, and remain in the leader's ISR.
            if self.cluster.zookeeper:
                self._set_isr(state, tuple([each for each in state.isr if each in replicas]))
            return
        # A ZooKeeper controller ends a reassignment before it removes the old replicas from the
        # ISR. Leaders do not count these any more, and none of them can be elected.
        isr = tuple([broker for broker in fact.isr if broker in replicas])
        joined = [broker for broker in isr if broker not in state.isr]
        if fact.partition_epoch > state.partition_epoch:
            for node, replica in state.replicas.items():
                lost = replica.suspect or replica.joining
                replica.suspect = lost and broker_of(node) in fact.isr
                replica.joining = lost and broker_of(node) in fact.elr
        self._set_isr(state, isr)
        state.leader = fact.leader
        state.leader_epoch = fact.leader_epoch
        state.partition_epoch = fact.partition_epoch
        if fact.unclean:
            state.unclean_epoch = fact.leader_epoch
            return
        for broker in joined:
            node = node_of(broker)
            self._check_isr_member(state, seq, t, node, state.replica(node), "joined the ISR")
