"""Records that a broker took for a duplicate: their epoch was given twice, or their sequence.

An epoch that was given twice. A coordinator that has legally lost an epoch of a transactional id
gives it out again. A leader that remembers a batch of the first producer under the same epoch and
sequence takes a batch of the second one for it, and acknowledges what it does not append
(ProducerStateEntry.findDuplicateBatch). Nothing else is explained: the last batch that was appended
under the batch's id, epoch and sequence is another one, and the loss lies between the row in which
the epoch was first told and the acknowledgement.

A sequence that was given back (``model/KAFKA.md``, 4.4, hole 4). A batch that is in the log fails
late, while its transaction is ending. The producer lowers its next sequence, and asks for no new
epoch (TransactionManager.maybeTransitionToErrorState while isCompleting). A later batch of
as many records has the same epoch and sequences, and the leader acknowledges it with the offset of
the first one. It is of a later transaction, if the first one was aborted, or of the same one, which
cannot commit any more. Nothing needs to be lost for that. :class:`GivenBack` explains a record only
if the trace shows each of these steps.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import Losses, PartitionKey
from kafkasim.analysis.judging.transactions.footing import Footing
from kafkasim.model import facts

Batch = tuple[PartitionKey, int, int, int]
"""Partition, producer id, epoch and first sequence."""

GIVEN_BACK = "given-back-sequence"
"""The excuse of what :class:`GivenBack` explains."""


class GivenAgain:
    """Follows the batches of transactional producers; without one it costs nothing."""

    def __init__(self, trace: FactSource, losses: Losses) -> None:
        self._trace = trace
        self._footing = Footing(trace, losses)
        self._ids: dict[int, str] = {}  # producer id -> transactional id
        self._given: dict[tuple[str, int, int], int] = {}  # (id, producer id, epoch) -> first row
        self._appended: dict[Batch, tuple[int, ...]] = {}  # the records of the last append
        self._taken: dict[tuple[PartitionKey, int], tuple[str, int, int]] = {}
        """By partition and record id: transactional id, and the rows of epoch and answer"""
        trace.subscribe(facts.TransactionState, self._on_state)
        trace.subscribe(facts.TransactionBegun, self._on_begun)

    def excuse(self, key: PartitionKey, record_id: int) -> str:
        """Return the reason of the loss for which a record was acknowledged in vain, or ""."""
        taken = self._taken.get((key, record_id))
        return "" if taken is None else self._footing.lost([self._footing.of_id(*taken)])

    def took(self, fact: facts.Acked) -> bool:
        """Return whether the leader has other records under this sequence than it acknowledged.

        The acknowledged offset is then theirs. Of the order of records it says nothing.
        """
        if not self._appended:
            return False
        return self._appended.get(_batch(fact), fact.record_ids) != fact.record_ids

    def _on_state(self, seq: int, _t: int, _node: str, fact: facts.TransactionState) -> None:
        epoch = (fact.transactional_id, fact.producer_id, fact.producer_epoch)
        self._given.setdefault(epoch, seq)

    def _on_begun(self, _seq: int, _t: int, _node: str, fact: facts.TransactionBegun) -> None:
        if not self._ids:
            self._trace.subscribe(facts.Appended, self._on_appended)
            self._trace.subscribe(facts.Acked, self._on_acked)
        self._ids[fact.producer_id] = fact.transactional_id

    def _on_appended(self, _seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        if fact.record_ids and fact.producer_id in self._ids:
            self._appended[_batch(fact)] = fact.record_ids

    def _on_acked(self, seq: int, _t: int, _node: str, fact: facts.Acked) -> None:
        if fact.producer_id not in self._ids:
            return
        key = (fact.topic_id, fact.partition)
        if not self.took(fact):
            for record_id in fact.record_ids if self._taken else ():
                self._taken.pop((key, record_id), None)
            return
        id_ = self._ids[fact.producer_id]
        given = self._given.get((id_, fact.producer_id, fact.producer_epoch), -1)
        for record_id in fact.record_ids:
            self._taken[key, record_id] = (id_, given, seq)


@dataclass(slots=True)
class _Open:
    """The last transaction of a producer id."""

    node: str
    producer_epoch: int
    begun: int  # the row in which it began, as the next one
    ended: int = -1  # −1: it has not
    ending: bool = False  # its commit or abort was asked for
    outcome: str = ""
    failed: dict[PartitionKey, int] = field(default_factory=dict)
    """By partition, the lowest first sequence of a batch that failed late and was appended"""
    taken: list[tuple[PartitionKey, int]] = field(default_factory=list)
    """Its records that were taken for such a batch of its own, by partition and record id"""


class GivenBack:
    """Follows the sequences of transactional producers; without one it costs nothing."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._ids: dict[tuple[str, str], int] = {}  # (node, transactional id) -> producer id
        self._open: dict[int, _Open] = {}  # by producer id
        self._appended: dict[Batch, tuple[int, tuple[int, ...]]] = {}  # the last append: row, ids
        self._back: dict[tuple[PartitionKey, int, int], list[tuple[int, int, int]]] = {}
        """By partition, producer id and epoch, of each aborted transaction that gave sequences
        back: the lowest of them, and the rows of its begin and end"""
        self._taken: dict[tuple[PartitionKey, int], list[int]] = {}
        """By partition and record id: the begins of the transactions whose batch was not stored"""
        self._late: dict[tuple[PartitionKey, int, int, tuple[int, ...]], _Open] = {}
        """By partition, producer id, epoch and records, the transaction of a batch that failed
        late; its request may reach the leader afterwards"""
        trace.subscribe(facts.TransactionBegun, self._on_begun)

    def excuse(self, key: PartitionKey, record_id: int, begun: int | None = None) -> str:
        """Return :data:`GIVEN_BACK` if a record, of a transaction, was taken for an aborted one."""
        taken = self._taken.get((key, record_id), [])
        return GIVEN_BACK if taken and (begun is None or begun in taken) else ""

    def excuse_in(self, topic_ids: Collection[str], record_id: int) -> str:
        """Return :data:`GIVEN_BACK` if it was taken for an aborted one in one of the topics."""
        for (topic_id, _), of in self._taken:
            if of == record_id and topic_id in topic_ids:
                return GIVEN_BACK
        return ""

    def _on_begun(self, seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        if not self._open:
            self._trace.subscribe(facts.Appended, self._on_appended)
            self._trace.subscribe(facts.SendFailed, self._on_failed)
            self._trace.subscribe(facts.TransactionEnding, self._on_ending)
            self._trace.subscribe(facts.TransactionEnded, self._on_ended)
            self._trace.subscribe(facts.Acked, self._on_acked)
        self._ids[node, fact.transactional_id] = fact.producer_id
        self._open[fact.producer_id] = _Open(node, fact.producer_epoch, seq)

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        if not fact.record_ids or fact.producer_id not in self._open:
            return
        self._appended[_batch(fact)] = (seq, fact.record_ids)
        key = (fact.topic_id, fact.partition)
        of = self._late.get((key, fact.producer_id, fact.producer_epoch, fact.record_ids))
        if of is None:
            return
        if of.ended < 0:
            of.failed[key] = min(fact.base_sequence, of.failed.get(key, fact.base_sequence))
        elif of.outcome == "aborted":  # it came later still, and is alone in having its sequences
            producer = (key, fact.producer_id, fact.producer_epoch)
            self._back.setdefault(producer, []).append((fact.base_sequence, seq - 1, seq + 1))

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.SendFailed) -> None:
        """Note a sequence that was given back; a batch that expired keeps its own."""
        if not fact.indeterminate or fact.error == "TIMED_OUT":
            return
        late = {
            producer_id: each
            for producer_id, each in self._open.items()
            if each.node == node and each.ending and each.ended < 0
        }
        if not late:
            return
        at = (fact.topic_id, fact.partition)
        for producer_id, of in late.items():
            self._late[at, producer_id, of.producer_epoch, fact.record_ids] = of
        for (key, producer_id, epoch, sequence), (row, ids) in self._appended.items():
            now = late.get(producer_id)
            if now is None or (epoch, ids) != (now.producer_epoch, fact.record_ids):
                continue
            if key == at and row > now.begun:
                now.failed[key] = min(sequence, now.failed.get(key, sequence))

    def _on_ending(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnding) -> None:
        self._open[self._ids[node, fact.transactional_id]].ending = True

    def _on_ended(self, seq: int, _t: int, node: str, fact: facts.TransactionEnded) -> None:
        producer_id = self._ids[node, fact.transactional_id]
        ended = self._open[producer_id]
        ended.ended, ended.outcome = seq, fact.outcome
        for taken in ended.taken if fact.outcome == "committed" else ():
            self._taken[taken].remove(ended.begun)
        for key, lowest in ended.failed.items() if fact.outcome == "aborted" else ():
            producer = (key, producer_id, ended.producer_epoch)
            self._back.setdefault(producer, []).append((lowest, ended.begun, seq))

    def _on_acked(self, _seq: int, _t: int, _node: str, fact: facts.Acked) -> None:
        key = (fact.topic_id, fact.partition)
        back = self._back.get((key, fact.producer_id, fact.producer_epoch), [])
        now = self._open.get(fact.producer_id)
        if now is None or now.ended >= 0 or not (back or now.failed):
            return
        row, ids = self._appended.get(_batch(fact), (-1, ()))
        own = ids != fact.record_ids and now.failed.get(key, 1 << 31) <= fact.base_sequence
        earlier = any(
            lowest <= fact.base_sequence and begun < row < ended for lowest, begun, ended in back
        )
        if len(ids) == len(fact.record_ids) and (earlier or (own and now.begun < row)):
            for record_id in fact.record_ids:
                self._taken.setdefault((key, record_id), []).append(now.begun)
                if not earlier:
                    now.taken.append((key, record_id))


def _batch(fact: facts.Appended | facts.Acked) -> Batch:
    key = (fact.topic_id, fact.partition)
    return key, fact.producer_id, fact.producer_epoch, fact.base_sequence
