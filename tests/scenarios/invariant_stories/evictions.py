"""Members that a coordinator removes though it has heard them."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row
from tests.scenarios.invariant_stories.common import (
    ALONE,
    LOADED,
    OFFSETS,
    Stories,
    asks,
    group,
    later,
    reverted,
)

SYNCING: list[Row] = [  # m2 has not sent SyncGroup, and sends heartbeats
    OFFSETS, LOADED, asks("JoinGroup", generation=-1), asks("JoinGroup", "m2", -1),
    group("CompletingRebalance", 1, "m1", "m2"), ("world", 4), asks("Heartbeat", "m2"),
    asks("Heartbeat"), asks("SyncGroup"), group("Stable", 1, "m1", "m2"), ("world", 4),
    asks("Heartbeat", "m2"), asks("Heartbeat"),
]  # fmt: skip
RESTARTED: Row = asks("JoinGroup", "", -1, instance="x")
WRITTEN: Row = ("broker-1", facts.Appended("offsets-id", 0, 1, 0, 2, -1, -1, -1, ()))
STATIC: list[Row] = [  # the process of x-1 starts again after a second
    OFFSETS, LOADED, asks("JoinGroup", generation=-1), RESTARTED,
    group("CompletingRebalance", 1, "m1", "x-1"), asks("SyncGroup"),
    group("Stable", 1, "m1", "x-1"), ("world", 1),
]  # fmt: skip
RETURNED: list[Row] = [  # its new id is x-2, whose record is appended; then a rebalance begins
    *STATIC, RESTARTED, WRITTEN, group("PreparingRebalance", 1, "m1", "x-2"),
]  # fmt: skip
UPDATED: Row = asks("JoinGroup", "", -1, instance="x", session_ms=12_000)
DEPLOYED: list[Row] = [  # the process of x-1 has another session timeout than before
    *STATIC, UPDATED, WRITTEN, group("Stable", 1, "m1", "x-2"),
]  # fmt: skip


NAMESAKES: list[Row] = [  # x-1 is static, x-9 a dynamic member with the client.id x
    OFFSETS, LOADED, RESTARTED, asks("JoinGroup", "x-9", -1),
    group("CompletingRebalance", 1, "x-1", "x-9"), asks("SyncGroup", "x-1"),
    asks("SyncGroup", "x-9"), group("Stable", 1, "x-1", "x-9"),
]  # fmt: skip
FORMER: list[Row] = [reverted(), group("PreparingRebalance", 1, "m1", "x-1")]

STORIES: Stories = {  # name: what happened before, how it goes on well, and badly
    "needless-eviction a member that is heard": (
        [*ALONE, later(4), asks("Heartbeat")],
        [later(6), group("PreparingRebalance", 1)],
        [later(5.9), group("PreparingRebalance", 1)],
    ),
    "needless-eviction a member that is heard after its session": (
        ALONE,
        [later(6), asks("Heartbeat"), group("PreparingRebalance", 1)],
        [later(5.9), asks("Heartbeat"), group("PreparingRebalance", 1)],
    ),
    "needless-eviction a static member whose place is taken": (
        [*ALONE, asks("JoinGroup", "", -1, instance="x"), group("Stable", 1, "m1", "x-1")],
        [asks("JoinGroup", "", -1, instance="x"), group("Stable", 1, "m1", "x-2")],
        [asks("JoinGroup", "", -1, instance="y"), group("Stable", 1, "m1", "x-2")],
    ),
    "needless-eviction a static member that is silent": (
        [*ALONE, asks("JoinGroup", "", -1, instance="x"), group("Stable", 1, "m1", "x-1")],
        [later(6), group("Stable", 1, "m1")],
        [later(5.9), group("Stable", 1, "m1")],
    ),
    "needless-eviction a dynamic member has another one's group.instance.id for its client.id": (
        NAMESAKES,
        [asks("JoinGroup", "", -1, instance="x"), group("Stable", 1, "x-2", "x-9")],
        [asks("JoinGroup", "", -1, instance="x"), group("Stable", 1, "x-1")],
    ),
    "needless-eviction a static member joins again beside a namesake": (
        [*NAMESAKES, asks("JoinGroup", "x-1", -1, instance="x")],
        [asks("JoinGroup", "", -1, instance="x"), group("Stable", 1, "x-2", "x-9")],
        [asks("JoinGroup", "", -1, instance="x"), group("Stable", 1, "x-1")],
    ),
    "needless-eviction a member that has not left": (
        ALONE,
        [asks("LeaveGroup"), group("PreparingRebalance", 1)],
        [asks("Heartbeat"), group("PreparingRebalance", 1)],
    ),
    "needless-eviction a member of a stable group that sends no SyncGroup": (
        SYNCING,
        [later(2), group("PreparingRebalance", 1, "m1")],
        [later(1.9), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a SyncGroup comes late": (
        [*SYNCING, later(1)],
        [asks("SyncGroup", "m2", 0), later(1), group("PreparingRebalance", 1, "m1")],
        [asks("SyncGroup", "m2"), later(1), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction another member sends no SyncGroup": (
        [*SYNCING, later(2)],
        [group("PreparingRebalance", 1, "m1")],
        [group("PreparingRebalance", 1, "m2")],
    ),
    "needless-eviction who joins later does not lengthen the join phase": (
        [*ALONE, asks("JoinGroup", "m2", -1), group("PreparingRebalance", 1, "m1", "m2"),
         later(5), asks("Heartbeat"), asks("JoinGroup", "m3", -1, rebalance_ms=60_000)],
        [later(5), group("CompletingRebalance", 2, "m2", "m3")],
        [later(4.9), group("CompletingRebalance", 2, "m2", "m3")],
    ),
    "needless-eviction no SyncGroup while a generation forms": (
        [*SYNCING[:6], asks("Heartbeat"), asks("Heartbeat", "m2"), later(4),
         asks("Heartbeat"), asks("Heartbeat", "m2"), asks("SyncGroup", "m2"), later(2)],
        [group("PreparingRebalance", 1, "m2")],
        [group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a coordinator that loads the group awaits no SyncGroup": (
        SYNCING[:-5],
        [later(4), asks("Heartbeat"), asks("Heartbeat", "m2"), later(2),
         group("PreparingRebalance", 1, "m1")],
        [("broker-1", facts.CoordinatorLoaded(0, 1, False)),
         ("broker-1", facts.CoordinatorLoaded(0, 2, True)),
         group("Stable", 1, "m1", "m2", reason="loaded"), later(4), asks("Heartbeat"),
         asks("Heartbeat", "m2"), later(2), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction the next generation awaits SyncGroup anew": (
        [*SYNCING, asks("JoinGroup", "m2"), group("PreparingRebalance", 1, "m1", "m2"),
         asks("JoinGroup"), group("CompletingRebalance", 2, "m1", "m2"),
         asks("SyncGroup", generation=2), group("Stable", 2, "m1", "m2"), later(4),
         asks("Heartbeat", "m2", 2), later(4), asks("Heartbeat", "m2", 2)],
        [later(2), group("PreparingRebalance", 2, "m1")],
        [later(1.9), group("PreparingRebalance", 2, "m1")],
    ),
    "needless-eviction a static member came after the generation had formed": (
        [*SYNCING, asks("JoinGroup", "", -1, instance="x"),
         group("Stable", 1, "m1", "m2", "x-1"), later(2)],
        [group("PreparingRebalance", 1, "m1", "x-1")],
        [group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-eviction a new id that was not committed in time gives way to the old one": (
        RETURNED,
        [later(5), *FORMER],
        [later(4.9), *FORMER],
    ),
    "needless-eviction a new id that was committed in time stays": (
        RETURNED,
        [later(5), ("broker-1", facts.HighWatermark("offsets-id", 0, 1, 2, 1, (1,))), *FORMER],
        [later(4.9), ("broker-1", facts.HighWatermark("offsets-id", 0, 1, 2, 1, (1,))),
         later(0.1), *FORMER],
    ),
    "needless-eviction a new id gives way to an old one that is a member": (
        [*RETURNED, later(5)],
        FORMER,
        [reverted(), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a new id gives way at once when its record could not be appended": (
        [*STATIC, RESTARTED],
        [group("PreparingRebalance", 1, "m1", "x-2"), reverted("NOT_ENOUGH_REPLICAS"),
         FORMER[1]],
        [WRITTEN, group("PreparingRebalance", 1, "m1", "x-2"), reverted("NOT_ENOUGH_REPLICAS"),
         FORMER[1]],
    ),
    "needless-eviction a new id that the group has not told of gives way to the old one": (
        [*STATIC, RESTARTED, WRITTEN],
        [later(5), reverted(), group("Stable", 1, "m1", "x-1")],
        [later(4.9), reverted(), group("Stable", 1, "m1", "x-1")],
    ),
    "needless-eviction a new id gives way to the old one of the same member": (
        [*RETURNED, later(5)],
        FORMER,
        [reverted(instance="y"), FORMER[1]],
    ),
    "needless-eviction a new id that a join phase has given stays": (
        STATIC,
        [RESTARTED, WRITTEN, group("PreparingRebalance", 1, "m1", "x-2"), later(5), *FORMER],
        [asks("JoinGroup", "m2", -1), group("PreparingRebalance", 1, "m1", "x-1", "m2"),
         RESTARTED, WRITTEN, group("PreparingRebalance", 1, "m1", "x-2", "m2"), later(5),
         reverted(), group("PreparingRebalance", 1, "m1", "m2", "x-1")],
    ),
    "needless-eviction the session of an old id begins when it is back": (
        [*RETURNED, group("CompletingRebalance", 2, "m1", "x-2"), later(5), reverted(),
         group("CompletingRebalance", 2, "m1", "x-1")],
        [later(6), group("PreparingRebalance", 2, "m1")],
        [later(5.9), group("PreparingRebalance", 2, "m1")],
    ),
    "needless-eviction an old id is back in a state that tells of another member's new id": (
        [OFFSETS, LOADED, RESTARTED, asks("JoinGroup", "", -1, instance="y", session_ms=12_000),
         group("CompletingRebalance", 1, "x-1", "y-1"), group("Stable", 1, "x-1", "y-1"),
         RESTARTED, WRITTEN, asks("JoinGroup", "", -1, instance="y", session_ms=12_000),
         reverted("NOT_ENOUGH_REPLICAS", "y", "y-1", "y-2"), group("Stable", 1, "y-1", "x-2")],
        [later(6), group("PreparingRebalance", 1, "y-1")],
        [later(5.9), group("PreparingRebalance", 1, "y-1")],
    ),
    "needless-eviction what a deposed coordinator hears begins no session": (
        [*STATIC, RESTARTED, WRITTEN, later(3),
         asks("JoinGroup", "x-2", -1, instance="x", node="broker-2"),
         group("CompletingRebalance", 1, "m1", "x-2"), asks("SyncGroup", "x-2"),
         asks("Heartbeat"), group("Stable", 1, "m1", "x-2")],
        [later(3), group("PreparingRebalance", 1, "m1")],
        [later(2.9), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction the session of a static member begins with its JoinGroup": (
        [*SYNCING, asks("JoinGroup", "", -1, instance="x"), later(1),
         group("Stable", 1, "m1", "m2", "x-1")],
        [later(5), group("PreparingRebalance", 1, "m1", "m2")],
        [later(4.9), group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-eviction an old id that is back has its own session": (
        [*STATIC, asks("SyncGroup", "x-1"), UPDATED, WRITTEN,
         group("PreparingRebalance", 1, "m1", "x-2"), later(5), *FORMER,
         group("CompletingRebalance", 2, "m1", "x-1"), asks("SyncGroup", "x-1", 2),
         asks("SyncGroup", generation=2), group("Stable", 2, "m1", "x-1"), later(4),
         asks("Heartbeat", generation=2)],
        [later(2), group("PreparingRebalance", 1, "m1")],
        [later(1.9), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction an old id has its own session at a deposed coordinator": (
        [*STATIC, ("broker-2", facts.CoordinatorLoaded(0, 2, True)),
         group("Stable", 1, "m1", "x-1", reason="loaded", node="broker-2"),
         asks("JoinGroup", "", -1, instance="x", session_ms=12_000, node="broker-2"),
         group("Stable", 1, "m1", "x-2", node="broker-2"), asks("Heartbeat")],
        [later(5), group("PreparingRebalance", 1, "m1")],
        [later(4.9), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a new id begins with the session of the old one": (
        [*DEPLOYED, later(2), asks("Heartbeat")],
        [later(4), group("PreparingRebalance", 1, "m1")],
        [later(3.9), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a new id has its own session when it is heard": (
        [*DEPLOYED, later(1), asks("Heartbeat", "x-2"), later(5), asks("Heartbeat"), later(5),
         asks("Heartbeat")],
        [later(2), group("PreparingRebalance", 1, "m1")],
        [later(1.9), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a new id has its own session in the next generation": (
        [*DEPLOYED, later(1), asks("JoinGroup"), group("PreparingRebalance", 1, "m1", "x-2"),
         group("CompletingRebalance", 2, "m1", "x-2"), asks("SyncGroup", generation=2),
         asks("SyncGroup", "x-2", 2), group("Stable", 2, "m1", "x-2"), later(5),
         asks("Heartbeat", generation=2), later(5), asks("Heartbeat", generation=2)],
        [later(2), group("PreparingRebalance", 2, "m1")],
        [later(1.9), group("PreparingRebalance", 2, "m1")],
    ),
}  # fmt: skip
