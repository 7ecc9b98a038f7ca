"""What producers were told of their records, and below which offset records were deleted."""

from __future__ import annotations

from collections.abc import Container

from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import DELETING, PartitionKey
from kafkasim.model import facts


class SendHistory:
    """Follows acknowledgements, and the log starts that say who deleted the records below them."""

    def __init__(self, trace: FactSource, deleted_topics: Container[str]) -> None:
        self.acked: dict[PartitionKey, dict[int, tuple[int, int, facts.Acked]]] = {}
        """By record id: offset (−1 unknown), time in µs of the acknowledgement, and that"""
        self._deleted_topics = deleted_topics
        self._deleted: dict[PartitionKey, int] = {}
        follow(trace, self)

    def log_start(self, key: PartitionKey, leader: facts.FinalReplica) -> int:
        """Return the offset below which records were deleted.

        A leader that crashes soon after has them again: the log start's checkpoint is written once
        a minute (KAFKA.md, 5).
        """
        return max(leader.log_start_offset, self._deleted.get(key, 0))

    def on_LogStart(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        """Take what was deleted."""
        if fact.reason in DELETING:
            key = (fact.topic_id, fact.partition)
            self._deleted[key] = max(fact.offset, self._deleted.get(key, 0))

    def on_Acked(self, _seq: int, t: int, _node: str, fact: facts.Acked) -> None:
        """Take an acknowledgement; not of a broker that had not heard yet of a deletion."""
        if fact.topic_id in self._deleted_topics:
            return
        acked, base = self.acked.setdefault((fact.topic_id, fact.partition), {}), fact.base_offset
        for index, record_id in enumerate(fact.record_ids):
            acked[record_id] = (base + index if base >= 0 else -1, t, fact)
