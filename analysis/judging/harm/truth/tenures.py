"""A classic group as one coordinator has it: what the judge of groups remembers of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkasim.model import facts


@dataclass(slots=True)
class AwaitedSyncs:
    """From whom a coordinator awaits SyncGroup since it has answered their JoinGroup.

    The timer goes on when the group is Stable, as it is with the leader's SyncGroup, and Heartbeats
    do not renew it (GroupMetadataManager.schedulePendingSync, expirePendingSync). It is in memory
    only: a coordinator that loads the group awaits nothing.
    """

    since_us: int = 0
    timeout_us: int = 0  # the longest rebalance timeout of the members
    missing: dict[str, None] = field(default_factory=dict)  # member ids

    def expired(self, member_id: str, now_us: int) -> bool:
        """Return whether the coordinator removes a member for its missing SyncGroup."""
        return member_id in self.missing and now_us - self.since_us >= self.timeout_us


@dataclass(slots=True)
class Tenure:
    """One group in the hands of one coordinator, from loading to resignation."""

    state: str
    generation: int
    members: tuple[str, ...]
    since_us: int  # when the state began
    leader: str = ""
    paused_us: int = 0  # of the host, since then
    longest_us: int = 0  # the longest rebalance timeout of its members and of whoever joined
    begun_us: int = 0  # the longest one when the phase began: then its timer was set
    synced: bool = False  # a SyncGroup of this generation has arrived
    loaded: bool = False  # its members are known from the log, with one protocol each
    heard: dict[str, int] = field(default_factory=dict)  # member id -> when its session began anew
    left: dict[str, None] = field(default_factory=dict)  # who sent LeaveGroup
    replaced: dict[str, None] = field(default_factory=dict)  # static members that came back
    syncs: AwaitedSyncs = field(default_factory=AwaitedSyncs)  # in this generation
    last: tuple[int, facts.MemberRequest, str] | None = None  # the last request and its time
    resumed: bool = False  # an upgrade of this generation could not be appended

    def awaited_us(self, joined: Mapping[str, int]) -> int:
        """Return how long after the state began static members joined, or were last heard.

        ``joined`` are the times of their last JoinGroups. One that does not join keeps its place
        as long as it is heard: a subscription by pattern joins with fresh metadata only
        (ConsumerCoordinator.poll, ensureFreshMetadata), and sends heartbeats while it seeks some.
        """
        until = [at if at >= self.since_us else self.heard[each] for each, at in joined.items()]
        return max(0, max(until) - self.since_us)


TOLD_TO_JOIN = {"PreparingRebalance": 0, "Assigning": 1, "Reconciling": 1}
"""The states in which members that use JoinGroup are told to join again, and how far the generation
that has ended lies behind. A consumer group (KIP-848) tells those that know an epoch below its own
(GroupMetadataManager.classicGroupHeartbeatToConsumerGroup)."""


class EndedGenerations:
    """The generations that have ended for members, as any coordinator has told them.

    The next coordinator may not know of it, if the log does not tell.
    """

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], int] = {}  # by group and member id

    def tell(self, fact: facts.GroupState) -> None:
        """Note which generation has ended for the members, if the state tells them."""
        if fact.state in TOLD_TO_JOIN:
            ends = fact.generation - TOLD_TO_JOIN[fact.state]
            for each in fact.member_ids:
                self._last[fact.group, each] = max(self._last.get((fact.group, each), -1), ends)

    def knows(self, group: str, member_id: str, generation: int) -> bool:
        """Return whether a member may know that this generation has ended."""
        return self._last.get((group, member_id), -1) >= generation
