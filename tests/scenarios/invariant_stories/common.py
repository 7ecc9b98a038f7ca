"""Facts that the stories of several invariants tell."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import (
    Row,
    appended,
    batch,
    created,
    high_watermark,
    led,
    registration,
    replicated,
)

REPLICATED = replicated(0, (10,))
START: list[Row] = [("controller-1", created()), ("broker-1", led(0))]
EXPOSED: list[Row] = [*START, ("broker-1", appended(0, (10,))), ("broker-1", high_watermark(1))]
ALIVE: list[Row] = [("controller-1", registration(broker, broker)) for broker in (1, 2)]
SEQUENCED = [batch(0, [10], pid=5, seq=0), batch(1, [11], pid=5, seq=1)]


def assigned(member: str, partition: str, generation: int = 1) -> Row:
    return ("broker-1", facts.GroupAssigned("billing", generation, member, (partition,)))


def asks(
    api: str,
    member: str = "m1",
    generation: int = 1,
    *,
    instance: str | None = None,
    protocols: tuple[str, ...] = ("range",),
    session_ms: int = 6000,
    rebalance_ms: int = 10_000,
    node: str = "broker-1",
) -> Row:
    """A request of a member; in a JoinGroup it tells its timeouts."""
    topics, times = (), (0, 0)
    if api == "JoinGroup":
        topics, times = ("orders",), (session_ms, rebalance_ms)
    else:
        protocols = ()
    return node, facts.MemberRequest(
        "billing", member, instance, api, generation, topics, protocols, *times
    )


def group(
    state: str, generation: int, *members: str, reason: str = "", node: str = "broker-1"
) -> Row:
    leader = members[0] if members else ""
    return node, facts.GroupState("billing", state, generation, members, "range", reason, leader)


OFFSETS: Row = ("controller-1", facts.TopicCreated(2, "offsets-id", "__consumer_offsets", 1, 3, 1))
LOADED: Row = ("broker-1", facts.CoordinatorLoaded(0, 1, True))
ALONE: list[Row] = [  # a group of one member in its first generation
    OFFSETS, LOADED, asks("JoinGroup", generation=-1), group("PreparingRebalance", 0, "m1"),
    group("CompletingRebalance", 1, "m1"), asks("SyncGroup"), group("Stable", 1, "m1"),
    ("consumer-1", facts.ConsumerAssigned("billing", "m1", 1, ("orders-0",))),
]  # fmt: skip
END: Row = ("world", facts.Phase("end", "converged"))


def later(seconds: float) -> Row:
    """Time passes: see FakeTrace.record."""
    return "world", seconds


TWO: list[Row] = [*EXPOSED, ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2))]
Stories = dict[str, tuple[list[Row], list[Row], list[Row]]]


def reverted(
    error: str = "REQUEST_TIMED_OUT", instance: str = "x", old: str = "x-1", new: str = "x-2"
) -> Row:
    """A static member with a new id has its old one again."""
    return "broker-1", facts.MemberIdReverted("billing", old, instance, new, error)
