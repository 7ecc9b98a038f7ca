"""Each judge of needless harm on facts written by hand, at times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.harm.judges import HARM, Harm
from kafkasim.analysis.judging.harm.truth.nodes import Nodes
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import BrokerLimits
from kafkasim.model import facts
from tests.scenarios.dead_stories import DEAD_STORIES
from tests.scenarios.fact_makers import (
    FakeTrace,
    P,
    T,
    appended,
    changed,
    fetched,
    high_watermark,
    led,
    registration,
)
from tests.scenarios.raised_stories import RAISED_STORIES

Timed = tuple[float, str, Any]
"""When a fact is recorded, in seconds, by whom, and the fact."""

END = facts.Phase("end", "converged")
SECOND = 1_000_000


def limit(node: str, config: str, seconds: float) -> Timed:
    return 0, node, facts.TimeLimit(config, int(seconds * SECOND))


def shrink(t: float, *members: int, epoch: int = 0) -> Timed:
    return t, "broker-1", facts.IsrProposed(T, P, epoch, 1, "shrink", members)


def lagging(isr: tuple[int, ...]) -> facts.PartitionChanged:
    return facts.PartitionChanged(9, T, P, 1, 0, 9, isr, (1, 2, 3), "lag", False)


def replicated(base: int, end: int) -> facts.Replicated:
    return facts.Replicated(T, P, 0, 0, base, end)


def heartbeat(t: float, stops: bool = False, node: str = "controller-1") -> Timed:
    return t, node, facts.BrokerHeartbeat(2, 1, 5, False, stops)


def session_ended(t: float, node: str = "controller-1") -> Timed:
    return t, node, facts.SessionEnded(2, 1)


def active(t: float, node: str = "controller-1") -> Timed:
    return t, node, facts.ControllerActive(1, True)


def zk_session(t: float, event: str, node: str = "zookeeper-1", zxid: int = -1) -> Timed:
    return t, node, facts.ZooKeeperSession(9, event, "broker-2", "zookeeper-2", zxid)


def told_expired(t: float) -> list[Timed]:
    """The broker learns that its session has expired, and opens another one."""
    expired = facts.ZooKeeperConnection(9, "EXPIRED", "zookeeper-1")
    created = facts.ZooKeeperSession(10, "created", "broker-2", "zookeeper-2", 10)
    return [(t, "broker-2", expired), (t + 0.5, "zookeeper-2", created)]


def two_replicas(offset: int, isr: tuple[int, ...] = (1, 2)) -> facts.PartitionChanged:
    return facts.PartitionChanged(offset, T, P, 1, 0, offset, isr, (1, 2), "created", False)


def min_isr_set(t: float, value: int, topic: str = "orders") -> Timed:
    name = "min.insync.replicas"
    return t, "controller-1", facts.ConfigChanged(9, f"topic:{topic}", name, str(value))


def other_partition(pid: int) -> facts.Appended:
    return facts.Appended(T, 1, 0, 0, 1, pid, 0, 0, (11,))


def acked(t: float, after: float, *, acks: int = -1, attempts: int = 1, offset: int = 0) -> Timed:
    latency = int(after * SECOND)
    return t, "producer-1", facts.Acked(T, P, offset, (10,), acks, 7, 0, 0, latency, attempts)


def failed(t: float, after: float) -> Timed:
    latency = int(after * SECOND)
    return t, "producer-1", facts.SendFailed(T, P, (10,), "TIMED_OUT", True, latency, 1)


def unverified(t: float, sequence: int, epoch: int = 0) -> Timed:
    error = "NOT_ENOUGH_REPLICAS"
    return t, "broker-1", facts.BatchUnverified(T, P, 0, 7, epoch, sequence, error)


def sequenced(t: float, sequence: int, *, pid: int = 7, epoch: int = 0) -> Timed:
    return t, "broker-1", facts.Appended(T, P, 0, 0, 1, pid, epoch, sequence, ())


def reported(t: float, broker: int, offset: int, stops: bool = False) -> Timed:
    return t, "controller-1", facts.BrokerHeartbeat(broker, 1, offset, False, stops)


def learns(t: float, offset: int) -> Timed:
    return t, "broker-1", facts.MetadataCommitted(offset, 0, 0)


def read(t: float, epoch: int, *, only_leader: bool = False, leading: bool = False) -> Timed:
    return t, "broker-1", facts.ReadServed(T, P, epoch, "Fetch", -1, only_leader, leading)


def stats(t: float) -> Timed:
    return t, "broker-2", facts.RequestStats("Fetch", 1, 0, 1, 1, 1, 1, 1)


def roles(t: float) -> Timed:
    return t, "broker-1", facts.ControlRequest("LeaderAndIsr", 3, 1, "NONE")


def updated(t: float) -> Timed:
    return t, "broker-1", facts.ControlRequest("UpdateMetadata", 3, 1, "NONE")


def paused(t: float, node: str) -> Timed:
    return t, node, facts.HostPaused(SECOND)


def half_open(t: float, target: str) -> list[Timed]:
    return [(t, "world", facts.FaultStarted("half-open", target)),
            (t, "world", facts.FaultEnded("half-open", target))]  # fmt: skip


LED: list[Timed] = [
    limit("broker-1", "replica.lag.time.max.ms", 10),
    (0, "controller-1", changed(3, (1, 2, 3))),
    (1, "broker-1", led(0)), (5, "broker-1", appended(0, (10,))),
    (6, "broker-1", high_watermark(1, (1, 2))),
]  # fmt: skip
GREW: list[Timed] = [*LED, (6.1, "broker-1", appended(1, (11,)))]
TWICE: list[Timed] = [  # the high watermark waits for broker-3, while broker-2 keeps up
    *LED[:4],
    (5.1, "broker-2", replicated(0, 1)), (7, "broker-1", appended(1, (11,))),
    (7.1, "broker-2", replicated(1, 2)), (9, "broker-1", appended(2, (12,))),
    (9.1, "broker-2", replicated(2, 3)),
]  # fmt: skip
HEARD: list[Timed] = [
    limit("controller-1", "broker.session.timeout.ms", 9), active(1), heartbeat(5),
]  # fmt: skip
TOUCHED: list[Timed] = [
    limit("broker-2", "zookeeper.session.timeout.ms", 18),
    limit("zookeeper-1", "minSessionTimeout", 4), limit("zookeeper-1", "maxSessionTimeout", 12),
    (1, "zookeeper-1", facts.ZooKeeperRole("leading", 1, 1)), zk_session(5, "touched"),
]  # fmt: skip
ZK_REGISTERED: Timed = (
    6, "broker-1", facts.BrokerRegistration(3, 2, 3, "registered", False, False, "")
)  # fmt: skip
ZK_FENCED: Timed = (20, "broker-1", facts.BrokerRegistration(9, 2, 3, "fenced", True, False, ""))

WAITING: list[Timed] = [  # broker-1 and broker-2 hold offset 0, above the high watermark
    limit("broker-1", "replica.fetch.wait.max.ms", 0.5),
    (0, "controller-1", facts.TopicCreated(1, T, "orders", 1, 2, 1)),
    (0, "controller-1", two_replicas(3)), learns(1, 3), (1, "broker-1", led(0)),
    (5, "broker-1", appended(0, (10,))), (5.1, "broker-2", replicated(0, 1)),
]  # fmt: skip
BARRED: list[Timed] = [  # broker-3 joins no ISR, which broker-1 knows
    reported(0, 3, 3, stops=True), (0, "controller-1", registration(3, 3, "fenced", True)),
    learns(0.1, 3),
]  # fmt: skip
SHRUNK: list[Timed] = [  # the same; broker-3 is the third replica, and out of the ISR
    *WAITING[:2], *BARRED, (0, "controller-1", changed(3, (1, 2))), *WAITING[3:],
]  # fmt: skip
PRODUCED: list[Timed] = [
    (0, "broker-1", led(0)),
    (5, "broker-1", appended(0, (10,), pid=7)), (5, "broker-1", other_partition(7)),
    (6, "broker-1", high_watermark(1)),
]  # fmt: skip
MOVED: list[Timed] = [  # broker-1 leads no more from metadata offset 4 on
    (0, "controller-1", changed(3, (1, 2))), (1, "broker-1", led(0)),
    (5, "controller-1", changed(4, (1, 2), leader=2, epoch=1)),
]  # fmt: skip
ZK_CONTROLLER: list[Timed] = [
    (0, "zookeeper-1", facts.ZooKeeperRole("leading", 1, 1)),
    (0, "broker-3", facts.ControllerActive(1, True)),
]  # fmt: skip
MOVED_ZK: list[Timed] = [*ZK_CONTROLLER, *MOVED]
REMOVED_ZK: list[Timed] = [
    *ZK_CONTROLLER, (0, "broker-3", changed(3, (1, 2), leader=2)),
    (1, "broker-1", facts.BecameFollower(T, P, 0, 2, 0)),
    (5, "broker-3", facts.PartitionChanged(
        4, T, P, 2, 0, 3, (2,), (2, 3), "reassignment", False)),
]  # fmt: skip
STOPPING: list[Timed] = [
    limit("broker-1", "broker.heartbeat.interval.ms", 2),
    limit("broker-1", "broker.session.timeout.ms", 9),
    (0, "broker-1", facts.HostStarted(0)), (0, "broker-2", facts.HostStarted(0)),
    (0, "controller-1", facts.HostStarted(0)),
    (1, "controller-1", registration(1, 1)), (1, "controller-1", registration(2, 2)),
    (2, "controller-1", changed(3, (1, 2))),
    (9, "broker-1", facts.BrokerState("PENDING_CONTROLLED_SHUTDOWN")),
]  # fmt: skip

STOPS_TOO = facts.BrokerRegistration(4, 2, 1, "shutting-down", False, True, None)
STOPPING_ZK: list[Timed] = [  # the same in ZooKeeper mode, where broker-2 is the controller
    *[row for row in STOPPING[:-1] if row[1] != "controller-1"],
    (1, "broker-2", facts.ZkControllerWrite(1, 1, "/controller_epoch", 1)),
    (1, "broker-2", registration(1, 1)), (1, "broker-2", registration(2, 2)),
    (2, "broker-2", changed(3, (1, 2))), STOPPING[-1],
]  # fmt: skip

STORIES: dict[str, tuple[list[Timed], list[Timed], list[Timed]]] = {
    # name: what happened before, how it goes on well, how it goes on badly
    **DEAD_STORIES,
    **RAISED_STORIES,
    "LAGREASON the follower had everything a moment ago": (
        GREW, [shrink(16, 2)], [shrink(14, 2)],
    ),
    "LAGREASON a follower that keeps up beside one that does not": (
        TWICE, [shrink(16, 2), shrink(16, 3)], [shrink(14, 2)],
    ),
    "LAGREASON the leader's clock counts": (
        GREW,
        [(6, "broker-1", facts.ClockDrifted(500_000)), shrink(13, 2)],
        [(6, "broker-1", facts.ClockDrifted(-500_000)), shrink(16, 2)],
    ),
    "LAGREASON a new leadership knows of no progress": (
        LED, [(7, "broker-1", led(1, 1)), shrink(8, 2, epoch=1)], [shrink(8, 2)],
    ),
    "LAGREASON a replica that left and came back begins anew": (
        LED,
        [(7, "controller-1", facts.PartitionChanged(
            4, T, P, 1, 0, 4, (1,), (1, 3), "reassignment", False)), shrink(8, 2)],
        [(7, "controller-1", changed(4, (1, 2))), shrink(8, 2)],
    ),
    "LAGREASON a follower that has everything, however long it is silent": (
        LED, [(20, "broker-1", appended(1, (11,))), shrink(60, 2)], [shrink(60, 2)],
    ),
    "LAGREASON a follower that started again may have lost records": (
        LED,
        [(30, "broker-2", facts.HostStarted(1)), shrink(60, 2)],
        [(30, "broker-3", facts.HostStarted(1)), shrink(60, 2)],
    ),
    "LAGREASON a follower that truncated has less": (
        LED,
        [(30, "broker-2", facts.Truncated(T, P, 0, 1, 0)), shrink(60, 2)],
        [(30, "broker-3", facts.Truncated(T, P, 0, 1, 0)), shrink(60, 2)],
    ),
    "LAGREASON no leader had decided so": (
        GREW, [shrink(16, 2), (17, "controller-1", lagging((1, 3)))],
        [(17, "controller-1", lagging((1, 3)))],
    ),
    "LAGREASON the shrink raises the leader epoch, as before metadata version 3.6-IV0": (
        GREW,
        [shrink(16, 2), (17, "controller-1", replace(lagging((1, 3)), leader_epoch=1))],
        [(17, "controller-1", replace(lagging((1, 3)), leader_epoch=1))],
    ),
    "FENCEREASON a session ends early": (HEARD, [session_ended(14)], [session_ended(13.5)]),
    "FENCEREASON a new controller begins all sessions anew": (
        [*HEARD, limit("controller-2", "broker.session.timeout.ms", 9), active(10, "controller-2")],
        [session_ended(19, "controller-2")], [session_ended(15, "controller-2")],
    ),
    "FENCEREASON the controller's clock counts": (
        [*HEARD, (5, "controller-1", facts.ClockDrifted(500_000))],
        [session_ended(12)], [session_ended(10)],
    ),
    "FENCEREASON fenced without a reason": (
        [*HEARD, (6, "controller-1", registration(3, 2))],
        [heartbeat(7, stops=True), (8, "controller-1", registration(4, 2, "fenced", True))],
        [heartbeat(7), (8, "controller-1", registration(4, 2, "fenced", True))],
    ),
    "FENCEREASON an unfencing that waited for a disk": (
        [*HEARD, session_ended(14), (15, "controller-1", registration(3, 2))],
        [(16, "controller-1", registration(4, 2, "fenced", True))],
        [(16, "controller-1", registration(4, 2, "fenced", True)), heartbeat(17),
         (18, "controller-1", registration(5, 2)),
         (19, "controller-1", registration(6, 2, "fenced", True))],
    ),
    "FENCEREASON two sessions end before a disk writes": (
        [*HEARD, session_ended(14), heartbeat(15), session_ended(24), heartbeat(25),
         *[(26, "controller-1", each) for each in (
             registration(3, 2), registration(4, 2, "fenced", True), registration(5, 2),
             registration(6, 2, "fenced", True), registration(7, 2))]],
        [session_ended(35), (36, "controller-1", registration(8, 2, "fenced", True))],
        [(36, "controller-1", registration(8, 2, "fenced", True))],
    ),
    "FENCEREASON the broker before had the session that ended": (
        [*HEARD, session_ended(14), heartbeat(15)],
        [(16, "controller-1", registration(4, 2, "fenced", True))],
        [(16, "controller-1", facts.BrokerRegistration(4, 2, 9, "fenced", True, False, None))],
    ),
    "FENCEREASON a ZooKeeper broker is given up": (
        [*TOUCHED,
         (6, "broker-1", facts.BrokerRegistration(3, 2, 3, "registered", False, False, "")),
         zk_session(18, "expired", zxid=8),
         (19, "broker-1", facts.BrokerRegistration(9, 2, 3, "fenced", True, False, ""))],
        [], [(20, "broker-1", facts.BrokerRegistration(12, 2, 11, "fenced", True, False, ""))],
    ),
    "FENCEREASON the ensemble told the broker of an end that was never committed": (
        [*TOUCHED, ZK_REGISTERED, zk_session(18, "expiring"), *told_expired(18.1)],
        [(20, "broker-1", facts.BrokerRegistration(9, 2, 3, "fenced", True, False, ""))],
        [(20, "broker-1", facts.BrokerRegistration(12, 2, 11, "fenced", True, False, ""))],
    ),
    "FENCEREASON the session of which the broker was told was to end": (
        [*TOUCHED, ZK_REGISTERED],
        [zk_session(18, "expiring"), *told_expired(18.1), ZK_FENCED],
        [*told_expired(18.1), ZK_FENCED],
    ),
    "FENCEREASON the broker was told of the end of its session": (
        [*TOUCHED, ZK_REGISTERED, zk_session(18, "expiring")],
        [*told_expired(18.1), ZK_FENCED],
        [*told_expired(18.1)[1:], ZK_FENCED],
    ),
    "FENCEREASON a ZooKeeper session ends early": (
        TOUCHED, [zk_session(17.5, "expiring")], [zk_session(16, "expiring")],
    ),
    "FENCEREASON another leader of the ensemble was not touched": (
        [*TOUCHED, limit("zookeeper-2", "minSessionTimeout", 4),
         limit("zookeeper-2", "maxSessionTimeout", 12),
         (9, "zookeeper-2", facts.ZooKeeperRole("leading", 2, 2))],
        [zk_session(21, "expiring", "zookeeper-2")], [zk_session(17, "expiring", "zookeeper-2")],
    ),
    "HWSTALL all have more": (
        WAITING,
        [(6, "broker-1", high_watermark(1)), (9, "world", END)],
        [(9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL by the end": (
        WAITING,
        [(6, "world", END)], [(7, "world", END)],
    ),
    "HWSTALL the leader's log is deleted": (
        WAITING,
        [(6, "broker-1", facts.LogDeleted(T, P, 1)), (9, "world", END)],
        [(9, "broker-1", facts.LogDeleted(T, P, 1)), (9, "world", END)],
    ),
    "HWSTALL another log is deleted": (
        WAITING,
        [(6, "broker-2", facts.LogDeleted(T, P, 1)), (6, "world", END)],
        [(6, "broker-2", facts.LogDeleted(T, P, 1)), (9, "world", END)],
    ),
    "HWSTALL a member that is paused": (
        WAITING,
        [paused(5.2, "broker-2"), (9, "broker-1", high_watermark(1))],
        [paused(5.2, "broker-3"), (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL a connection died unseen as the partition was new": (
        [*WAITING[:2], (4.5, "controller-1", two_replicas(3)), *WAITING[3:]],
        [*half_open(5.2, "broker-1|broker-2"), (9, "broker-1", high_watermark(1))],
        [*half_open(5.2, "broker-1|broker-3")[1:], (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL the first of two members is cut off before the last has more": (
        [*WAITING[:2], (0, "controller-1", changed(3, (1, 2, 3))), *WAITING[3:]],
        [*half_open(5.2, "broker-1|broker-2"), (5.3, "broker-3", replicated(0, 1)),
         (9, "broker-1", high_watermark(1))],
        [(5.3, "broker-3", replicated(0, 1)), (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL a replica that may join is waited for": (
        [*WAITING[:2], (0, "controller-1", two_replicas(3, (1,))), *WAITING[3:]],
        [(9, "broker-1", high_watermark(1))],
        [reported(0, 2, 3, stops=True),
         (0, "controller-1", registration(5, 2, "fenced", True)), learns(0.1, 5),
         (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL the leader has not heard that a replica which may join is fenced": (
        [*WAITING[:2], (0, "controller-1", changed(3, (1, 2))), *WAITING[3:5],
         reported(4, 3, 3, stops=True), (4, "controller-1", registration(5, 3, "fenced", True)),
         WAITING[5]],
        [WAITING[6], learns(5.2, 5), (9, "broker-1", high_watermark(1))],
        [learns(5, 5), WAITING[6], (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL a ZooKeeper controller's leader has not heard that a replica is fenced": (
        [*WAITING[:2], (0, "broker-3", changed(3, (1, 2))), updated(0), roles(1), *WAITING[4:5],
         reported(4, 3, 3, stops=True), (4, "broker-3", registration(5, 3, "fenced", True)),
         WAITING[5]],
        [WAITING[6], updated(5.2), (9, "broker-1", high_watermark(1))],
        [updated(5), WAITING[6], (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL the leader has not heard that the ISR is smaller": (
        [*WAITING[:2], (0, "controller-1", changed(3, (1, 2, 3))), *BARRED, *WAITING[3:],
         (5.2, "controller-1", changed(4, (1, 2)))],
        [learns(9, 4), (9, "broker-1", high_watermark(1))],
        [learns(5.7, 4), (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL a ZooKeeper controller's leader has not heard that the ISR is smaller": (
        [*WAITING[:2], (0, "broker-3", changed(3, (1, 2, 3))), *BARRED, roles(1), *WAITING[4:],
         (5.2, "broker-3", changed(4, (1, 2)))],
        [roles(9), (9, "broker-1", high_watermark(1))],
        [roles(5.3), (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL min.insync.replicas was raised before the leader moved its high watermark": (
        [*SHRUNK[:4], min_isr_set(0.5, 3), *SHRUNK[4:]],
        [(9, "broker-1", high_watermark(1))],
        [min_isr_set(0.7, 1), (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL min.insync.replicas was raised for another topic": (
        SHRUNK,
        [min_isr_set(5, 3), (9, "broker-1", high_watermark(1))],
        [min_isr_set(5, 3, "payments"), (9, "broker-1", high_watermark(1))],
    ),
    "HWSTALL the leader's own change of the ISR": (
        [*BARRED, *WAITING, (5.2, "broker-1", facts.IsrProposed(T, P, 0, 3, "shrink", (3,))),
         (5.3, "controller-1", changed(4, (1, 2)))],
        [(9, "broker-1", high_watermark(1))],
        [(5.4, "broker-1", facts.IsrChanged(T, P, 0, 4, "shrink", (3,), (1, 2))),
         (9, "broker-1", high_watermark(1))],
    ),
    "ACKLATE the high watermark has passed": (
        [PRODUCED[0], PRODUCED[1], PRODUCED[3]], [acked(6.5, 1.6)], [acked(7.5, 2.6)],
    ),
    "ACKLATE one request waits for all its partitions": (
        [*PRODUCED[:1], (0, "broker-1", facts.BecameLeader(T, 1, 0, 0, 0, 0, (1,))), *PRODUCED[1:]],
        [(8, "broker-1", facts.HighWatermark(T, 1, 0, 1, 1, (1, 2))), acked(8.5, 3.6)],
        [(6, "broker-1", facts.HighWatermark(T, 1, 0, 1, 1, (1, 2))), acked(8.5, 3.6)],
    ),
    "ACKLATE one request waits for a batch that was sent again": (
        [PRODUCED[0], (0, "broker-1", facts.BecameLeader(T, 1, 0, 0, 0, 0, (1,))),
         (3, "broker-1", other_partition(7)), PRODUCED[1], PRODUCED[3]],
        [(8, "broker-1", facts.HighWatermark(T, 1, 0, 1, 1, (1, 2))), acked(8.5, 3.6)],
        [(3.9, "broker-1", facts.HighWatermark(T, 1, 0, 1, 1, (1, 2))), acked(8.5, 3.6)],
    ),
    "ACKLATE one request waits for a batch that the leader has from another one": (
        [PRODUCED[0], (0, "broker-2", facts.BecameLeader(T, 1, 0, 0, 0, 0, (1,))),
         (2, "broker-2", other_partition(7)),
         (3, "broker-1", facts.BecameLeader(T, 1, 1, 0, 1, 0, (1, 2))), PRODUCED[1], PRODUCED[3]],
        [(8, "broker-1", facts.HighWatermark(T, 1, 1, 1, 1, (1, 2))), acked(8.5, 3.6)],
        [(3.9, "broker-1", facts.HighWatermark(T, 1, 1, 1, 1, (1, 2))), acked(8.5, 3.6)],
    ),
    "ACKLATE acks=1 does not wait": (
        PRODUCED[:2], [acked(5.9, 1.1, acks=1)], [acked(6.5, 1.6, acks=1)],
    ),
    "ACKLATE a deposed leader answers for a batch of its own": (
        [(0, "broker-2", led(0)), (1, "broker-1", led(1)),
         (2, "broker-1", appended(0, (9,), 1)), (2, "broker-1", appended(1, (10,), 1))],
        [(8, "broker-2", appended(0, (10,))), acked(8.1, 7, acks=1)],
        [acked(8.1, 7, acks=1, offset=1)],
    ),
    "ACKLATE the producer was paused": (
        [PRODUCED[0], PRODUCED[1], PRODUCED[3]],
        [paused(6.1, "producer-1"), acked(9, 4.1)], [paused(6.1, "producer-2"), acked(9, 4.1)],
    ),
    "ACKLATE the leader throttles the producer": (
        [PRODUCED[0], PRODUCED[1], PRODUCED[3]],
        [(6.1, "broker-1", facts.Throttled("producer-1", "Produce", 2000)), acked(9, 4.1)],
        [(4.1, "broker-1", facts.Throttled("producer-1", "Produce", 700)),
         (6.1, "broker-1", facts.Throttled("producer-2", "Produce", 2000)),
         (6.1, "broker-2", facts.Throttled("producer-1", "Produce", 2000)), acked(9, 4.1)],
    ),
    "ACKLATE a retry after the ISR changed": (
        [limit("producer-1", "request.timeout.ms", 30), PRODUCED[0], PRODUCED[1], PRODUCED[3]],
        [(7, "controller-1", changed(9, (1,))), acked(12, 7.1, attempts=2)],
        [acked(12, 7.1, attempts=2)],
    ),
    "ACKLATE a retry behind a request that has waited for long": (
        [limit("producer-1", "request.timeout.ms", 30), PRODUCED[0],
         (0, "broker-1", facts.BecameLeader(T, 1, 0, 0, 0, 0, (1,))), PRODUCED[1], PRODUCED[3]],
        [(9, "broker-1", other_partition(7)), acked(12, 7.1, attempts=2)],
        [(11.9, "broker-1", other_partition(7)), acked(12, 7.1, attempts=2)],
    ),
    "ACKLATE never": (
        [limit("producer-1", "request.timeout.ms", 1), PRODUCED[0], PRODUCED[1], PRODUCED[3]],
        [failed(9, 4.1)], [failed(11, 6.1)],
    ),
    "VERIFYORDER a batch waits for its verification": (
        [(0, "broker-1", led(0)), unverified(1, 0)],
        [sequenced(2, 0), sequenced(2, 1)],
        [sequenced(2, 1)],
    ),
    "VERIFYORDER the lowest of those that wait comes first": (
        [(0, "broker-1", led(0)), unverified(1, 1), unverified(1, 0), unverified(1, 2)],
        [sequenced(2, 0), sequenced(2, 1)],
        [sequenced(2, 1)],
    ),
    "VERIFYORDER a marker ends the transaction": (
        [(0, "broker-1", led(0)), unverified(1, 0)],
        [sequenced(2, -1), sequenced(3, 1)],
        [sequenced(2, 0, pid=8), sequenced(3, 1)],
    ),
    "VERIFYORDER a later epoch begins anew": (
        [(0, "broker-1", led(0)), unverified(1, 3), unverified(1, 1, 1), unverified(1, 0)],
        [sequenced(2, 1, epoch=1)],
        [sequenced(2, 2, epoch=1)],
    ),
    "VERIFYORDER another leader knows nothing of it": (
        [(0, "broker-1", led(0)), unverified(1, 0)],
        [(2, "broker-1", led(1)), sequenced(3, 1)],
        [(2, "broker-2", led(1)), sequenced(3, 1)],
    ),
    "VERIFYORDER the leader has forgotten what waits": (
        [(0, "broker-1", led(0)), unverified(1, 0)],
        [sequenced(86_400, 1)],
        [sequenced(86_399, 1)],
    ),
    "STALESERVE a leader that knows better": (
        MOVED, [reported(6, 1, 3), (6.1, "broker-1", appended(0, (10,)))],
        [reported(6, 1, 4), (6.1, "broker-1", appended(0, (10,)))],
    ),
    "STALESERVE a leader that follows": (
        MOVED, [(6.1, "broker-1", appended(0, (10,)))],
        [(6, "broker-1", facts.BecameFollower(T, P, 1, 2, 0)),
         (6.1, "broker-1", appended(0, (10,)))],
    ),
    "STALESERVE metadata that does not spread": (
        MOVED, [reported(6.4, 1, 3)], [reported(6.6, 1, 3)],
    ),
    "STALESERVE metadata of a broker that was paused": (
        [(0, "broker-1", facts.HostStarted(0)), *MOVED, paused(5.1, "broker-1"),
         (6, "broker-1", facts.HostResumed())],
        [reported(8, 1, 3)],
        [reported(7, 1, 4), (7.1, "broker-1", appended(0, (10,)))],
    ),
    "STALESERVE a replica that was removed": (
        [(0, "controller-1", changed(3, (1, 2))), (1, "broker-1", led(0)),
         (5, "controller-1", facts.PartitionChanged(
             4, T, P, 1, 0, 4, (1,), (1, 3), "reassignment", False))],
        [(6, "broker-2", replicated(0, 1)), reported(7, 2, 4)],
        [reported(6, 2, 4), (7, "broker-2", replicated(0, 1))],
    ),
    "STALESERVE a replica that was deposed before it was removed": (
        [*MOVED,
         (5.1, "controller-1", facts.PartitionChanged(
             5, T, P, 2, 2, 5, (2,), (2, 3), "reassignment", False))],
        [reported(6, 1, 4), (6.1, "broker-1", replicated(0, 1))],
        [reported(6, 1, 5), (6.1, "broker-1", replicated(0, 1))],
    ),
    "STALESERVE a coordinator that was deposed": (
        [(0, "controller-1", facts.TopicCreated(1, T, "__consumer_offsets", 1, 3, 1)), *MOVED,
         reported(6, 1, 4)],
        [(7, "broker-1", fetched(3, epoch=1))], [(7, "broker-1", fetched(3, epoch=0))],
    ),
    "STALESERVE a leader that answers reads though it has applied its loss": (
        MOVED, [read(5.9, 1)], [read(5.9, 0, leading=True)],
    ),
    "STALESERVE reads of a leader that knows better": (
        [*MOVED, (6, "broker-1", facts.BecameFollower(T, P, 1, 2, 0))],
        [read(6.1, 1)], [read(6.1, 0)],
    ),
    "STALESERVE reads that a follower may answer and may not": (
        MOVED, [read(6, 1)], [read(6, 1, only_leader=True)],
    ),
    "STALESERVE reads of a replica that was removed": (
        [*MOVED,
         (5.1, "controller-1", facts.PartitionChanged(
             5, T, P, 2, 2, 5, (2,), (2, 3), "reassignment", False))],
        [read(6, 2)], [reported(6, 1, 5), read(6, 2)],
    ),
    "STALESERVE reads of a replica that was deleted": (
        [*MOVED,
         (5.1, "controller-1", facts.PartitionChanged(
             5, T, P, 2, 2, 5, (2,), (2, 3), "reassignment", False)),
         (6, "broker-1", facts.LogDeleted(T, P, 0))],
        [(7, "controller-1", facts.PartitionChanged(
            6, T, P, 2, 3, 6, (2,), (2, 1), "reassignment", False)), read(8, 3)],
        [read(8, 2)],
    ),
    "STALESERVE metadata once a pause has healed": (
        [*MOVED, paused(5.1, "broker-1"), (6, "broker-1", facts.HostResumed())],
        [reported(12.4, 1, 3)], [reported(12.6, 1, 3)],
    ),
    "STALESERVE in ZooKeeper mode a LeaderAndIsr that never comes": (
        MOVED_ZK, [(6, "broker-1", facts.BecameFollower(T, P, 1, 2, 0)), stats(7)], [stats(7)],
    ),
    "STALESERVE in ZooKeeper mode a new controller tells it again": (
        [*MOVED_ZK, (6, "broker-3", facts.ControllerActive(2, True))], [stats(7)], [stats(7.2)],
    ),
    "STALESERVE in ZooKeeper mode nothing is sent while no controller is elected": (
        [*MOVED_ZK, (5.5, "broker-3", facts.HostStopped("crash"))],
        [stats(7)], [(8, "broker-2", facts.ControllerActive(2, True)), stats(9.2)],
    ),
    "STALESERVE in ZooKeeper mode nothing is sent to a broker without a session": (
        [*MOVED_ZK, (5.5, "zookeeper-1", facts.ZooKeeperSession(9, "expired", "broker-1", "", 9))],
        [stats(8)], [(8, "broker-3", registration(9, 1, "registered")), stats(9.2)],
    ),
    "STALESERVE in ZooKeeper mode a leader stays one while there is none": (
        [*MOVED_ZK], [(5.5, "broker-3", facts.PartitionChanged(
            5, T, P, -1, 2, 5, (2,), (1, 2), "fenced", False)), stats(7)],
        [stats(7)],
    ),
    "STALESERVE in ZooKeeper mode a paused server of the ensemble": (
        MOVED_ZK, [paused(5.5, "zookeeper-1"), stats(9)], [paused(5.5, "broker-4"), stats(9)],
    ),
    "STALESERVE in ZooKeeper mode a link that has healed": (
        [*MOVED_ZK, (5.1, "world", facts.FaultStarted("partition", "broker-1|broker-3")),
         (6, "world", facts.FaultEnded("partition", "broker-1|broker-3"))],
        [stats(37)], [stats(37.2)],
    ),
    "STALESERVE in ZooKeeper mode a connection that died long before it was used": (
        [(0, "world", facts.FaultStarted("half-open", "broker-1|broker-3")),
         (0, "world", facts.FaultEnded("half-open", "broker-1|broker-3")), *MOVED_ZK],
        [stats(36)],
        [(4, "broker-1", facts.ControlRequest("UpdateMetadata", 3, 1, "NONE")), stats(36)],
    ),
    "STALESERVE in ZooKeeper mode a replica that is not deleted": (
        REMOVED_ZK, [(6, "broker-1", facts.LogDeleted(T, P, 0)), stats(7)], [stats(7)],
    ),
    "STALESERVE in ZooKeeper mode a stray of an earlier controller": (
        REMOVED_ZK, [(5.5, "broker-3", facts.ControllerActive(2, True)), stats(7)], [stats(7)],
    ),
    "STALESERVE in ZooKeeper mode a replica of a topic that is deleted": (
        REMOVED_ZK, [(5.5, "broker-3", facts.TopicDeleted(7, T, "orders")), stats(7)], [stats(7)],
    ),
    "SHUTDOWNENDS the controller does not let go": (
        STOPPING, [(14, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
        [(15, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
    ),
    "SHUTDOWNENDS it is seen while it lasts": (
        STOPPING, [reported(14, 1, 3, stops=True)], [reported(15, 1, 3, stops=True)],
    ),
    "SHUTDOWNENDS nobody can take over": (
        STOPPING,
        [reported(10, 2, 3, stops=True),
         (10, "controller-1", registration(4, 2, "fenced", True)),
         reported(20, 1, 3, stops=True)],
        [reported(20, 1, 3, stops=True)],
    ),
    "SHUTDOWNENDS another broker is paused until it is fenced": (
        [*STOPPING, paused(8, "broker-2")],
        [reported(25, 1, 3, stops=True)], [reported(28, 1, 3, stops=True)],
    ),
    "SHUTDOWNENDS another broker heartbeats on and its disk is slow": (
        [*STOPPING, (9, "controller-1", facts.BrokerRegistration(4, 1, 1, "", False, True, None)),
         (9, "world", facts.FaultStarted("slow-disk", "broker-2"))],
        [item for t in (12, 18, 24, 30)
         for item in (reported(t, 2, 3), reported(t + 1, 1, 4, stops=True))],
        [item for t in (12, 18, 24, 30)
         for item in (reported(t, 2, 4), reported(t + 1, 1, 4, stops=True))],
    ),
    "SHUTDOWNENDS another broker heartbeats on and does not replay": (
        [*STOPPING, (9, "controller-1", facts.BrokerRegistration(4, 1, 1, "", False, True, None))],
        [reported(10, 2, 3), reported(14, 1, 4, stops=True)],
        [reported(10, 2, 3), reported(15, 1, 4, stops=True)],
    ),
    "SHUTDOWNENDS nobody lets an unregistered broker go": (
        STOPPING,
        [(14, "controller-1", registration(4, 1, "unregistered")),
         (60, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
        [(15, "controller-1", registration(4, 1, "unregistered")),
         (60, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
    ),
    "SHUTDOWNENDS a broker was unregistered and has registered again": (
        [(0, "controller-1", registration(0, 1, "unregistered")),
         (0, "controller-1", registration(2, 1, "registered")), *STOPPING],
        [(14, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
        [(15, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
    ),
    "SHUTDOWNENDS a ZooKeeper controller agrees to the first request": (
        STOPPING_ZK, [(10.5, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
        [(10.6, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
    ),
    "SHUTDOWNENDS a ZooKeeper controller agrees once there is a successor": (
        [*STOPPING_ZK, (9, "broker-2", STOPS_TOO),
         (12, "broker-2", registration(5, 2))],
        [(18.5, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
        [(18.6, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
    ),
    "SHUTDOWNENDS in ZooKeeper mode a broker stops after its last attempt": (
        [*STOPPING_ZK, (9, "broker-2", STOPS_TOO)],
        [(23.5, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
        [(23.6, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
    ),
    "SHUTDOWNENDS in ZooKeeper mode any server may be the controller": (
        STOPPING_ZK,
        [paused(9.5, "broker-2"), (12, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
        [paused(9.5, "producer-1"), (12, "broker-1", facts.BrokerState("SHUTTING_DOWN"))],
    ),
    "SHUTDOWNENDS in ZooKeeper mode it is seen at the end": (
        STOPPING_ZK,
        [(10, "world", END)], [(12, "world", END)],
    ),
    "SHUTDOWNENDS the controller is paused": (
        STOPPING, [paused(10, "controller-1"), reported(28, 1, 3, stops=True)],
        [reported(28, 1, 3, stops=True)],
    ),
}  # fmt: skip


def judge(rows: Sequence[Timed]) -> list[str]:
    """Return the invariants that the facts break."""
    trace = FakeTrace()
    history = History(trace, lambda _topic: False)
    findings = Findings(history)
    cluster = TracedCluster(trace, history, findings)
    Harm(cluster, BrokerLimits(5_000_000, 3_000_000, 60_000_000))
    trace.subscribe(facts.TopicCreated, lambda *fact: cluster.topics.update({T: fact[3]}))
    for t, node, fact in rows:
        trace.record([(node, fact)], int(t * SECOND))
    return [found.name for found in findings.all]


def test_every_judge_has_a_story() -> None:
    assert {story.split()[0] for story in STORIES} == {*HARM}


@pytest.mark.parametrize("story", STORIES)
def test_facts_with_a_reason(story: str) -> None:
    before, good, _ = STORIES[story]
    assert judge([*before, *good]) == []


@pytest.mark.parametrize("story", STORIES)
def test_facts_without_one(story: str) -> None:
    before, _, bad = STORIES[story]
    assert judge([*before, *bad]) == [story.split()[0]]


def test_offsets_out_of_order_are_seen_while_the_run_goes_on() -> None:
    rows: list[Timed] = [
        (1, "broker-1", facts.LogStart(T, P, 3, "leader", 2, 5)),
        (2, "broker-1", facts.LogStart(T, P, 3, "leader", 3, 5)),
        (3, "broker-1", facts.LogLoaded(T, P, 0, 4, 5, True)),
    ]
    assert judge(rows) == ["LOGORDER", "LOGORDER"]


def test_a_wait_counts_on_the_clock_of_the_node() -> None:
    trace = FakeTrace()
    nodes = Nodes(trace)
    for t, drift in ((10, 500_000), (20, 0), (30, -500_000)):
        trace.record([("broker-1", facts.ClockDrifted(drift))], t)
    spans = [(0, 10), (0, 20), (15, 25), (0, 40), (25, 50), (32, 36)]
    assert [nodes.elapsed_us("broker-1", *span) for span in spans] == [10, 25, 12, 40, 15, 2]
    assert nodes.elapsed_us("broker-2", 0, 40) == 40
