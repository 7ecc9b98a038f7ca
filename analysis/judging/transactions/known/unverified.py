"""Batches that a leader appended though their transaction had ended there: a flaw before KIP-890.

A batch expires, and its producer aborts. The request may still be on its way and reach the leader
behind the marker. The marker has the epoch of the batch, which a newer one replaces at the earliest
with the next transaction in this partition, and the sequence is the expected one
(ProducerAppendInfo.checkProducerEpoch, checkSequence). A leader before 3.6 asks no coordinator, so
the batch opens a transaction there (KAFKA-14402). The same happens to a TxnOffsetCommit in
``__consumer_offsets``. The next marker of the producer in this partition ends it: a record of an
aborted transaction is committed, if that is a commit's. Without one nobody ends it.

Since 3.6 the leader asks, and the coordinator answers that the partition is not in the transaction,
or that the epoch is another one (TransactionCoordinator.handleVerifyPartitionsInTransaction).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.judging.invariants.traced import offsets_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

UNVERIFIED = "unverified-batch"
"""The excuse of what :class:`UnverifiedBatches` explains."""

Place = tuple[PartitionKey, int]
"""A partition and a producer id"""


@dataclass(slots=True)
class _Transaction:
    """A transaction of a producer id."""

    node: str
    producer_epoch: int
    begun: int  # the row in which it began
    end_asked: bool = False  # its commit or abort was asked for
    outcome: str = ""  # as TransactionEnded tells it; "" until then


class UnverifiedBatches:
    """Follows batches that come behind the marker of their transaction; see :mod:`unverified`."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._follows = False  # the appends
        self._topics: dict[str, facts.TopicCreated] = {}  # by id
        self._ids: dict[tuple[str, str], int] = {}  # (node, transactional id) -> producer id
        self._open: dict[int, _Transaction] = {}  # the last one, by producer id
        self._failed: dict[tuple[Place, int], _Transaction] = {}
        """By partition, producer id and record id: what may be on its way to the leader"""
        self._offsets: dict[Place, list[_Transaction]] = {}
        """By partition of __consumer_offsets and producer id: who has offsets of a group there"""
        self._added: dict[tuple[int, str], int] = {}
        """By producer id and topic-partition: the epoch with which a transaction added it; a marker
        takes it out"""
        self._marked: dict[Place, tuple[int, int]] = {}  # row and epoch of the last marker
        self._skipped: dict[Place, dict[int, None]] = {}
        """The epochs of which nobody was asked; a marker takes them out"""
        self._late: dict[tuple[PartitionKey, int], tuple[int, int, int]] = {}
        """By partition and offset: the row of the append, and of the transaction's begin, and the
        record id"""
        self._first: dict[tuple[int, str], dict[int, None]] = {}
        """By producer id and topic-partition: where such batches begin that nobody has to end. A
        marker ends them, and a transaction that adds the partition has to"""
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TransactionBegun, self._on_begun)

    def excuse(self, begun: int, key: PartitionKey, offset: int, seq: int = 1 << 62) -> str:
        """Return :data:`UNVERIFIED` if the record that a transaction, which began in a row, has at
        an offset came behind its marker, and was appended before ``seq``; else ""."""
        appended, of, _ = self._late.get((key, offset), (1 << 62, -1, -1))
        return UNVERIFIED if appended < seq and of == begun else ""

    def is_late(self, key: PartitionKey, offset: int, record_id: int) -> bool:
        """Return whether the record at an offset came so."""
        return self._late.get((key, offset), (-1, -1, -1))[2] == record_id

    def excuse_open(self, key: PartitionKey, producer_id: int, offset: int) -> str:
        """Return :data:`UNVERIFIED` if a transaction that a producer has open from an offset on
        began with such a batch, else ""."""
        first = self._first.get((producer_id, self._name(*key)), {})
        return UNVERIFIED if offset in first else ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact

    # What the producer tells.

    def _on_begun(self, seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        if not self._open:
            self._trace.subscribe(facts.TransactionOffsets, self._on_offsets)
            self._trace.subscribe(facts.TransactionEnding, self._on_ending)
            self._trace.subscribe(facts.SendFailed, self._on_failed)
            self._trace.subscribe(facts.TransactionEnded, self._on_ended)
            self._trace.subscribe(facts.TransactionState, self._on_state)
            self._trace.subscribe(facts.MarkerWritten, self._on_marker)
            self._trace.subscribe(facts.VerificationSkipped, self._on_skipped)
        self._ids[node, fact.transactional_id] = fact.producer_id
        self._open[fact.producer_id] = _Transaction(node, fact.producer_epoch, seq)

    def _on_offsets(self, _seq: int, _t: int, node: str, fact: facts.TransactionOffsets) -> None:
        producer_id = self._ids[node, fact.transactional_id]
        given = self._offsets.setdefault(
            (offsets_partition(fact.group, self._topics), producer_id), []
        )
        if self._open[producer_id] not in given[-1:]:
            given.append(self._open[producer_id])

    def _on_ending(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnding) -> None:
        self._open[self._ids[node, fact.transactional_id]].end_asked = True

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.SendFailed) -> None:
        """Note records whose batch may still come: a producer's records are of its transaction."""
        if not fact.indeterminate:
            return
        key = (fact.topic_id, fact.partition)
        for producer_id, now in self._open.items():
            if now.node == node and not now.outcome:
                for record_id in fact.record_ids:
                    self._failed[(key, producer_id), record_id] = now

    def _on_ended(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnded) -> None:
        self._open[self._ids[node, fact.transactional_id]].outcome = fact.outcome

    # What the coordinator and the leaders tell.

    def _on_state(self, _seq: int, _t: int, _node: str, fact: facts.TransactionState) -> None:
        for place in fact.assignment if fact.state == "Ongoing" else ():
            self._added[fact.producer_id, place] = fact.producer_epoch
            self._first.pop((fact.producer_id, place), None)

    def _on_marker(self, seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        place = ((fact.topic_id, fact.partition), fact.producer_id)
        named = (fact.producer_id, self._name(*place[0]))
        self._added.pop(named, None)
        self._first.pop(named, None)
        self._skipped.pop(place, None)
        self._marked[place] = (seq, fact.producer_epoch)

    def _on_skipped(self, _seq: int, _t: int, _node: str, fact: facts.VerificationSkipped) -> None:
        if not self._follows:  # without it there is nothing to follow
            self._follows = True
            self._trace.subscribe(facts.Appended, self._on_appended)
        place = ((fact.topic_id, fact.partition), fact.producer_id)
        self._skipped.setdefault(place, {})[fact.producer_epoch] = None

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        key, epoch = (fact.topic_id, fact.partition), fact.producer_epoch
        place = (key, fact.producer_id)
        if epoch not in self._skipped.get(place, ()):
            return
        named = (fact.producer_id, self._name(*key))
        if self._added.get(named) == epoch:
            return
        late = False
        for offset, record_id in enumerate(fact.record_ids, fact.base_offset):
            of = self._failed.get((place, record_id))
            if of is not None and self._has_ended(of, place, epoch):
                self._late[key, offset] = (seq, of.begun, record_id)
                late = True
        if not fact.record_ids:
            late = any(self._has_ended(of, place, epoch) for of in self._offsets.get(place, ()))
        if late:
            self._first.setdefault(named, {})[fact.base_offset] = None

    def _has_ended(self, of: _Transaction, place: Place, epoch: int) -> bool:
        """Return whether a transaction of an epoch has its marker in a partition, not a commit's
        that its producer has heard of."""
        marked, marker_epoch = self._marked.get(place, (-1, -1))
        ended = of.end_asked and of.outcome != "committed" and of.begun < marked
        return ended and of.producer_epoch == epoch == marker_epoch

    def _name(self, topic_id: str, partition: int) -> str:
        created = self._topics.get(topic_id)
        return f"{created.topic if created else None}-{partition}"
