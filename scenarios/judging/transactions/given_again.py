"""Records that a broker took for a duplicate, because their producer's epoch was given twice.

A coordinator that has legally lost an epoch of a transactional id gives it out again. A leader that
remembers a batch of the first producer under the same epoch and sequence takes a batch of the
second one for it, and acknowledges what it does not append
(ProducerStateEntry.findDuplicateBatch). Nothing else is explained: the last batch that was appended
under the batch's id, epoch and sequence is another one, and the loss lies between the row in which
the epoch was first told and the acknowledgement.
"""

from __future__ import annotations

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource, Losses, PartitionKey
from kafkasim.scenarios.judging.transactions.footing import Footing

Batch = tuple[PartitionKey, int, int, int]
"""Partition, producer id, epoch and first sequence."""


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
        if self._appended.get(_batch(fact), fact.record_ids) == fact.record_ids:
            for record_id in fact.record_ids if self._taken else ():
                self._taken.pop((key, record_id), None)
            return
        id_ = self._ids[fact.producer_id]
        given = self._given.get((id_, fact.producer_id, fact.producer_epoch), -1)
        for record_id in fact.record_ids:
            self._taken[key, record_id] = (id_, given, seq)


def _batch(fact: facts.Appended | facts.Acked) -> Batch:
    key = (fact.topic_id, fact.partition)
    return key, fact.producer_id, fact.producer_epoch, fact.base_sequence
