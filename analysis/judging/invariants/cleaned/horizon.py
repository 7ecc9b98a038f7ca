"""HORIZON: a tombstone is removed by the first cleaning that may do so (KAFKA-8522, B89).

The first cleaning of a replica that meets a tombstone gives its batch a delete horizon, if the
batch has none yet: the begin of the cleaning and delete.retention.ms. The horizon is in the batch
and never moves (KIP-534). So a later cleaning of that replica removes the tombstone if it began at
that time or later and has seen the keys up to there (``mapped_offset``). A batch that was copied
may have a horizon already: that of an earlier cleaning elsewhere, by another clock or with another
delete.retention.ms. So the bound is the latest horizon that any cleaning up to this replica's first
one could give. Nothing is added to it: a replica's rule and the judge use the same clock, and a
clock that is set moves both.

What a replica has met is forgotten when it appends at or below that offset, because the batch that
it has then may be another copy; and when it loads its log, because a power loss may undo the swap
of a cleaned segment. A replica may have got a tombstone's batch without it once any cleaner has
removed it, so that one is not judged any more.

Left out: markers. They may go once no batch of their transaction is left, and no fact tells of the
headers that stay.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from kafkasim.analysis.judging.invariants.traced import TracedCluster, TracedPartition
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


class Horizons:
    """Follows the tombstones of each replica of compacted partitions."""

    def __init__(self, cluster: TracedCluster) -> None:
        self._cluster = cluster
        self._met: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        """By replica and offset of a tombstone: its delete horizon at the latest, in ms"""
        self._removed: dict[PartitionKey, dict[int, None]] = {}  # offsets, by any cleaner
        self._ends: dict[tuple[str, PartitionKey], int] = {}  # behind the last of these offsets

    def judge(
        self,
        state: TracedPartition,
        tombstones: list[tuple[int, int]],
        seq: int,
        t: int,
        node: str,
        fact: facts.Cleaned,
        earlier: Sequence[tuple[int, int, int]],
    ) -> None:
        """Judge a cleaning.

        ``tombstones`` are those of the partition, as ascending offsets and leader epochs; of
        ``earlier`` cleanings it has base, next offset and the horizon that they set, in ms.
        """
        if not self._met:
            trace = self._cluster.trace
            trace.subscribe(facts.Appended, self._on_appended)
            trace.subscribe(facts.Replicated, self._on_appended)
            trace.subscribe(facts.LogLoaded, self._on_loaded)
        replica = (node, state.key)
        log = state.replica(node)
        met = self._met.setdefault(replica, {})
        removed = self._removed.setdefault(state.key, {})
        removed |= dict.fromkeys(fact.removed_offsets())
        horizon_ms = fact.began_ms + fact.delete_retention_ms
        for offset, epoch in tombstones[bisect_left(tombstones, (fact.base_offset, -1)) :]:
            if offset >= fact.next_offset:
                break
            at = bisect_right(log.nexts, offset)
            if offset in removed or at == len(log.nexts) or log.epochs[at] != epoch:
                met.pop(offset, None)
                continue
            known_ms = met.get(offset)
            if known_ms is None:
                met[offset] = max(
                    [horizon_ms, *[ms for low, high, ms in earlier if low <= offset < high]]
                )
            self._ends[replica] = max(self._ends.get(replica, 0), offset + 1)
            if known_ms is not None and known_ms <= fact.began_ms and offset < fact.mapped_offset:
                self._cluster.violated(
                    "HORIZON", seq, t, state.key,
                    f"the cleaner of {node} kept the deletion at offset {offset}"
                    f" {fact.began_ms - known_ms} ms after its delete horizon",
                    offset=offset,
                )  # fmt: skip

    def _on_appended(
        self, _seq: int, _t: int, node: str, fact: facts.Appended | facts.Replicated
    ) -> None:
        replica = (node, (fact.topic_id, fact.partition))
        if fact.base_offset < self._ends.get(replica, 0):
            met = self._met[replica]
            self._met[replica] = {at: ms for at, ms in met.items() if at < fact.base_offset}
            self._ends[replica] = fact.base_offset

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        replica = (node, (fact.topic_id, fact.partition))
        if replica in self._met:
            self._met[replica] = {}
