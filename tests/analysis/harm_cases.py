"""Cases of the checks of needless harm, as in test_checks.py: rows, and what they violate.

Rows are a second apart.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model import facts
from tests.analysis.analysis_rows import Case, T, led, mark, registered, zk_write

LAG = "replica.lag.time.max.ms"
SESSION = "broker.session.timeout.ms"
QUIET = ("world", facts.ClockStepped(0))
"""A row that says nothing: a second passes."""


def limit(node: str, config: str, seconds: int) -> tuple[str, Any]:
    return node, facts.TimeLimit(config, seconds * 1_000_000)


def grown(end: int) -> tuple[str, Any]:
    return "broker-1", facts.Appended(T, 0, 1, end - 1, end, -1, -1, -1, ())


def heartbeat(broker: int, stops: bool = False) -> tuple[str, Any]:
    return "controller-1", facts.BrokerHeartbeat(broker, 7, 5, False, stops)


def zk_session(event: str, zxid: int = -1) -> tuple[str, Any]:
    return "zookeeper-1", facts.ZooKeeperSession(9, event, "broker-2", "zookeeper-2", zxid)


def change(offset: int, what: str) -> tuple[str, Any]:
    fact = facts.BrokerRegistration(offset, 2, 7, what, what == "fenced", False, None)
    return "controller-1", fact


UNFENCED, FENCED = change(8, "unfenced"), change(9, "fenced")
SHRINK = ("broker-1", facts.IsrProposed(T, 0, 1, 1, "shrink", (2,)))
LED = [limit("broker-1", LAG, 4), led(1, 1, 0), grown(1), mark(1, by=(1, 2))]
ENDED = ("controller-1", facts.SessionEnded(2, 7))
HEARD = [limit("controller-1", SESSION, 3), ("controller-1", facts.ControllerActive(1, True)),
         registered(2), heartbeat(2)]  # fmt: skip
TOUCHED = [limit("broker-2", "zookeeper.session.timeout.ms", 1),
           limit("zookeeper-1", "minSessionTimeout", 3),
           limit("zookeeper-1", "maxSessionTimeout", 9), zk_session("created", 4),
           ("zookeeper-1", facts.ZooKeeperRole("leading", 1, 1)),
           zk_session("touched")]  # fmt: skip
TOLD_EXPIRED = ("broker-2", facts.ZooKeeperConnection(9, "EXPIRED", "zookeeper-1"))
NEXT_SESSION = (
    "zookeeper-2", facts.ZooKeeperSession(10, "created", "broker-2", "zookeeper-2", 10)
)  # fmt: skip


def leads(leader: int, epoch: int, offset: int) -> tuple[str, Any]:
    fact = facts.PartitionChanged(
        offset, T, 0, leader, epoch, epoch, (1, 2), (1, 2), "preferred", False
    )
    return "controller-1", fact


def knows(offset: int) -> tuple[str, Any]:
    return "controller-1", facts.BrokerHeartbeat(1, 7, offset, False, False)


DEPOSED = [registered(1), registered(2), leads(1, 1, 4), leads(2, 2, 5)]
FOLLOWS = ("broker-1", facts.BecameFollower(T, 0, 2, 2, 0))


def read(epoch: int, *, only_leader: bool = False, leading: bool = False) -> tuple[str, Any]:
    return "broker-1", facts.ReadServed(T, 0, epoch, "Fetch", -1, only_leader, leading)


def replicas(offset: int, *brokers: int, by: str = "controller-1") -> tuple[str, Any]:
    fact = facts.PartitionChanged(offset, T, 0, 2, 1, offset, (2,), brokers, "reassignment", False)
    return by, fact


REMOVED = [registered(2), replicas(4, 1, 2), replicas(5, 2, 3)]
FETCHED = ("broker-1", facts.Replicated(T, 0, 1, 1, 0, 1))
OFFSETS = ("controller-1", facts.TopicCreated(1, T, "__consumer_offsets", 1, 2, 1))
END = ("world", facts.Phase("end", "converged"))
ZK = [zk_write(1), ("broker-2", facts.ControllerActive(1, True))]
ZK_DEPOSED = [*ZK, leads(1, 1, 4), led(1, 1, 0), leads(2, 2, 5)]
ZK_DIED = [  # a connection to the controller on broker-2, which nobody uses for long
    *ZK, ("world", facts.FaultStarted("half-open", "broker-1|broker-2")),
    ("world", facts.FaultEnded("half-open", "broker-1|broker-2")), *[QUIET] * 40,
    ("broker-2", leads(1, 1, 4)[1]), led(1, 1, 0),
]  # fmt: skip
ZK_REMOVED = [
    *ZK, replicas(4, 1, 2), ("broker-1", facts.BecameFollower(T, 0, 1, 2, 0)), replicas(5, 2, 3)
]  # fmt: skip


def commits(epoch: int) -> tuple[str, Any]:
    return "broker-1", facts.OffsetCommitted("billing", "orders", 0, 1, 1, "m", epoch, 1)


HARM_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "removed at once": ([*LED, grown(2), SHRINK], {"LAGREASON": 1}),
    "removed for lag": ([*LED, grown(2), QUIET, QUIET, SHRINK], {}),
    "removed though it has everything": ([*LED, *[QUIET] * 5, SHRINK], {"LAGREASON": 1}),
    "removed after it started again": (
        [*LED, ("broker-2", facts.HostStarted(1)), *[QUIET] * 5, SHRINK], {}),
    "removed by a leader whose clock is fast": (
        [*LED, grown(2), ("broker-1", facts.ClockDrifted(900_000)), SHRINK], {}),
    "removed in an epoch in which it has not fetched": (
        [*LED, led(1, 2, 1), ("broker-1", facts.IsrProposed(T, 0, 2, 1, "shrink", (2,)))], {}),
    "fenced early": ([*HEARD, QUIET, ENDED], {"FENCEREASON": 1}),
    "fenced by a controller that is new": (
        [*HEARD, QUIET, QUIET, ("controller-1", facts.ControllerActive(3, True)), ENDED],
        {"FENCEREASON": 1}),
    "fenced after a session": (
        [*HEARD, QUIET, QUIET, ENDED, FENCED], {}),
    "fenced as it stops": ([*HEARD, UNFENCED, heartbeat(2, True), FENCED], {}),
    "fenced without a reason": ([*HEARD, UNFENCED, FENCED], {"FENCEREASON": 1}),
    "fenced twice, as two sessions ended before a disk wrote": (
        [*HEARD, QUIET, QUIET, ENDED, heartbeat(2), QUIET, QUIET, ENDED, heartbeat(2),
         change(8, "unfenced"), change(9, "fenced"), change(10, "unfenced"), change(11, "fenced"),
         change(12, "unfenced")], {}),
    "fenced three times, as two sessions ended before a disk wrote": (
        [*HEARD, QUIET, QUIET, ENDED, heartbeat(2), QUIET, QUIET, ENDED, heartbeat(2),
         change(8, "unfenced"), change(9, "fenced"), change(10, "unfenced"), change(11, "fenced"),
         change(12, "unfenced"), change(13, "fenced")], {"FENCEREASON": 1}),
    "a broker of ZooKeeper that is given up": (
        [*TOUCHED, QUIET, QUIET, zk_session("expiring"), zk_session("expired", 8), FENCED], {}),
    "a broker of ZooKeeper that is given up without an end": (
        [*TOUCHED, QUIET, QUIET, zk_session("expiring"), zk_session("expired", 6), FENCED],
        {"FENCEREASON": 1}),
    "a broker of ZooKeeper that was told of an end that was never committed": (
        [*TOUCHED, QUIET, QUIET, zk_session("expiring"), TOLD_EXPIRED, NEXT_SESSION, FENCED], {}),
    "a broker of ZooKeeper that is given up in its next session": (
        [*TOUCHED, QUIET, QUIET, zk_session("expiring"), TOLD_EXPIRED, NEXT_SESSION,
         ("broker-1", facts.BrokerRegistration(12, 2, 11, "fenced", True, False, ""))],
        {"FENCEREASON": 1}),
    "a broker of ZooKeeper that was told of an end that nobody proposed": (
        [*TOUCHED, QUIET, QUIET, TOLD_EXPIRED, zk_session("expiring"), NEXT_SESSION, FENCED],
        {"FENCEREASON": 1}),
    "a broker of ZooKeeper that opens another session untold": (
        [*TOUCHED, QUIET, QUIET, zk_session("expiring"), NEXT_SESSION, FENCED],
        {"FENCEREASON": 1}),
    "a session of ZooKeeper that ends early": (
        [*TOUCHED, QUIET, zk_session("expiring")], {"FENCEREASON": 1}),
    "a session of ZooKeeper that ends": (
        [*TOUCHED, QUIET, QUIET, zk_session("expiring"), zk_session("expired", 5)], {}),
    "log start above the high watermark": (
        [("broker-1", facts.LogStart(T, 0, 3, "leader", 2, 5))], {"LOGORDER": 1}),
    "high watermark above the log end": (
        [("broker-1", facts.LogLoaded(T, 0, 0, 5, 6, True))], {"LOGORDER": 1}),
    "a deposed leader that knows it": (
        [*DEPOSED, knows(5), grown(1)], {"STALESERVE": 1}),
    "a deposed leader that has not heard of it": ([*DEPOSED, knows(4), grown(1)], {}),
    "a deposed leader that follows": ([*DEPOSED, FOLLOWS, grown(1)], {"STALESERVE": 1}),
    "a leader that knows of its own epoch": (
        [*DEPOSED[:3], led(1, 1, 0), knows(4), grown(1)], {}),
    "a coordinator that was deposed": (
        [OFFSETS, *DEPOSED, FOLLOWS, commits(1)], {"STALESERVE": 1}),
    "a coordinator of its own epoch": ([OFFSETS, *DEPOSED, FOLLOWS, commits(2)], {}),
    "reads of a follower": ([*DEPOSED, FOLLOWS, read(2)], {}),
    "reads of a leader that has applied its loss": (
        [*DEPOSED, read(1, leading=True)], {"STALESERVE": 1}),
    "reads that a follower may not answer": (
        [*DEPOSED, read(2, only_leader=True)], {"STALESERVE": 1}),
    "reads in an epoch before the known one": ([*DEPOSED, FOLLOWS, read(1)], {"STALESERVE": 1}),
    "a removed replica that knows it": ([*REMOVED, knows(5), FETCHED], {"STALESERVE": 1}),
    "a removed replica that does not know it": ([*REMOVED, knows(4), FETCHED], {}),
    "a replica that is back": ([*REMOVED, knows(5), replicas(6, 2, 1), FETCHED], {}),
    "reads of a replica that was deleted": (
        [*REMOVED, ("broker-1", facts.LogDeleted(T, 0, 0)), read(1)], {"STALESERVE": 1}),
    "metadata that does not spread": ([*DEPOSED, QUIET, knows(4)], {"STALESERVE": 1}),
    "metadata that has spread": ([*DEPOSED, QUIET, knows(5)], {}),
    "metadata that a broker missed that was paused": (
        [*DEPOSED, ("broker-1", facts.HostPaused(1_000_000)), knows(4)], {}),
    "metadata that a broker still misses long after": (
        [*DEPOSED, ("broker-1", facts.HostPaused(1_000_000)),
         ("broker-1", facts.HostResumed()), *[QUIET] * 6, knows(4)], {"STALESERVE": 1}),
    "metadata that a broker missed that has started anew": (
        [*DEPOSED, QUIET, ("broker-1", facts.HostStarted(1)), knows(4)], {}),
    "a LeaderAndIsr that never comes": ([*ZK_DEPOSED, QUIET, END], {"STALESERVE": 1}),
    "a LeaderAndIsr that comes": ([*ZK_DEPOSED, FOLLOWS, QUIET, END], {}),
    "a LeaderAndIsr of a controller that was paused": (
        [*ZK_DEPOSED, ("controller-1", facts.HostPaused(2_000_000)), QUIET, END], {}),
    "a LeaderAndIsr to a broker without a session": (
        [*ZK, leads(1, 1, 4), led(1, 1, 0),
         ("zookeeper-1", facts.ZooKeeperSession(9, "expired", "broker-1", "", 5)),
         leads(2, 2, 5), QUIET, END], {}),
    "a LeaderAndIsr that the next controller sends again": (
        [*ZK_DEPOSED, ("broker-3", facts.ControllerActive(2, True)), END], {}),
    "a LeaderAndIsr on a connection that died long before": (
        [*ZK_DIED, ("broker-2", leads(2, 2, 5)[1]), QUIET, QUIET, END], {}),
    "a LeaderAndIsr on a connection that has worked since": (
        [*ZK_DIED, ("broker-1", facts.ControlRequest("UpdateMetadata", 2, 1, "NONE")),
         ("broker-2", leads(2, 2, 5)[1]), QUIET, QUIET, END], {"STALESERVE": 1}),
    "a StopReplica that never comes": ([*ZK_REMOVED, QUIET, END], {"STALESERVE": 1}),
    "a StopReplica that comes": (
        [*ZK_REMOVED, ("broker-1", facts.LogDeleted(T, 0, 0)), QUIET, END], {}),
    "offsets in order": (
        [("broker-1", facts.LogStart(T, 0, 3, "leader", 3, 3)),
         ("broker-1", facts.LogLoaded(T, 0, 0, 5, 5, True))], {}),
}  # fmt: skip
