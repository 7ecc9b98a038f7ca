"""What consumers read, own and commit, and what their coordinator answers."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row, T, committed, fetched, polled, tombstone
from tests.scenarios.invariant_stories.common import (
    END,
    EXPOSED,
    LOADED,
    OFFSETS,
    Stories,
    asks,
    assigned,
    group,
    later,
)


def owns(member: str, generation: int, *owned: str, instance: str | None = None) -> Row:
    """The JoinGroup of a cooperative member that keeps partitions."""
    return "broker-1", facts.MemberRequest(
        "billing", member, instance, "JoinGroup", generation, ("orders",), ("cooperative-sticky",),
        6000, 10_000, owned,
    )  # fmt: skip


def commits(generation: int, next_offset: int = -1) -> Row:
    return "broker-1", facts.OffsetCommitted(
        "billing", "orders", 0, 5, generation, "m1", 1, next_offset
    )


def stores(next_offset: int, node: str = "broker-1", epoch: int = 1) -> Row:
    """A batch of one record in the group's partition."""
    base = next_offset - 1
    return node, facts.Appended("offsets-id", 0, epoch, base, next_offset, -1, -1, -1, ())


STORIES: Stories = {  # name: what happened before, how it goes on well, and badly
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
    "EXCL the epoch of a static member that is away is no generation": (
        [OFFSETS, LOADED, ("broker-1", facts.GroupAssigned("billing", -2, "i-1", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", -2, "i-2", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", 2, "a", ("orders-0",))),
         ("broker-1", facts.GroupAssigned("billing", 2, "b", ("orders-0",)))],
    ),
    "EXCL two owners in a generation": (
        [assigned("m1", "orders-0")],
        [assigned("m2", "orders-1"), assigned("m2", "orders-0", generation=2)],
        [assigned("m2", "orders-0")],
    ),
    "EXCL a coordinator loads a static member's new id, and gives another member what it has": (
        [asks("JoinGroup", "", -1, instance="a"), assigned("a-1", "orders-0"),
         group("Stable", 1, "a-2", "b-1", reason="loaded")],
        [assigned("a-2", "orders-0"), assigned("b-1", "orders-1")],
        [assigned("a-2", "orders-0"), assigned("b-1", "orders-0")],
    ),
    "EXCL a coordinator loads an old id of a static member, which had a new one": (
        [asks("JoinGroup", "", -1, instance="a"), assigned("a-1", "orders-0"),
         ("broker-1", facts.GroupAssigned("billing", 1, "a-1", ())), assigned("a-2", "orders-0")],
        [group("Stable", 1, "a-3", reason="loaded"), assigned("a-3", "orders-0")],
        [group("Stable", 1, "a-1", reason="loaded"), assigned("a-1", "orders-0")],
    ),
    "EXCL a coordinator has replaced a static member twice, and told it once": (
        [asks("JoinGroup", "", -1, instance="a"), assigned("a-1", "orders-0"),
         group("Stable", 1, "a-2", "b-1", reason="REQUEST_TIMED_OUT when storing a-3")],
        [assigned("a-2", "orders-0")],
        [assigned("a-2", "orders-0"), assigned("b-1", "orders-0")],
    ),
    "EXCL a coordinator loads a group without a member, and another one has its partition": (
        [asks("JoinGroup", "", -1, instance="a"), assigned("a-1", "orders-0")],
        [group("Stable", 1, "a-2", reason="loaded"), assigned("a-2", "orders-0")],
        [group("Stable", 1, "b-1", reason="loaded"), assigned("b-1", "orders-0")],
    ),
    "OFFSET less than was acknowledged": (
        [("broker-1", committed(5))],
        [("broker-1", fetched(5))],
        [("broker-1", fetched(4))],
    ),
    "OFFSET a ZooKeeper controller is about to delete the topic": (
        [("broker-1", committed(5))],
        [("broker-2", facts.TopicDeletionQueued(T, "orders")), ("broker-1", fetched(-1))],
        [("broker-2", facts.TopicDeletionQueued("other-id", "bills")), ("broker-1", fetched(-1))],
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
    "OFFSET a commit that no answer told of stands behind it": (
        [("broker-1", committed(5, end=6))],
        [("broker-9", fetched(3, 1, end=7))],
        [("broker-9", fetched(3, 1, end=5))],
    ),
    "OFFSET a commit that no answer told of stands before it": (
        [("broker-1", committed(5, end=6))],
        [("broker-9", fetched(3, 1, end=7))],
        [("broker-9", committed(5, 1, end=7)), ("broker-9", fetched(3, 1, end=7))],
    ),
    "OFFSET nobody knows where its record stands": (
        [("broker-1", committed(5))],
        [("broker-9", fetched(5, 1, end=7))],
        [("broker-9", fetched(3, 1, end=7))],
    ),
    "OFFSET its group had no members for the retention of offsets": (
        [("broker-1", committed(5)), group("Empty", 1)],
        [later(60), ("broker-1", fetched(-1))],
        [later(59), ("broker-1", fetched(-1))],
    ),
    "OFFSET its group had no members for that long before one came": (
        [("broker-1", committed(5)), group("Empty", 1)],
        [later(60), group("Stable", 2, "m1"), ("broker-1", fetched(-1))],
        [later(59), group("Stable", 2, "m1"), later(60), ("broker-1", fetched(-1))],
    ),
    "OFFSET an offset expires, and does not go back": (
        [("broker-1", committed(5)), group("Empty", 1), later(60)],
        [("broker-1", fetched(-1))],
        [("broker-1", fetched(4))],
    ),
    "early-handover a member still owns it": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0"), owns("m2", 1, "orders-1"),
         group("CompletingRebalance", 2, "m1", "m2")],
        [("broker-1", facts.GroupAssigned("billing", 2, "m1", ()))],
        [("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0", "orders-1")))],
    ),
    "early-handover an older claim does not count": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0")],
        [owns("m2", 2, "orders-1"), group("CompletingRebalance", 3, "m1", "m2"),
         ("broker-1", facts.GroupAssigned("billing", 3, "m2", ("orders-0",)))],
        [owns("m2", 1, "orders-1"), group("CompletingRebalance", 3, "m1", "m2"),
         ("broker-1", facts.GroupAssigned("billing", 3, "m2", ("orders-0",)))],
    ),
    "early-handover a coordinator that is elected again heard its members in another history": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0"), group("CompletingRebalance", 2, "m1")],
        [LOADED, ("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0",)))],
    ),
    "early-handover the generations of a group that was deleted begin anew": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0"), group("CompletingRebalance", 2, "m1")],
        [asks("LeaveGroup"), group("Dead", 2),
         ("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", 2, "m2", ("orders-0",)))],
    ),
    "early-handover a static member that comes back takes what it had": (
        [OFFSETS, LOADED, owns("i-1", 1, "orders-0", instance="i"),
         group("CompletingRebalance", 2, "i-1")],
        [("broker-1", facts.GroupAssigned("billing", 2, "i-2", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", 2, "j-2", ("orders-0",)))],
    ),
    "early-handover a static member takes nothing of one whose instance id begins its own": (
        [OFFSETS, LOADED, owns("i-1", 1, "orders-0", instance="i"),
         group("CompletingRebalance", 2, "i-1")],
        [("broker-1", facts.GroupAssigned("billing", 2, "i-3", ("orders-0",)))],
        [("broker-1", facts.GroupAssigned("billing", 2, "i-b-2", ("orders-0",)))],
    ),
    "changed-generation a member has left since the leader was told": (
        [OFFSETS, LOADED, group("PreparingRebalance", 1, "a"),
         group("CompletingRebalance", 2, "a", "b"), asks("LeaveGroup", "b", 2)],
        [group("PreparingRebalance", 2, "a"), group("CompletingRebalance", 3, "a"),
         group("Stable", 3, "a")],
        [group("CompletingRebalance", 2, "a"), group("Stable", 2, "a")],
    ),
    "changed-generation a coordinator that loads the generation was told by another one": (
        [OFFSETS, LOADED, group("CompletingRebalance", 2, "a", "b"), asks("LeaveGroup", "b", 2)],
        [group("Stable", 2, "a", reason="loaded")],
        [group("Stable", 2, "a")],
    ),
    "changed-generation a group that has become a consumer group": (
        [OFFSETS, LOADED, group("CompletingRebalance", 2, "a", "b"), asks("LeaveGroup", "b", 2)],
        [("broker-1", facts.GroupConverted("billing", "consumer", "")), group("Stable", 2, "a")],
        [group("Stable", 2, "a")],
    ),
    "stale-commit the group has gone on": (
        [OFFSETS, LOADED, commits(2)],
        [commits(2), commits(3)],
        [commits(1)],
    ),
    "stale-commit the generations of a group that was deleted begin anew": (
        [OFFSETS, LOADED, stores(1), commits(2, 1)],
        [group("Dead", 2), stores(2), stores(3), commits(1, 3)],
        [group("Empty", 2), stores(2), stores(3), commits(1, 3)],
    ),
    "stale-commit a coordinator keeps its epoch when its partition's leader epoch rises": (
        [OFFSETS, LOADED, stores(1), commits(2, 1)],
        [group("Dead", 2), stores(2, epoch=2), stores(3, epoch=2), commits(1, 3)],
        [group("Empty", 2), stores(2, epoch=2), stores(3, epoch=2), commits(1, 3)],
    ),
    "stale-commit a group that ended on another node begins anew here": (
        [OFFSETS, LOADED, stores(1), commits(2, 1)],
        [group("Dead", 2, node="broker-2"), commits(1, 2)],
        [commits(1, 2)],
    ),
    "stale-commit offsets of a transaction are stored when it ends": (
        [OFFSETS, LOADED, commits(2)],
        [("processor-1", facts.TransactionBegun("p-1", 0, 7, 0)),
         ("processor-1", facts.TransactionOffsets("p-1", 0, "billing", "orders", 0, 5)),
         commits(1)],
        [commits(1)],
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
        [later(60), END],
        [later(59), END],
    ),
}  # fmt: skip
