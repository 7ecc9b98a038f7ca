"""Committed offsets that expired: a processor begins again at inputs that it has handled.

A coordinator removes the offsets of a group that has had no members for offsets.retention.minutes
(KIP-211), but not those of a partition for which a transaction has offsets pending
(OffsetMetadataManager.cleanupExpiredOffsets; GroupMetadata.removeExpiredOffsets). So a processor
that was cut off for so long, and whose member the group has lost, goes on where it was in one
partition, and in another where auto.offset.reset sends it. What it writes again is committed, too:
nothing but the committed offsets says that an input has its output.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.removed_offsets import ExpiredOffsets, Offset
from kafkasim.model import facts

EXPIRED = "expired-offsets"
"""Why a group was given committed inputs again: see :class:`ExpiredCommits`."""


class ExpiredCommits:
    """Follows answers that a group has no committed offset, where its last one may have expired."""

    def __init__(self, trace: FactSource, retention_us: int) -> None:
        self._expiries = ExpiredOffsets(trace, retention_us)
        self._committed: dict[Offset, tuple[int, int]] = {}  # offset and time; none: nothing told
        self._gone: dict[Offset, list[tuple[int, int]]] = {}  # offset committed, row of the answer
        trace.subscribe(facts.OffsetCommitted, self._on_committed)
        trace.subscribe(facts.OffsetFetched, self._on_fetched)

    def again(self, group: str, topic: str, number: int, offset: int, rows: list[int]) -> int:
        """Return how often between two of the rows an expiry led back to a committed input."""
        gone = self._gone.get((group, topic, number), [])
        return sum(offset < end and min(rows) < row < max(rows) for end, row in gone)

    def _on_committed(self, _seq: int, t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        self._committed[fact.group, fact.topic, fact.partition] = (fact.offset, t)

    def _on_fetched(self, seq: int, t: int, _node: str, fact: facts.OffsetFetched) -> None:
        if fact.offset >= 0:
            return
        place = (fact.group, fact.topic, fact.partition)
        known = self._committed.pop(place, None)  # the next answer without a commit is the same one
        if known is not None and self._expiries.cover(fact.group, known[1], t):
            self._gone.setdefault(place, []).append((known[0], seq))
