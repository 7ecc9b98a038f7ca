"""Share partitions that stop at a read gap of which the log has nothing any more (KIP-932).

A leader that has read a state with a gap fetches from the begin of the gap. If the cleaner has
removed all that was there, the read begins behind it. SharePartition.acquire moves the gap's start
with what it acquires, so of a read that has only batches that are done it acquires nothing, and the
next fetch is the same. A read ends with the segment that it begins in, if not before. So the gap
may also lie behind records that are done, and what is available behind that segment is not
reached. Where a cleaned segment ends tells its cleaning; offsets between the cached batches of
a read count as new (SharePartition.acquire), whether the log has them or not.

If the read has a new record, too, that is given out, and the gap is over. But the start offset
stays: SharePartition.canMoveStartOffset finds no batch at or below it. So the group goes on to the
end of the log, or until group.share.partition.max.record.locks offsets lie between start and end
offset, though all of them are done (SharePartition.canAcquireRecords).

A former leader may have moved its start offset further than the last one: that is written with the
next move only.
"""

from __future__ import annotations

from typing import TypeAlias

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import final_leaders
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import (
    DONE,
    Leader,
    Leaders,
    states_from,
)
from kafkasim.model import facts

REMOVED = "read-gap-was-removed"

Replica: TypeAlias = tuple[str, str, int]
"""Node, topic id, partition."""

Ends: TypeAlias = facts.LogLoaded | facts.BecameFollower
"""What tells where a replica's log ends, after a recovery or the loss of a disk."""


class RemovedGaps:
    """Follows the leaders of share partitions, and their logs."""

    def __init__(self, trace: FactSource, locks: int) -> None:
        """``locks`` is group.share.partition.max.record.locks."""
        self._locks = locks
        self._logs = final_leaders(trace)
        self._segments: dict[Replica, dict[int, int]] = {}  # base and next offset, as last cleaned
        self._leaders = Leaders(trace, lambda _key, node, fact: Leader(node, fact.leader_epoch), {})
        trace.subscribe(facts.Cleaned, self._on_cleaned)
        trace.subscribe(facts.Truncated, self._on_truncated)
        for kind in (facts.LogLoaded, facts.BecameFollower):
            trace.subscribe(kind, self._on_end)
        trace.subscribe(facts.LogDeleted, self._on_gone)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        stall = self._leaders.stall(line)
        log = None if stall is None else self._logs.get(stall.key[1:])
        if stall is None or log is None or stall.final.start_offset > stall.reached:
            return ""
        final, end = stall.final, stall.end
        segments = self._segments.get((stall.leader.node, *stall.key[1:]), {})
        if self._begins_with_a_gap(final, log, end):
            return REMOVED
        return REMOVED if _reads_what_is_done(final, log, segments) else ""

    def _begins_with_a_gap(
        self, final: facts.FinalSharePartition, log: facts.FinalReplica, end: int
    ) -> bool:
        """Return whether a leader that has done all starts with a removed gap."""
        start, first = final.start_offset, min(final.first_offsets, default=-1)
        if first <= start or _has_batch(log, start, first):
            return False  # there is no gap, or it has records
        if any(state not in DONE for state in final.states):
            return False
        return self._reads_nothing_new(final, end)

    def _reads_nothing_new(self, final: facts.FinalSharePartition, end: int) -> bool:
        """Return whether a leader that has done all in its cache fetches the gap, or nothing."""
        if final.gap_start == final.start_offset or final.end_offset == end - 1:
            return True
        in_flight = final.end_offset - final.start_offset + 1
        return final.gap_start == -1 and in_flight >= self._locks

    def _on_cleaned(self, _seq: int, _t: int, node: str, fact: facts.Cleaned) -> None:
        segments = self._segments.setdefault((node, fact.topic_id, fact.partition), {})
        segments.pop(fact.base_offset, None)  # the last one comes last
        segments[fact.base_offset] = fact.next_offset

    def _on_truncated(self, _seq: int, _t: int, node: str, fact: facts.Truncated) -> None:
        self._cut((node, fact.topic_id, fact.partition), fact.offset)

    def _on_end(self, _seq: int, _t: int, node: str, fact: Ends) -> None:
        self._cut((node, fact.topic_id, fact.partition), fact.log_end_offset)

    def _on_gone(self, _seq: int, _t: int, node: str, fact: facts.LogDeleted) -> None:
        self._segments.pop((node, fact.topic_id, fact.partition), None)

    def _cut(self, replica: Replica, offset: int) -> None:
        """Forget the segments that are not below an offset: the log may have gone on in them."""
        known = self._segments.get(replica)
        if known:
            kept = {base: end for base, end in known.items() if end <= offset}
            self._segments[replica] = kept


def _has_batch(log: facts.FinalReplica, first: int, end: int) -> bool:
    """Return whether a batch of a log has an offset from ``first`` to before ``end``."""
    return any(
        base < end and following > first
        for base, following in zip(log.base_offsets, log.next_offsets, strict=True)
    )


def _reads_what_is_done(
    final: facts.FinalSharePartition, log: facts.FinalReplica, segments: dict[int, int]
) -> bool:
    """Return whether the read of a gap begins behind it, and its whole segment is done."""
    gap = _next_gap(final)
    batches = list(zip(log.base_offsets, log.next_offsets, strict=True))
    base = next((base for base, following in batches if following > gap), -1)
    if gap == -1 or base <= gap:
        return False
    covering = (end for low, end in reversed(segments.items()) if low <= base < end)
    segment_end = next(covering, -1)
    end = max((after for first, after in batches if base <= first < segment_end), default=-1)
    states = states_from(final, base)
    return end != -1 and all(states.get(offset) in DONE for offset in range(base, end))


def _next_gap(final: facts.FinalSharePartition) -> int:
    """Return where a leader fetches next if a gap is there, −1 if not (nextFetchOffset)."""
    offset = final.gap_start
    if offset < final.start_offset:
        return -1
    for first, last, state in zip(
        final.first_offsets, final.last_offsets, final.states, strict=True
    ):
        if first > offset:
            return offset
        if state not in DONE:
            return -1
        offset = max(offset, last + 1)
    return -1
