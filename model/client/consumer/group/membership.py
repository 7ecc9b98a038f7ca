"""What a consumer is in its group: state, generation and member id.

:class:`Membership` models AbstractCoordinator's MemberState and Generation. The ConsumerCoordinator
and its GroupJoin write it. Heartbeats and commits only read it; through :class:`MemberEvents` they
tell the coordinator what a response or a timeout means for the membership. The consumer protocol
(KIP-848) has a membership of its own in ``consumer/modern``; commits, positions and fetches are the
same for both.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from kafkasim.model.errors import Errors


class MemberState(Enum):
    """AbstractCoordinator.MemberState.

    UNJOINED --join--> PREPARING_REBALANCE --JoinGroup--> COMPLETING_REBALANCE --SyncGroup--> STABLE

    Any state goes back to UNJOINED when the member leaves or is dropped, and to PREPARING_REBALANCE
    when it joins again. A request that fails changes no state.
    """

    UNJOINED = "UNJOINED"
    PREPARING_REBALANCE = "PREPARING_REBALANCE"
    COMPLETING_REBALANCE = "COMPLETING_REBALANCE"
    STABLE = "STABLE"


class Membership:
    """The state of one member. Without a group it stays as it is created."""

    __slots__ = ("generation_id", "group_metadata", "member_id", "state")

    def __init__(self) -> None:
        self.state = MemberState.UNJOINED
        self.generation_id = -1  # −1: in no generation (Generation.NO_GENERATION)
        self.member_id = ""  # empty until the coordinator has given one
        # (generation, member id) for transactions: those of the last assignment, even when the
        # group has dropped the member since. Its offsets are then refused (KIP-447).
        self.group_metadata = (-1, "")

    @property
    def stable(self) -> bool:
        """Whether the member has an assignment of the current generation."""
        return self.state is MemberState.STABLE

    @property
    def rebalancing(self) -> bool:
        """Whether a join or a sync is under way."""
        state = self.state
        return state is MemberState.PREPARING_REBALANCE or state is MemberState.COMPLETING_REBALANCE

    @property
    def lost(self) -> bool:
        """Whether the group does not count this member: its partitions may be others' already."""
        return self.generation_id < 0 or not self.member_id

    def committer(self) -> tuple[Errors, int, str]:
        """Return under which generation and member id to commit, or an error that forbids it."""
        if self.stable:
            return Errors.NONE, self.generation_id, self.member_id
        error = Errors.REBALANCE_IN_PROGRESS if self.rebalancing else Errors.UNKNOWN_MEMBER_ID
        return error, -1, ""

    def offset_fetcher(self) -> tuple[str | None, int]:
        """Return under which member id and epoch to fetch offsets: a classic member names none."""
        return None, -1

    def copy(self) -> Membership:
        """Return the membership as it is now."""
        copied = Membership()
        copied.state = self.state
        copied.generation_id = self.generation_id
        copied.member_id = self.member_id
        return copied

    def begin_join(self) -> None:
        """Wait for the response to a JoinGroup."""
        self.state = MemberState.PREPARING_REBALANCE

    def joined(self, generation_id: int, member_id: str) -> None:
        """Wait for the assignment of a new generation: JoinGroup has succeeded."""
        assert self.state is MemberState.PREPARING_REBALANCE, self.state
        self.state = MemberState.COMPLETING_REBALANCE
        self.generation_id = generation_id
        self.member_id = member_id

    def synced(self) -> None:
        """Have the assignment of the generation: SyncGroup has succeeded."""
        assert self.state is MemberState.COMPLETING_REBALANCE, self.state
        self.state = MemberState.STABLE

    def take_assignment(self) -> None:
        """Let transactions commit under the present generation (ConsumerGroupMetadata)."""
        self.group_metadata = (self.generation_id, self.member_id)

    def reset(self, keep_member_id: bool) -> None:
        """Forget the generation, and the member id unless it is kept."""
        self.state = MemberState.UNJOINED
        self.generation_id = -1
        if not keep_member_id:
            self.member_id = ""


class RebalanceConfig(Protocol):
    """What a member of any classic group is told (GroupRebalanceConfig)."""

    @property
    def protocol_type(self) -> str:
        """The kind of the group: ``consumer``, or ``connect`` for workers."""

    @property
    def group_id(self) -> str:
        """The group."""

    @property
    def group_instance_id(self) -> str | None:
        """The id of a static member (KIP-345)."""

    @property
    def client_id(self) -> str:
        """With it the coordinator makes the member's id."""

    @property
    def session_timeout_ms(self) -> int:
        """Without heartbeats for this long the member is removed."""

    @property
    def heartbeat_interval_ms(self) -> int:
        """The time between two heartbeats."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a member may take to join again, and between two calls of poll()."""

    @property
    def retry_backoff_ms(self) -> int:
        """How long the member waits before it joins again after an error."""


class MemberEvents(Protocol):
    """What heartbeats and commits may cause in the membership."""

    def request_rejoin(self, reason: str) -> None:
        """Join again at the next poll(); the JoinGroup names the reason (KIP-800)."""

    def reset_generation(self, reason: str, keep_member_id: bool = False) -> None:
        """Join anew at the next poll(): the member is not in the group, or not in its generation.

        The partitions that it has are lost.
        """

    def on_fenced(self, now: int) -> None:
        """Fail for good: another process has taken the group.instance.id."""

    def on_poll_timeout(self, now: int) -> None:
        """Leave the group: the application did not poll for max.poll.interval.ms."""
