"""The roles of a replica, one small class each, and the table of allowed transitions.

Models EpochState and its subclasses, and the transitions of QuorumState. All volatile state of a
role lives in its object and goes with it. An observer is Unattached or Follower, or
Resigned if it led the epoch.

Rules of this file: nothing here sends, writes or arms a timer; a method changes its own object and
returns an answer.
"""

from __future__ import annotations

from kafkasim.model.messages import QuorumReplica
from kafkasim.model.raft.quorum.election_state import NONE
from kafkasim.model.raft.quorum.majority import ElectionResult, election_result
from kafkasim.model.raft.rules import RoleName
from kafkasim.model.values import value

TRANSITIONS: dict[RoleName, tuple[RoleName, ...]] = {
    # Learns of a higher epoch or a leader; its election timeout ends.
    RoleName.UNATTACHED: (
        RoleName.UNATTACHED,
        RoleName.FOLLOWER,
        RoleName.PROSPECTIVE,
        RoleName.CANDIDATE,
    ),
    # Loses (to Unattached, or back to its leader), wins (Candidate), learns of an epoch or leader.
    RoleName.PROSPECTIVE: (RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.CANDIDATE),
    # Wins; loses and tries again (asking first, or at once without pre-vote); learns of others.
    RoleName.CANDIDATE: (
        RoleName.UNATTACHED,
        RoleName.FOLLOWER,
        RoleName.PROSPECTIVE,
        RoleName.CANDIDATE,
        RoleName.LEADER,
    ),
    # Its fetch timeout ends; learns of a higher epoch.
    RoleName.FOLLOWER: (
        RoleName.UNATTACHED,
        RoleName.FOLLOWER,
        RoleName.PROSPECTIVE,
        RoleName.CANDIDATE,
    ),
    # Resigns; learns of a higher epoch. Never back into its own epoch.
    RoleName.LEADER: (RoleName.UNATTACHED, RoleName.FOLLOWER, RoleName.RESIGNED),
    # Its election timeout ends (Unattached in the next epoch); learns of a higher epoch.
    RoleName.RESIGNED: (RoleName.UNATTACHED, RoleName.FOLLOWER),
}
"""The roles that may follow a role. The epoch never falls."""


@value
class LeaderChange:
    """The record of the control batch that opens a leader's epoch (LeaderChangeMessage)."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


class Role:
    """The interface of every role (EpochState): its epoch, the leader and this replica's vote.

    ``leader`` and ``voted`` are −1 for none. Roles share these three fields and no behaviour.
    """

    __slots__ = ("epoch", "leader", "voted")
    name: RoleName

    def __init__(self, epoch: int, leader: int = NONE, voted: int = NONE) -> None:
        self.epoch = epoch
        self.leader = leader
        self.voted = voted

    def __repr__(self) -> str:
        name = self.name.value
        return f"{name}(epoch={self.epoch}, leader={self.leader}, voted={self.voted})"


class VoteTally:
    """The votes of one election (EpochElection), the replica's own included."""

    __slots__ = ("_granted",)

    def __init__(self, node_id: int) -> None:
        self._granted = {node_id: True}  # voter -> whether it granted its vote

    def record(self, voter: int, granted: bool) -> None:
        """Count the answer of a voter; a later answer replaces an earlier one."""
        self._granted[voter] = granted

    def result(self, voters: int) -> ElectionResult:
        """Return how the election stands among ``voters`` voters."""
        granted = sum(self._granted.values())
        return election_result(voters, granted, len(self._granted) - granted)

    def granting(self) -> tuple[int, ...]:
        """Return the voters that granted their vote, in the order of their ids."""
        return tuple(sorted(voter for voter, granted in self._granted.items() if granted))


class Unattached(Role):
    """Knows an epoch but no leader in it; may have voted."""

    __slots__ = ()
    name = RoleName.UNATTACHED


class Prospective(Role):
    """Asks in its present epoch whether it would win an election (KIP-996)."""

    __slots__ = ("retries", "votes")
    name = RoleName.PROSPECTIVE

    def __init__(self, epoch: int, leader: int, voted: int, node_id: int, retries: int) -> None:
        super().__init__(epoch, leader, voted)
        self.votes = VoteTally(node_id)
        self.retries = retries  # ≥ 1: one more than the elections that it lost in a row


class Candidate(Role):
    """Has voted for itself in a new epoch; ``backing_off`` once it has lost.

    Its election timeout goes on meanwhile: in a higher epoch what remains of it counts.
    """

    __slots__ = ("backing_off", "deadline", "retries", "votes")
    name = RoleName.CANDIDATE

    def __init__(self, epoch: int, node_id: int, retries: int) -> None:
        super().__init__(epoch, NONE, node_id)
        self.votes = VoteTally(node_id)
        self.retries = retries  # ≥ 1: one more than the elections that it lost in a row
        self.backing_off = False
        self.deadline: int | None = None  # the end of the election timeout


class Follower(Role):
    """Fetches from the leader of its epoch.

    ``has_fetched`` says that a Fetch of this epoch succeeded. ``fetching_snapshot`` is the snapshot
    that it loads instead of fetching records; ``installing`` says that it has every chunk of it.
    """

    __slots__ = ("fetching_snapshot", "has_fetched", "installing")
    name = RoleName.FOLLOWER

    def __init__(self, epoch: int, leader: int, voted: int) -> None:
        super().__init__(epoch, leader, voted)
        self.has_fetched = False
        self.fetching_snapshot: tuple[int, int] | None = None
        self.installing = False


class Leader(Role):
    """Leads its epoch from ``epoch_start`` on, the offset of its LeaderChange record."""

    __slots__ = (
        "announced",
        "end_offsets",
        "ends_fetched",
        "epoch_start",
        "fetch_times",
        "fetched_voters",
        "flushed_offset",
        "high_watermark",
        "observers",
    )
    name = RoleName.LEADER

    def __init__(self, epoch: int, node_id: int, others: list[int], epoch_start: int) -> None:
        super().__init__(epoch, node_id, node_id)
        self.epoch_start = epoch_start
        self.end_offsets = dict.fromkeys(others, -1)  # of each other voter; −1: has not fetched
        self.fetch_times: dict[int, tuple[int, int]] = {}  # voter -> last fetch, caught up (µs)
        self.observers: dict[tuple[int, str], QuorumReplica] = {}  # by (id, directory id)
        # Replica -> the end of the leader's log at its last Fetch.
        self.ends_fetched: dict[tuple[int, str], int] = {}
        self.fetched_voters: dict[int, bool] = {}  # since the check quorum timer was started
        self.flushed_offset = epoch_start  # the leader's own log is durable below it
        self.high_watermark = -1  # −1 until a record of this epoch is committed
        self.announced = False  # the listener knows that this replica leads

    def replica_fetched(
        self, replica: tuple[int, str], voter: bool, offset: int, log_end_offset: int, now: int
    ) -> None:
        """Note when a replica fetched, and when it last had everything: it asks for the leader's
        ``log_end_offset``, or now for what that was at its last Fetch
        (LeaderState.updateReplicaState). ``replica`` is (id, directory id); id −1 is nobody."""
        if replica[0] < 0:
            return
        if voter:
            fetched, caught_up = self.fetch_times.get(replica[0], (-1, -1))
        else:
            state = self.observers.get(replica)
            fetched = -1 if state is None else state.last_fetch_us
            caught_up = -1 if state is None else state.last_caught_up_us
        if offset >= log_end_offset:
            caught_up = now
        elif 0 < self.ends_fetched.get(replica, -1) <= offset:
            caught_up = max(caught_up, fetched)
        self.ends_fetched[replica] = log_end_offset
        if voter:
            self.fetch_times[replica[0]] = (now, caught_up)
        else:
            self.observers[replica] = QuorumReplica(*replica, offset, now, caught_up)

    def change_voters(self, others: list[int], directories: dict[int, str]) -> None:
        """Count another set of voters; the end offset of a former observer is known already."""
        before = self.end_offsets
        self.end_offsets = {}
        for voter in others:
            state = self.observers.pop((voter, directories[voter]), None)
            known = -1 if state is None else state.log_end_offset
            self.end_offsets[voter] = before.get(voter, known)
        self.fetched_voters = {voter: True for voter in self.fetched_voters if voter in others}


class Resigned(Role):
    """Was the leader of this epoch: tells the voters that it resigned, and appends no more."""

    __slots__ = ("successors",)
    name = RoleName.RESIGNED

    def __init__(self, epoch: int, node_id: int, successors: tuple[int, ...]) -> None:
        super().__init__(epoch, NONE, node_id)
        self.successors = successors  # voters, the preferred ones first
