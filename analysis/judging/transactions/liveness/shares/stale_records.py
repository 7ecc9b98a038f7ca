"""Share partitions whose start offset stays in front of records that were removed (KIP-932).

A read from an available record that begins behind it shows a leader that the cleaner has removed
the record. SharePartition.maybeArchiveStaleBatches archives it, which moves no start offset and is
not persisted. The next acknowledgement moves it (maybeUpdateCachedStateAndOffsets). If all that
follows is done there is nothing to acknowledge, and it stays until a record comes that is new.

A record may become available so late because the persister retries the write of its release, as
when the share coordinator moves. Meanwhile the members go on behind it.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import final_leaders
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import (
    ARCHIVED,
    Leader,
    Leaders,
    are_done,
    offsets_of,
    states_from,
)
from kafkasim.model import facts

STALE = "removed-at-the-start"


class _Leader(Leader):
    """The last leader of a share partition."""

    def __init__(self, node: str, epoch: int) -> None:
        super().__init__(node, epoch)
        self.removed: dict[int, None] = {}  # offsets that it archived as removed, by its last fact


class StaleRecords:
    """Follows the leaders of share partitions, and their logs."""

    def __init__(self, trace: FactSource) -> None:
        self._logs = final_leaders(trace)
        self._leaders = Leaders(
            trace,
            lambda _key, node, fact: _Leader(node, fact.leader_epoch),
            {
                facts.ShareAcquired: self._on_moved,
                facts.ShareMoved: self._on_moved,
                facts.ShareStaleArchived: self._on_archived,
            },
        )

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        stall = self._leaders.stall(line)
        log = None if stall is None else self._logs.get(stall.key[1:])
        if stall is None or log is None:
            return ""
        start, end, final = stall.reached, stall.end, stall.final
        if (final.start_offset, final.end_offset, final.gap_start) != (start, end - 1, -1):
            return ""
        present, states = offsets_of(log, start, end), states_from(final, start)
        if start not in stall.leader.removed or start in present or states.get(start) != ARCHIVED:
            return ""
        return STALE if are_done(states, present) else ""

    def _on_archived(self, _seq: int, _t: int, node: str, fact: facts.ShareStaleArchived) -> None:
        leader = self._leaders.who_tells(node, fact)
        if leader is not None:
            leader.removed.update(dict.fromkeys(range(fact.first_offset, fact.last_offset + 1)))

    def _on_moved(
        self, _seq: int, _t: int, node: str, fact: facts.ShareAcquired | facts.ShareMoved
    ) -> None:
        leader = self._leaders.who_tells(node, fact)
        if leader is not None:
            for offset in range(fact.first_offset, fact.last_offset + 1):
                leader.removed.pop(offset, None)
