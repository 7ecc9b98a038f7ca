"""A consumer group as one coordinator has it, and what its members have told."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.harm.truth.consumer_groups.syncs import Request
from kafkasim.model import facts

REVERTED = "reverted"
"""Why a group is what it was: the batch with its change could not be appended."""


@dataclass(slots=True)
class Member:
    """What a member has told the coordinators."""

    topics: tuple[str, ...] = ()
    rebalance_us: int = 0
    instance_id: str | None = None
    session_us: int = 0  # of a classic member; 0: it uses the consumer protocol
    dynamic: bool = False  # it has joined under its id, and named no group.instance.id


@dataclass(slots=True)
class View:
    """One group in the hands of one coordinator, from loading to resignation."""

    epoch: int
    since_us: int  # when the group took this epoch, at this coordinator or another one
    members: tuple[str, ...]
    unstable_us: int | None  # since when some member is not at its target; None: none is
    unrest_us: int  # since when one was, when that was so last
    heard: dict[str, int] = field(default_factory=dict)  # member id -> when its session began anew
    gone: dict[str, int] = field(default_factory=dict)  # the same of former members
    asked: dict[str, int] = field(default_factory=dict)  # when its JoinGroup or SyncGroup arrived
    joins: dict[str, list[Request]] = field(default_factory=dict)  # its JoinGroups and SyncGroups
    called: dict[str, int] = field(default_factory=dict)  # its first Heartbeat of an old epoch
    loaded: dict[str, None] = field(default_factory=dict)  # not heard since: GroupState("loaded")
    left: dict[str, None] = field(default_factory=dict)
    replaced: dict[str, None] = field(default_factory=dict)  # static members that came back
    told_us: int = -1  # when a member last told of another subscription


def next_view(t: int, fact: facts.GroupState, before: View | None, since_us: int) -> View:
    """Return the view of a group in its new state, which took its epoch at ``since_us``.

    A change that could not be appended never was: no session has begun anew since, and who was late
    to revoke still is. The timer that removed a member runs again (``Removals``).
    """
    members, stable = fact.member_ids, fact.state in ("Stable", "Empty")
    if before is None:
        loaded = dict.fromkeys(members) if fact.reason == "loaded" else {}
        heard, unstable = dict.fromkeys(members, t), None if stable else t
        return View(fact.generation, since_us, members, unstable, t, heard=heard, loaded=loaded)
    reverted = fact.reason == REVERTED
    unrest = before.unrest_us if before.unstable_us is None else before.unstable_us
    calm = before.unstable_us is None and not reverted
    known = {**before.gone, **before.heard} if reverted else before.heard
    return View(
        fact.generation,
        since_us,
        members,
        None if stable else t if calm else unrest,
        t if calm else unrest,
        heard={each: known.get(each, t) for each in members},
        gone={**before.gone, **before.heard},
        asked=before.asked,
        joins=before.joins,
        called={
            each: at
            for each, at in before.called.items()
            if reverted or each in before.members or each not in members
        },
        loaded=before.loaded,
        told_us=before.told_us,
    )
