"""LOGORDER while the run goes on: log start ≤ high watermark ≤ log end.

UnifiedLog keeps this order at each step, so there is nothing to wait for and nothing that a fault
explains. ``invariants/final.py`` judges the logs at the end.
"""

from __future__ import annotations

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.model import facts


class OffsetOrder:
    """Judges each fact that tells a log's offsets."""

    def __init__(self, cluster: TracedCluster) -> None:
        self.cluster = cluster
        trace = cluster.trace
        trace.subscribe(facts.LogStart, self._on_log_start)
        trace.subscribe(facts.LogLoaded, self._on_loaded)
        trace.subscribe(facts.BecameLeader, self._on_leader)

    def _on_log_start(self, seq: int, t: int, node: str, fact: facts.LogStart) -> None:
        order = (fact.offset, fact.high_watermark, fact.log_end_offset)
        self._judge(seq, t, node, (fact.topic_id, fact.partition), order)

    def _on_loaded(self, seq: int, t: int, node: str, fact: facts.LogLoaded) -> None:
        order = (fact.log_start_offset, fact.high_watermark, fact.log_end_offset)
        self._judge(seq, t, node, (fact.topic_id, fact.partition), order)

    def _on_leader(self, seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        order = (0, fact.high_watermark, fact.start_offset)
        self._judge(seq, t, node, (fact.topic_id, fact.partition), order)

    def _judge(
        self, seq: int, t: int, node: str, key: tuple[str, int], order: tuple[int, int, int]
    ) -> None:
        if list(order) != sorted(order):
            self.cluster.violated(
                "LOGORDER", seq, t, key,
                f"{node}: log start, high watermark and log end are {order}",
            )  # fmt: skip
