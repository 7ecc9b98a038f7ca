"""Share groups that have done all records, which some members did not hear (KIP-932).

A leader that has read the persisted state fetches the gaps in it again. Until it acquires a record
behind the last persisted batch, it moves the start offset no further than the last record of the
gaps, though the batches that follow are final (SharePartition.findLastOffsetAcknowledged). A group
that has done all records while the producers rest stays there for ever. The persisted batches need
not be final: the leader may have done records of them itself.

Records of aborted transactions in a gap are archived when they are read, which moves no start
offset (filterAbortedTransactionalAcquiredRecords). The next acknowledgement would do it, but if all
that follows is done there is nothing to acknowledge: the start offset stays in front of them.

``shares/judge.py:Shares.lag`` knows it where members had been told that the records behind the gap
are done. A member that did not get the answer of its leader does not know, though the state was
written. Whether it was shows what the next leader has read, and that it tells when the run ends.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import Losses
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import (
    DONE,
    Key,
    Leader,
    Leaders,
)
from kafkasim.model import facts

HELD_BACK = "held-back-by-a-read-gap"

FINAL = ("ACKNOWLEDGED", "ARCHIVED")
"""The final states in ShareMoved; DONE has those in FinalSharePartition."""


class _Leader(Leader):
    """The last leader of a share partition, and what was done before it led."""

    def __init__(self, node: str, fact: facts.SharePartitionLoaded, done: dict[int, int]) -> None:
        super().__init__(node, fact.leader_epoch)
        self.state_epoch = fact.state_epoch
        self.done = done  # what leaders before it had done, by offset: the row of the last time
        self.ended: dict[int, None] = {}  # the offsets that it has done itself
        self.aborted: dict[int, None] = {}  # those of them that it has archived unasked


class ReadGaps:
    """Follows the leaders of share partitions."""

    def __init__(self, trace: FactSource, losses: Losses) -> None:
        self._losses = losses
        self._done: dict[Key, dict[int, int]] = {}  # of all leaders, like _Leader.done
        self._leaders = Leaders(
            trace,
            self._begins,
            {
                facts.ShareGroupState: self._on_group,
                facts.ShareAcquired: self._on_acquired,
                facts.ShareMoved: self._on_moved,
            },
        )

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        stall = self._leaders.stall(line)
        if stall is None:
            return ""
        key, start, end, leader, final = stall
        gap = final.gap_start
        if gap - 1 not in leader.ended or not _is_held_back(final, start, end):
            return ""
        own = (leader.aborted, leader.ended)  # in front of the gap's start, and behind it
        done = all(
            offset in own[offset >= gap] or self._was_done(key, leader, offset)
            for offset in range(start, end)
        )
        return HELD_BACK if done else ""

    def _was_done(self, key: Key, leader: _Leader, offset: int) -> bool:
        """Return whether a leader before the last one had done the record that is there now."""
        row = leader.done.get(offset)
        return row is not None and not any(
            loss.covers(offset) and loss.seq > row for loss in self._losses(key[1:])
        )

    # Following.

    def _begins(self, key: Key, node: str, fact: facts.SharePartitionLoaded) -> _Leader:
        before = self._leaders.last.get(key)
        if before is None or before.state_epoch != fact.state_epoch:
            self._done[key] = {}  # its offsets were reset
        return _Leader(node, fact, dict(self._done[key]))

    def _on_group(self, _seq: int, _t: int, _node: str, fact: facts.ShareGroupState) -> None:
        if fact.state == "Dead":
            for key, leader in self._leaders.last.items():
                if key[0] == fact.group:
                    self._done[key], leader.done = {}, {}

    def _on_acquired(self, _seq: int, _t: int, node: str, fact: facts.ShareAcquired) -> None:
        """Forget what the last leader had not read as done: it gives it to a member."""
        leader = self._leaders.who_tells(node, fact)
        if leader is not None:
            for offset in range(fact.first_offset, fact.last_offset + 1):
                leader.done.pop(offset, None)

    def _on_moved(self, seq: int, _t: int, node: str, fact: facts.ShareMoved) -> None:
        done = self._done.get((fact.group, fact.topic_id, fact.partition))
        if done is None or fact.state not in FINAL:
            return
        offsets = range(fact.first_offset, fact.last_offset + 1)
        done.update(dict.fromkeys(offsets, seq))
        leader = self._leaders.who_tells(node, fact)
        if leader is not None:
            leader.ended.update(dict.fromkeys(offsets))
            if fact.reason == "aborted":
                leader.aborted.update(dict.fromkeys(offsets))


def _is_held_back(final: facts.FinalSharePartition, start: int, end: int) -> bool:
    """Return whether all from a leader's start offset on is done, and it looks for gaps there."""
    if (final.start_offset, final.end_offset) != (start, end - 1) or final.gap_start < start:
        return False
    following = start
    for first, last, state in zip(
        final.first_offsets, final.last_offsets, final.states, strict=True
    ):
        if last < start:
            continue
        if first > following or state not in DONE:
            return False
        following = last + 1
    return following == end
