"""Batches that reached their leader in a later transaction: a flaw of transaction.version 0 and 1.

A batch expires in its first attempt while its producer waits for the end of the transaction. The
producer keeps the batch's sequence (Sender.sendProducerData), asks for no new epoch, because the
transaction is completing (TransactionManager.maybeTransitionToErrorState), and aborts. The request
may still be on its way. If it reaches the leader after the next transaction has added the
partition, its epoch and its sequence are the expected ones (ProducerAppendInfo.checkSequence), and
the partition is verified: its producer has an open transaction there (KIP-890, part 1;
TransactionCoordinator.handleVerifyPartitionsInTransaction). So a record of the aborted transaction
is committed with the next one. Under transaction.version 2 each transaction has an epoch of its
own, and the late request is refused (KIP-890, part 2).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

LATE_BATCH = "late-batch"
"""The excuse of what :class:`LateBatches` explains."""

Record = tuple[PartitionKey, int]
"""A partition and a record id"""


@dataclass(slots=True)
class _Open:
    """The last transaction of a producer id."""

    node: str
    producer_epoch: int
    begun: int  # the row in which it began
    sent: dict[Record, None] = field(default_factory=dict)
    ending: bool = False  # its commit or abort was asked for
    ended: bool = False
    failed: dict[Record, None] = field(default_factory=dict)
    """What failed with an unknown outcome while it was ending"""


class LateBatches:
    """Follows records of aborted transactions that leaders append in a later one."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._topics: dict[str, str] = {}  # topic id -> name
        self._ids: dict[tuple[str, str], int] = {}  # (node, transactional id) -> producer id
        self._open: dict[int, _Open] = {}  # by producer id
        self._failed: dict[tuple[int, int], dict[Record, int]] = {}
        """By producer id and epoch: records that failed, with the begin of their transaction"""
        self._added: dict[tuple[int, str], int] = {}
        """By producer id and topic-partition: the epoch with which a transaction added it; a marker
        takes it out"""
        self._late: dict[tuple[int, PartitionKey, int], int] = {}
        """By the begin of the transaction, partition and offset: the row of the append"""
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TransactionBegun, self._on_begun)

    def excuse(self, begun: int, key: PartitionKey, offset: int, seq: int = 1 << 62) -> str:
        """Return :data:`LATE_BATCH` if the record that a transaction, which began in a row, has at
        an offset was appended in a later transaction, before ``seq``; else ""."""
        return LATE_BATCH if self._late.get((begun, key, offset), 1 << 62) < seq else ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic

    def _on_begun(self, seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        if not self._open:
            self._trace.subscribe(facts.TransactionSent, self._on_sent)
            self._trace.subscribe(facts.TransactionEnding, self._on_ending)
            self._trace.subscribe(facts.SendFailed, self._on_failed)
            self._trace.subscribe(facts.TransactionEnded, self._on_ended)
            self._trace.subscribe(facts.TransactionState, self._on_state)
            self._trace.subscribe(facts.MarkerWritten, self._on_marker)
        self._ids[node, fact.transactional_id] = fact.producer_id
        self._open[fact.producer_id] = _Open(node, fact.producer_epoch, seq)

    # What the producer tells.

    def _on_sent(self, _seq: int, _t: int, node: str, fact: facts.TransactionSent) -> None:
        now = self._open[self._ids[node, fact.transactional_id]]
        now.sent[(fact.topic_id, fact.partition), fact.record_id] = None

    def _on_ending(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnding) -> None:
        self._open[self._ids[node, fact.transactional_id]].ending = True

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.SendFailed) -> None:
        if not fact.indeterminate:
            return
        for now in self._open.values():
            if now.node == node and now.ending and not now.ended:
                for record_id in fact.record_ids:
                    record = ((fact.topic_id, fact.partition), record_id)
                    if record in now.sent:
                        now.failed[record] = None

    def _on_ended(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnded) -> None:
        producer_id = self._ids[node, fact.transactional_id]
        now = self._open[producer_id]
        now.ended = True
        if fact.outcome == "aborted" and now.failed:
            if not self._failed:
                self._trace.subscribe(facts.Appended, self._on_appended)
            failed = self._failed.setdefault((producer_id, now.producer_epoch), {})
            failed |= dict.fromkeys(now.failed, now.begun)

    # What the coordinator and the leaders tell.

    def _on_state(self, _seq: int, _t: int, _node: str, fact: facts.TransactionState) -> None:
        for place in fact.assignment if fact.state == "Ongoing" else ():
            self._added[fact.producer_id, place] = fact.producer_epoch

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        self._added.pop((fact.producer_id, self._place(fact)), None)

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        failed = self._failed.get((fact.producer_id, fact.producer_epoch))
        if not failed or not fact.record_ids:
            return
        now = self._open[fact.producer_id]
        added = self._added.get((fact.producer_id, self._place(fact)))
        if not now.producer_epoch == fact.producer_epoch == added:
            return
        key = (fact.topic_id, fact.partition)
        for index, record_id in enumerate(fact.record_ids):
            begun = failed.get((key, record_id), now.begun)
            if begun != now.begun:
                self._late[begun, key, fact.base_offset + index] = seq

    def _place(self, fact: facts.MarkerWritten | facts.Appended) -> str:
        return f"{self._topics.get(fact.topic_id)}-{fact.partition}"
