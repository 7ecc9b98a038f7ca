"""Sequences of idempotent producers that a leader has to refuse.

    EPOCHREASON   a partition does not begin an epoch that its producer has raised with sequence 0:
                  the leader refuses the batch, and the producer raises its epoch again
                  (KAFKA-12152, TransactionManager.bumpIdempotentProducerEpoch)
    VERIFYORDER   a leader appends a batch behind one that it has refused for want of a
                  verification (KIP-890): that one is out of order for ever (KAFKA-14920,
                  KAFKA-16386)

What waits for its verification is in the leader's memory only. So VERIFYORDER is not judged across
two leaderships, nor once the leader may have forgotten the producer (producer.id.expiration.ms).
"""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


class Sequences:
    """Follows the epochs that producers begin, and the batches that leaders refuse."""

    def __init__(self, findings: Findings, expiration_us: int) -> None:
        """``expiration_us`` is producer.id.expiration.ms."""
        self._findings = findings
        self._expiration_us = expiration_us
        self._waiting: dict[tuple[str, PartitionKey], dict[int, tuple[int, int, int]]] = {}
        """By leader, partition and producer id: epoch, lowest refused sequence, and when"""

    def on_EpochBegun(self, seq: int, t: int, node: str, fact: facts.EpochBegun) -> None:
        if fact.base_sequence != 0:
            self._findings.add(
                "EPOCHREASON", seq, t, (fact.topic_id, fact.partition),
                f"{node} begins epoch {fact.producer_epoch} of producer id {fact.producer_id} here"
                f" with sequence {fact.base_sequence}: its next epoch will have no other reason",
            )  # fmt: skip

    def on_BecameLeader(self, _s: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        self._waiting.pop((node, (fact.topic_id, fact.partition)), None)

    def on_BatchUnverified(self, _s: int, t: int, node: str, fact: facts.BatchUnverified) -> None:
        waiting = self._waiting.setdefault((node, (fact.topic_id, fact.partition)), {})
        epoch, sequence, _ = waiting.get(fact.producer_id, (-1, -1, t))
        if (fact.producer_epoch, -fact.base_sequence) > (epoch, -sequence):
            waiting[fact.producer_id] = (fact.producer_epoch, fact.base_sequence, t)

    def on_Appended(self, seq: int, t: int, node: str, fact: facts.Appended) -> None:
        if not self._waiting:
            return
        key = (fact.topic_id, fact.partition)
        refused = self._waiting.get((node, key), {}).pop(fact.producer_id, None)
        if refused is None or t - refused[2] >= self._expiration_us:
            return
        if fact.producer_epoch == refused[0] and fact.base_sequence > refused[1]:
            self._findings.add(
                "VERIFYORDER", seq, t, key,
                f"{node} appends sequence {fact.base_sequence} of producer {fact.producer_id}, and"
                f" has refused sequence {refused[1]} for want of a verification: that one is out of"
                " order for ever",
            )  # fmt: skip
