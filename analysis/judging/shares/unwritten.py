"""Records whose end a member heard of, though the leader had not written it.

When the lock of a record expires for the last time, the leader archives it in memory and writes
that; no answer waits for this write, and the leader goes on if it fails
(SharePartition.releaseAcquisitionLockOnTimeout). Since 4.1.1 it also archives a record whose lock
expired for the last time during a write that failed, and nobody writes that
(InFlightState.completeStateTransition). Meanwhile the end of another write moves the start offset
over the record, because findLastOffsetAcknowledged asks for no write that is under way.
acknowledge() passes over what is below the start offset, so the member hears NONE. If the write is
lost, the next leader reads the older state and hands the record out again. 4.0.0, 4.1.0 and 4.2.0
do so (``model/KAFKA.md``, 3.6).

Each write has the start offset of its leader. So the end is written, too, once a member has heard
of a move that the leader made afterwards, or once a leader has read a start offset above the
record. An end that is forgotten after that is not excused.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

UNWRITTEN = "unwritten-end"
"""The excuse of what :class:`UnwrittenEnds` explains."""

SharePartition: TypeAlias = tuple[str, str, int]
"""Group, topic id, partition."""

FINAL = ("ACKNOWLEDGED", "ARCHIVED")
UNAWAITED = ("lock-expired", "rolled-back")
"""Why a leader archives records without an answer that waits for the write."""
ENDS = (1, 3)
"""The types of an acknowledgement that ends a record: accept, reject."""


class Tenure(NamedTuple):
    """A leader since it has read the state."""

    node: str
    leader_epoch: int
    loaded: int  # the row in which it had read the state, -1: none


class _End(NamedTuple):
    """The last end of a record."""

    tenure: Tenure
    seq: int
    unawaited: bool


class _Passed:
    """A record that was answered as done because it was below the start offset."""

    __slots__ = ("seq", "tenure", "written")

    def __init__(self, tenure: Tenure, seq: int) -> None:
        self.tenure = tenure
        self.seq = seq  # the row of the answer
        self.written = 1 << 62  # the row in which a member heard of a later move of this tenure


class _Ends:
    """The ends of the records of one share partition."""

    def __init__(self) -> None:
        self.loaded: dict[tuple[str, int], int] = {}  # by node and leader epoch: the row
        self.starts: dict[tuple[str, int], int] = {}  # the start offset of that leader
        self.last: dict[int, _End] = {}  # by offset
        self.passed: dict[int, _Passed] = {}  # by offset

    def tenure(self, node: str, leader_epoch: int) -> Tenure:
        """Return the tenure in which a leader is."""
        return Tenure(node, leader_epoch, self.loaded.get((node, leader_epoch), -1))

    def are_written(self, start_offset: int) -> None:
        """Forget the ends below a start offset that a leader has read."""
        for offset in [each for each in self.passed if each < start_offset]:
            del self.passed[offset]
        for offset in [each for each, end in self.last.items() if end.unawaited]:
            if offset < start_offset:
                del self.last[offset]

    def heard(self, offset: int, seq: int) -> None:
        """Note that a member hears of the end of a record."""
        self.passed.pop(offset, None)
        end = self.last.get(offset)
        if end is None:
            return
        if end.unawaited:
            if self.starts.get(end.tenure[:2], -1) > offset:
                self.passed[offset] = _Passed(end.tenure, seq)
            return
        for passed in self.passed.values():
            if passed.tenure == end.tenure and passed.seq < end.seq:
                passed.written = min(passed.written, seq)


class UnwrittenEnds:
    """Follows the ends of records, and what members hear of them."""

    def __init__(self, trace: FactSource) -> None:
        self._ends: dict[SharePartition, _Ends] = {}
        for kind, handler in (
            (facts.SharePartitionLoaded, self._on_loaded),
            (facts.ShareMoved, self._on_moved),
            (facts.ShareStartMoved, self._on_start),
            (facts.ShareAcknowledged, self._on_acknowledged),
        ):
            trace.subscribe(kind, handler)

    def excuse(self, node: str, fact: facts.ShareAcquired, offset: int) -> str:
        """Return :data:`UNWRITTEN` if a leader that is handing a record out again has read a state
        in which its end was not written, else ""."""
        ends = self._ends.get((fact.group, fact.topic_id, fact.partition))
        passed = None if ends is None else ends.passed.get(offset)
        if ends is None or passed is None:
            return ""
        tenure = ends.tenure(node, fact.leader_epoch)
        unwritten = tenure != passed.tenure and tenure.loaded <= passed.written
        return UNWRITTEN if unwritten else ""

    def _of(
        self,
        fact: (
            facts.SharePartitionLoaded
            | facts.ShareMoved
            | facts.ShareStartMoved
            | facts.ShareAcknowledged
        ),
    ) -> _Ends:
        return self._ends.setdefault((fact.group, fact.topic_id, fact.partition), _Ends())

    def _on_loaded(self, seq: int, _t: int, node: str, fact: facts.SharePartitionLoaded) -> None:
        ends = self._of(fact)
        of = node, fact.leader_epoch
        ends.loaded[of], ends.starts[of] = seq, fact.start_offset
        ends.are_written(fact.start_offset)

    def _on_moved(self, seq: int, _t: int, node: str, fact: facts.ShareMoved) -> None:
        if fact.state not in FINAL or fact.reason == "aborted":
            return
        ends = self._of(fact)
        end = _End(ends.tenure(node, fact.leader_epoch), seq, fact.reason in UNAWAITED)
        for offset in range(fact.first_offset, fact.last_offset + 1):
            ends.last[offset] = end

    def _on_start(self, _seq: int, _t: int, node: str, fact: facts.ShareStartMoved) -> None:
        self._of(fact).starts[node, fact.leader_epoch] = fact.start_offset

    def _on_acknowledged(
        self, seq: int, _t: int, _node: str, fact: facts.ShareAcknowledged
    ) -> None:
        if fact.error == "NONE":
            for offset, kind in zip(fact.offsets, fact.types, strict=True):
                if kind in ENDS:
                    self._of(fact).heard(offset, seq)
