"""Initializations of a share partition that came late, and reset a state that had been written.

A coordinator of share groups has a share partition initialized with start offset −1
(GroupMetadataManager.subscribedTopicsChangeMap). What is initializing for longer than
2 × offsets.commit.timeout.ms it begins again, and PersisterStateManager cancels no request that is
in backoff or under way. The first one that is answered makes the share partition initialized, and
then it is assigned. One that arrives after that begins the state anew, because
ShareCoordinatorShard.maybeGetInitializeStateError refuses a lower state epoch only: what was
acknowledged in between is forgotten. 4.1.0 and 4.2.0 do so (``model/KAFKA.md``, 3.6).

An initialization is late only if it was begun before the share partition was assigned for the first
time since the group was last deleted. The state epoch tells: it is the group epoch in which it was
begun, and what is initialized gets into a target assignment of a higher one. It is no lower than
a state epoch that a leader has read before: the coordinator refuses that.

Its record must stand in ``__share_group_state`` behind the first one that was written since the
leader moved the record of the user, and before the leader reads the state: no other broker has
appended there or below meanwhile. It explains no state that was written after it: a leader has read
a start offset above the record, or a member heard of a move that its leader made after it with such
a start offset. Of ``share-skipped`` any such move counts, as it writes some start offset.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from kafkasim.analysis.judging.history.footing import Footing, Spot
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.shares.states import StateLogs
from kafkasim.analysis.judging.shares.unwritten import ENDS, FINAL, UNAWAITED
from kafkasim.model import facts

LATE_INITIALIZATION = "late-initialization"
"""The excuse of what :class:`LateInitializations` explains."""

UNINITIALIZED = -1
"""The start offset of an initialization that leaves it to share.auto.offset.reset."""

SharePartition: TypeAlias = tuple[str, str, int]
"""Group, topic id, partition."""


class Initialized(NamedTuple):
    """An initialization that came late."""

    seq: int
    node: str  # the share coordinator
    offset: int  # of its record


class _Move(NamedTuple):
    """The last end of a record since an initialization came late."""

    seq: int
    start: int  # the start offset of the leader, which is written with it
    awaited: bool  # whether an answer waits for the write


class _Read(NamedTuple):
    """A start offset that a leader has read."""

    seq: int
    start: int


class _Written(NamedTuple):
    """A move of which a member heard."""

    seq: int  # of the move
    start: int
    heard: int  # the row of the answer


class _State:
    """What is known of the state of one share partition."""

    def __init__(self) -> None:
        self.starts: dict[tuple[str, int], int] = {}  # by node and leader epoch
        self.late: list[Initialized] = []
        # Of the time since the first late one:
        self.moves: dict[int, _Move] = {}  # by offset
        self.reads: list[_Read] = []
        self.written: list[_Written] = []
        self.forget()

    def forget(self) -> None:
        """Begin anew: the group was deleted."""
        self.highest = UNINITIALIZED  # the highest state epoch that a leader has read


class LateInitializations:
    """Follows what share coordinators initialize, and what leaders write afterwards."""

    def __init__(self, trace: FactSource, footing: Footing, logs: StateLogs) -> None:
        self._footing = footing
        self._logs = logs
        self._states: dict[SharePartition, _State] = {}
        # By group and topic-partition: the member epoch of the first one that was told of it.
        self._assigned: dict[tuple[str, str], int] = {}
        for kind, handler in (
            (facts.ShareGroupState, self._on_group),
            (facts.ShareGroupAssigned, self._on_assigned),
            (facts.ShareStateInitialized, self._on_initialized),
            (facts.SharePartitionLoaded, self._on_loaded),
            (facts.ShareStartMoved, self._on_start),
            (facts.ShareMoved, self._on_moved),
            (facts.ShareAcknowledged, self._on_acknowledged),
        ):
            trace.subscribe(kind, handler)

    def excuse(
        self, of: SharePartition, rests_on: Spot, rows: tuple[int, int], offset: int, above: int
    ) -> str:
        """Return :data:`LATE_INITIALIZATION` if one has reset a state that was written, else "".

        ``rests_on`` is what the state rested on; ``rows`` are that of the leader's move and that
        in which a leader has read what breaks the promise. A later write is one with a start offset
        above ``above``.
        """
        state, (since, read) = self._states.get(of), rows
        if state is None:
            return ""
        for late in state.late:
            if not since < late.seq < read or late.offset <= rests_on.first:
                continue
            stands = self._logs.stands(rests_on.key, late.offset, late.node, (late.seq, read))
            begun = [each for each in state.reads if late.seq < each.seq < read]
            moves = [each for each in state.written if late.seq < each.seq and each.heard < read]
            written = any(each.start > offset for each in begun) or any(
                each.start > above for each in moves
            )
            if stands and not written:
                return LATE_INITIALIZATION
        return ""

    def _of(
        self,
        fact: (
            facts.ShareStateInitialized
            | facts.SharePartitionLoaded
            | facts.ShareStartMoved
            | facts.ShareMoved
            | facts.ShareAcknowledged
        ),
    ) -> _State:
        return self._states.setdefault((fact.group, fact.topic_id, fact.partition), _State())

    def _on_group(self, _seq: int, _t: int, _node: str, fact: facts.ShareGroupState) -> None:
        if fact.state == "Dead":
            for (group, _, _), state in self._states.items():
                if group == fact.group:
                    state.forget()
            for told in [each for each in self._assigned if each[0] == fact.group]:
                del self._assigned[told]

    def _on_assigned(self, _seq: int, _t: int, _node: str, fact: facts.ShareGroupAssigned) -> None:
        for partition in fact.assignment:
            self._assigned.setdefault((fact.group, partition), fact.generation)

    def _on_initialized(
        self, seq: int, _t: int, node: str, fact: facts.ShareStateInitialized
    ) -> None:
        state = self._of(fact)
        partition = self._footing.name_of((fact.topic_id, fact.partition))
        assigned = self._assigned.get((fact.group, partition), -1)
        if fact.start_offset == UNINITIALIZED and state.highest <= fact.state_epoch < assigned:
            state.late.append(Initialized(seq, node, fact.offset))

    def _on_loaded(self, seq: int, _t: int, node: str, fact: facts.SharePartitionLoaded) -> None:
        state = self._of(fact)
        state.highest = max(state.highest, fact.state_epoch)
        state.starts[node, fact.leader_epoch] = fact.start_offset
        if state.late:
            state.reads.append(_Read(seq, fact.start_offset))

    def _on_start(self, _seq: int, _t: int, node: str, fact: facts.ShareStartMoved) -> None:
        self._of(fact).starts[node, fact.leader_epoch] = fact.start_offset

    def _on_moved(self, seq: int, _t: int, node: str, fact: facts.ShareMoved) -> None:
        state = self._of(fact)
        if state.late and fact.state in FINAL and fact.reason != "aborted":
            start = state.starts.get((node, fact.leader_epoch), UNINITIALIZED)
            move = _Move(seq, start, fact.reason not in UNAWAITED)
            state.moves.update(dict.fromkeys(range(fact.first_offset, fact.last_offset + 1), move))

    def _on_acknowledged(
        self, seq: int, _t: int, _node: str, fact: facts.ShareAcknowledged
    ) -> None:
        state = self._of(fact)
        if not state.late or fact.error != "NONE":
            return
        for offset, kind in zip(fact.offsets, fact.types, strict=True):
            move = state.moves.get(offset)
            if kind in ENDS and move is not None and move.awaited:
                state.written.append(_Written(move.seq, move.start, seq))
