"""The judges of consumer groups (KIP-848) on facts written by hand."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row, T
from tests.scenarios.invariant_stories.common import LOADED, OFFSETS
from tests.scenarios.invariant_stories.judged import judge
from tests.scenarios.invariant_stories.syncs import SYNC_STORIES


def beats(
    member: str, epoch: int, topics: tuple[str, ...] = (), instance: str | None = None
) -> Row:
    """A heartbeat of a member whose rebalance timeout is 10 s; sessions are 45 s."""
    return "broker-1", facts.MemberRequest(
        "billing", member, instance, "ConsumerGroupHeartbeat", epoch, topics, (), 0,
        10_000 if epoch == 0 else 0,
    )  # fmt: skip


def group(state: str, epoch: int, *members: str, reason: str = "") -> Row:
    return "broker-1", facts.GroupState("billing", state, epoch, members, "uniform", reason)


def owns(member: str, epoch: int, *partitions: str, node: str = "broker-1") -> Row:
    return node, facts.GroupAssigned("billing", epoch, member, partitions)


def classic(api: str, member: str, epoch: int, session_ms: int = 0) -> Row:
    """A request of a classic member, while its group is migrated."""
    topics, rebalance_ms = (("orders",), 10_000) if api == "JoinGroup" else ((), 0)
    return "broker-1", facts.MemberRequest(
        "billing", member, None, api, epoch, topics, (), session_ms, rebalance_ms
    )


def static_join(instance: str, member: str = "", session_ms: int = 30_000) -> Row:
    """A JoinGroup of a static classic member."""
    return "broker-1", facts.MemberRequest(
        "billing", member, instance, "JoinGroup", -1, ("orders",), (), session_ms, 10_000
    )


def elected(leader_epoch: int) -> Row:
    return "broker-1", facts.CoordinatorLoaded(0, leader_epoch, True)


def at(number: int, *rows: Row) -> list[Row]:
    """The same rows at another broker."""
    return [(f"broker-{number}", each[1]) for each in rows]


def later(seconds: float) -> Row:
    return "world", seconds


def registered(broker: int, rack: str, change: str = "registered") -> Row:
    return "controller-1", facts.BrokerRegistration(broker, broker, 5, change, False, False, rack)


def placed(offset: int, *replicas: int) -> Row:
    """A partition of orders has these replicas."""
    return "controller-1", facts.PartitionChanged(
        offset, T, 0, 1, 0, offset, (1,), replicas, "reassignment", False
    )


GROWN: Row = ("controller-1", facts.TopicCreated(9, T, "orders", 4, 3, 1))
IN_RACKS: list[Row] = [
    registered(1, "rack-a"), registered(2, "rack-b"), registered(3, "rack-c"),
    registered(4, "rack-b"), GROWN, placed(4, 1, 2),
]  # fmt: skip
"""Four brokers in three racks; orders has replicas in two of them."""
ALONE: list[Row] = [
    OFFSETS, LOADED, beats("m1", 0, ("orders",)), group("Stable", 1, "m1"),
    owns("m1", 1, "orders-0", "orders-1"),
]  # fmt: skip
MOVED: list[Row] = [
    *at(2, elected(2)),
    ("broker-2", facts.GroupState("billing", "Stable", 1, ("m1",), "uniform", "loaded")),
    owns("m1", 1, "orders-0", "orders-1", node="broker-2"),
]
"""Another coordinator has loaded the group of m1."""
RESOLVED: list[Row] = [
    OFFSETS, LOADED, beats("m1", 0, ("/o.*/",)), group("Stable", 1, "m1"), later(1),
    group("Assigning", 2, "m1"),
]  # fmt: skip
"""The expression of m1 has been resolved after its first heartbeat."""
UNRESOLVED: list[Row] = [
    *RESOLVED[:-1], beats("m2", 0, ("orders",)), group("Stable", 2, "m1", "m2"),
]  # fmt: skip
"""The expression of m1 has not been resolved yet as m2 joins."""
REJOINS: list[Row] = [beats("m1", 0, ("/o.*/",))]
TWO: list[Row] = [
    *ALONE, beats("m2", 0, ("orders",)), group("Reconciling", 2, "m1", "m2"),
]  # fmt: skip

CONVERTED: list[Row] = [
    OFFSETS, LOADED, classic("JoinGroup", "m1", -1, 6000), beats("m2", 0, ("orders",)),
    ("broker-1", facts.GroupConverted("billing", "consumer", "")), group("Stable", 2, "m1", "m2"),
    later(3), classic("JoinGroup", "m1", 1, 6000),
]  # fmt: skip
"""The group has been a classic one of m1; m1 joins once more, and its session is 6 s."""

JOINED: list[Row] = [
    *CONVERTED, classic("JoinGroup", "m1", 1, 30_000), group("Stable", 2, "m1", "m2"),
]  # fmt: skip
"""m1 joins with a session of 30 s; its rebalance timeout is 10 s."""

RISEN: list[Row] = [
    *JOINED[:-2], classic("JoinGroup", "m1", 1, 30_000), classic("SyncGroup", "m1", 2), later(1),
    beats("m2", 2, ("orders", "payments")), group("Reconciling", 3, "m1", "m2"), later(2),
]  # fmt: skip
"""m1 is at epoch 2, and the group goes to epoch 3."""
REJOINED: list[Row] = [
    later(4), classic("Heartbeat", "m1", 2), classic("JoinGroup", "m1", 2, 30_000),
    group("Stable", 3, "m1", "m2"),
]  # fmt: skip
"""m1 joins again; whether that is committed and answered nobody tells."""
BACK: list[Row] = [
    later(4), classic("JoinGroup", "m1", 2, 30_000), group("Stable", 5, "m1", "m2"),
]  # fmt: skip

REMOVED: list[Row] = [
    *ALONE, later(45), group("Empty", 2),
    ("broker-1", facts.Appended("offsets-id", 0, 0, 1, 2, -1, -1, -1, ())),
]  # fmt: skip
"""The session of m1 has ended, which is written to the log at offset 1."""
AGAIN: list[Row] = [
    later(1), beats("m1", 0), group("Stable", 3, "m1"), later(4.6), group("Empty", 4),
]  # fmt: skip
"""It joins again, and 5.6 s after the first removal it is removed once more."""

UNTOLD: list[Row] = [
    *ALONE, static_join("i"), group("Stable", 2, "m1", "m2"), later(1),
]  # fmt: skip
"""A static classic member i has joined the consumer group, and was never told that it is m2."""

BOTH: list[Row] = [*TWO, group("Stable", 2, "m1", "m2")]
TAKEN_BACK: list[Row] = [
    group("Stable", 3, "m2"), group("Stable", 2, "m1", "m2", reason="reverted"),
]  # fmt: skip
"""m1 is removed from them, but the batch that says so could not be appended."""

NOT_UPGRADED: list[Row] = [
    OFFSETS, LOADED, classic("JoinGroup", "m1", -1, 6000), group("Stable", 2, "m1"), later(5),
    beats("m2", 0, ("orders",)), ("broker-1", facts.GroupConverted("billing", "consumer", "")),
    group("Reconciling", 3, "m1", "m2"),
    ("broker-1", facts.GroupConverted("billing", "classic", "reverted")),
]  # fmt: skip
"""m1, silent for 5 s, was to be in a consumer group, but the upgrade could not be appended."""
WITHOUT: list[Row] = [
    group("PreparingRebalance", 2, "m1", "m3"), group("CompletingRebalance", 3, "m3"),
]  # fmt: skip

BACK_AND_FORTH: list[Row] = [
    *ALONE, ("broker-1", facts.GroupConverted("billing", "classic", "")),
    group("PreparingRebalance", 2, "m1"), group("Stable", 3, "m1"),
    ("broker-1", facts.GroupConverted("billing", "consumer", "")),
    group("Reconciling", 4, "m1", "m2"),
]  # fmt: skip
"""The group has become a classic one, and then one of the consumer protocol again."""

APART: list[Row] = [
    *CONVERTED, beats("m2", -1), ("broker-1", facts.GroupConverted("billing", "classic", "")),
    group("Stable", 3, "m1"), ("broker-2", facts.CoordinatorLoaded(0, 2, True)),
    ("broker-2", group("Stable", 2, "m1", "m2", reason="loaded")[1]),
]  # fmt: skip
"""broker-1 was deposed before its conversion was committed, and does not know it yet; broker-2 has
loaded the group as it was."""

TAKEN_AT_ANOTHER: list[Row] = at(
    2,
    *[elected(2), beats("m2", 0, ("orders",)), group("Stable", 1, "m2"), beats("m3", 0, ("o",))],
    *[group("Reconciling", 2, "m2", "m3"), owns("m2", 2, "orders-0")],
)
"""broker-2 loads no group, and gives m2 what m1 has had."""

STORIES: dict[str, tuple[list[Row], list[Row], list[Row]]] = {
    # name: what happened before, how it goes on well, how it goes on badly
    "EXCL an owner that has not released, at another epoch": (
        TWO,
        [owns("m1", 2, "orders-0"), owns("m2", 2, "orders-1")],
        [owns("m2", 2, "orders-1")],
    ),
    "EXCL what a coordinator loads is without members that are gone": (
        [*ALONE, group("Empty", 2, reason="loaded")],
        [beats("m2", 0, ("orders",)), group("Stable", 3, "m2"), owns("m2", 3, "orders-0")],
        [group("Stable", 3, "m1", "m2"), owns("m1", 2, "orders-0"), owns("m2", 3, "orders-0")],
    ),
    "EXCL a coordinator loads what the previous one had not committed": (
        [*ALONE, group("Stable", 4, "m2", "m1", reason="loaded")],
        [owns("m2", 3, "orders-0", "orders-1"), owns("m1", 4)],
        [owns("m2", 3, "orders-0", "orders-1"), owns("m1", 4, "orders-1")],
    ),
    "EXCL a coordinator loads nothing of a group whose deletion was not committed": (
        ALONE,
        [beats("m1", -1), group("Empty", 2), group("Dead", 0), *TAKEN_AT_ANOTHER],
        TAKEN_AT_ANOTHER,
    ),
    "EXCL a coordinator loads what a conversion has not changed for good": (
        [
            OFFSETS,
            LOADED,
            classic("JoinGroup", "m1", -1, 6000),
            group("Stable", 2, "m1", "m3"),
            beats("m2", 0, ("orders",)),
            ("broker-1", facts.GroupConverted("billing", "consumer", "")),
            group("Reconciling", 3, "m1", "m3", "m2"),
            LOADED,
        ],
        [
            (
                "broker-1",
                facts.GroupState("billing", "Stable", 2, ("m1", "m3"), "range", "loaded", "m1"),
            ),
            owns("m1", 2, "orders-0"),
            owns("m3", 2, "orders-1"),
            owns("m1", 3, "orders-1"),
        ],
        [
            group("Stable", 3, "m1", "m3", reason="loaded"),
            owns("m1", 2, "orders-0"),
            owns("m3", 2, "orders-1"),
            owns("m1", 3, "orders-1"),
        ],
    ),
    "EXCL a deposed coordinator converts the group for itself alone": (
        [*ALONE, *MOVED, ("broker-1", facts.GroupConverted("billing", "classic", ""))],
        [owns("m1", 2, node="broker-2"), owns("m2", 2, "orders-0", node="broker-2")],
        [owns("m2", 2, "orders-0", node="broker-2")],
    ),
    "EXCL a member is gone, which is told while the group is a classic one": (
        [*ALONE, beats("m1", -1), group("Empty", 2), classic("JoinGroup", "m3", -1, 6000)],
        [
            owns("m1", 2),
            beats("m2", 0, ("orders",)),
            group("Stable", 3, "m2"),
            owns("m2", 3, "orders-1"),
        ],
        [beats("m2", 0, ("orders",)), group("Stable", 3, "m2"), owns("m2", 3, "orders-1")],
    ),
    "EXCL what was owned before the group was a classic one is told late": (
        BACK_AND_FORTH,
        [owns("m2", 2, "orders-0"), owns("m1", 3, "orders-0")],
        [owns("m2", 2, "orders-0"), owns("m1", 3, "orders-0"), owns("m2", 4, "orders-0")],
    ),
    "needless-rebalance the epoch rises for nothing": (
        [*ALONE, later(60)],
        [GROWN, group("Stable", 2, "m1")],
        [beats("m1", 1), group("Stable", 2, "m1")],
    ),
    "needless-rebalance a subscription that is told again": (
        [*ALONE, later(60)],
        [beats("m1", 1, ("orders", "payments")), group("Stable", 2, "m1")],
        [beats("m1", 1, ("orders",)), group("Stable", 2, "m1")],
    ),
    "needless-rebalance a member that joins again looks for its pattern's topics": (
        [*ALONE, later(60), group("Empty", 2), beats("m1", 0), group("Stable", 2, "m1"), later(1)],
        [beats("m1", 2, ("orders",)), group("Stable", 3, "m1")],
        [beats("m1", 2), group("Stable", 3, "m1")],
    ),
    "needless-rebalance a topic has grown since an epoch that another coordinator took": (
        [*ALONE, later(31), GROWN],
        [later(60), *MOVED, *at(2, group("Stable", 2, "m1"))],
        [
            *[later(31), group("Stable", 2, "m1")],
            *at(2, elected(2), group("Stable", 2, "m1", reason="loaded"), group("Stable", 3, "m1")),
        ],
    ),
    "needless-rebalance what a deposed coordinator does says nothing of an epoch": (
        [*ALONE, *MOVED, *at(2, beats("m1", 1, ("orders", "payments")), group("Stable", 2, "m1"))],
        [
            *[later(31), GROWN, later(31), group("Stable", 2, "m1")],
            *at(3, elected(3), group("Stable", 2, "m1", reason="loaded"), group("Stable", 3, "m1")),
        ],
        [
            *at(3, elected(3), group("Stable", 2, "m1", reason="loaded"), group("Stable", 3, "m1")),
        ],
    ),
    "needless-rebalance a topic has grown since an epoch that is taken back": (
        [*ALONE, later(31), GROWN, later(31), group("Stable", 2, "m1")],
        [group("Stable", 1, "m1", reason="reverted"), group("Stable", 2, "m1")],
        [later(31), group("Stable", 3, "m1")],
    ),
    "needless-rebalance replicas of a topic have moved to another rack": (
        [*IN_RACKS, later(31), *ALONE, later(60)],
        [placed(5, 1, 3), group("Stable", 2, "m1")],
        [placed(5, 1, 4), group("Stable", 2, "m1")],
    ),
    "needless-rebalance a broker of a topic has come in another rack": (
        [*IN_RACKS, later(31), *ALONE, later(60)],
        [registered(2, "rack-c"), group("Stable", 2, "m1")],
        [registered(2, "rack-b"), group("Stable", 2, "m1")],
    ),
    "needless-rebalance a broker with a replica was unregistered": (
        [*IN_RACKS, later(31), *ALONE, later(60)],
        [registered(2, "rack-b", "unregistered"), group("Stable", 2, "m1")],
        [registered(3, "rack-c", "unregistered"), group("Stable", 2, "m1")],
    ),
    "needless-rebalance an expression is resolved by the next coordinator": (
        [*RESOLVED[:-1], later(31)],
        [*MOVED, later(5), *at(2, group("Assigning", 2, "m1"))],
        [*MOVED, *at(2, group("Assigning", 2, "m1")), later(5), *at(2, group("Stable", 3, "m1"))],
    ),
    "needless-rebalance an expression is resolved when its only member has joined again": (
        [*RESOLVED, later(46), group("Empty", 3), later(20), *REJOINS, group("Stable", 3, "m1")],
        [later(1), group("Assigning", 4, "m1")],
        [later(1), group("Assigning", 4, "m1"), later(1), group("Assigning", 5, "m1")],
    ),
    "needless-rebalance an expression is resolved after the epoch has risen for a member": (
        [*UNRESOLVED, later(1)],
        [group("Assigning", 3, "m1", "m2")],
        [group("Assigning", 3, "m1", "m2"), later(1), group("Assigning", 4, "m1", "m2")],
    ),
    "needless-rebalance a deposed coordinator resolves an expression for itself": (
        [
            *UNRESOLVED,
            later(1),
            *at(2, elected(2)),
            (
                "broker-2",
                facts.GroupState("billing", "Stable", 2, ("m1", "m2"), "uniform", "loaded"),
            ),
        ],
        [group("Assigning", 3, "m1", "m2"), *at(2, group("Assigning", 3, "m1", "m2"))],
        [*at(2, group("Assigning", 3, "m1", "m2")), group("Assigning", 3, "m1", "m2")],
    ),
    "needless-rebalance an expression is known when a member joins with it": (
        [*RESOLVED, later(46), group("Empty", 3), later(20), *REJOINS],
        [group("Assigning", 4, "m1")],
        [group("Assigning", 4, "m1"), group("Assigning", 5, "m1")],
    ),
    "needless-rebalance who joins again with names has nothing resolved later": (
        [*ALONE, later(46), group("Empty", 2), later(20)],
        [beats("m1", 0, ("orders",)), group("Stable", 3, "m1")],
        [beats("m1", 0, ("orders",)), group("Stable", 2, "m1"), group("Stable", 3, "m1")],
    ),
    "needless-eviction a member that is heard": (
        [*TWO, group("Stable", 2, "m1", "m2"), later(40), beats("m2", 2)],
        [later(46), group("Stable", 3, "m1")],
        [later(44), group("Stable", 3, "m1")],
    ),
    "needless-eviction a revocation that is not overdue": (
        TWO,
        [later(10), group("Stable", 3, "m2")],
        [later(9), group("Stable", 3, "m2")],
    ),
    "needless-eviction a removal is repeated that was not committed in time": (
        [*REMOVED, ("broker-1", facts.HighWatermark("offsets-id", 0, 0, 1, 1, (1, 2)))],
        AGAIN,
        [("broker-1", facts.HighWatermark("offsets-id", 0, 0, 2, 1, (1, 2))), *AGAIN],
    ),
    "needless-eviction the write of a removal has timed out, and only once": (
        REMOVED,
        AGAIN,
        [*AGAIN, beats("m1", 0), group("Stable", 5, "m1"), later(3), group("Empty", 6)],
    ),
    "needless-eviction a removal that could not be appended begins no session": (
        [*BOTH, later(20)],
        [later(25), *TAKEN_BACK, group("Stable", 3, "m1"), group("Empty", 4)],
        [beats("m2", 2), later(25), *TAKEN_BACK, group("Stable", 3, "m1")],
    ),
    "needless-eviction an upgrade that could not be appended leaves a session as it was": (
        NOT_UPGRADED,
        [later(1.5), *WITHOUT],
        [later(0.5), *WITHOUT],
    ),
    "needless-eviction a revocation is overdue, whatever could not be appended": (
        [*TWO, later(10), group("Stable", 3, "m2")],
        [
            group("Reconciling", 2, "m1", "m2", reason="reverted"),
            *(later(0.2), beats("m1", 1), later(0.3), group("Stable", 3, "m2")),
        ],
        [
            group("Stable", 2, "m1", "m2", reason="reverted"),
            *(later(0.2), beats("m1", 1), later(0.3), group("Stable", 3, "m2")),
        ],
    ),
    "needless-eviction a JoinGroup counts when it is answered": (
        CONVERTED,
        [later(4), beats("m2", 2), group("Stable", 3, "m2")],
        [classic("SyncGroup", "m1", 2), later(4), beats("m2", 2), group("Stable", 3, "m2")],
    ),
    "needless-eviction a SyncGroup is missed": (
        JOINED,
        [later(7), group("Stable", 3, "m2")],
        [later(6), group("Stable", 3, "m2")],
    ),
    "needless-eviction heartbeats, no SyncGroup": (
        [*JOINED, later(6), classic("Heartbeat", "m1", 2)],
        [later(4), group("Stable", 3, "m2")],
        [later(3), group("Stable", 3, "m2")],
    ),
    "needless-eviction a Heartbeat called it, and its JoinGroup is not answered": (
        [*RISEN, classic("Heartbeat", "m1", 2), *REJOINED],
        [later(6), group("Stable", 4, "m2")],
        [later(5), group("Stable", 4, "m2")],
    ),
    "needless-eviction a Heartbeat called it, and its JoinGroup was answered": (
        [*RISEN, classic("Heartbeat", "m1", 2), *REJOINED, classic("SyncGroup", "m1", 3)],
        [later(30), group("Stable", 4, "m2")],
        [later(6), group("Stable", 4, "m2")],
    ),
    "needless-eviction a Heartbeat of the group's epoch calls nobody": (
        RISEN,
        [classic("Heartbeat", "m1", 2), *REJOINED, later(8), group("Stable", 4, "m2")],
        [classic("Heartbeat", "m1", 3), *REJOINED, later(8), group("Stable", 4, "m2")],
    ),
    "needless-eviction a Heartbeat called it before it was gone": (
        [*RISEN, classic("Heartbeat", "m1", 2), classic("LeaveGroup", "m1", -1)],
        [group("Stable", 4, "m2"), *BACK, later(10), group("Stable", 6, "m2")],
        [group("Stable", 4, "m2"), *BACK, later(8), group("Stable", 6, "m2")],
    ),
    "needless-eviction first join, no SyncGroup": (
        [*ALONE, classic("JoinGroup", "m2", -1, 30_000), group("Stable", 2, "m1", "m2")],
        [later(10), group("Stable", 3, "m1")],
        [later(9), group("Stable", 3, "m1")],
    ),
    "needless-eviction first join, then a SyncGroup": (
        [*ALONE, classic("JoinGroup", "m2", -1, 30_000), group("Stable", 2, "m1", "m2")],
        [classic("SyncGroup", "m2", 2), later(30), group("Stable", 3, "m1")],
        [classic("SyncGroup", "m2", 2), later(10), group("Stable", 3, "m1")],
    ),
    "needless-eviction a SyncGroup came": (
        [*JOINED, later(5)],
        [later(5), group("Stable", 3, "m2")],
        [classic("SyncGroup", "m1", 2), later(5), group("Stable", 3, "m2")],
    ),
    "needless-eviction a Heartbeat counts at once": (
        CONVERTED,
        [classic("Heartbeat", "m1", 2), later(6), group("Stable", 3, "m2")],
        [classic("Heartbeat", "m1", 2), later(5), group("Stable", 3, "m2")],
    ),
    "needless-eviction a Heartbeat that comes too late": (
        CONVERTED,
        [later(6), classic("Heartbeat", "m1", 2), later(1), group("Stable", 3, "m2")],
        [later(5), classic("Heartbeat", "m1", 2), later(1), group("Stable", 3, "m2")],
    ),
    "needless-eviction a load begins the sessions of the brokers": (
        [*CONVERTED, group("Stable", 2, "m1", "m2", reason="loaded")],
        [later(40), beats("m2", 2), later(6), group("Stable", 3, "m2")],
        [later(44), beats("m2", 2), group("Stable", 3, "m2")],
    ),
    "needless-eviction a session of the brokers ends with a heartbeat": (
        [
            *CONVERTED,
            group("Stable", 2, "m1", "m2", reason="loaded"),
            later(40),
            classic("Heartbeat", "m1", 2),
        ],
        [later(6), group("Stable", 3, "m2")],
        [later(5), group("Stable", 3, "m2")],
    ),
    "needless-eviction a member that names an epoch of before": (
        [*JOINED, classic("SyncGroup", "m1", 2), owns("m1", 2, "orders-0"), later(4)],
        [classic("Heartbeat", "m1", 1), later(26), group("Stable", 3, "m2")],
        [classic("Heartbeat", "m1", 2), later(26), group("Stable", 3, "m2")],
    ),
    "needless-eviction a member that names a generation of before the group's upgrade": (
        [
            OFFSETS,
            LOADED,
            classic("JoinGroup", "m1", -1, 6000),
            group("Stable", 5, "m1"),
            beats("m2", 0, ("orders",)),
            ("broker-1", facts.GroupConverted("billing", "consumer", "")),
            group("Stable", 6, "m1", "m2"),
            later(3),
        ],
        [classic("Heartbeat", "m1", 4), later(3), group("Stable", 7, "m2")],
        [classic("Heartbeat", "m1", 5), later(3), group("Stable", 7, "m2")],
    ),
    "needless-eviction a member of a group that is a classic one again": (
        [
            *CONVERTED,
            beats("m2", -1),
            ("broker-1", facts.GroupConverted("billing", "classic", "")),
            group("PreparingRebalance", 3, "m1"),
            group("CompletingRebalance", 4, "m1"),
            group("Stable", 4, "m1"),
        ],
        [later(6), group("Empty", 5)],
        [later(5), group("Empty", 5)],
    ),
    "needless-eviction a session that a group's next coordinator began": (
        [
            *APART,
            classic("JoinGroup", "m1", -1, 6000),
            later(40),
            ("broker-2", classic("JoinGroup", "m3", -1, 6000)[1]),
            ("broker-2", group("Stable", 3, "m1", "m2", "m3")[1]),
        ],
        [later(5), ("broker-2", group("Assigning", 4, "m2", "m3")[1])],
        [later(4), ("broker-2", group("Assigning", 4, "m2", "m3")[1])],
    ),
    "needless-eviction a member of a group that a deposed coordinator made a classic one": (
        APART,
        [later(6), group("Empty", 4)],
        [later(5), group("Empty", 4)],
    ),
    "needless-eviction a static member whose place is taken": (
        [OFFSETS, LOADED, beats("m1", 0, ("orders",), "i"), group("Stable", 1, "m1")],
        [beats("m2", 0, ("orders",), "i"), group("Stable", 1, "m2")],
        [beats("m2", 0, ("orders",), "j"), group("Stable", 2, "m2")],
    ),
    "needless-eviction a static classic member that was never told its id": (
        UNTOLD,
        [static_join("i"), group("Stable", 2, "m1", "m3")],
        [static_join("j"), group("Stable", 2, "m1", "m3")],
    ),
    "needless-eviction a dynamic classic member has a group.instance.id for its client.id": (
        [
            *ALONE,
            classic("JoinGroup", "i-7", -1, 30_000),
            group("Stable", 2, "m1", "i-7"),
            later(1),
        ],
        [static_join("i"), group("Stable", 3, "m1", "i-7", "m3")],
        [static_join("i"), group("Stable", 3, "m1", "m3")],
    ),
    "needless-eviction the id of another member, which joined at another time": (
        [*ALONE, static_join("i"), later(1), group("Stable", 2, "m1", "m2"), later(1)],
        [static_join("i", "m2"), static_join("i"), group("Stable", 2, "m1", "m3")],
        [static_join("i"), group("Stable", 2, "m1", "m3")],
    ),
    "needless-eviction the session of a member that was never told its id": (
        [*ALONE, static_join("i", session_ms=6000), group("Stable", 2, "m1", "m2")],
        [later(6), group("Stable", 3, "m1")],
        [later(5), group("Stable", 3, "m1")],
    ),
    "needless-eviction a member that was never told its id sends no SyncGroup": (
        UNTOLD,
        [later(9), group("Stable", 3, "m1")],
        [later(8), group("Stable", 3, "m1")],
    ),
    "needless-eviction a static member that was never told its id, in a classic group again": (
        [
            *UNTOLD,
            beats("m1", -1),
            ("broker-1", facts.GroupConverted("billing", "classic", "")),
            group("Stable", 2, "m2", "m4"),
            group("PreparingRebalance", 2, "m2", "m4"),
            later(1),
        ],
        [static_join("i"), group("CompletingRebalance", 3, "m4", "i-1")],
        [static_join("j"), group("CompletingRebalance", 3, "m4", "j-1")],
    ),
    "needless-eviction a member that has not left": (
        TWO,
        [beats("m1", -1), group("Stable", 3, "m2")],
        [beats("m2", -1), group("Stable", 3, "m2")],
    ),
    **SYNC_STORIES,
}


@pytest.mark.parametrize("story", STORIES)
def test_a_story_that_goes_well(story: str) -> None:
    before, good, _ = STORIES[story]
    assert judge([*before, *good]) == []


@pytest.mark.parametrize("story", STORIES)
def test_a_story_that_goes_badly(story: str) -> None:
    before, _, bad = STORIES[story]
    assert judge([*before, *bad]) == [(story.split()[0], "")]


def test_a_deposed_coordinator_says_nothing_of_ownership() -> None:
    moved = ("broker-2", facts.CoordinatorLoaded(0, 2, True))
    assert judge([*TWO, moved, owns("m2", 2, "orders-1")]) == []
