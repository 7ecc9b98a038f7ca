"""The role of this replica and the durable state behind it (Kafka: QuorumState).

One object owns the role. :meth:`QuorumState.transition` is the only way to change it: it checks the
table of transitions, makes the election state durable before anything that depends on it, and
reports the role to the trace.
"""

from __future__ import annotations

from kafkasim.model.effects import Exit
from kafkasim.model.errors import Errors
from kafkasim.model.facts import RaftRole
from kafkasim.model.raft.context import RaftContext
from kafkasim.model.raft.quorum.election_state import NONE, ElectionState, QuorumStateStore
from kafkasim.model.raft.quorum.states import TRANSITIONS, Leader, Resigned, Role, Unattached
from kafkasim.model.storage.files import DiskError


class QuorumState:
    """The present role, and whether the replica has halted.

    ``entered`` is False until the replica took its first role. ``halted`` is True once the process
    ends: every handler of the Raft client then returns at once. ``cause`` says in words what ended
    the last leadership that this replica knew of; nothing is decided by it.
    """

    __slots__ = ("_context", "_store", "cause", "entered", "halted", "role")

    def __init__(self, context: RaftContext, store: QuorumStateStore) -> None:
        self._context = context
        self._store = store
        self.role: Role = Unattached(0)
        self.entered = False
        self.halted = False
        self.cause = ""

    @property
    def epoch(self) -> int:
        """The epoch of the role. It never falls."""
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch, as far as it is known; −1 for none."""
        return self.role.leader

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads its epoch."""
        return isinstance(self.role, Leader) and not self.halted

    def initialize(self, last_log_epoch: int) -> ElectionState:
        """Take the epoch of the durable state, or of the log where that is higher; return the
        election state of that epoch (QuorumState.initialize)."""
        stored = self._store.state
        if stored.epoch < last_log_epoch:
            stored = ElectionState(last_log_epoch, NONE, NONE)
        self.role = Unattached(stored.epoch, NONE, stored.voted)
        return stored

    def transition(self, role: Role, voter: bool) -> None:
        """Take another role. The trace shows it of a voter, and that a leader ceases to lead, which
        may have removed itself.

        The durable state of a resigned leader still says that it led: it must resign again if it
        restarts in this epoch.
        """
        old = self.role
        assert role.epoch >= old.epoch, (old, role)
        assert not self.entered or role.name in TRANSITIONS[old.name], (old, role)
        self.entered = True
        self.role = role
        if not isinstance(role, Resigned):
            self._persist()
        if voter or isinstance(old, Leader):
            self._context.out.append(RaftRole(role.name.value, role.epoch, role.leader))

    def record_vote(self, candidate: int) -> None:
        """Remember durably that this replica voted for ``candidate`` in its epoch."""
        assert self.role.voted in (NONE, candidate), (self.role, candidate)
        self.role.voted = candidate
        self._persist()

    def check_leader_epoch(self, epoch: int) -> Errors:
        """Return what is wrong with a request to the leader of ``epoch``
        (KafkaRaftClient.validateLeaderOnlyRequest)."""
        if epoch < self.epoch:
            return Errors.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return Errors.UNKNOWN_LEADER_EPOCH
        return Errors.NONE if self.is_leader else Errors.NOT_LEADER_OR_FOLLOWER

    def halt(self, reason: str) -> None:
        """End the process, because the replica cannot go on without breaking the log
        (FaultHandler)."""
        self.halted = True
        self._context.out.append(Exit(f"raft: {reason}", False))

    def _persist(self) -> None:
        role = self.role
        state = ElectionState(role.epoch, role.leader, role.voted)
        if state == self._store.state:
            return
        context = self._context
        try:
            context.rules.persist_vote_before_reply(self._store, state, context.out)
        except DiskError as error:
            self.halt(str(error))
