"""Batches that a later batch has overtaken, because two leaders in turn did not know the producer.

A leader accepts any sequence of a producer that it does not know
(ProducerAppendInfo.checkSequence). While the first batch is on its way to the old leader, the
producer sends the second one to the new leader
(RecordAccumulator.shouldStopDrainBatchesForPartition delays retries only), which appends it. From
then on the first batch is out of order. The producer retries it, because it does not follow the
last acknowledged batch (TransactionManager.canRetry). It is appended after the others if the next
leader has reset its log meanwhile, to an offset after all batches of the producer: the reset drops
the producer state (UnifiedLog.truncateFullyAndStartAt).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


@dataclass(slots=True)
class _Appended:
    """What a producer has in a partition so far, in whatever log."""

    lowest: int  # its lowest first sequence
    end: int  # behind the highest of its batches


class Overtaken:
    """Follows the batches of idempotent producers and the logs that begin anew."""

    def __init__(self, trace: FactSource) -> None:
        self._reset: dict[tuple[str, PartitionKey], int] = {}  # by host: highest offset of a reset
        self._producers: dict[tuple[PartitionKey, int], _Appended] = {}
        self._overtaken: dict[tuple[PartitionKey, int, int, int], None] = {}
        """Partition, producer id and epoch, base offset"""
        trace.subscribe(facts.Appended, self._on_appended)
        trace.subscribe(facts.LogStart, self._on_log_start)

    def covers(self, fact: facts.Acked) -> bool:
        """Return whether the acknowledged batch is one that a later one has overtaken so."""
        key = (fact.topic_id, fact.partition)
        return (key, fact.producer_id, fact.producer_epoch, fact.base_offset) in self._overtaken

    def _on_log_start(self, _seq: int, _t: int, node: str, fact: facts.LogStart) -> None:
        if fact.reason == "reset":
            place = (node, (fact.topic_id, fact.partition))
            self._reset[place] = max(fact.offset, self._reset.get(place, 0))

    def _on_appended(self, _seq: int, _t: int, node: str, fact: facts.Appended) -> None:
        if fact.producer_id < 0 or fact.base_sequence < 0:
            return
        key, base = (fact.topic_id, fact.partition), fact.base_sequence
        known = self._producers.get((key, fact.producer_id))
        if known is None:
            self._producers[key, fact.producer_id] = _Appended(base, fact.next_offset)
            return
        if base < known.lowest and known.end <= self._reset.get((node, key), -1):
            batch = (key, fact.producer_id, fact.producer_epoch, fact.base_offset)
            self._overtaken[batch] = None
        known.lowest = min(known.lowest, base)
        known.end = max(known.end, fact.next_offset)
