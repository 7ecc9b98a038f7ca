"""Epochs that a coordinator has given twice, to a leader that had forgotten the producer.

A coordinator that has legally lost the newest epochs of a transactional id gives them out again. A
leader that remembers the producer refuses its markers and batches until the epochs are beyond what
it knows (ProducerAppendInfo.checkProducerEpoch). One that has forgotten it, because it had heard
nothing of it for producer.id.expiration.ms, takes a batch of the second producer under the id,
epoch and sequence that a batch of the first one has (ProducerStateManager.removeExpiredProducers).
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import Losses, PartitionKey
from kafkasim.analysis.judging.transactions.footing import Footing
from kafkasim.model import facts

Producer = tuple[PartitionKey, int]
"""A partition and a producer id."""


class ReusedEpochs:
    """Follows transactional producers; without one it costs nothing."""

    def __init__(self, trace: FactSource, losses: Losses, expiration_us: int) -> None:
        """``expiration_us`` is producer.id.expiration.ms."""
        self._trace = trace
        self._footing = Footing(trace, losses)
        self._expiration_us = expiration_us
        self._ids: dict[int, str] = {}  # producer id -> transactional id
        self._last_us: dict[Producer, int] = {}  # when a leader last appended something of it
        self._silent: dict[Producer, int] = {}  # the row that ended its last long silence
        trace.subscribe(facts.TransactionState, self._on_state)

    def excuse(self, key: PartitionKey, producer_id: int, since: int, t: int) -> str:
        """Return why a leader may take other records, at ``t``, under a sequence of row ``since``.

        It is the reason of a loss of the id's coordinator since then, or "".
        """
        if producer_id not in self._ids:
            return ""
        last_us = self._last_us.get((key, producer_id), t)
        silent = t - last_us >= self._expiration_us
        if not silent and self._silent.get((key, producer_id), -1) <= since:
            return ""
        return self._footing.lost([self._footing.of_id(self._ids[producer_id], after=since)])

    def _on_state(self, _seq: int, _t: int, _node: str, fact: facts.TransactionState) -> None:
        if not self._ids:
            self._trace.subscribe(facts.Appended, self._on_appended)
        self._ids[fact.producer_id] = fact.transactional_id

    def _on_appended(self, seq: int, t: int, _node: str, fact: facts.Appended) -> None:
        if fact.producer_id in self._ids:
            producer = ((fact.topic_id, fact.partition), fact.producer_id)
            if t - self._last_us.get(producer, t) >= self._expiration_us:
                self._silent[producer] = seq
            self._last_us[producer] = t
