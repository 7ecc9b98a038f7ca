"""Share partitions whose start the log start moved to records that are done (KIP-932).

Members end records in any order, so an available record may stand in front of records that are all
done. When the log start passes it, SharePartition.updateCacheAndOffsets makes the log start the
start offset, though the record there is done. Only a written acknowledgement, release or expired
lock moves the start offset over records that are done (maybeUpdateCachedStateAndOffsets), and
nothing is left to be acquired. So it stays until a record comes that is new. Kafka 4.1.0 and 4.2.0.

If no record is at the new start offset, and the batch below has a state for each of its offsets,
members may go on behind it, and the start offset stays all the same: canMoveStartOffset finds no
state there and throws, after each write. Kafka 4.1.0 to 4.2.1. The write stands, but the member's
acknowledgement is never answered: it waits for request.timeout.ms each time.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import final_leaders
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import (
    Leader,
    Leaders,
    are_done,
    offsets_of,
    states_from,
)
from kafkasim.model import facts

MOVED = "start-moved-by-log-start"
LACKS_STATE = "start-lacks-state"


class _Leader(Leader):
    """The last leader of a share partition, and the last move of its start offset."""

    def __init__(self, node: str, epoch: int) -> None:
        super().__init__(node, epoch)
        self.log_start = -1  # the start offset, if the log start moved it last and nothing since
        self.failed = False  # moving it on from there threw an exception


class MovedStarts:
    """Follows the leaders of share partitions, and their logs."""

    def __init__(self, trace: FactSource) -> None:
        self._logs = final_leaders(trace)
        self._leaders = Leaders(
            trace,
            lambda _key, node, fact: _Leader(node, fact.leader_epoch),
            {
                facts.ShareMoved: self._on_moved,
                facts.ShareStartMoved: self._on_start,
                facts.ShareStartFailed: self._on_failed,
            },
        )

    def leave_unanswered(self, group: str) -> bool:
        """Return whether a leader answers no acknowledgement of a share group."""
        last = self._leaders.last
        return any(leader.failed for (name, _, _), leader in last.items() if name == group)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        stall = self._leaders.stall(line)
        log = None if stall is None else self._logs.get(stall.key[1:])
        if stall is None or log is None or stall.leader.log_start != stall.reached:
            return ""
        start, end, final = stall.reached, stall.end, stall.final
        if (final.start_offset, final.end_offset, final.gap_start) != (start, end - 1, -1):
            return ""
        states = states_from(final, start)
        if not are_done(states, offsets_of(log, start, end)):
            return ""
        if not stall.leader.failed:
            return MOVED
        return "" if start in states else LACKS_STATE

    def _on_moved(self, _seq: int, _t: int, node: str, fact: facts.ShareMoved) -> None:
        """Forget the move: the write of this end of a record would move the start offset on.

        Records of aborted transactions are archived without one.
        """
        leader = self._leaders.who_tells(node, fact)
        if leader is not None and fact.last_offset >= leader.log_start and fact.reason != "aborted":
            leader.log_start = -1

    def _on_start(self, _seq: int, _t: int, node: str, fact: facts.ShareStartMoved) -> None:
        leader = self._leaders.who_tells(node, fact)
        if leader is not None:
            leader.log_start = fact.start_offset if fact.reason == "log-start" else -1
            leader.failed = False

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.ShareStartFailed) -> None:
        """Keep the move: the write of an end of a record has not moved the start offset on."""
        leader = self._leaders.who_tells(node, fact)
        if leader is not None:
            leader.log_start = fact.start_offset
            leader.failed = True
