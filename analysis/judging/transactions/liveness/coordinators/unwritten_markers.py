"""Decided transactions that wait for a marker in a partition that has lost too many replicas.

A leader appends a marker with acks=all (KafkaApis.handleWriteTxnMarkersRequest), so with an ISR
below min.insync.replicas it answers NOT_ENOUGH_REPLICAS (Partition.appendRecordsToLeader), or
NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR shrinks before the high watermark has passed the marker
(Partition.checkEnoughReplicasReachOffset). The coordinator sends it again for ever
(TransactionMarkerRequestCompletionHandler.onComplete), and the transaction stays in Prepare*. The
partition stays below its minimum if the brokers that its ISR lacks do not come back, or its leader
adds nobody to it any more (``controllers/below_minimum.py``).

So wait for ever a producer or processor with that transactional id, and in that partition the
readers of committed records and who needs the offsets of the transaction (``standstill.py``).
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey, Waits
from kafkasim.analysis.judging.transactions.liveness.controllers.below_minimum import (
    FewReplicas,
    Stuck,
)
from kafkasim.analysis.judging.transactions.liveness.controllers.last_changes import LastChanges
from kafkasim.analysis.judging.transactions.liveness.coordinators.decisions import Decisions
from kafkasim.model import facts


class UnwrittenMarkers:
    """Follows decided transactions, their markers, and the ISRs of their partitions.

    ``judges`` and ``stuck`` are those of :class:`FewReplicas`.
    """

    def __init__(
        self, trace: FactSource, judges: Sequence[Waits], stuck: Stuck = lambda _key, _epoch: ""
    ) -> None:
        self._trace = trace
        self._decisions = Decisions(trace)
        self._few = FewReplicas(LastChanges(trace), judges, stuck)
        self._topic_ids: dict[str, str] = {}  # of the topics that exist, by name
        self._producers: dict[str, int] = {}  # transactional id -> producer id
        self._confirmed: dict[int, dict[PartitionKey, None]] = {}
        """By producer id, where a marker of its last transaction was confirmed"""
        self._appended: dict[PartitionKey, dict[int, int]] = {}
        """By producer id, the offset of its last marker, until the high watermark passes it"""
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.TransactionState, self._on_transaction)
        trace.subscribe(facts.MarkerWritten, self._on_marker)
        trace.subscribe(facts.BecameLeader, self._on_leader)

    def excuse(self, transactional_id: str, key: PartitionKey | None = None) -> str:
        """Return why nobody confirms the marker of an id's decided transaction, or "".

        ``key``: the marker in that partition; None: in any of the transaction's partitions.
        """
        confirmed = self._confirmed.get(self._producers.get(transactional_id, -1), {})
        for name in self._decisions.of(transactional_id):
            topic, _, number = name.rpartition("-")
            place = (self._topic_ids.get(topic, ""), int(number))
            if place not in confirmed and key in (None, place) and (why := self._few.why(place)):
                return why
        return ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topic_ids[fact.topic] = fact.topic_id

    def _on_topic_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        """Forget a topic: a coordinator sends no marker there."""
        if self._topic_ids.get(fact.topic) == fact.topic_id:
            del self._topic_ids[fact.topic]

    def _on_transaction(self, _seq: int, _t: int, _n: str, fact: facts.TransactionState) -> None:
        if fact.state == "Ongoing":
            self._producers[fact.transactional_id] = fact.producer_id
            self._confirmed.pop(fact.producer_id, None)

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        if not self._appended:
            self._trace.subscribe(facts.HighWatermark, self._on_high_watermark)
        places = self._appended.setdefault((fact.topic_id, fact.partition), {})
        places[fact.producer_id] = fact.offset

    def _on_leader(self, _seq: int, _t: int, _node: str, fact: facts.BecameLeader) -> None:
        """Forget what was not confirmed: the coordinator has to ask the new leader."""
        if (fact.topic_id, fact.partition) in self._appended:
            self._appended[fact.topic_id, fact.partition] = {}

    def _on_high_watermark(self, _seq: int, _t: int, _node: str, fact: facts.HighWatermark) -> None:
        """Confirm the markers below, unless fewer than min.insync.replicas have them."""
        key = (fact.topic_id, fact.partition)
        waiting = self._appended.get(key)
        if not waiting or len(fact.acknowledged) < fact.min_isr:
            return
        for producer_id, offset in list(waiting.items()):
            if offset < fact.high_watermark:
                del waiting[producer_id]
                self._confirmed.setdefault(producer_id, {})[key] = None
