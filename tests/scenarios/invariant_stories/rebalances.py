"""Rebalances that nothing asked for, and those that last too long."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row, T
from tests.scenarios.invariant_stories.common import (
    ALONE,
    END,
    LOADED,
    OFFSETS,
    Stories,
    asks,
    group,
    later,
    reverted,
)
from tests.scenarios.invariant_stories.evictions import RESTARTED, STATIC

PAIR: list[Row] = [  # m1 leads, and m2 has taken the assignment of the first generation
    OFFSETS, LOADED, asks("JoinGroup", generation=-1), asks("JoinGroup", "m2", -1),
    group("CompletingRebalance", 1, "m1", "m2"), asks("SyncGroup"),
    group("Stable", 1, "m1", "m2"),
    ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ())),
]  # fmt: skip


def sticky(member: str = "", of: str = "sticky") -> Row:
    """The JoinGroup of a static member, which names no generation."""
    return asks("JoinGroup", member, -1, instance="x", protocols=(of,))


def keeps(*owned: str) -> Row:
    """A JoinGroup of m2 of the first generation, with a cooperative assignor that is not sticky."""
    return "broker-1", facts.MemberRequest(
        "billing", "m2", None, "JoinGroup", 1, ("orders",), ("keeping",), 6000, 10_000, owned
    )


MISSED: list[Row] = [  # m2 leads a generation for which the static member did not join
    asks("JoinGroup", "m2", -1), group("PreparingRebalance", 1, "m2", "x-1"),
    group("CompletingRebalance", 2, "m2", "x-1"), asks("SyncGroup", "m2", 2),
    group("Stable", 2, "m2", "x-1"),
]  # fmt: skip
DELETED_BY_ONE: list[Row] = [
    group("Empty", 2), group("Dead", 2), ("broker-2", facts.CoordinatorLoaded(0, 2, True)),
    group("Stable", 1, "m1", "m2", reason="loaded", node="broker-2"),
]  # fmt: skip
"""A deposed coordinator, which can store nothing, deletes the group; the next one loads it."""

FORGOTTEN: list[Row] = [  # its leader joins again at a coordinator that loaded the generation
    ("broker-2", facts.CoordinatorLoaded(0, 2, True)),
    group("Stable", 1, "m1", "m2", reason="loaded", node="broker-2"),
    ("broker-2", asks("JoinGroup", "m1", 1)[1]),
    group("PreparingRebalance", 1, "m1", "m2", node="broker-2"),
]  # fmt: skip

REFUSED: list[Row] = [  # neither the new id nor the assignment could be appended
    reverted("NOT_ENOUGH_REPLICAS"), group("CompletingRebalance", 2, "m1", "x-1"),
    group("PreparingRebalance", 2, "m1", "x-1"),
]  # fmt: skip

STORIES: Stories = {  # name: what happened before, how it goes on well, and badly
    "needless-rebalance a follower asks for the answer that it has missed": (
        [*ALONE, group("Stable", 1, "m1", "m2"), asks("JoinGroup", "m2"),
         ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ()))],
        [asks("JoinGroup", "m2")],
        [asks("JoinGroup", "m2"), group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance a static member has missed a generation, and its assignor is sticky": (
        [OFFSETS, LOADED, sticky(), group("PreparingRebalance", 0, "x-1"),
         group("CompletingRebalance", 1, "x-1"), group("Stable", 1, "x-1"),
         ("consumer-1", facts.ConsumerAssigned("billing", "x-1", 1, ()))],
        [*MISSED, sticky("x-1"), group("PreparingRebalance", 2, "m2", "x-1")],
        [*MISSED, ("consumer-1", facts.ConsumerAssigned("billing", "x-1", 2, ())),
         sticky("x-1"), group("PreparingRebalance", 2, "m2", "x-1")],
    ),
    "needless-rebalance it has told of its last assignment before": (
        [OFFSETS, LOADED, sticky(), group("PreparingRebalance", 0, "x-1"),
         group("CompletingRebalance", 1, "x-1"), group("Stable", 1, "x-1"),
         ("consumer-1", facts.ConsumerAssigned("billing", "x-1", 1, ())), *MISSED],
        [sticky("x-1")],
        [sticky("x-1"), sticky("x-1"), group("PreparingRebalance", 2, "m2", "x-1")],
    ),
    "needless-rebalance a member has missed a generation, and its assignor is not sticky": (
        [OFFSETS, LOADED, sticky(of="range"), group("PreparingRebalance", 0, "x-1"),
         group("CompletingRebalance", 1, "x-1"), group("Stable", 1, "x-1"),
         ("consumer-1", facts.ConsumerAssigned("billing", "x-1", 1, ())), *MISSED],
        [sticky("x-1", "range")],
        [sticky("x-1", "range"), group("PreparingRebalance", 2, "m2", "x-1")],
    ),
    "needless-rebalance a member gives up what its assignment lacks": (
        [OFFSETS, LOADED, asks("JoinGroup", generation=-1), keeps("orders-0", "orders-1"),
         group("CompletingRebalance", 1, "m1", "m2"), asks("SyncGroup"),
         group("Stable", 1, "m1", "m2"),
         ("broker-1", facts.GroupAssigned("billing", 1, "m2", ("orders-0",))),
         ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ("orders-0",)))],
        [keeps("orders-0"), group("PreparingRebalance", 1, "m1", "m2")],
        [keeps("orders-0", "orders-1"), group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance the log kept one protocol of the member": (
        [*ALONE, asks("JoinGroup", "m2"), ("consumer-2",
         facts.ConsumerAssigned("billing", "m2", 1, ()))],
        [group("Stable", 1, "m1", "m2", reason="loaded"),
         asks("JoinGroup", "m2", protocols=("range", "roundrobin")),
         group("PreparingRebalance", 1, "m1", "m2")],
        [group("Stable", 1, "m1", "m2", reason="loaded"), asks("JoinGroup", "m2"),
         group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance the leader joins again though nothing has changed": (
        ALONE,
        [("controller-1", facts.TopicDeleted(3, T, "orders")), asks("JoinGroup"),
         group("PreparingRebalance", 1, "m1")],
        [asks("JoinGroup"), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-rebalance a member that finds its topics by a pattern had no metadata": (
        [*PAIR, ("consumer-2", facts.Rebootstrapped("consumer", "no-node"))],
        [("consumer-2", facts.SubscribedByPattern("billing")), asks("JoinGroup", "m2"),
         group("PreparingRebalance", 1, "m1", "m2")],
        [asks("JoinGroup", "m2"), group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance a topic was deleted, and the pattern of a member has no others": (
        [*PAIR, ("controller-1", facts.TopicDeleted(3, T, "orders"))],
        [("consumer-2", facts.SubscribedByPattern("billing")), asks("JoinGroup", "m2"),
         group("PreparingRebalance", 1, "m1", "m2")],
        [("consumer-1", facts.SubscribedByPattern("billing")), asks("JoinGroup", "m2"),
         group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance a deposed coordinator has begun another one that it could not store": (
        [OFFSETS, LOADED, asks("JoinGroup", generation=-1), asks("JoinGroup", "m2", -1),
         group("CompletingRebalance", 1, "m1", "m2"), group("Stable", 1, "m1", "m2"),
         ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ())),
         ("broker-2", facts.CoordinatorLoaded(0, 2, True)),
         group("Stable", 1, "m1", "m2", reason="loaded", node="broker-2")],
        [asks("LeaveGroup"), group("PreparingRebalance", 1, "m2"),
         group("CompletingRebalance", 2, "m2"), asks("JoinGroup", "m3", -1),
         group("PreparingRebalance", 2, "m2", "m3"),
         ("broker-2", asks("JoinGroup", "m2", 2)[1]),
         group("PreparingRebalance", 1, "m1", "m2", node="broker-2")],
        [("broker-2", asks("JoinGroup", "m2", 2)[1]),
         group("PreparingRebalance", 1, "m1", "m2", node="broker-2")],
    ),
    "needless-rebalance a coordinator has converted the group, and the next one does not know": (
        [*PAIR, ("consumer-1", facts.ConsumerAssigned("billing", "m1", 1, ()))],
        [("broker-1", facts.GroupConverted("billing", "consumer", "heartbeat of m3, epoch 0")),
         group("Reconciling", 2, "m1", "m2", "m3"), *FORGOTTEN],
        FORGOTTEN,
    ),
    "needless-rebalance a deposed coordinator has begun another one, and deleted the group": (
        [OFFSETS, LOADED, asks("JoinGroup", generation=-1), asks("JoinGroup", "m2", -1),
         group("CompletingRebalance", 1, "m1", "m2"), group("Stable", 1, "m1", "m2"),
         ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ()))],
        [asks("LeaveGroup"), group("PreparingRebalance", 1, "m2"),
         asks("LeaveGroup", "m2"), *DELETED_BY_ONE,
         ("broker-2", asks("JoinGroup", "m2", 1)[1]),
         group("PreparingRebalance", 1, "m1", "m2", node="broker-2")],
        [asks("LeaveGroup", "m2"), group("PreparingRebalance", 1, "m1"),
         asks("LeaveGroup"), *DELETED_BY_ONE,
         ("broker-2", asks("JoinGroup", "m2", 1)[1]), ("broker-2", asks("JoinGroup", "m2", 1)[1]),
         group("PreparingRebalance", 1, "m1", "m2", node="broker-2")],
    ),
    "needless-rebalance a ZooKeeper broker served without metadata": (
        [("broker-2", facts.ZkControllerWrite(1, 1, "/controller_epoch", 1)),
         ("broker-3", facts.HostStarted(1))],
        [later(60), *ALONE, asks("JoinGroup"), group("PreparingRebalance", 1, "m1")],
        [("broker-3", facts.ControlRequest("UpdateMetadata", 2, 1, "NONE")),
         later(60), *ALONE, asks("JoinGroup"), group("PreparingRebalance", 1, "m1")],
    ),
    "needless-rebalance an assignment is not stored, after a member id was not either": (
        [*STATIC, RESTARTED, group("PreparingRebalance", 1, "m1", "x-2"),
         group("CompletingRebalance", 2, "m1", "x-2")],
        [asks("SyncGroup", generation=2), *REFUSED], [asks("SyncGroup", generation=1), *REFUSED],
    ),
    "needless-rebalance nobody asked for it": (
        ALONE,
        [asks("JoinGroup", "m2", -1), group("PreparingRebalance", 1, "m1", "m2")],
        [later(2), group("PreparingRebalance", 1, "m1")],
    ),
    "long-rebalance a phase outlasts the timeouts": (
        [*ALONE, asks("LeaveGroup", "m2"), asks("JoinGroup", "m2", -1),
         group("PreparingRebalance", 1, "m1", "m2")],
        [later(14), group("CompletingRebalance", 2, "m2")],
        [later(14.1), group("CompletingRebalance", 2, "m2")],
    ),
    "long-rebalance a phase does not end": (
        [*ALONE, asks("JoinGroup", "m2", -1), group("PreparingRebalance", 1, "m1", "m2")],
        [later(14), END],
        [later(14.1), END],
    ),
    "long-rebalance a static member is heard, and does not join": (
        [OFFSETS, LOADED, asks("JoinGroup", generation=-1),
         asks("JoinGroup", "m2", -1, instance="x"),
         group("CompletingRebalance", 1, "m1", "m2"), asks("SyncGroup"),
         group("Stable", 1, "m1", "m2"), later(1), asks("LeaveGroup"),
         group("PreparingRebalance", 1, "m2"), later(4)],
        [asks("Heartbeat", "m2", instance="x"), later(30), group("CompletingRebalance", 2, "m2")],
        [later(30), group("CompletingRebalance", 2, "m2")],
    ),
    "long-rebalance the coordinator was paused before another member joined": (
        [*ALONE, asks("JoinGroup", "m2", -1), group("PreparingRebalance", 1, "m1", "m2"),
         ("broker-1", facts.HostPaused(5_000_000)), later(5), asks("JoinGroup", "m3", -1),
         group("PreparingRebalance", 1, "m1", "m2", "m3")],
        [later(14), group("CompletingRebalance", 2, "m1", "m2", "m3")],
        [later(14.1), group("CompletingRebalance", 2, "m1", "m2", "m3")],
    ),
    "long-rebalance the coordinator's disk was stalled": (
        [*ALONE, asks("JoinGroup", "m2", -1), group("PreparingRebalance", 1, "m1", "m2"),
         ("world", facts.FaultStarted("disk-stall", "broker-1+broker-2")), later(5),
         ("world", facts.FaultEnded("disk-stall", "broker-1+broker-2"))],
        [later(14), group("CompletingRebalance", 2, "m1", "m2")],
        [later(14.1), group("CompletingRebalance", 2, "m1", "m2")],
    ),
    "long-rebalance the disk of another broker was stalled": (
        [*ALONE, asks("JoinGroup", "m2", -1), group("PreparingRebalance", 1, "m1", "m2"),
         ("world", facts.FaultStarted("disk-stall", "broker-2")), later(5),
         ("world", facts.FaultEnded("disk-stall", "broker-2"))],
        [later(9), group("CompletingRebalance", 2, "m1", "m2")],
        [later(9.1), group("CompletingRebalance", 2, "m1", "m2")],
    ),
}  # fmt: skip
