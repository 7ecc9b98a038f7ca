"""Share partitions that stop at a read gap of which the log has nothing any more (KIP-932).

A leader that has read a state with a gap fetches from the begin of the gap. If the cleaner has
removed all that was there, the read begins behind it. SharePartition.acquire moves the gap's start
with what it acquires, so of a read that has only batches that are done it acquires nothing, and the
next fetch is the same. A read ends with the segment that it begins in, if not before.

If the read has a new record, too, that is given out, and the gap is over. But the start offset
stays: SharePartition.canMoveStartOffset finds no batch at or below it. So the group goes on to the
end of the log, or until group.share.partition.max.record.locks offsets lie between start and end
offset, though all of them are done (SharePartition.canAcquireRecords).

A former leader may have moved its start offset further than the last one: that is written with the
next move only.
"""

from __future__ import annotations

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource, final_leaders
from kafkasim.scenarios.judging.transactions.liveness.shares.leaders import (
    DONE,
    SHARES,
    Leader,
    Leaders,
)

REMOVED = "read-gap-was-removed"


class RemovedGaps:
    """Follows the leaders of share partitions, and their logs."""

    def __init__(self, trace: FactSource, locks: int) -> None:
        """``locks`` is group.share.partition.max.record.locks."""
        self._locks = locks
        self._logs = final_leaders(trace)
        self._leaders = Leaders(trace, lambda _key, node, fact: Leader(node, fact.leader_epoch), {})

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        found = SHARES.match(line)
        if found is None:
            return ""
        reached, end = int(found[2]), int(found[3])
        key = self._leaders.key(found[1], found[4], int(found[5]))
        leader, log = self._leaders.last.get(key), self._logs.get(key[1:])
        if leader is None or leader.final is None or log is None:
            return ""
        final = leader.final
        start, first = final.start_offset, min(final.first_offsets, default=-1)
        if start > reached or first <= start or _has_batch(log, start, first):
            return ""  # there is no gap, or it has records
        if any(state not in DONE for state in final.states):
            return ""
        return REMOVED if self._reads_nothing_new(final, end) else ""

    def _reads_nothing_new(self, final: facts.FinalSharePartition, end: int) -> bool:
        """Return whether a leader that has done all in its cache fetches the gap, or nothing."""
        if final.gap_start == final.start_offset or final.end_offset == end - 1:
            return True
        in_flight = final.end_offset - final.start_offset + 1
        return final.gap_start == -1 and in_flight >= self._locks


def _has_batch(log: facts.FinalReplica, first: int, end: int) -> bool:
    """Return whether a batch of a log has an offset from ``first`` to before ``end``."""
    return any(
        base < end and following > first
        for base, following in zip(log.base_offsets, log.next_offsets, strict=True)
    )
