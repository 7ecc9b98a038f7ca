"""The roles of a replica of a Raft log, one small class each, and who may become what.

Models EpochState and its subclasses, and the transition table of QuorumState. All that is volatile
about a role lives in its object and goes with it; timers are armed by the client. An observer is
Unattached or Follower only.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.raft.quorum.majority import election_result
from kafkasim.model.raft.quorum.quorum_state import NONE
from kafkasim.model.raft.rules import CANDIDATE, FOLLOWER, LEADER, PROSPECTIVE, RESIGNED, UNATTACHED
from kafkasim.model.values import value

TRANSITIONS: dict[str, tuple[str, ...]] = {
    # Learns of a higher epoch or a leader; its election timeout ends.
    UNATTACHED: (UNATTACHED, FOLLOWER, PROSPECTIVE, CANDIDATE),
    # Loses (to Unattached, or back to its leader), wins (Candidate), learns of an epoch or leader.
    PROSPECTIVE: (UNATTACHED, FOLLOWER, CANDIDATE),
    # Wins; loses and tries again (asking first, or at once without pre-vote); learns of others.
    CANDIDATE: (UNATTACHED, FOLLOWER, PROSPECTIVE, CANDIDATE, LEADER),
    # Its fetch timeout ends; learns of a higher epoch.
    FOLLOWER: (UNATTACHED, FOLLOWER, PROSPECTIVE, CANDIDATE),
    # Resigns; learns of a higher epoch. Never back into its own epoch.
    LEADER: (UNATTACHED, FOLLOWER, RESIGNED),
    # Its election timeout ends (Unattached in the next epoch); learns of a higher epoch.
    RESIGNED: (UNATTACHED, FOLLOWER),
}
"""Role to the roles it may become. Never to a lower epoch."""


@value
class LeaderChange:
    """The record of the control batch that opens a leader's epoch (LeaderChangeMessage)."""

    leader_id: int
    voters: tuple[int, ...]
    granting_voters: tuple[int, ...]


class Role:
    """What all roles have: the epoch, its leader and this voter's vote in it (−1 none)."""

    __slots__ = ("epoch", "leader", "voted")
    name = ""

    def __init__(self, epoch: int, leader: int = NONE, voted: int = NONE) -> None:
        self.epoch = epoch
        self.leader = leader
        self.voted = voted

    def __repr__(self) -> str:
        return f"{self.name}(epoch={self.epoch}, leader={self.leader}, voted={self.voted})"


class Unattached(Role):
    """Knows an epoch but no leader to follow; may have voted."""

    __slots__ = ()
    name = UNATTACHED


class Election(Role):
    """Counts votes. ``answers`` is voter to granted, its own vote included."""

    __slots__ = ("answers", "retries")

    def __init__(self, epoch: int, leader: int, voted: int, node_id: int, retries: int) -> None:
        super().__init__(epoch, leader, voted)
        self.answers = {node_id: True}
        self.retries = retries  # ≥ 1, elections lost in a row plus one

    def result(self, voters: int) -> str:
        """Return how the election stands."""
        granted = sum(self.answers.values())
        return election_result(voters, granted, len(self.answers) - granted)


class Prospective(Election):
    """Asks whether it would win, in its present epoch (KIP-996)."""

    __slots__ = ()
    name = PROSPECTIVE


class Candidate(Election):
    """Has voted for itself in a new epoch; ``backing_off`` once it has lost."""

    __slots__ = ("backing_off",)
    name = CANDIDATE

    def __init__(self, epoch: int, node_id: int, retries: int) -> None:
        super().__init__(epoch, NONE, node_id, node_id, retries)
        self.backing_off = False


class Follower(Role):
    """Fetches from a leader; ``has_fetched`` once that has worked in this epoch.

    ``fetching_snapshot`` is the snapshot that it loads instead; ``installing`` once it has all of it.
    """

    __slots__ = ("fetching_snapshot", "has_fetched", "installing")
    name = FOLLOWER

    def __init__(self, epoch: int, leader: int, voted: int) -> None:
        super().__init__(epoch, leader, voted)
        self.has_fetched = False
        self.fetching_snapshot: tuple[int, int] | None = None
        self.installing = False


class Leader(Role):
    """Leads an epoch from ``epoch_start``, the offset of its LeaderChange record.

    ``end_offsets`` holds what each other voter has told by fetching (−1 nothing yet).
    """

    __slots__ = (
        "announced",
        "end_offsets",
        "epoch_start",
        "fetches",
        "flushed",
        "heard",
        "high_watermark",
        "observers",
        "unacknowledged",
    )
    name = LEADER

    def __init__(self, epoch: int, node_id: int, others: list[int], epoch_start: int) -> None:
        super().__init__(epoch, node_id, node_id)
        self.epoch_start = epoch_start
        self.end_offsets = dict.fromkeys(others, -1)
        self.unacknowledged = dict.fromkeys(others, True)  # of BeginQuorumEpoch
        self.fetches: dict[int, tuple[int, int]] = {}  # voter -> last fetch, last caught up (µs)
        self.observers: dict[tuple[int, str], Any] = {}  # (id, directory id) -> QuorumReplica
        self.heard: dict[int, bool] = {}  # voters that fetched since the check quorum timer began
        self.flushed = epoch_start  # own log up to here is durable
        self.high_watermark = -1  # −1 until a record of this epoch is committed
        self.announced = False  # the listener knows: it has been given all before the epoch

    def change_voters(self, others: list[int], directories: dict[int, str]) -> None:
        """Follow another set of voters; of who was an observer the offset is known."""
        before = self.end_offsets
        self.end_offsets = {}
        for voter in others:
            state = self.observers.pop((voter, directories[voter]), None)
            told = -1 if state is None else state.log_end_offset
            self.end_offsets[voter] = before.get(voter, told)
            if voter not in before:
                self.unacknowledged[voter] = True
        self.unacknowledged = {voter: True for voter in self.unacknowledged if voter in others}
        self.heard = {voter: True for voter in self.heard if voter in others}


class Resigned(Role):
    """Was the leader of this epoch and lets go: tells the voters, and appends no more."""

    __slots__ = ("successors", "unacknowledged")
    name = RESIGNED

    def __init__(
        self, epoch: int, node_id: int, others: list[int], successors: tuple[int, ...]
    ) -> None:
        super().__init__(epoch, NONE, node_id)
        self.successors = successors
        self.unacknowledged = dict.fromkeys(others, True)  # of EndQuorumEpoch
