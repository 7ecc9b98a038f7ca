"""A classic group as one coordinator has it: what the judge of groups remembers of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.model import facts
from kafkasim.scenarios.judging.group_members import AwaitedSyncs


@dataclass(slots=True)
class Tenure:
    """One group in the hands of one coordinator, from loading to resignation."""

    state: str
    generation: int
    members: tuple[str, ...]
    since_us: int  # when the state began
    leader: str = ""
    paused_us: int = 0  # of the host, since then
    longest_us: int = 0  # the longest rebalance timeout of whom the phase waits for
    synced: bool = False  # a SyncGroup of this generation has arrived
    loaded: bool = False  # its members are known from the log, with one protocol each
    heard: dict[str, int] = field(default_factory=dict)  # member id -> when its session began anew
    left: dict[str, None] = field(default_factory=dict)  # who sent LeaveGroup
    replaced: dict[str, None] = field(default_factory=dict)  # static members that came back
    syncs: AwaitedSyncs = field(default_factory=AwaitedSyncs)  # in this generation
    last: tuple[int, facts.MemberRequest, str] | None = None  # the last request and its time
    resumed: bool = False  # an upgrade of this generation could not be appended
