"""The timelines of all partitions: their replicas' logs, leaders, ISRs, exposed records, losses.

The promises read what this fold has made of a fact when the fact comes to them. Each fact costs at
most O(log n) of the log's batches.

What it forgets: the batches that are truncated. Prefix hashes, high watermarks that rose, and of
compacted topics the leaders' batches stay, one small entry each.
"""

from __future__ import annotations

from kafkasim.analysis.judging.history.logs import Lacking, Mismatch, PartitionHistory, ReplicaLog
from kafkasim.analysis.judging.history.topics import Topics
from kafkasim.analysis.judging.source import (
    DELETING,
    FORGOTTEN,
    LAST_REPLICA,
    UNCLEAN,
    AllowsUnclean,
    Excuse,
    PartitionKey,
)
from kafkasim.model import facts
from kafkasim.model.facts.checksums import CLEANED, checksum
from kafkasim.model.facts.names import broker_of, node_of
from kafkasim.model.records import COORDINATOR_TOPICS

BY_LEADER = ("lag", "caught-up")
"""Reasons of changes that a leader proposes; in ZooKeeper mode it may write them itself."""


class Partitions:
    """Follows appends, truncations, high watermarks, elections and changes of the ISR."""

    def __init__(self, topics: Topics, excuse: Excuse, allows_unclean: AllowsUnclean) -> None:
        self.all: dict[PartitionKey, PartitionHistory] = {}
        self.zookeeper = False  # whether a ZooKeeper controller leads
        self._topics = topics
        self._excuse = excuse
        self._allows_unclean = allows_unclean

    def of(self, topic_id: str, partition: int) -> PartitionHistory:
        """Return the timeline of a partition; an unknown one is added."""
        key = (topic_id, partition)
        state = self.all.get(key)
        if state is None:
            state = self.all[key] = PartitionHistory(key)
            created = self._topics.created.get(topic_id)
            state.compacted = created is not None and created.topic in COORDINATOR_TOPICS
        return state

    # Logs.

    def on_Appended(self, seq: int, t: int, node: str, fact: facts.Appended) -> None:
        """Extend the leader's log."""
        state = self.all.get((fact.topic_id, fact.partition))
        if state is None:
            state = self.of(fact.topic_id, fact.partition)
        base, end, epoch, ids = (
            fact.base_offset,
            fact.next_offset,
            fact.leader_epoch,
            fact.record_ids,
        )
        producer, sequence = fact.producer_id, fact.base_sequence
        first, last = (ids[0], ids[-1]) if ids else (-1, -1)
        content = checksum(base, end, epoch, producer, fact.producer_epoch, sequence, first, last)
        batch = (base, end, epoch, content)
        if state.compacted or sequence < 0 <= producer:
            # markers, too, that stand before the first key
            state.originals[end, epoch] = batch
        replica = state.replicas.get(node) or state.replica(node)
        if not state.extend(replica, batch):
            state.mismatches.append(Mismatch(seq, t, node, base, end, epoch))

    def on_Replicated(self, seq: int, t: int, node: str, fact: facts.Replicated) -> None:
        """Extend a follower's log by the batches that it has taken."""
        state = self.all.get((fact.topic_id, fact.partition))
        if state is None:
            state = self.of(fact.topic_id, fact.partition)
        replica = state.replicas.get(node) or state.replica(node)
        told = fact.batches
        for at in range(0, len(told), 4):
            base, end, epoch, content = told[at : at + 4]
            batch = (base, end, epoch, content)
            if state.removed:
                state.fill(replica, base)
            if content == CLEANED:
                batch = state.original(batch)
            if not state.extend(replica, batch):
                state.mismatches.append(Mismatch(seq, t, node, base, end, epoch))

    def on_KeysAppended(self, _seq: int, _t: int, _node: str, fact: facts.KeysAppended) -> None:
        """Remember the batches of a topic that is compacted."""
        self.of(fact.topic_id, fact.partition).compacted = True

    def on_Cleaned(self, _seq: int, _t: int, node: str, fact: facts.Cleaned) -> None:
        """Remember which batches a cleaner has taken records from."""
        state = self.of(fact.topic_id, fact.partition)
        replica = state.replica(node)
        for offset in fact.removed_offsets():
            place = replica.place(offset)
            if place is not None:
                state.removed[offset] = place

    def on_Truncated(self, _seq: int, _t: int, node: str, fact: facts.Truncated) -> None:
        """Cut a replica's log."""
        state = self.of(fact.topic_id, fact.partition)
        state.cut(state.replica(node), fact.offset)

    def on_LogLoaded(self, _seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        """Cut a replica's log to what its broker has found at its start."""
        state = self.of(fact.topic_id, fact.partition)
        if node in state.dropped:
            state.come_back(node, fact.log_end_offset)
        state.cut(state.replica(node), fact.log_end_offset)

    def on_LogStart(self, _seq: int, _t: int, node: str, fact: facts.LogStart) -> None:
        """Trim a replica's log, or begin it anew at the leader's log start."""
        state = self.of(fact.topic_id, fact.partition)
        replica = state.replica(node)
        if fact.reason == "reset":
            state.restart(replica, fact.offset)
            return
        replica.trimmed = max(replica.trimmed, fact.offset)
        if fact.reason in DELETING:
            state.deleted = max(state.deleted, fact.offset)

    def on_LogDeleted(self, _seq: int, _t: int, node: str, fact: facts.LogDeleted) -> None:
        """Drop a replica's log.

        A ZooKeeper controller removes the leader of a topic that it deletes, and records the
        deletion once the brokers have dropped their logs.
        """
        state = self.of(fact.topic_id, fact.partition)
        state.dropped[node] = state.replicas.pop(node, ReplicaLog())
        if state.leader < 0 and self.zookeeper and broker_of(node) in state.isr:
            self._topics.deleted[fact.topic_id] = None

    def on_HostStopped(self, _seq: int, _t: int, node: str, fact: facts.HostStopped) -> None:
        """Suspect the logs of a host that lost power."""
        if fact.reason == "power-loss":
            for state in self.all.values():
                replica = state.replicas.get(node)
                if replica is not None and not replica.suspect:
                    member = broker_of(node) in state.isr
                    replica.lost(member, state.exposed, state.exposed_hash)

    def on_DiskReplaced(self, _seq: int, _t: int, node: str, _fact: facts.DiskReplaced) -> None:
        """Empty the logs of a host that got a new disk."""
        for state in self.all.values():
            replica = state.replicas.get(node)
            if replica is not None:
                replica.lost(broker_of(node) in state.isr, state.exposed, state.exposed_hash)
                state.restart(replica, 0)

    # What leaders expose.

    def on_ExpansionForgotten(
        self, _seq: int, _t: int, node: str, fact: facts.ExpansionForgotten
    ) -> None:
        """Remember for which members a leader does not wait, until it tells an empty set."""
        state = self.of(fact.topic_id, fact.partition)
        if fact.replica_ids:
            state.forgotten[node, fact.leader_epoch] = fact.replica_ids
        else:
            state.forgotten.pop((node, fact.leader_epoch), None)

    def on_HighWatermark(self, seq: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        """Expose what a leader's high watermark has passed."""
        state = self.all.get((fact.topic_id, fact.partition))
        if state is None:
            state = self.of(fact.topic_id, fact.partition)
        leader = state.replicas.get(node) or state.replica(node)
        mark, epoch = fact.high_watermark, fact.leader_epoch
        known_epoch, known, _ = leader.high_watermark
        before = known if known_epoch == epoch else 0
        leader.high_watermark = (epoch, mark, before)
        members = state.members
        if epoch < state.unclean_epoch and (why := self._unclean_excuse(state)):
            if state.expose_deposed(node, fact, before, seq, t, why):
                return
            members = ()  # the leader does not know the ISR that the election made
        if state.forgotten and state.expose_unawaited(node, fact, before, seq, t):
            return
        if mark > state.exposed:
            state.exposed, state.exposed_at, state.exposed_to = mark, seq, members
            state.exposed_hash = leader.prefix(mark)
            state.marks.append((mark, state.exposed_hash))

    def on_BecameLeader(self, seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        """Account for what a new leader lacks."""
        state = self.of(fact.topic_id, fact.partition)
        replica = state.replica(node)
        led, state.led_epoch = state.led_epoch, max(state.led_epoch, fact.leader_epoch)
        if fact.leader_epoch < led:  # it applied its election late; others have led since
            return
        state.led_by = replica
        lacks = not state.holds_exposed(replica)
        again = self.zookeeper and fact.leader_epoch == led
        unclean = state.unclean_epoch
        leads_on = again and fact.leader_epoch == unclean  # it answers for what it has exposed
        if not leads_on and (fact.leader_epoch <= unclean or led < unclean):
            # After an unclean election, a clean leader must hold what the unclean one had.
            # A partition outside the budget elects its last-known leader uncleanly (KIP-966).
            state.lose(replica, seq, t, self._unclean_excuse(state) if lacks else "")
            return
        reason = ""
        if lacks or (again and state.was_longer(replica, led)):
            reason = self._excuse(state.key, node)
            if reason and again:
                state.reopened.append((fact.leader_epoch, replica.log_end_offset))
        if not lacks:
            return
        if not reason and replica.was_forgotten(state.exposed):
            reason = FORGOTTEN
        if not reason and state.reopened:
            # A follower keeps what its leader has lost and written anew in the same epoch: their
            # epochs and end offsets say that nothing diverges (LeaderEpochFileCache.endOffsetFor).
            reason = LAST_REPLICA
        epoch, end = fact.leader_epoch, replica.log_end_offset
        state.lacking.append(Lacking(seq, t, node, epoch, end, state.exposed, reason))
        state.lose(replica, seq, t, reason)

    def _unclean_excuse(self, state: PartitionHistory) -> str:
        """Return why an unclean election may cost records: a fault, the configuration, or ""."""
        created = self._topics.created.get(state.key[0])
        allowed = created is not None and self._allows_unclean(created.topic)
        return self._excuse(state.key, "") or (UNCLEAN if allowed else "")

    # What controllers decide.

    def on_ZkControllerWrite(
        self, _seq: int, _t: int, _node: str, _fact: facts.ZkControllerWrite
    ) -> None:
        """Note that ZooKeeper holds the metadata."""
        self.zookeeper = True

    def on_BrokerRegistration(
        self, _seq: int, _t: int, _node: str, fact: facts.BrokerRegistration
    ) -> None:
        """In KRaft mode no broker joins an ISR with an earlier broker epoch (KIP-903)."""
        if fact.change == "registered" and fact.fenced:
            for state in self.all.values():
                replica = state.replicas.get(node_of(fact.broker))
                if replica is not None:
                    replica.joining = False

    def on_PartitionChanged(
        self, _seq: int, _t: int, _node: str, fact: facts.PartitionChanged
    ) -> None:
        """Follow the controller's leader and ISR."""
        state = self.of(fact.topic_id, fact.partition)
        state.joined = ()
        replicas = self._replicas(state, fact)
        if fact.partition_epoch < state.partition_epoch:
            # A later controller records again what an earlier one committed. In ZooKeeper mode an
            # assignment may repeat a state that the leader has replaced: the replicas that it takes
            # out are to delete their logs, and remain in the leader's ISR.
            if self.zookeeper:
                state.set_isr(tuple([each for each in state.isr if each in replicas]))
            return
        # A ZooKeeper controller ends a reassignment before it removes the old replicas from the
        # ISR. Leaders do not count these any more, and none of them can be elected.
        isr = tuple([broker for broker in fact.isr if broker in replicas])
        joined = tuple([node_of(broker) for broker in isr if broker not in state.isr])
        if fact.partition_epoch > state.partition_epoch:
            for node, replica in state.replicas.items():
                lost = replica.suspect or replica.joining
                replica.suspect = lost and broker_of(node) in fact.isr
                replica.joining = lost and broker_of(node) in fact.elr
        state.set_isr(isr)
        state.leader = fact.leader
        state.leader_epoch = fact.leader_epoch
        state.partition_epoch = fact.partition_epoch
        if fact.unclean:
            state.unclean_epoch = fact.leader_epoch
        else:
            state.joined = joined

    def _replicas(self, state: PartitionHistory, fact: facts.PartitionChanged) -> tuple[int, ...]:
        """Return the partition's replicas, as its controller assigned them.

        In ZooKeeper mode a leader that writes the ISR itself may add a replica that the controller
        has just removed and deleted, because it learns of that later.
        """
        if not self.zookeeper:
            return fact.replicas
        if fact.reason not in BY_LEADER and fact.offset > state.assigned_at:
            state.assignment, state.assigned_at = fact.replicas, fact.offset
        return state.assignment
