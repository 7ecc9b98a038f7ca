"""Share partitions that fetch below the log start for ever (KIP-932).

A share fetch begins at the first record that is available, or at the first gap in the state that
the leader has read (SharePartition.nextFetchOffset). If that lies below the log start, the read is
out of range, and SharePartition.updateCacheAndOffsets takes the log start over. But it leaves alone
what is below a start offset that it has taken over before, so the next fetch begins there again.
Kafka 4.2.0 has two ways to come there:

- The log start passes a record while the write of its end (accept, reject or gap) is under way; its
  lock expires; the write fails. The record becomes available below the log start
  (InFlightState.completeStateTransition). The next leader knows nothing of it.
- A leader has read a state with a gap, and the log start passes the begin of the gap before that
  is fetched (persisterReadResultGapWindow; 4.1.0: initialReadGapOffset). The next leader reads the
  same state, since a new start offset is written with the next acknowledgement only.

Both end when the log start passes all that the leader has fetched, or has read.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import (
    Leader,
    Leaders,
)
from kafkasim.model import facts

ROLLED_BACK = "available-below-log-start"
GAP = "gap-below-log-start"

AVAILABLE = 0
"""The state in FinalSharePartition."""


class _Leader(Leader):
    """What the last leader of a share partition has told since it read the state."""

    def __init__(self, node: str, epoch: int) -> None:
        super().__init__(node, epoch)
        self.log_start = -1  # the highest one that it has taken over
        self.rolled_back: dict[int, None] = {}  # offsets that became available below it
        self.given: dict[int, None] = {}  # offsets that it has given to members


class StoppedShares:
    """Follows the leaders of share partitions."""

    def __init__(self, trace: FactSource) -> None:
        self._leaders = Leaders(
            trace,
            lambda _key, node, fact: _Leader(node, fact.leader_epoch),
            {
                facts.ShareAcquired: self._on_acquired,
                facts.ShareMoved: self._on_moved,
                facts.ShareStartMoved: self._on_start,
            },
        )

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        stall = self._leaders.stall(line)
        if stall is None:
            return ""
        leader = stall.leader
        offset, is_gap = _next_fetch(stall.final)
        if not 0 <= offset < leader.log_start:
            return ""
        if is_gap:
            return "" if offset in leader.given else GAP
        return ROLLED_BACK if offset in leader.rolled_back else ""

    def _on_acquired(self, _seq: int, _t: int, node: str, fact: facts.ShareAcquired) -> None:
        leader = self._leaders.who_tells(node, fact)
        if leader is not None:
            leader.given.update(dict.fromkeys(range(fact.first_offset, fact.last_offset + 1)))

    def _on_moved(self, _seq: int, _t: int, node: str, fact: facts.ShareMoved) -> None:
        leader = self._leaders.who_tells(node, fact)
        if leader is not None and (fact.reason, fact.state) == ("rolled-back", "AVAILABLE"):
            below = range(fact.first_offset, min(fact.last_offset + 1, leader.log_start))
            leader.rolled_back.update(dict.fromkeys(below))

    def _on_start(self, _seq: int, _t: int, node: str, fact: facts.ShareStartMoved) -> None:
        leader = self._leaders.who_tells(node, fact)
        if leader is not None and fact.reason == "log-start":
            leader.log_start = max(leader.log_start, fact.start_offset)


def _next_fetch(final: facts.FinalSharePartition) -> tuple[int, bool]:
    """Return where the next fetch begins, and whether that is a gap (nextFetchOffset).

    −1: behind all that the leader has fetched.
    """
    if not final.last_offsets or final.start_offset > final.last_offsets[-1]:
        return -1, False
    gap = final.gap_start
    for first, last, state in zip(
        final.first_offsets, final.last_offsets, final.states, strict=True
    ):
        if gap >= 0:
            if first > gap:
                return gap, True
            gap = max(gap, last + 1)
        if state == AVAILABLE:
            return first, False
    return -1, False
