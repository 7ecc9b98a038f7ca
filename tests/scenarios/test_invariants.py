"""Each invariant on facts written by hand: a story that keeps it, and one that breaks only it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.model.coordinator.hashing import partition_for
from kafkasim.scenarios.judging.harm.judges import HARM
from kafkasim.scenarios.judging.invariants.final import disagreements
from kafkasim.scenarios.judging.invariants.online import INVARIANTS, Invariants
from kafkasim.scenarios.judging.source import BrokerLimits
from tests.scenarios.fact_makers import (
    FakeLog,
    FakeTrace,
    P,
    Row,
    T,
    appended,
    batch,
    changed,
    committed,
    created,
    fetched,
    final,
    high_watermark,
    led,
    polled,
    registration,
    sends_to,
    tombstone,
)

LIMITS = BrokerLimits(5_000_000, 3_000_000, 60_000_000)
LAST = "last-replica-standing"
LOG = FakeLog([batch(0, [10])])
TWICE = FakeLog([batch(0, [10], pid=5, seq=0), batch(1, [10], pid=5, seq=0)])
REPLICATED = facts.Replicated(T, P, 0, 0, 0, 1)
START: list[Row] = [("controller-1", created()), ("broker-1", led(0))]
EXPOSED: list[Row] = [*START, ("broker-1", appended(0, (10,))), ("broker-1", high_watermark(1))]
DELETED: list[Row] = [  # broker-2 was down, and continues at the leader's log start
    *START, ("controller-1", changed(3, (1,))), *EXPOSED[2:],
    ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2)),
    ("broker-1", facts.LogStart(T, P, 2, "delete-records", 2, 2)),
    ("broker-1", appended(2, (12,))),
    ("broker-2", facts.LogStart(T, P, 2, "reset", 2, 2)),
    ("broker-2", facts.Truncated(T, P, 0, 1, 2)),
]  # fmt: skip
LOST = [row for row in DELETED if getattr(row[1], "reason", "") != "delete-records"]
"""The same, though nobody has deleted the records that broker-2 skips."""
DIVERGED: list[Row] = [  # broker-2 has other records than the next leader had and deleted
    *START, ("broker-2", appended(0, (90,))), ("broker-1", led(1)),
    ("broker-1", appended(0, (10,), 1)), ("broker-1", appended(1, (11,), 1)),
    ("broker-1", high_watermark(2, epoch=1)),
    ("broker-1", facts.LogStart(T, P, 2, "delete-records", 2, 2)),
    ("broker-1", appended(2, (12,), 1)),
]  # fmt: skip
ALIVE: list[Row] = [("controller-1", registration(broker, broker)) for broker in (1, 2)]
FENCED_IN_SHUTDOWN: list[Row] = [  # broker-2 has shut down; only it may lead
    *ALIVE, ("controller-1", changed(3, (1, 2))),
    ("controller-1", registration(4, 2, "shutting-down", False, True)),
    ("controller-1", changed(5, (1,))),
    ("controller-1", registration(6, 2, "fenced", True, True)),
    ("controller-1", changed(7, (), leader=-1)), ("world", 1),
]  # fmt: skip
UNFENCED: Row = ("controller-1", registration(8, 2, "unfenced", False, True))
"""A heartbeat comes late that broker-2 sent before its controlled shutdown."""
LEADS: Row = ("controller-1", changed(9, (2,), leader=2))
SEQUENCED = [batch(0, [10], pid=5, seq=0), batch(1, [11], pid=5, seq=1)]


def _reassigned(
    offset: int, partition_epoch: int, isr: tuple[int, ...], replicas: tuple[int, ...],
    reason: str = "reassignment",
) -> facts.PartitionChanged:  # fmt: skip
    return facts.PartitionChanged(offset, T, P, 1, 0, partition_epoch, isr, replicas, reason, False)


def _assigned(member: str, partition: str, generation: int = 1) -> Row:
    return ("broker-1", facts.GroupAssigned("billing", generation, member, (partition,)))


TRANSACTIONS = [
    batch(0, [10], pid=5, seq=0, transactional=True),
    batch(1, [-1], pid=5, transactional=True, control=True),
    batch(2, [11], pid=5, seq=1, transactional=True),
]
"""A transaction that has its marker, and one that has none yet."""


def _entry(last_sequence: int, open_since: int = -1) -> Any:
    batches = [(0, last_sequence, 0, 0)]
    return SimpleNamespace(epoch=0, batches=batches, txn_first_offset=open_since)


def _asks(
    api: str,
    member: str = "m1",
    generation: int = 1,
    *,
    instance: str | None = None,
    protocols: tuple[str, ...] = ("range",),
    session_ms: int = 6000,
    node: str = "broker-1",
) -> Row:
    """A request of a member whose session is 6 s and whose rebalance timeout is 10 s."""
    topics, times = (), (0, 0)
    if api == "JoinGroup":
        topics, times = ("orders",), (session_ms, 10_000)
    else:
        protocols = ()
    return node, facts.MemberRequest(
        "billing", member, instance, api, generation, topics, protocols, *times
    )


def _group(
    state: str, generation: int, *members: str, reason: str = "", node: str = "broker-1"
) -> Row:
    leader = members[0] if members else ""
    return node, facts.GroupState("billing", state, generation, members, "range", reason, leader)


def _owns(member: str, generation: int, *owned: str, instance: str | None = None) -> Row:
    """The JoinGroup of a cooperative member that keeps partitions."""
    return "broker-1", facts.MemberRequest(
        "billing", member, instance, "JoinGroup", generation, ("orders",), ("cooperative-sticky",),
        6000, 10_000, owned,
    )  # fmt: skip


def _commits(generation: int) -> Row:
    return "broker-1", facts.OffsetCommitted("billing", "orders", 0, 5, generation, "m1", 1)


STRANGER: list[Row] = [  # broker-4 is in the ISR, and the replicas are 1, 2 and 3
    ("broker-3", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)),
    ("controller-1", created(min_isr=2)), ("broker-3", changed(4, (1, 4))),
    ("broker-1", facts.BecameLeader(T, P, 0, 4, 0, 0, (1, 4))), ("broker-1", appended(0, (10,))),
]  # fmt: skip
OFFSETS: Row = ("controller-1", facts.TopicCreated(2, "offsets-id", "__consumer_offsets", 1, 3, 1))
LOADED: Row = ("broker-1", facts.CoordinatorLoaded(0, 1, True))
PAIR: list[Row] = [  # m1 leads, and m2 has taken the assignment of the first generation
    OFFSETS, LOADED, _asks("JoinGroup", generation=-1), _asks("JoinGroup", "m2", -1),
    _group("CompletingRebalance", 1, "m1", "m2"), _asks("SyncGroup"),
    _group("Stable", 1, "m1", "m2"),
    ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ())),
]  # fmt: skip
SYNCING: list[Row] = [  # m2 has not sent SyncGroup, and sends heartbeats
    OFFSETS, LOADED, _asks("JoinGroup", generation=-1), _asks("JoinGroup", "m2", -1),
    _group("CompletingRebalance", 1, "m1", "m2"), ("world", 4), _asks("Heartbeat", "m2"),
    _asks("Heartbeat"), _asks("SyncGroup"), _group("Stable", 1, "m1", "m2"), ("world", 4),
    _asks("Heartbeat", "m2"), _asks("Heartbeat"),
]  # fmt: skip


def _sticky(member: str = "", of: str = "sticky") -> Row:
    """The JoinGroup of a static member, which names no generation."""
    return _asks("JoinGroup", member, -1, instance="x", protocols=(of,))


MISSED: list[Row] = [  # m2 leads a generation for which the static member did not join
    _asks("JoinGroup", "m2", -1), _group("PreparingRebalance", 1, "m2", "x-1"),
    _group("CompletingRebalance", 2, "m2", "x-1"), _asks("SyncGroup", "m2", 2),
    _group("Stable", 2, "m2", "x-1"),
]  # fmt: skip
ALONE: list[Row] = [  # a group of one member in its first generation
    OFFSETS, LOADED, _asks("JoinGroup", generation=-1), _group("PreparingRebalance", 0, "m1"),
    _group("CompletingRebalance", 1, "m1"), _asks("SyncGroup"), _group("Stable", 1, "m1"),
    ("consumer-1", facts.ConsumerAssigned("billing", "m1", 1, ("orders-0",))),
]  # fmt: skip
RESTARTED: Row = _asks("JoinGroup", "", -1, instance="x")
WRITTEN: Row = ("broker-1", facts.Appended("offsets-id", 0, 1, 0, 2, -1, -1, -1, ()))
STATIC: list[Row] = [  # the process of x-1 starts again after a second
    OFFSETS, LOADED, _asks("JoinGroup", generation=-1), RESTARTED,
    _group("CompletingRebalance", 1, "m1", "x-1"), _asks("SyncGroup"),
    _group("Stable", 1, "m1", "x-1"), ("world", 1),
]  # fmt: skip
RETURNED: list[Row] = [  # its new id is x-2, whose record is appended; then a rebalance begins
    *STATIC, RESTARTED, WRITTEN, _group("PreparingRebalance", 1, "m1", "x-2"),
]  # fmt: skip
UPDATED: Row = _asks("JoinGroup", "", -1, instance="x", session_ms=12_000)
DEPLOYED: list[Row] = [  # the process of x-1 has another session timeout than before
    *STATIC, UPDATED, WRITTEN, _group("Stable", 1, "m1", "x-2"),
]  # fmt: skip


def _reverted(error: str = "REQUEST_TIMED_OUT", instance: str = "x") -> Row:
    """The member x-2 has its old id again."""
    return "broker-1", facts.MemberIdReverted("billing", "x-1", instance, "x-2", error)


FORMER: list[Row] = [_reverted(), _group("PreparingRebalance", 1, "m1", "x-1")]
DEPOSED: Row = ("broker-1", facts.BecameFollower("offsets-id", 0, 2, 2, 1))
END: Row = ("world", facts.Phase("end", "converged"))


def _later(seconds: float) -> Row:
    """Time passes: see FakeTrace.record."""
    return "world", seconds


KEYS: Row = ("broker-1", facts.KeysAppended(T, P, 0, 0, ("a", "a"), ()))


def removed(offset: int) -> facts.Cleaned:
    """A cleaner removes a record of two."""
    return facts.Cleaned(T, P, 0, 2, 0, 2, 0, 1000, (offset, offset + 1))


TOMBSTONE: Row = ("broker-1", facts.KeysAppended(T, P, 0, 0, ("a",), (0,)))


def kept(began_ms: int) -> Row:
    """A cleaner keeps a record; delete.retention.ms is 1000."""
    return "broker-1", facts.Cleaned(T, P, 0, 1, 0, 1, began_ms, 1000, ())


DELETED_BY_ONE: list[Row] = [
    _group("Empty", 2), _group("Dead", 2), ("broker-2", facts.CoordinatorLoaded(0, 2, True)),
    _group("Stable", 1, "m1", "m2", reason="loaded", node="broker-2"),
]  # fmt: skip
"""A deposed coordinator, which can store nothing, deletes the group; the next one loads it."""

STORIES: dict[str, tuple[list[Row], list[Row], list[Row]]] = {
    # name: what happened before, how it goes on well, how it goes on badly
    "ACKED a leader without what was exposed": (
        EXPOSED,
        [("broker-2", REPLICATED), ("broker-2", led(1, 1))],
        [("broker-2", led(1))],
    ),
    "ACKED a leader with another prefix": (
        EXPOSED,
        [("broker-2", appended(0, (10,))), ("broker-2", led(1, 1))],
        [("broker-2", appended(0, (99,), epoch=1)), ("broker-2", led(1, 1))],
    ),
    "MATCH one offset and epoch, two batches": (
        [*START, ("broker-1", appended(0, (10,)))],
        [("broker-2", REPLICATED)],
        [("broker-2", appended(0, (99,)))],
    ),
    "LATEST the last value of a key": (
        [*START, KEYS, ("broker-1", appended(0, (10, 11))), ("broker-1", high_watermark(2))],
        [("broker-1", removed(0))],
        [("broker-1", removed(1))],
    ),
    "HORIZON a deletion behind its delete horizon": (
        [*START, TOMBSTONE, ("broker-1", appended(0, (10,))), ("broker-1", high_watermark(1)),
         kept(0)],
        [kept(999)],
        [kept(1000)],
    ),
    "ISRDATA a member without what is exposed": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,)))],
        [("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [("broker-1", high_watermark(1))],
    ),
    "ISRDATA a joiner that lags": (
        [*ALIVE, *START, ("controller-1", changed(3, (1,))), *EXPOSED[2:]],
        [("broker-2", REPLICATED), ("controller-1", changed(4, (1, 2)))],
        [("controller-1", changed(4, (1, 2)))],
    ),
    "ISRDATA a joiner whose disk is replaced on the way": (
        [*ALIVE, *START, ("controller-1", changed(3, (1,))), *EXPOSED[2:],
         ("broker-2", REPLICATED), ("broker-2", facts.DiskReplaced())],
        [("controller-1", changed(4, (1, 2)))],
        [("controller-1", registration(4, 2, "registered", True)),
         ("controller-1", registration(5, 2)),
         ("controller-1", changed(6, (1, 2)))],
    ),
    "ISRDATA a joiner whose disk was replaced before the last change": (
        [*ALIVE, *START, ("controller-1", changed(3, (1,))), *EXPOSED[2:],
         ("broker-2", REPLICATED), ("broker-2", facts.DiskReplaced()),
         ("controller-1", changed(4, (1,)))],
        [("broker-2", REPLICATED), ("controller-1", changed(5, (1, 2)))],
        [("controller-1", changed(5, (1, 2)))],
    ),
    "ISRDATA a member whose disk is replaced is elected out of the ELR": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), *EXPOSED[2:3],
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1)),
         ("broker-2", facts.DiskReplaced())],
        [("controller-1", replace(changed(4, (1,)), elr=(2,))),
         ("controller-1", changed(5, (2,), leader=2, epoch=1))],
        [("controller-1", changed(4, (1,))),
         ("controller-1", changed(5, (2,), leader=2, epoch=1))],
    ),
    "ISRDATA a member whose disk is replaced is elected out of the ELR after it has registered": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), *EXPOSED[2:3],
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1)),
         ("broker-2", facts.DiskReplaced()),
         ("controller-1", replace(changed(4, (1,)), elr=(2,)))],
        [("controller-1", changed(5, (2,), leader=2, epoch=1))],
        [("controller-1", registration(5, 2, "registered", True)),
         ("controller-1", registration(6, 2)),
         ("controller-1", changed(7, (2,), leader=2, epoch=1))],
    ),
    "ISRDATA a member whose log is deleted": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [("controller-1", changed(4, (1,))), ("broker-2", facts.LogDeleted(T, P, 1))],
        [("broker-2", facts.LogDeleted(T, P, 1))],
    ),
    "ISRDATA a member of a topic that is deleted": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [("controller-1", facts.TopicDeleted(4, T, "orders")),
         ("broker-2", facts.LogDeleted(T, P, 1))],
        [("broker-2", facts.LogDeleted(T, P, 1)),
         ("controller-1", facts.TopicDeleted(4, T, "orders"))],
    ),
    "ISRDATA a high watermark that a leader advances while its topic is deleted": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,)))],
        [("controller-1", facts.TopicDeleted(4, T, "orders")), ("broker-1", high_watermark(1))],
        [("controller-1", facts.TopicDeleted(4, "another-id", "orders")),
         ("broker-1", high_watermark(1))],
    ),
    "ISRDATA a high watermark of a leader that ZooKeeper's controller has removed with the topic": (
        [*ALIVE, *START, ("broker-3", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)),
         ("broker-3", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED)],
        [("broker-3", changed(4, (1, 2), leader=-1, epoch=1)),
         ("broker-2", facts.LogDeleted(T, P, 1)), ("broker-1", high_watermark(1))],
        [("broker-3", changed(4, (1, 2), leader=-1, epoch=1)), ("broker-1", high_watermark(1)),
         ("broker-3", changed(5, (1, 2), epoch=2)), ("broker-2", facts.LogDeleted(T, P, 1))],
    ),
    "ISRDATA a replica that a ZooKeeper controller removes while its leader adds it": (
        [*ALIVE, *START, ("broker-3", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)),
         ("broker-3", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1)),
         ("broker-1", _reassigned(5, 5, (1, 2), (1, 2, 3), "caught-up"))],
        [("broker-3", _reassigned(4, 3, (1, 2), (1, 3))),
         ("broker-2", facts.LogDeleted(T, P, 1))],
        [("broker-3", _reassigned(4, 3, (1, 2), (1, 2))),
         ("broker-2", facts.LogDeleted(T, P, 1))],
    ),
    "ISRDATA a KRaft controller tells of an earlier assignment": (
        [*ALIVE, *START, ("controller-1", changed(3, (1, 2))), ("broker-1", appended(0, (10,))),
         ("broker-2", REPLICATED), ("broker-1", high_watermark(1))],
        [],
        [("controller-1", _reassigned(2, 2, (1,), (1, 3))),
         ("broker-2", facts.LogDeleted(T, P, 1))],
    ),
    "MATCH a replica that was reset to the leader's log start": (
        [*ALIVE, *DELETED],
        [("broker-2", appended(2, (12,)))],
        [("broker-2", appended(2, (99,)))],
    ),
    "MATCH a replica that was truncated within a batch below the leader's log start": (
        [*DIVERGED, ("broker-2", appended(1, (91, 92))),
         ("broker-2", facts.Truncated(T, P, 1, 3, 2))],
        [("broker-2", appended(2, (12,), 1))],
        [("broker-2", appended(2, (99,), 1))],
    ),
    "MATCH a replica whose log ended at the leader's log start": (
        [*DIVERGED, ("broker-2", appended(1, (91,)))],
        [("broker-2", appended(2, (12,), 1))],
        [("broker-2", appended(2, (99,), 1))],
    ),
    "MATCH a leader that came back with the records it had deleted": (
        [*START, ("broker-1", appended(0, (10,))), ("broker-2", appended(0, (10,))),
         ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2)),
         ("broker-1", facts.LogStart(T, P, 2, "delete-records", 2, 2)),
         ("broker-1", facts.LogLoaded(T, P, 0, 2, 0, False)), ("broker-1", led(1, 2)),
         ("broker-2", appended(1, (11,))), ("broker-1", appended(2, (12,), 1))],
        [("broker-2", appended(2, (12,), 1))],
        [("broker-2", appended(2, (99,), 1))],
    ),
    "ISRDATA a joiner whose log ends where the leader's starts": (
        [*ALIVE, ("controller-1", changed(3, (1,))), *DIVERGED[:-1]],
        [("broker-2", appended(1, (91,))), ("controller-1", changed(4, (1, 2), epoch=1))],
        [("controller-1", changed(4, (1, 2), epoch=1))],
    ),
    "ISRDATA a joiner that was reset to the leader's log start": (
        [*ALIVE, *DELETED, ("broker-1", high_watermark(3))],
        [("broker-2", appended(2, (12,))), ("controller-1", changed(4, (1, 2)))],
        [("controller-1", changed(4, (1, 2)))],
    ),
    "ISRDATA a joiner that was reset above the leader's log start": (
        ALIVE,
        [*DELETED, ("controller-1", changed(4, (1, 2)))],
        [*LOST, ("controller-1", changed(4, (1, 2)))],
    ),
    "ACKED a leader that was reset to the log start": (
        [*ALIVE, *DELETED, ("broker-1", high_watermark(3))],
        [("broker-2", appended(2, (12,))), ("broker-2", led(3, 1))],
        [("broker-2", led(2, 1))],
    ),
    "ISRELIG a fenced member stays": (
        [*ALIVE, ("controller-1", changed(3, (1, 2)))],
        [
            ("controller-1", registration(4, 2, "fenced", True)),
            ("controller-1", changed(5, (1,))),
        ],
        [("controller-1", registration(4, 2, "fenced", True))],
    ),
    "ISRELIG a topic that is gone": (
        [*ALIVE, ("controller-1", changed(3, (2,), leader=2))],
        [
            ("controller-1", facts.TopicDeleted(4, T, "orders")),
            ("controller-1", registration(5, 2, "fenced", True)),
        ],
        [("controller-1", registration(5, 2, "fenced", True))],
    ),
    "ISRELIG a controller's write, not a leader's": (
        [*ALIVE, ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)),
         ("broker-1", registration(3, 2, "fenced", True))],
        [("broker-2", changed(4, (1, 2)))],
        [("broker-1", facts.ZkControllerWrite(4, 1, "/state", 1)),
         ("broker-1", changed(4, (1, 2)))],
    ),
    "ISRELIG a deposed ZooKeeper controller is not believed": (
        [*ALIVE, ("broker-1", facts.ZkControllerWrite(3, 1, "/controller_epoch", 1)),
         ("broker-2", facts.ZkControllerWrite(4, 2, "/controller_epoch", 2)),
         ("broker-2", facts.ZkControllerWrite(7, 2, "/state", 2))],
        [("broker-1", registration(6, 2, "shutting-down", True)),
         ("broker-2", changed(7, (1, 2)))],
        [("broker-2", registration(6, 2, "shutting-down", True)),
         ("broker-2", changed(7, (1, 2)))],
    ),
    "ISRELIG a ZooKeeper controller knows not who told its predecessor": (
        [*ALIVE, ("broker-1", facts.ZkControllerWrite(3, 1, "/controller_epoch", 1)),
         ("broker-1", registration(4, 2, "shutting-down", True)),
         ("broker-2", facts.ZkControllerWrite(5, 2, "/controller_epoch", 2)),
         ("broker-2", facts.ZkControllerWrite(7, 2, "/state", 2))],
        [("broker-2", registration(2, 2)), ("broker-2", changed(7, (1, 2)))],
        [("broker-2", changed(7, (1, 2)))],
    ),
    "ISRELIG a ZooKeeper controller counts in the order in which it tells": (
        [*ALIVE, ("broker-1", facts.ZkControllerWrite(3, 1, "/controller_epoch", 1)),
         ("broker-1", registration(6, 2, "shutting-down", True)),
         ("broker-1", facts.ZkControllerWrite(7, 1, "/state", 2))],
        [("broker-1", registration(5, 2, "registered")), ("broker-1", changed(7, (1, 2)))],
        [("broker-1", changed(7, (1, 2)))],
    ),
    "ISRELIG a broker that is unfenced in controlled shutdown leads": (
        FENCED_IN_SHUTDOWN,
        [UNFENCED, LEADS],
        [LEADS],
    ),
    "ISRELIG a broker that is unfenced in controlled shutdown is elected later": (
        FENCED_IN_SHUTDOWN,
        [UNFENCED, LEADS, ("world", 1), ("controller-1", changed(10, (2, 1), leader=2))],
        [UNFENCED, ("world", 1), LEADS],
    ),
    "ISRELIG a broker that is unfenced in controlled shutdown follows": (
        FENCED_IN_SHUTDOWN,
        [UNFENCED, ("controller-1", changed(9, (1,)))],
        [UNFENCED, ("controller-1", changed(9, (1, 2)))],
    ),
    "ISRELIG a broker that was unfenced in controlled shutdown joins again": (
        [*FENCED_IN_SHUTDOWN, UNFENCED, LEADS, ("world", 1)],
        [("controller-1", changed(10, (1, 2))), ("controller-1", changed(11, (1,)))],
        [("controller-1", changed(10, (1,))), ("controller-1", changed(11, (1, 2)))],
    ),
    "ISRELIG a last member that is unfenced in controlled shutdown is elected later": (
        [*FENCED_IN_SHUTDOWN, ("controller-1", changed(8, (2,), leader=-1))],
        [("controller-1", registration(9, 2, "unfenced", False, True)),
         ("controller-1", changed(10, (2,), leader=2))],
        [("controller-1", registration(9, 2, "unfenced", False, True)), ("world", 1),
         ("controller-1", changed(10, (2,), leader=2))],
    ),
    "ISRELIG a broker that was unfenced in controlled shutdown is fenced": (
        [*FENCED_IN_SHUTDOWN, UNFENCED, LEADS, ("world", 1)],
        [("controller-1", registration(10, 2, "fenced", True, True)),
         ("controller-1", changed(11, (2,), leader=-1))],
        [("controller-1", registration(10, 2, "fenced", True, True))],
    ),
    "ISRELIG a leader outside the ISR": (
        ALIVE,
        [("controller-1", changed(3, (2,), leader=2))],
        [("controller-1", changed(3, (2,), leader=1))],
    ),
    "READISR the leader has heard that the replica left": (
        [*ALIVE, ("controller-1", changed(3, (1, 2))), ("controller-1", changed(4, (1,)))],
        [("broker-1", sends_to(2, 3))],
        [("broker-1", sends_to(2, 4))],
    ),
    "READISR a replica that joins is a member once that is committed": (
        [*ALIVE, ("controller-1", changed(3, (1,))),
         ("broker-1", facts.IsrProposed(T, P, 0, 3, "expand", (2,))),
         ("controller-1", changed(4, (1, 2)))],
        [("broker-1", sends_to(2, 4))],
        [("broker-1", sends_to(2, 3))],
    ),
    "READISR a replica that is to leave is a member until that is committed": (
        [*ALIVE, ("controller-1", changed(3, (1, 2))),
         ("broker-1", facts.IsrProposed(T, P, 0, 3, "shrink", (2,)))],
        [("broker-1", sends_to(2, 3)), ("controller-1", changed(4, (1,)))],
        [("controller-1", changed(4, (1,))), ("broker-1", sends_to(2, 4))],
    ),
    "READISR a fenced broker is in no ISR that the leader has heard of since": (
        [*ALIVE, ("controller-1", changed(3, (1, 2))),
         ("controller-1", registration(4, 2, "fenced", True)),
         ("controller-1", changed(5, (1,)))],
        [("broker-1", sends_to(2, 3))],
        [("broker-1", sends_to(2, 5))],
    ),
    "READISR a leader hears of a change before a controller has recorded it": (
        [*ALIVE, ("controller-1", changed(3, (1,)))],
        [("broker-1", sends_to(2, 4)), ("controller-1", changed(4, (1, 2)))],
        [("broker-1", sends_to(2, 4)), ("controller-1", changed(4, (1,)))],
    ),
    "READISR a new leader goes by its own metadata": (
        [*ALIVE, ("controller-1", changed(3, (1, 2))),
         ("controller-1", changed(4, (2,), leader=2, epoch=1))],
        [("broker-1", sends_to(2, 3)), ("broker-2", sends_to(2, 4, epoch=1))],
        [("broker-2", sends_to(1, 4, epoch=1))],
    ),
    "ONELEADER two leaders of a partition": (
        START,
        [("broker-2", led(1))],
        [("broker-2", led(0))],
    ),
    "ONELEADER a leader begins to lead anew in its epoch": (
        START,
        [("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(0))],
        [("broker-1", led(0))],
    ),
    "ONELEADER a log that is loaded is another one": (
        START,
        [("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(0))],
        [("broker-1", facts.LogLoaded(T, P + 1, 0, 1, 1, False)), ("broker-1", led(0))],
    ),
    "ONELEADER two leaders of the quorum": (
        [("controller-1", facts.RaftRole("leader", 4, 3001))],
        [("controller-2", facts.RaftRole("leader", 5, 3002))],
        [("controller-2", facts.RaftRole("leader", 4, 3002))],
    ),
    "STABLEREAD another record at an offset": (
        [*EXPOSED, ("consumer-1", polled((0,), (10,)))],
        [("consumer-2", polled((0,), (10,)))],
        [("consumer-2", polled((0,), (99,)))],
    ),
    "STABLEREAD above the high watermark": (
        EXPOSED,
        [("consumer-1", polled((0,), (10,)))],
        [("consumer-1", polled((0, 1), (10, 11)))],
    ),
    "HWMONO backwards within an epoch": (
        [*EXPOSED, ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2))],
        [("broker-1", high_watermark(2))],
        [("broker-1", high_watermark(1))],
    ),
    "MINISR exposed by too few": (
        [("controller-1", created(min_isr=2)), ("broker-1", appended(0, (10,)))],
        [("broker-1", high_watermark(1, (1, 3), min_isr=2))],
        [("broker-1", high_watermark(1, (1,), min_isr=2))],
    ),
    "MINISR a member of a ZooKeeper leader's ISR is no replica": (
        STRANGER,
        [("broker-1", high_watermark(1, (1,), min_isr=2))],
        [("broker-1", high_watermark(1, (), min_isr=2))],
    ),
    "MINISR a leader of KRaft has no such member": (
        [*ALIVE, ("controller-1", registration(3, 4)), *STRANGER[1:]],
        [("broker-1", high_watermark(1, (1, 2), min_isr=2))],
        [("broker-1", high_watermark(1, (1,), min_isr=2))],
    ),
    "MINISR the leader has removed it": (
        STRANGER,
        [("broker-1", facts.IsrChanged(T, P, 0, 5, "expand", (2,), (1, 4, 2))),
         ("broker-1", high_watermark(1, (1,), min_isr=2))],
        [("broker-1", facts.IsrChanged(T, P, 0, 5, "shrink", (4,), (1,))),
         ("broker-1", high_watermark(1, (1,), min_isr=2))],
    ),
    "MINISR an earlier leader epoch had it": (
        STRANGER,
        [("broker-1", high_watermark(1, (1,), min_isr=2))],
        [("broker-1", high_watermark(1, (1,), epoch=1, min_isr=2))],
    ),
    "NODUP one sequence at two offsets": (
        [*START, ("broker-3", appended(0, (10,), pid=5, seq=0))],
        [("broker-3", appended(1, (11,), pid=5, seq=1))],
        [("broker-3", appended(1, (10,), pid=5, seq=0))],
    ),
    "ORDER a gap in the sequence": (
        [],
        [("broker-9", final(SEQUENCED))],
        [("broker-9", final([SEQUENCED[0], batch(1, [12], pid=5, seq=2)]))],
    ),
    "EXCL two owners in a generation": (
        [_assigned("m1", "orders-0")],
        [_assigned("m2", "orders-1"), _assigned("m2", "orders-0", generation=2)],
        [_assigned("m2", "orders-0")],
    ),
    "EXCL a coordinator loads a static member's new id, and gives another member what it has": (
        [_asks("JoinGroup", "", -1, instance="a"), _assigned("a-1", "orders-0"),
         _group("Stable", 1, "a-2", "b-1", reason="loaded")],
        [_assigned("a-2", "orders-0"), _assigned("b-1", "orders-1")],
        [_assigned("a-2", "orders-0"), _assigned("b-1", "orders-0")],
    ),
    "EXCL a coordinator loads an old id of a static member, which had a new one": (
        [_asks("JoinGroup", "", -1, instance="a"), _assigned("a-1", "orders-0"),
         ("broker-1", facts.GroupAssigned("billing", 1, "a-1", ())), _assigned("a-2", "orders-0")],
        [_group("Stable", 1, "a-3", reason="loaded"), _assigned("a-3", "orders-0")],
        [_group("Stable", 1, "a-1", reason="loaded"), _assigned("a-1", "orders-0")],
    ),
    "EXCL a coordinator loads a group without a member, and another one has its partition": (
        [_asks("JoinGroup", "", -1, instance="a"), _assigned("a-1", "orders-0")],
        [_group("Stable", 1, "a-2", reason="loaded"), _assigned("a-2", "orders-0")],
        [_group("Stable", 1, "b-1", reason="loaded"), _assigned("b-1", "orders-0")],
    ),
    "OFFSET less than was acknowledged": (
        [("broker-1", committed(5))],
        [("broker-1", fetched(5))],
        [("broker-1", fetched(4))],
    ),
    "OFFSET an operator deleted it while the commit waited for replicas": (
        [("broker-1", tombstone(7))],
        [("broker-1", committed(5, end=6)), ("broker-1", fetched(-1))],
        [("broker-1", committed(5, end=8)), ("broker-1", fetched(-1))],
    ),
    "OFFSET the next coordinator stores a commit behind the tombstone": (
        [("broker-1", tombstone(7))],
        [("broker-1", committed(5, 0, end=6)), ("broker-2", fetched(-1, 1))],
        [("broker-2", committed(5, 1, end=6)), ("broker-2", fetched(-1, 1))],
    ),
    "OFFSET its group had no members for the retention of offsets": (
        [("broker-1", committed(5)), _group("Empty", 1)],
        [_later(60), ("broker-1", fetched(-1))],
        [_later(59), ("broker-1", fetched(-1))],
    ),
    "OFFSET its group had no members for that long before one came": (
        [("broker-1", committed(5)), _group("Empty", 1)],
        [_later(60), _group("Stable", 2, "m1"), ("broker-1", fetched(-1))],
        [_later(59), _group("Stable", 2, "m1"), _later(60), ("broker-1", fetched(-1))],
    ),
    "OFFSET an offset expires, and does not go back": (
        [("broker-1", committed(5)), _group("Empty", 1), _later(60)],
        [("broker-1", fetched(-1))],
        [("broker-1", fetched(4))],
    ),
    "META two images at one offset": (
        [("controller-1", facts.MetadataCommitted(9, 1, 77))],
        [("controller-2", facts.MetadataCommitted(9, 1, 77))],
        [("controller-2", facts.MetadataCommitted(9, 1, 78))],
    ),
    "META a partition epoch that does not rise": (
        [*ALIVE, ("controller-1", changed(3, (1, 2)))],
        [("controller-1", changed(4, (1,)))],
        [("controller-1", changed(4, (1,), partition_epoch=3))],
    ),
    "META a ZooKeeper controller's assignment repeats a state that its leader has replaced": (
        [*ALIVE, ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)),
         ("broker-1", changed(3, (1, 2))), ("broker-1", changed(4, (1, 2, 3)))],
        [("broker-1", facts.ZkControllerWrite(5, 1, "/brokers/topics/orders", 1)),
         ("broker-1", changed(5, (1, 2), partition_epoch=3))],
        [("broker-1", facts.ZkControllerWrite(5, 1, "/state", 4)),
         ("broker-1", changed(5, (1, 2), partition_epoch=4))],
    ),
    "LOGORDER high watermark above the end": (
        [],
        [("broker-9", final([batch(0, [10])]))],
        [("broker-9", final([batch(0, [10])], hw=2))],
    ),
    "EPOCHCACHE a batch of another epoch": (
        [],
        [("broker-9", final([batch(0, [10]), batch(1, [11], 2)], epochs=(0, 0, 2, 1)))],
        [("broker-9", final([batch(0, [10]), batch(1, [11], 2)]))],
    ),
    "EPOCHCACHE nothing is asked of batches that wait below the log start to be deleted": (
        [],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], log_start=1, epochs=(0, 1)))],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], log_start=1, epochs=(0, 2)))],
    ),
    "EPOCHCACHE a crash lowers the log start again, and the cache stays as short as it was": (
        [],
        [("broker-9", facts.LogStart(T, P, 1, "leader", 2, 2)),
         ("broker-9", final([batch(0, [10]), batch(1, [11])], epochs=(0, 1)))],
        [("broker-9", final([batch(0, [10]), batch(1, [11])], epochs=(0, 1)))],
    ),
    "early-handover a member still owns it": (
        [OFFSETS, LOADED, _owns("m1", 1, "orders-0"), _owns("m2", 1, "orders-1"),
         _group("CompletingRebalance", 2, "m1", "m2")],
        [("broker-1", facts.GroupAssigned("billing", 2, "m1", ()))],
        [("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0", "orders-1")))],
    ),
    "early-handover an older claim does not count": (
        [OFFSETS, LOADED, _owns("m1", 1, "orders-0")],
        [_owns("m2", 2, "orders-1"), _group("CompletingRebalance", 3, "m1", "m2"),
         ("broker-1", facts.GroupAssigned("billing", 3, "m2", ("orders-0",)))],
        [_owns("m2", 1, "orders-1"), _group("CompletingRebalance", 3, "m1", "m2"),
         ("broker-1", facts.GroupAssigned("billing", 3, "m2", ("orders-0",)))],
    ),
    "early-handover a coordinator that is elected again heard its members in another history": (
        [OFFSETS, LOADED, _owns("m1", 1, "orders-0"), _group("CompletingRebalance", 2, "m1")],
        [LOADED, ("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0",)))],
    ),
    "early-handover the generations of a group that was deleted begin anew": (
        [OFFSETS, LOADED, _owns("m1", 1, "orders-0"), _group("CompletingRebalance", 2, "m1")],
        [_asks("LeaveGroup"), _group("Dead", 2),
         ("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0",)))],
    ),
    "early-handover a static member that comes back takes what it had": (
        [OFFSETS, LOADED, _owns("i-1", 1, "orders-0", instance="i"),
         _group("CompletingRebalance", 2, "i-1")],
        [("broker-1", facts.GroupAssigned("billing", 2, "i-2", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", 2, "j-2", ("orders-0",)))],
    ),
    "stale-commit the group has gone on": (
        [OFFSETS, LOADED, _commits(2)],
        [_commits(2), _commits(3)],
        [_commits(1)],
    ),
    "stale-commit the generations of a group that was deleted begin anew": (
        [OFFSETS, LOADED, _commits(2)],
        [_group("Dead", 2), _commits(1)],
        [_group("Empty", 2), _commits(1)],
    ),
    "stale-commit offsets of a transaction are stored when it ends": (
        [OFFSETS, LOADED, _commits(2)],
        [("processor-1", facts.TransactionOffsets("p-1", 1, "billing", "orders", 0, 5)),
         _commits(1)],
        [_commits(1)],
    ),
    "needless-rebalance a follower asks for the answer that it has missed": (
        [*ALONE, _group("Stable", 1, "m1", "m2"), _asks("JoinGroup", "m2"),
         ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ()))],
        [_asks("JoinGroup", "m2")],
        [_asks("JoinGroup", "m2"), _group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance a static member has missed a generation, and its assignor is sticky": (
        [OFFSETS, LOADED, _sticky(), _group("PreparingRebalance", 0, "x-1"),
         _group("CompletingRebalance", 1, "x-1"), _group("Stable", 1, "x-1"),
         ("consumer-1", facts.ConsumerAssigned("billing", "x-1", 1, ()))],
        [*MISSED, _sticky("x-1"), _group("PreparingRebalance", 2, "m2", "x-1")],
        [*MISSED, ("consumer-1", facts.ConsumerAssigned("billing", "x-1", 2, ())),
         _sticky("x-1"), _group("PreparingRebalance", 2, "m2", "x-1")],
    ),
    "needless-rebalance it has told of its last assignment before": (
        [OFFSETS, LOADED, _sticky(), _group("PreparingRebalance", 0, "x-1"),
         _group("CompletingRebalance", 1, "x-1"), _group("Stable", 1, "x-1"),
         ("consumer-1", facts.ConsumerAssigned("billing", "x-1", 1, ())), *MISSED],
        [_sticky("x-1")],
        [_sticky("x-1"), _sticky("x-1"), _group("PreparingRebalance", 2, "m2", "x-1")],
    ),
    "needless-rebalance a member has missed a generation, and its assignor is not sticky": (
        [OFFSETS, LOADED, _sticky(of="range"), _group("PreparingRebalance", 0, "x-1"),
         _group("CompletingRebalance", 1, "x-1"), _group("Stable", 1, "x-1"),
         ("consumer-1", facts.ConsumerAssigned("billing", "x-1", 1, ())), *MISSED],
        [_sticky("x-1", "range")],
        [_sticky("x-1", "range"), _group("PreparingRebalance", 2, "m2", "x-1")],
    ),
    "needless-rebalance the log kept one protocol of the member": (
        [*ALONE, _asks("JoinGroup", "m2"), ("consumer-2",
         facts.ConsumerAssigned("billing", "m2", 1, ()))],
        [_group("Stable", 1, "m1", "m2", reason="loaded"),
         _asks("JoinGroup", "m2", protocols=("range", "roundrobin")),
         _group("PreparingRebalance", 1, "m1", "m2")],
        [_group("Stable", 1, "m1", "m2", reason="loaded"), _asks("JoinGroup", "m2"),
         _group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance the leader joins again though nothing has changed": (
        ALONE,
        [("controller-1", facts.TopicDeleted(3, T, "orders")), _asks("JoinGroup"),
         _group("PreparingRebalance", 1, "m1")],
        [_asks("JoinGroup"), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-rebalance a member that finds its topics by a pattern had no metadata": (
        [*PAIR, ("consumer-2", facts.Rebootstrapped("consumer", "no-node"))],
        [("consumer-2", facts.SubscribedByPattern("billing")), _asks("JoinGroup", "m2"),
         _group("PreparingRebalance", 1, "m1", "m2")],
        [_asks("JoinGroup", "m2"), _group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance a topic was deleted, and the pattern of a member has no others": (
        [*PAIR, ("controller-1", facts.TopicDeleted(3, T, "orders"))],
        [("consumer-2", facts.SubscribedByPattern("billing")), _asks("JoinGroup", "m2"),
         _group("PreparingRebalance", 1, "m1", "m2")],
        [("consumer-1", facts.SubscribedByPattern("billing")), _asks("JoinGroup", "m2"),
         _group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-rebalance a deposed coordinator has begun another one that it could not store": (
        [OFFSETS, LOADED, _asks("JoinGroup", generation=-1), _asks("JoinGroup", "m2", -1),
         _group("CompletingRebalance", 1, "m1", "m2"), _group("Stable", 1, "m1", "m2"),
         ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ())),
         ("broker-2", facts.CoordinatorLoaded(0, 2, True)),
         _group("Stable", 1, "m1", "m2", reason="loaded", node="broker-2")],
        [_asks("LeaveGroup"), _group("PreparingRebalance", 1, "m2"),
         _group("CompletingRebalance", 2, "m2"), _asks("JoinGroup", "m3", -1),
         _group("PreparingRebalance", 2, "m2", "m3"),
         ("broker-2", _asks("JoinGroup", "m2", 2)[1]),
         _group("PreparingRebalance", 1, "m1", "m2", node="broker-2")],
        [("broker-2", _asks("JoinGroup", "m2", 2)[1]),
         _group("PreparingRebalance", 1, "m1", "m2", node="broker-2")],
    ),
    "needless-rebalance a deposed coordinator has begun another one, and deleted the group": (
        [OFFSETS, LOADED, _asks("JoinGroup", generation=-1), _asks("JoinGroup", "m2", -1),
         _group("CompletingRebalance", 1, "m1", "m2"), _group("Stable", 1, "m1", "m2"),
         ("consumer-2", facts.ConsumerAssigned("billing", "m2", 1, ()))],
        [_asks("LeaveGroup"), _group("PreparingRebalance", 1, "m2"),
         _asks("LeaveGroup", "m2"), *DELETED_BY_ONE,
         ("broker-2", _asks("JoinGroup", "m2", 1)[1]),
         _group("PreparingRebalance", 1, "m1", "m2", node="broker-2")],
        [_asks("LeaveGroup", "m2"), _group("PreparingRebalance", 1, "m1"),
         _asks("LeaveGroup"), *DELETED_BY_ONE,
         ("broker-2", _asks("JoinGroup", "m2", 1)[1]), ("broker-2", _asks("JoinGroup", "m2", 1)[1]),
         _group("PreparingRebalance", 1, "m1", "m2", node="broker-2")],
    ),
    "needless-rebalance a ZooKeeper broker served without metadata": (
        [("broker-2", facts.ZkControllerWrite(1, 1, "/controller_epoch", 1)),
         ("broker-3", facts.HostStarted(1))],
        [_later(60), *ALONE, _asks("JoinGroup"), _group("PreparingRebalance", 1, "m1")],
        [("broker-3", facts.ControlRequest("UpdateMetadata", 2, 1, "NONE")),
         _later(60), *ALONE, _asks("JoinGroup"), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-rebalance nobody asked for it": (
        ALONE,
        [_asks("JoinGroup", "m2", -1), _group("PreparingRebalance", 1, "m1", "m2")],
        [_later(2), _group("PreparingRebalance", 1, "m1")],
    ),
    "long-rebalance a phase outlasts the timeouts": (
        [*ALONE, _asks("LeaveGroup", "m2"), _asks("JoinGroup", "m2", -1),
         _group("PreparingRebalance", 1, "m1", "m2")],
        [_later(14), _group("CompletingRebalance", 2, "m2")],
        [_later(14.1), _group("CompletingRebalance", 2, "m2")],
    ),
    "long-rebalance a phase does not end": (
        [*ALONE, _asks("JoinGroup", "m2", -1), _group("PreparingRebalance", 1, "m1", "m2")],
        [_later(14), END],
        [_later(14.1), END],
    ),
    "long-rebalance the coordinator was paused before another member joined": (
        [*ALONE, _asks("JoinGroup", "m2", -1), _group("PreparingRebalance", 1, "m1", "m2"),
         ("broker-1", facts.HostPaused(5_000_000)), _later(5), _asks("JoinGroup", "m3", -1),
         _group("PreparingRebalance", 1, "m1", "m2", "m3")],
        [_later(14), _group("CompletingRebalance", 2, "m1", "m2", "m3")],
        [_later(14.1), _group("CompletingRebalance", 2, "m1", "m2", "m3")],
    ),
    "long-rebalance the coordinator's disk was stalled": (
        [*ALONE, _asks("JoinGroup", "m2", -1), _group("PreparingRebalance", 1, "m1", "m2"),
         ("world", facts.FaultStarted("disk-stall", "broker-1+broker-2")), _later(5),
         ("world", facts.FaultEnded("disk-stall", "broker-1+broker-2"))],
        [_later(14), _group("CompletingRebalance", 2, "m1", "m2")],
        [_later(14.1), _group("CompletingRebalance", 2, "m1", "m2")],
    ),
    "long-rebalance the disk of another broker was stalled": (
        [*ALONE, _asks("JoinGroup", "m2", -1), _group("PreparingRebalance", 1, "m1", "m2"),
         ("world", facts.FaultStarted("disk-stall", "broker-2")), _later(5),
         ("world", facts.FaultEnded("disk-stall", "broker-2"))],
        [_later(9), _group("CompletingRebalance", 2, "m1", "m2")],
        [_later(9.1), _group("CompletingRebalance", 2, "m1", "m2")],
    ),
    "needless-eviction a member that is heard": (
        [*ALONE, _later(4), _asks("Heartbeat")],
        [_later(6), _group("PreparingRebalance", 1)],
        [_later(5.9), _group("PreparingRebalance", 1)],
    ),
    "needless-eviction a member that is heard after its session": (
        ALONE,
        [_later(6), _asks("Heartbeat"), _group("PreparingRebalance", 1)],
        [_later(5.9), _asks("Heartbeat"), _group("PreparingRebalance", 1)],
    ),
    "needless-eviction a static member whose place is taken": (
        [*ALONE, _asks("JoinGroup", "", -1, instance="x"), _group("Stable", 1, "m1", "x-1")],
        [_asks("JoinGroup", "", -1, instance="x"), _group("Stable", 1, "m1", "x-2")],
        [_asks("JoinGroup", "", -1, instance="y"), _group("Stable", 1, "m1", "x-2")],
    ),
    "needless-eviction a static member that is silent": (
        [*ALONE, _asks("JoinGroup", "", -1, instance="x"), _group("Stable", 1, "m1", "x-1")],
        [_later(6), _group("Stable", 1, "m1")],
        [_later(5.9), _group("Stable", 1, "m1")],
    ),
    "needless-eviction a member that has not left": (
        ALONE,
        [_asks("LeaveGroup"), _group("PreparingRebalance", 1)],
        [_asks("Heartbeat"), _group("PreparingRebalance", 1)],
    ),
    "needless-eviction a member of a stable group that sends no SyncGroup": (
        SYNCING,
        [_later(2), _group("PreparingRebalance", 1, "m1")],
        [_later(1.9), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a SyncGroup comes late": (
        [*SYNCING, _later(1)],
        [_asks("SyncGroup", "m2", 0), _later(1), _group("PreparingRebalance", 1, "m1")],
        [_asks("SyncGroup", "m2"), _later(1), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction another member sends no SyncGroup": (
        [*SYNCING, _later(2)],
        [_group("PreparingRebalance", 1, "m1")],
        [_group("PreparingRebalance", 1, "m2")],
    ),
    "needless-eviction no SyncGroup while a generation forms": (
        [*SYNCING[:6], _asks("Heartbeat"), _asks("Heartbeat", "m2"), _later(4),
         _asks("Heartbeat"), _asks("Heartbeat", "m2"), _asks("SyncGroup", "m2"), _later(2)],
        [_group("PreparingRebalance", 1, "m2")],
        [_group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a coordinator that loads the group awaits no SyncGroup": (
        SYNCING[:-5],
        [_later(4), _asks("Heartbeat"), _asks("Heartbeat", "m2"), _later(2),
         _group("PreparingRebalance", 1, "m1")],
        [("broker-1", facts.CoordinatorLoaded(0, 1, False)),
         ("broker-1", facts.CoordinatorLoaded(0, 2, True)),
         _group("Stable", 1, "m1", "m2", reason="loaded"), _later(4), _asks("Heartbeat"),
         _asks("Heartbeat", "m2"), _later(2), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction the next generation awaits SyncGroup anew": (
        [*SYNCING, _asks("JoinGroup", "m2"), _group("PreparingRebalance", 1, "m1", "m2"),
         _asks("JoinGroup"), _group("CompletingRebalance", 2, "m1", "m2"),
         _asks("SyncGroup", generation=2), _group("Stable", 2, "m1", "m2"), _later(4),
         _asks("Heartbeat", "m2", 2), _later(4), _asks("Heartbeat", "m2", 2)],
        [_later(2), _group("PreparingRebalance", 2, "m1")],
        [_later(1.9), _group("PreparingRebalance", 2, "m1")],
    ),
    "needless-eviction a static member came after the generation had formed": (
        [*SYNCING, _asks("JoinGroup", "", -1, instance="x"),
         _group("Stable", 1, "m1", "m2", "x-1"), _later(2)],
        [_group("PreparingRebalance", 1, "m1", "x-1")],
        [_group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-eviction a new id that was not committed in time gives way to the old one": (
        RETURNED,
        [_later(5), *FORMER],
        [_later(4.9), *FORMER],
    ),
    "needless-eviction a new id that was committed in time stays": (
        RETURNED,
        [_later(5), ("broker-1", facts.HighWatermark("offsets-id", 0, 1, 2, 1, (1,))), *FORMER],
        [_later(4.9), ("broker-1", facts.HighWatermark("offsets-id", 0, 1, 2, 1, (1,))),
         _later(0.1), *FORMER],
    ),
    "needless-eviction a new id gives way to an old one that is a member": (
        [*RETURNED, _later(5)],
        FORMER,
        [_reverted(), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a new id gives way at once when its record could not be appended": (
        [*STATIC, RESTARTED],
        [_group("PreparingRebalance", 1, "m1", "x-2"), _reverted("NOT_ENOUGH_REPLICAS"),
         FORMER[1]],
        [WRITTEN, _group("PreparingRebalance", 1, "m1", "x-2"), _reverted("NOT_ENOUGH_REPLICAS"),
         FORMER[1]],
    ),
    "needless-eviction a new id that the group has not told of gives way to the old one": (
        [*STATIC, RESTARTED, WRITTEN],
        [_later(5), _reverted(), _group("Stable", 1, "m1", "x-1")],
        [_later(4.9), _reverted(), _group("Stable", 1, "m1", "x-1")],
    ),
    "needless-eviction a new id gives way to the old one of the same member": (
        [*RETURNED, _later(5)],
        FORMER,
        [_reverted(instance="y"), FORMER[1]],
    ),
    "needless-eviction a new id that a join phase has given stays": (
        STATIC,
        [RESTARTED, WRITTEN, _group("PreparingRebalance", 1, "m1", "x-2"), _later(5), *FORMER],
        [_asks("JoinGroup", "m2", -1), _group("PreparingRebalance", 1, "m1", "x-1", "m2"),
         RESTARTED, WRITTEN, _group("PreparingRebalance", 1, "m1", "x-2", "m2"), _later(5),
         _reverted(), _group("PreparingRebalance", 1, "m1", "m2", "x-1")],
    ),
    "needless-eviction the session of an old id begins when it is back": (
        [*RETURNED, _group("CompletingRebalance", 2, "m1", "x-2"), _later(5), _reverted(),
         _group("CompletingRebalance", 2, "m1", "x-1")],
        [_later(6), _group("PreparingRebalance", 2, "m1")],
        [_later(5.9), _group("PreparingRebalance", 2, "m1")],
    ),
    "needless-eviction the session of a static member begins with its JoinGroup": (
        [*SYNCING, _asks("JoinGroup", "", -1, instance="x"), _later(1),
         _group("Stable", 1, "m1", "m2", "x-1")],
        [_later(5), _group("PreparingRebalance", 1, "m1", "m2")],
        [_later(4.9), _group("PreparingRebalance", 1, "m1", "m2")],
    ),
    "needless-eviction an old id that is back has its own session": (
        [*STATIC, _asks("SyncGroup", "x-1"), UPDATED, WRITTEN,
         _group("PreparingRebalance", 1, "m1", "x-2"), _later(5), *FORMER,
         _group("CompletingRebalance", 2, "m1", "x-1"), _asks("SyncGroup", "x-1", 2),
         _asks("SyncGroup", generation=2), _group("Stable", 2, "m1", "x-1"), _later(4),
         _asks("Heartbeat", generation=2)],
        [_later(2), _group("PreparingRebalance", 1, "m1")],
        [_later(1.9), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction an old id has its own session at a deposed coordinator": (
        [*STATIC, ("broker-2", facts.CoordinatorLoaded(0, 2, True)),
         _group("Stable", 1, "m1", "x-1", reason="loaded", node="broker-2"),
         _asks("JoinGroup", "", -1, instance="x", session_ms=12_000, node="broker-2"),
         _group("Stable", 1, "m1", "x-2", node="broker-2"), _asks("Heartbeat")],
        [_later(5), _group("PreparingRebalance", 1, "m1")],
        [_later(4.9), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a new id begins with the session of the old one": (
        [*DEPLOYED, _later(2), _asks("Heartbeat")],
        [_later(4), _group("PreparingRebalance", 1, "m1")],
        [_later(3.9), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a new id has its own session when it is heard": (
        [*DEPLOYED, _later(1), _asks("Heartbeat", "x-2"), _later(5), _asks("Heartbeat"), _later(5),
         _asks("Heartbeat")],
        [_later(2), _group("PreparingRebalance", 1, "m1")],
        [_later(1.9), _group("PreparingRebalance", 1, "m1")],
    ),
    "needless-eviction a new id has its own session in the next generation": (
        [*DEPLOYED, _later(1), _asks("JoinGroup"), _group("PreparingRebalance", 1, "m1", "x-2"),
         _group("CompletingRebalance", 2, "m1", "x-2"), _asks("SyncGroup", generation=2),
         _asks("SyncGroup", "x-2", 2), _group("Stable", 2, "m1", "x-2"), _later(5),
         _asks("Heartbeat", generation=2), _later(5), _asks("Heartbeat", generation=2)],
        [_later(2), _group("PreparingRebalance", 2, "m1")],
        [_later(1.9), _group("PreparingRebalance", 2, "m1")],
    ),
    "vanished-offset a committed offset is not there": (
        [OFFSETS, LOADED, ("broker-1", committed(5)), END],
        [("broker-1", facts.FinalOffset("billing", "orders", 0, 5))],
        [("broker-2", facts.FinalOffset("billing", "orders", 0, 5))],
    ),
    "vanished-offset an operator has deleted it": (
        [OFFSETS, LOADED, ("broker-1", committed(5))],
        [("broker-1", facts.OffsetsDeleted("billing", "orders", 0, 0)), END],
        [("broker-1", facts.OffsetsDeleted("billing", "orders", 1, 0)), END],
    ),
    "vanished-offset an operator has deleted it while the commit waited for replicas": (
        [OFFSETS, LOADED, ("broker-1", tombstone(7))],
        [("broker-1", committed(5, end=6)), END],
        [("broker-1", committed(5, end=8)), END],
    ),
    "vanished-offset its coordinator has resigned, and nobody leads the partition": (
        [OFFSETS, LOADED, ("broker-1", committed(5))],
        [("broker-1", facts.CoordinatorLoaded(0, 2, False)), END],
        [("broker-2", facts.CoordinatorLoaded(0, 2, False)), END],
    ),
    "vanished-offset it has expired": (
        [OFFSETS, LOADED, ("broker-1", committed(5))],
        [_later(60), END],
        [_later(59), END],
    ),
    "stale-coordinator it serves though it follows": (
        [*ALONE, DEPOSED],
        [_later(1), _asks("Heartbeat")],
        [_later(1.1), _asks("Heartbeat")],
    ),
    "stale-coordinator it leads again": (
        [*ALONE, DEPOSED],
        [("broker-1", facts.BecameLeader("offsets-id", 0, 3, 3, 1, 1, (1,))), _later(3),
         _asks("Heartbeat")],
        [_later(3), _asks("Heartbeat")],
    ),
    "PIDSTATE a sequence that was forgotten": (
        [],
        [("broker-5", final(SEQUENCED))],
        [("broker-6", final(SEQUENCED))],
    ),
    "PIDSTATE a transaction that its marker has not ended": (
        [],
        [("broker-7", final(TRANSACTIONS))],
        [("broker-8", final(TRANSACTIONS))],
    ),
}  # fmt: skip

LOGS = {
    "broker-2": LOG,
    "broker-3": TWICE,
    "broker-5": FakeLog(SEQUENCED, {5: _entry(1)}),
    "broker-6": FakeLog(SEQUENCED, {5: _entry(0)}),
    "broker-7": FakeLog(TRANSACTIONS, {5: _entry(1, open_since=2)}),
    "broker-8": FakeLog(TRANSACTIONS, {5: _entry(1, open_since=0)}),
}


def judge(
    rows: Sequence[Row], forgiven: str = "", *, unclean: bool = True
) -> list[tuple[str, str]]:
    """Return (invariant, excuse) of the violations that the facts show.

    Needless harm of brokers is left out: these stories tell no heartbeats.
    """
    trace = FakeTrace()
    invariants = Invariants(
        trace,
        lambda node, _t, _p: LOGS.get(node),
        lambda _key, _node: forgiven,
        lambda _: unclean,
        LIMITS,
    )
    trace.record(rows)
    found = [each for each in invariants.finish() if each.invariant not in HARM]
    return [(each.invariant, each.expected) for each in found]


def test_every_invariant_has_a_story() -> None:
    harm = [name for name in INVARIANTS if name in HARM]  # in test_harm.py
    assert sorted({story.split()[0] for story in STORIES}) == sorted({*INVARIANTS} - {*harm})


@pytest.mark.parametrize("story", STORIES)
def test_facts_that_keep_the_invariant(story: str) -> None:
    before, good, _ = STORIES[story]
    assert judge([*before, *good]) == []


@pytest.mark.parametrize("story", STORIES)
def test_facts_that_break_it(story: str) -> None:
    before, _, bad = STORIES[story]
    assert judge([*before, *bad]) == [(story.split()[0], "")]


@pytest.mark.parametrize(
    ("loaded", "end", "found"),
    [
        (batch(0, [10]), 1, []),  # the deleted log is back: a power loss has undone the deletion
        (batch(0, [20], epoch=1), 1, []),  # the log that was created after it
        (batch(0, [99], epoch=2), 0, ["MATCH"]),  # neither: what it held before it was loaded
    ],
)
def test_a_log_that_is_loaded_after_a_deletion_is_the_deleted_one_or_a_new_one(
    loaded: Any, end: int, found: list[str]
) -> None:
    trace = FakeTrace()
    view = lambda *_: FakeLog([loaded])  # noqa: E731
    invariants = Invariants(trace, view, lambda *_: "", lambda _: False, LIMITS)
    trace.record([
        *START, ("broker-1", appended(0, (10,))), ("broker-3", appended(0, (20,), 1)),
        ("broker-3" if loaded.leader_epoch else "broker-1", appended(1, (11,), 2)),
        ("broker-2", appended(0, (10,))), ("broker-2", facts.LogDeleted(T, P, 1)),
        ("broker-2", appended(0, (20,), 1)), ("broker-2", facts.HostStopped("power-loss")),
        ("broker-2", facts.LogLoaded(T, P, 0, end, 0, False)),
        ("broker-2", appended(1, (11,), 2)),
    ])  # fmt: skip
    assert [each.invariant for each in invariants.finish() if each.invariant not in HARM] == found


def test_a_loss_outside_the_budget_is_expected() -> None:
    rows = [*EXPOSED, ("broker-2", led(1))]
    assert judge(rows, LAST) == [("ACKED", LAST)]


@pytest.mark.parametrize("story", [s for s in STORIES if s.split()[0] != "ACKED"])
def test_a_fault_outside_the_budget_excuses_nothing_but_lost_records(story: str) -> None:
    before, _, bad = STORIES[story]
    assert judge([*before, *bad], LAST) == [(story.split()[0], "")]


TWO: list[Row] = [*EXPOSED, ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2))]
LOST_ONE: list[Row] = [  # the last in-sync replica comes back without offset 1
    *ALIVE, *TWO, ("consumer-1", polled((0, 1), (10, 11))),
    ("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("consumer-1", polled((1,), (99,)))], ("STABLEREAD", LAST)),
        ([("consumer-1", polled((0,), (99,)))], ("STABLEREAD", "")),
        ([("broker-2", appended(0, (99,)))], ("MATCH", "")),
        ([("broker-1", appended(1, (99,), epoch=1)), ("broker-1", high_watermark(2, epoch=1)),
          ("broker-1", high_watermark(1, epoch=1))], ("HWMONO", "")),
        ([("broker-1", appended(1, (12,), epoch=1)), ("broker-1", high_watermark(2, epoch=1)),
          ("controller-1", changed(3, (1, 2)))], ("ISRDATA", "")),
        ([("broker-2", led(1, 1))], ("ONELEADER", "")),
    ],
)  # fmt: skip
def test_a_legal_loss_covers_the_lost_records_alone(
    rows: list[Row], found: tuple[str, str]
) -> None:
    judged = judge([*LOST_ONE, *rows], LAST)
    assert (judged[0], found in judged) == (("ACKED", LAST), True)


def test_a_leader_that_has_not_lost_data_itself_is_not_excused() -> None:
    trace = FakeTrace()
    invariants = Invariants(
        trace, lambda *_: None, lambda _key, node: LAST if node == "broker-1" else "",
        lambda _topic: False, LIMITS,
    )  # fmt: skip
    trace.record([*EXPOSED, ("broker-2", led(1))])
    assert [(v.invariant, v.expected) for v in invariants.finish()] == [("ACKED", "")]


HELD_ONE: list[Row] = [  # broker-2 holds the first record, and joins the ISR; the second it lacks
    *ALIVE, ("controller-1", created()), ("broker-1", led(0)),
    ("controller-1", changed(3, (1,))), ("broker-1", appended(0, (10,))),
    ("broker-2", REPLICATED), ("broker-1", high_watermark(1)),
    ("broker-1", appended(1, (11,))),
]  # fmt: skip
FORGETS: Row = ("broker-1", facts.ExpansionForgotten(T, P, 0, 3, (2,)))
LEARNS: Row = ("broker-1", facts.ExpansionForgotten(T, P, 0, 4, ()))
JOINS: Row = ("controller-1", changed(4, (1, 2)))
ELECTS: Row = ("controller-1", changed(5, (2,), leader=2, epoch=1))
UNAWAITED: Row = ("broker-1", high_watermark(2, (1,)))
FORGOT = "forgotten-expansion"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([FORGETS, JOINS, UNAWAITED], [("ISRDATA", FORGOT)]),
        ([JOINS, UNAWAITED], [("ISRDATA", "")]),
        ([FORGETS, LEARNS, JOINS, UNAWAITED], [("ISRDATA", "")]),
        ([("broker-1", facts.ExpansionForgotten(T, P, 0, 3, (3,))), JOINS, UNAWAITED],
         [("ISRDATA", "")]),
        ([FORGETS, JOINS, ("broker-1", high_watermark(2))], [("ISRDATA", "")]),
        ([FORGETS, JOINS, UNAWAITED, LEARNS, ("broker-1", appended(2, (12,))),
          ("broker-1", high_watermark(3, (1,)))], [("ISRDATA", FORGOT), ("ISRDATA", "")]),
        ([FORGETS, JOINS, ("broker-2", facts.Truncated(T, P, 0, 1, 0)), UNAWAITED],
         [("ISRDATA", ""), ("ISRDATA", "")]),
        ([FORGETS, JOINS, UNAWAITED, ELECTS, ("broker-2", led(1, 1))],
         [("ISRDATA", FORGOT), ("ACKED", FORGOT)]),
        ([FORGETS, JOINS, ELECTS, ("broker-2", led(1, 1)), UNAWAITED], []),
        ([JOINS, ELECTS, ("broker-2", led(1, 1)), UNAWAITED], [("ISRDATA", "")]),
    ],
)  # fmt: skip
def test_a_member_whose_expansion_was_forgotten_may_lack_what_was_exposed_meanwhile(
    rows: list[Row], found: list[tuple[str, str]]
) -> None:
    assert judge([*HELD_ONE, *rows]) == found


def test_what_a_deposed_leader_exposes_for_a_forgotten_expansion_is_lost() -> None:
    trace = FakeTrace()
    invariants = Invariants(
        trace, lambda node, _t, _p: LOGS.get(node), lambda *_: "", lambda _: False, LIMITS
    )
    trace.record([*HELD_ONE, FORGETS, JOINS, ELECTS, ("broker-2", led(1, 1)), UNAWAITED])
    lost = [(loss.first, loss.end, loss.reason) for loss in invariants.losses((T, P))]
    assert lost == [(1, 2, FORGOT)]


@pytest.mark.parametrize("zookeeper", [False, True])
def test_only_a_zookeeper_leader_goes_on_in_its_epoch_after_a_loss(zookeeper: bool) -> None:
    """No controller remembers that it bounced; a KRaft registration is a new leader epoch."""
    epoch: Row = ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1))
    rows: list[Row] = [
        *([epoch] if zookeeper else []), *TWO,
        ("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(0, 1)),
        ("broker-1", appended(1, (99,))),
    ]  # fmt: skip
    assert judge(rows, LAST) == [("ACKED", LAST), ("MATCH", LAST if zookeeper else "")]


@pytest.mark.parametrize("zookeeper", [False, True])
def test_such_a_leader_may_lose_what_followers_had_before_it_was_committed(zookeeper: bool) -> None:
    epoch: Row = ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1))
    rows: list[Row] = [
        *([epoch] if zookeeper else []), *EXPOSED, ("broker-1", appended(1, (11,))),
        ("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(0, 1)),
        ("broker-1", appended(1, (99,))),
    ]  # fmt: skip
    assert judge(rows, LAST) == [("MATCH", LAST if zookeeper else "")]
    assert judge(rows) == [("MATCH", "")]


REOPENED: list[Row] = [  # broker-1 leads again in its epoch, without offset 1, and writes it anew
    ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)), *TWO,
    ("broker-2", appended(0, (10,))), ("broker-2", appended(1, (11,))),
    ("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(0, 1)),
    ("broker-1", appended(1, (99,))), ("broker-1", high_watermark(2)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "excuse"),
    [
        ([("broker-2", led(1, 2))], LAST),
        ([("broker-1", led(1, 2)), ("broker-1", appended(2, (12,), 1)),
          ("broker-1", high_watermark(3, epoch=1)), ("broker-2", appended(2, (12,), 1)),
          ("broker-2", led(2, 3))], LAST),
        ([("broker-1", led(1, 2)), ("broker-1", appended(2, (12,), 1)),
          ("broker-1", high_watermark(3, epoch=1)), ("broker-2", led(2, 2))], ""),
        ([("broker-1", led(1, 2)), ("broker-1", appended(2, (12,), 1)),
          ("broker-1", high_watermark(3, epoch=1)), ("broker-2", appended(2, (12,), 0)),
          ("broker-2", led(2, 3))], ""),
        ([("broker-2", facts.LogLoaded(T, P, 0, 0, 0, False)), ("broker-2", appended(0, (77, 78))),
          ("broker-2", led(1, 2))], ""),
    ],
    ids=["it has the first batch", "and all later ones", "not a later one", "one of another epoch",
         "not what was before"],
)  # fmt: skip
def test_a_follower_keeps_what_its_leader_lost_and_wrote_anew_in_its_epoch(
    rows: list[Row], excuse: str
) -> None:
    """Epochs and end offsets say that nothing diverges, so no fetch truncates it."""
    trace = FakeTrace()
    invariants = Invariants(
        trace,
        lambda *_: None,
        lambda _key, node: LAST if node == "broker-1" else "",
        lambda _: False,
        LIMITS,
    )
    trace.record([*REOPENED, *rows])
    found = [each for each in invariants.finish() if each.invariant == "ACKED"]
    assert [(each.expected, "broker-2" in each.message) for each in found[1:]] == [(excuse, True)]
    losses = [(loss.first, loss.end) for loss in invariants.losses((T, P))]
    assert losses == [(1, 2)] * (1 + bool(excuse))


def test_what_a_group_was_promised_is_lost_with_records_of_its_offsets_partition() -> None:
    offsets = facts.TopicCreated(2, "offsets-id", "__consumer_offsets", 50, 3, 1)
    key = ("offsets-id", partition_for("billing", 50))
    broken: list[Row] = [
        ("broker-1", committed(5)), ("broker-1", fetched(4)),
        _assigned("m1", "orders-0"), _assigned("m2", "orders-0"),
    ]  # fmt: skip
    loss = [
        facts.Appended(*key, 0, 0, 1, -1, -1, -1, ()),
        facts.HighWatermark(*key, 0, 1, 1, (1,)),
        facts.LogLoaded(*key, 0, 0, 0, False),
        facts.BecameLeader(*key, 1, 1, 0, 0, (2,)),
    ]
    lost = [("broker-1", fact) for fact in loss]
    promised, answered = broken[::2], broken[1::2]
    for rows, why in (
        (broken, ""), ([*promised, *lost, *answered], LAST),
        ([*lost, *promised, *answered], ""), ([*promised, *answered, *lost], ""),
    ):  # fmt: skip
        trace = FakeTrace()
        invariants = Invariants(
            trace, lambda *_: None, lambda _key, _node: LAST, lambda _topic: False, LIMITS
        )
        trace.record([("controller-1", offsets), *rows])
        found = [(v.invariant, v.expected) for v in invariants.finish() if v.invariant != "ACKED"]
        assert found == [("OFFSET", why), ("EXCL", why)]


def test_many_violations_of_one_invariant_do_not_hide_another() -> None:
    rows: list[Row] = [("broker-1", committed(5)), *[("broker-1", fetched(4))] * 100]
    rows += [_assigned("m1", "orders-0"), _assigned("m2", "orders-0")]
    found = [name for name, _ in judge(rows)]
    assert found == ["OFFSET"] * 20 + ["EXCL"]


def test_an_unclean_leader_brings_what_it_has() -> None:
    rows: list[Row] = [
        *ALIVE, *EXPOSED,
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-2", led(1)),
    ]  # fmt: skip
    assert judge(rows) == []


def test_a_broker_that_hears_of_its_election_after_an_unclean_one_answers_for_nothing() -> None:
    rows: list[Row] = [
        *ALIVE, *TWO, ("controller-1", changed(9, (2,), leader=2, epoch=2, unclean=True)),
        ("broker-2", led(2)), ("broker-2", appended(0, (12,), epoch=2)),
        ("broker-2", high_watermark(1, (2,), epoch=2)), ("broker-1", led(1, 2)),
        ("controller-1", changed(10, (2,), leader=2, epoch=2)),
        ("broker-2", facts.Truncated(T, P, 2, 1, 1)),
    ]  # fmt: skip
    assert judge(rows) == []


@pytest.mark.parametrize(
    ("led_since", "found"), [([], []), ([("broker-3", led(1, 1))], ["ISRDATA"])]
)
def test_an_unclean_leader_that_never_led_may_be_elected_again(
    led_since: list[Row], found: list[str]
) -> None:
    rows: list[Row] = [
        *ALIVE, *TWO, ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-3", appended(0, (10,))), *led_since,
        ("controller-1", changed(10, (), leader=-1, epoch=2)),
        ("controller-1", changed(11, (2,), leader=2, epoch=3)), ("broker-2", led(3)),
    ]  # fmt: skip
    assert [name for name, _ in judge(rows)][:1] == found


@pytest.mark.parametrize(
    ("unclean", "epoch", "found"),
    [
        (True, 0, []),
        (False, 0, [("ISRDATA", "")]),  # nothing permits the unclean election
        (True, 1, [("ISRDATA", "")]),  # the unclean leader is not later
    ],
)
def test_a_leader_that_an_unclean_one_has_replaced_exposes_what_is_lost(
    unclean: bool, epoch: int, found: list[tuple[str, str]]
) -> None:
    rows: list[Row] = [
        *ALIVE, *EXPOSED, ("broker-1", appended(1, (11,))), ("broker-2", appended(0, (10,))),
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-2", led(1, 1)), ("broker-1", high_watermark(2, (1,), epoch=epoch)),
    ]  # fmt: skip
    assert judge(rows, unclean=unclean) == found


@pytest.mark.parametrize(("offset", "why"), [(0, ""), (1, "unclean-election")])
def test_an_unclean_election_changes_what_it_lost_and_nothing_else(offset: int, why: str) -> None:
    rows: list[Row] = [
        *ALIVE, *TWO, ("consumer-1", polled((0, 1), (10, 11))), ("broker-2", appended(0, (10,))),
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-2", led(1, 1)), ("broker-2", appended(1, (12,), epoch=1)),
        ("broker-2", high_watermark(2, epoch=1)), ("consumer-2", polled((offset,), (99,))),
    ]  # fmt: skip
    assert judge(rows) == [("STABLEREAD", why)]
    assert judge(rows, unclean=False) == [("STABLEREAD", "")]


DEPOSED: list[Row] = [  # broker-1 goes on alone, though broker-2 was elected uncleanly and leads
    *ALIVE, ("controller-1", registration(3, 3)), ("controller-1", created()),
    ("controller-1", changed(5, (1,))), ("broker-1", appended(0, (10,))),
    ("broker-1", high_watermark(1, (1,))),
    ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
    ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2, (1,))), ("broker-2", led(1)),
    ("broker-1", appended(2, (13,))), ("broker-1", high_watermark(3, (1,))),
    ("broker-2", appended(0, (12,), epoch=1)), ("broker-2", high_watermark(1, (2,), epoch=1)),
]  # fmt: skip
AGAIN: list[Row] = [
    ("controller-1", changed(10, (2, 3), leader=2, epoch=2)), ("broker-2", led(2, 1)),
]  # fmt: skip


def test_what_a_leader_exposes_after_an_unclean_election_is_lost_at_once() -> None:
    replicated: Row = ("broker-3", appended(0, (12,), epoch=1))
    assert judge([*DEPOSED, replicated, *AGAIN]) == []
    lost: Row = ("consumer-1", polled((0, 1, 2), (10, 11, 13)))
    assert judge([*DEPOSED, lost, replicated, *AGAIN]) == [("STABLEREAD", "unclean-election")]
    # What the elected leader exposes binds, and so does the rest where nobody allowed the election.
    assert ("ISRDATA", "") in judge([*DEPOSED, *AGAIN])
    assert ("ACKED", "") in judge([*DEPOSED, replicated, *AGAIN], unclean=False)


def test_what_the_unclean_leader_has_is_not_lost_by_its_election() -> None:
    told: list[Row] = [
        *ALIVE, ("controller-1", registration(3, 3)), ("controller-1", created()),
        ("controller-1", changed(5, (1,))), ("broker-1", appended(0, (10,))),
        ("broker-2", appended(0, (10,))),
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-2", led(1, 1)), ("broker-1", high_watermark(1, (1, 2))),
        ("controller-1", changed(10, (3,), leader=3, epoch=2)), ("broker-3", led(2)),
    ]  # fmt: skip
    assert ("ACKED", "") in judge(told)


def test_a_deposed_coordinator_may_answer_stale() -> None:
    rows: list[Row] = [
        ("broker-1", committed(4, epoch=0)),
        ("broker-2", committed(5, epoch=1)),
        ("broker-1", fetched(4, epoch=0)),
    ]
    assert judge(rows) == []


def test_the_slow_twin_of_match_compares_whole_logs() -> None:
    mine = FakeLog([batch(0, [10]), batch(1, [11])])
    same = FakeLog([batch(0, [10]), batch(1, [11])])
    other = FakeLog([batch(0, [10]), batch(1, [99])])
    assert disagreements([("broker-1", mine), ("broker-2", same)]) == []
    assert disagreements([("broker-1", mine), ("broker-2", other)]) == [
        "broker-1 and broker-2 differ at offset 1"
    ]
