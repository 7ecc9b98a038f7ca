"""Needless harm: decisions before their time, dead members, stale service, late answers."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import (
    P,
    Row,
    T,
    appended,
    changed,
    created,
    fetched,
    high_watermark,
    led,
    registration,
    replicated,
)
from tests.scenarios.invariant_stories.common import (
    ALONE,
    LOADED,
    OFFSETS,
    START,
    Stories,
    asks,
    later,
)

SECOND = 1_000_000
TICK: Row = ("broker-1", facts.RequestStats("Fetch", 1, 0, 1, 0, 1, 0, 0, 0, 1))
THREE: list[Row] = [("controller-1", registration(each, each)) for each in (1, 2, 3)]
DEPOSED: Row = ("broker-1", facts.BecameFollower("offsets-id", 0, 2, 2, 1))


def shrinks(leader_end: int, end: int, behind_s: float) -> Row:
    """The leader removes broker 2 for lag; the limit is 30 s."""
    behind, limit = int(behind_s * SECOND), 30 * SECOND
    return "broker-1", facts.IsrProposed(
        T, P, 0, 1, "shrink", (2,), leader_end, (end,), (behind,), limit
    )


def fences(silent_s: float) -> Row:
    """A controller ends a session of 9 s."""
    return "controller-1", facts.SessionEnded(2, 1, int(silent_s * SECOND), 9 * SECOND)


def zk_session(event: str, silent_s: float = -1, zxid: int = 7) -> Row:
    """What becomes of broker 2's ZooKeeper session of 6 s."""
    silent, node = int(silent_s * SECOND), "zookeeper-1"
    return node, facts.ZooKeeperSession(9, event, "broker-2", node, zxid, silent, 6 * SECOND)


def expires(silent_s: float) -> Row:
    """The coordinator removes a member; its session is 6 s."""
    return "broker-1", facts.MemberExpired("billing", "m1", int(silent_s * SECOND), 6 * SECOND)


def prepares(wait_s: int, *, changes: bool = True) -> Row:
    """A rebalance of members begins whose longest rebalance timeout is 10 s."""
    return "broker-1", facts.GroupState(
        "billing", "PreparingRebalance", 1, ("m1",), "range", "m2 rejoins", "m1",
        wait_s * SECOND, 10 * SECOND, changes,
    )  # fmt: skip


def refuses(sequence: int) -> Row:
    """The leader refuses a batch whose transaction was not confirmed."""
    error = "NOT_ENOUGH_REPLICAS"
    return "broker-1", facts.BatchUnverified(T, P, 0, 7, 0, sequence, error)


def takes(sequence: int, base: int = 0) -> Row:
    return "broker-1", facts.Appended(T, P, 0, base, base + 1, 7, 0, sequence, (10 + base,))


def begins(sequence: int) -> Row:
    return "producer-1", facts.EpochBegun(T, P, 7, 1, sequence)


def answered(after_s: float, attempts: int = 1) -> Row:
    """A producer is told that its record at offset 0 is committed."""
    latency = int(after_s * SECOND)
    return "producer-1", facts.Acked(T, P, 0, (10,), -1, -1, -1, -1, latency, attempts)


def owns(member: str, epoch: int, *partitions: str, node: str = "broker-1", id_: str = T) -> Row:
    """What a member of a consumer group owns (KIP-848), of the topic with this id."""
    return node, facts.GroupAssigned("billing", epoch, member, partitions, (id_,) * len(partitions))


def reads(epoch: int, *, leading: bool) -> Row:
    return "broker-1", facts.ReadServed(T, P, epoch, "Fetch", -1, False, leading)


LED: list[Row] = [*THREE, ("controller-1", created()), ("controller-1", changed(5, (1, 2))),
                  ("broker-1", led(0))]  # fmt: skip
MOVED: list[Row] = [*LED, ("controller-1", changed(6, (1, 2), leader=2, epoch=1))]
ZK: list[Row] = [
    ("zookeeper-1", facts.HostStarted(1)), ("broker-3", facts.ControllerActive(1, True)),
    zk_session("created", zxid=1), *LED, zk_session("expired"),
]  # fmt: skip
FIRST: Row = ("broker-2", replicated(0, (10,)))
BEHIND: list[Row] = [
    *LED, ("controller-1", registration(9, 3, "fenced", True)),
    ("controller-1", changed(10, (1, 2))), ("broker-1", appended(0, (10,))), FIRST,
    ("broker-1", high_watermark(1)), ("broker-1", appended(1, (11,))),
]  # fmt: skip
FETCHED: Row = ("broker-2", replicated(1, (11,)))

STORIES: Stories = {
    "LAGREASON a member that was caught up lately": (
        [], [shrinks(5, 4, 30.1)], [shrinks(5, 4, 29)],
    ),
    "LAGREASON a member that lacks nothing": ([], [shrinks(5, 4, 40)], [shrinks(5, 5, 40)]),
    "FENCEREASON half a session": ([], [fences(9)], [fences(4.5)]),
    "FENCEREASON half a ZooKeeper session": (
        [], [zk_session("expiring", 6.1, -1)], [zk_session("expiring", 3, -1)],
    ),
    "DEADINISR two sessions": ([later(30)], [fences(11.5)], [fences(18)]),
    "DEADINISR a controller that was paused": (
        [later(30)],
        [("controller-1", facts.HostStarted(1)), ("controller-1", facts.HostPaused(9 * SECOND)),
         later(9), fences(18)],
        [("broker-3", facts.HostPaused(9 * SECOND)), later(9), fences(18)],
    ),
    "DEADINISR two ZooKeeper sessions": (
        [later(30)], [zk_session("expiring", 8, -1)], [zk_session("expiring", 12, -1)],
    ),
    "DEADINISR a broker without a session": (
        ZK,
        [later(1), ("broker-3", changed(8, (1,))), later(3), TICK],
        [later(2), TICK],
    ),
    "STALESERVE an append of an old epoch": (
        [*MOVED, ("broker-1", facts.BecameFollower(T, P, 1, 2, 0))],
        [("broker-2", appended(0, (10,), 1))],
        [("broker-1", appended(0, (10,)))],
    ),
    "STALESERVE a leader that does not hear of its successor": (
        MOVED,
        [later(1), ("broker-1", facts.BecameFollower(T, P, 1, 2, 0)), later(2), TICK],
        [later(2), TICK],
    ),
    "STALESERVE a leader that was paused": (
        MOVED,
        [("broker-1", facts.HostPaused(2 * SECOND)), later(2), TICK],
        [("broker-3", facts.HostPaused(2 * SECOND)), later(2), TICK],
    ),
    "STALESERVE a read of an old epoch": (
        MOVED, [reads(1, leading=False)], [reads(0, leading=True)],
    ),
    "STALESERVE a coordinator that follows": (
        [*ALONE, DEPOSED],
        [later(1), asks("Heartbeat")],
        [later(1.1), ("broker-1", fetched(5))],
    ),
    "STALESERVE a coordinator that leads again": (
        [*ALONE, DEPOSED],
        [("broker-1", facts.BecameLeader("offsets-id", 0, 3, 3, 1, 1, (1,))), later(3),
         asks("Heartbeat")],
        [later(3), asks("Heartbeat")],
    ),
    "HWSTALL a proposal without an answer": (
        [*BEHIND, FETCHED],
        [("broker-1", facts.IsrProposed(T, P, 0, 10, "expand", (3,))), later(6), TICK],
        [later(6), TICK],
    ),
    "HWSTALL a member that has no more": (
        BEHIND, [later(6), TICK], [FETCHED, later(6), TICK],
    ),
    "HWSTALL a replica that may join": (
        BEHIND,
        [("controller-1", registration(11, 3)), FETCHED, later(6), TICK],
        [FETCHED, later(6), TICK],
    ),
    "ACKLATE committed long ago": (
        [*LED, later(1), ("broker-1", appended(0, (10,))), FIRST, ("broker-1", high_watermark(1)),
         later(2)],
        [answered(0.9), answered(2.1, 2), answered(0.8)],
        [answered(2.1), later(1), answered(0.1)],
    ),
    "ACKLATE a retry whose request waits for another partition": (
        [*LED, ("broker-1", facts.BecameLeader(T, 1, 0, 0, 0, 0, (1, 2))), later(1),
         ("broker-1", appended(0, (10,))), FIRST, ("broker-1", high_watermark(1))],
        [("broker-1", facts.Appended(T, 1, 0, 0, 1, -1, -1, -1, (20,))), later(3), answered(3, 2),
         later(1), answered(0.1)],
        [later(3), answered(3, 2), later(1), answered(0.1)],
    ),
    "VERIFYORDER a later batch overtakes": ([*LED, refuses(1)], [takes(1)], [takes(2)]),
    "VERIFYORDER another leadership": (
        [*LED, refuses(1)], [("broker-1", led(1)), takes(2)], [takes(2)],
    ),
    "EPOCHREASON a partition goes on with its sequences": ([*START], [begins(0)], [begins(4)]),
    "EXCL an owner that has not released, at another epoch": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0", "orders-1")],
        [owns("m1", 2, "orders-0"), owns("m2", 2, "orders-1")],
        [owns("m2", 2, "orders-1")],
    ),
    "EXCL a member is gone, which is told while the group is a classic one": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0")],
        [("broker-1", facts.GroupAssigned("billing", 2, "m1", ())), owns("m2", 2, "orders-0")],
        [("broker-1", facts.GroupAssigned("billing", 2, "m3", ())), owns("m2", 2, "orders-0")],
    ),
    "EXCL a coordinator that loads a group tells of it anew": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0")],
        [("broker-2", facts.CoordinatorLoaded(0, 2, True)),
         owns("m2", 2, "orders-0", node="broker-2")],
        [owns("m2", 2, "orders-0")],
    ),
    "EXCL a topic that is created again": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0")],
        [owns("m2", 2, "orders-0", id_="another")],
        [owns("m2", 2, "orders-0")],
    ),
    "EXCL what a deposed coordinator tells": (
        [OFFSETS, LOADED, owns("m1", 1, "orders-0")],
        [("broker-2", facts.CoordinatorLoaded(0, 2, True)), owns("m2", 2, "orders-0")],
        [owns("m2", 2, "orders-0")],
    ),
    "needless-eviction a member that was heard": ([], [expires(6)], [expires(3)]),
    "needless-rebalance a member that only asks again": (
        [OFFSETS, LOADED], [prepares(10)], [prepares(10, changes=False)],
    ),
    "long-rebalance three timeouts": ([OFFSETS, LOADED], [prepares(10)], [prepares(30)]),
}  # fmt: skip
