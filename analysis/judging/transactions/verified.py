"""VERIFYORDER: no batch of a producer overtakes one that waits for its verification (KIP-890).

A leader asks a transaction's coordinator before it appends the first batch. If it gets no yes, it
refuses the batch, and the producer sends it again, behind others that are in flight. If one of
those were appended first, the refused one would be out of order for ever (KAFKA-14920): the send
fails when delivery.timeout.ms is over, although the fault that kept the coordinator silent has
ended long before. So the leader refuses what has a higher sequence than a batch that waits
(VerificationStateEntry.lowestSequence, KAFKA-16386), until it has appended a batch or a marker of
the producer.

What waits is in the leader's memory only. So nothing is judged across two leaderships, nor of a
leader that has led for producer.id.expiration.ms or longer: it may have forgotten what waits
(ProducerStateManager.removeExpiredProducers).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The lowest sequence of an epoch that a leader has refused, and not appended since."""

    producer_epoch: int
    sequence: int
    error: str


class VerifiedInOrder:
    """Compares what leaders append with what they have refused for want of a verification."""

    def __init__(self, cluster: TracedCluster, expiration_us: int) -> None:
        """``expiration_us`` is producer.id.expiration.ms."""
        self._cluster = cluster
        self._expiration_us = expiration_us
        self._led_us: dict[tuple[str, PartitionKey], int] = {}
        self._waiting: dict[tuple[str, PartitionKey], dict[int, _Waiting]] = {}  # by producer id
        self._follows = False
        cluster.trace.subscribe(facts.BecameLeader, self._on_leader)
        cluster.trace.subscribe(facts.BatchUnverified, self._on_refused)

    def _on_leader(self, _seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        place = node, (fact.topic_id, fact.partition)
        self._led_us[place] = t
        self._waiting.pop(place, None)

    def _on_refused(self, _seq: int, _t: int, node: str, fact: facts.BatchUnverified) -> None:
        if not self._follows:
            self._follows = True  # few runs have such a batch
            self._cluster.trace.subscribe(facts.Appended, self._on_appended)
        waiting = self._waiting.setdefault((node, (fact.topic_id, fact.partition)), {})
        known = waiting.get(fact.producer_id)
        told = (-fact.producer_epoch, fact.base_sequence)
        if known is None or told < (-known.producer_epoch, known.sequence):
            waiting[fact.producer_id] = _Waiting(
                fact.producer_epoch, fact.base_sequence, fact.error
            )

    def _on_appended(self, seq: int, t: int, node: str, fact: facts.Appended) -> None:
        key = (fact.topic_id, fact.partition)
        known = self._waiting.get((node, key), {}).pop(fact.producer_id, None)
        if known is None or t - self._led_us.get((node, key), 0) >= self._expiration_us:
            return
        if fact.producer_epoch == known.producer_epoch and fact.base_sequence > known.sequence:
            self._cluster.violated(
                "VERIFYORDER", seq, t, key,
                f"{node} appends sequence {fact.base_sequence} of producer {fact.producer_id}, and"
                f" has refused sequence {known.sequence} for want of a verification"
                f" ({known.error}): that one is out of order for ever",
            )  # fmt: skip
