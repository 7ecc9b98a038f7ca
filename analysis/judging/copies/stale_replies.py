"""Answers to fetches of an older leader epoch: before KAFKA-18991 a follower appended them.

A follower of 2.8 or 4.0.0 compares the offset alone (AbstractFetcherThread.processFetchRequest). If
an answer comes late, the follower may have led meanwhile, without an append, and stand at the same
offset. Its leader-epoch cache then ends with its own epochs, at its log end. The batch that it
appends has an older epoch, which removes them and all that is not older than the batch's epoch, and
begins anew at the batch (LeaderEpochFileCache.assign, maybeTruncateNonMonotonicEntries). So the
cache has no start any more for the earlier batches of that epoch. A follower that asked in its
present epoch would have been told to truncate first.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Replica = tuple[str, PartitionKey]


class StaleReplies:
    """Follows what followers appended from answers to fetches of an older leader epoch."""

    def __init__(self, trace: FactSource) -> None:
        self._begun: dict[Replica, dict[int, int]] = {}
        """By replica and epoch: from which offset on its cache has the epoch"""
        trace.subscribe(facts.StaleReplyUsed, self._on_used)

    def cut(self, node: str, key: PartitionKey, base: int, epoch: int) -> bool:
        """Return whether the cache of a replica has lost the epoch of the batch at ``base``."""
        return base < self._begun.get((node, key), {}).get(epoch, 0)

    def _on_used(self, _seq: int, _t: int, node: str, fact: facts.StaleReplyUsed) -> None:
        begun = self._begun.setdefault((node, (fact.topic_id, fact.partition)), {})
        begun[fact.batch_epoch] = fact.base_offset
