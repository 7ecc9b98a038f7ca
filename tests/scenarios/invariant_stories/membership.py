"""Who may lead, and who may be in an ISR: what the metadata says."""

from __future__ import annotations

from kafkasim.model import facts
from tests.scenarios.fact_makers import P, Row, T, changed, led, registration, sends_to
from tests.scenarios.invariant_stories.common import ALIVE, START, Stories

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

STORIES: Stories = {  # name: what happened before, how it goes on well, and badly
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
}  # fmt: skip
