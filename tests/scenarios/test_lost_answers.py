"""A leader that changes its ISR no more, because of what a ZooKeeper controller answered.

The last change that both know has the partition epoch 2; broker-2 is the controller.
"""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.controllers.lost_answers import UNKNOWN_TOPIC
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, P, Row, T, changed, created, led

MISSING = ["orders-0: ISR [1, 2] of [1, 2, 3]"]
LOST = "lost-zookeeper-answer"

STATE = f"/brokers/topics/orders/partitions/{P}/state"
ACTIVE: Row = ("broker-2", facts.ControllerActive(1, True))
KNOWN: list[Row] = [
    ACTIVE,
    ("broker-2", created()),
    ("broker-2", changed(2, (1, 2))),
    ("broker-1", led(0)),
]
FOUND: Row = ("broker-2", facts.ZooKeeperConnection(5, "CONNECTED", "zookeeper-2"))


def _proposed(partition_epoch: int = 2, leader_epoch: int = 0) -> Row:
    change = facts.IsrProposed(T, P, leader_epoch, partition_epoch, "shrink", (3,))
    return ("broker-1", change)


def _refused(error: str = "INVALID_UPDATE_VERSION", leader_epoch: int = 0) -> Row:
    return ("broker-1", facts.IsrUpdateFailed(T, P, leader_epoch, error))


def _changed(version: int, leader_epoch: int = 0, reason: str = "lag", zxid: int = 7) -> Row:
    change = facts.PartitionChanged(
        zxid, T, P, 1, leader_epoch, version, (1, 2), (1, 2, 3), reason, False
    )
    return ("broker-2", change)


def _why(*rows: Row, zookeeper: bool = True) -> str:
    trace = FakeTrace()
    progress = Progress(trace, zookeeper)
    trace.record([*KNOWN, *rows])
    return progress.stall_excuse(MISSING, lambda _key: "")


WRITTEN: Row = ("broker-2", facts.ZkControllerWrite(7, 1, STATE, 3))


def test_the_controller_connected_again_and_found_another_version() -> None:
    assert _why(_proposed(), FOUND, _refused()) == LOST


def test_the_controller_read_its_write_back() -> None:
    assert _why(_proposed(), _changed(3), _refused()) == LOST
    assert _why(_proposed(), _refused(), _changed(3)) == LOST


@pytest.mark.parametrize(
    "rows",
    [
        [_proposed(), _changed(3)],  # the leader was not refused
        [_proposed(), WRITTEN, _changed(3), _refused()],  # the controller had the answer
        [_proposed(1), _changed(3), _refused()],  # refused for an older change
        [_proposed(), _changed(3, reason="loaded"), _refused()],  # anybody's write
        [_proposed(), _changed(3, leader_epoch=1), _refused()],  # no proposal: a new leader epoch
        [_proposed(), _changed(3), _refused("INELIGIBLE_REPLICA")],
    ],
)
def test_what_was_answered_or_is_of_another_proposal_explains_nothing(rows: list[Row]) -> None:
    assert _why(*rows) == ""


def test_the_next_leader_epoch_ends_the_wait() -> None:
    elected = _changed(4, leader_epoch=1, reason="preferred", zxid=12)
    assert _why(_proposed(), _changed(3), _refused(), elected) == ""


@pytest.mark.parametrize(
    "rows",
    [
        [_proposed(), _refused()],
        [FOUND, _changed(3), _proposed(3), _refused()],  # it connected before the last change
        [_proposed(), ("broker-3", FOUND[1]), _refused()],  # another one's connection
        [_proposed(), FOUND, _refused("INELIGIBLE_REPLICA")],
    ],
)
def test_a_refusal_without_a_new_connection_explains_nothing(rows: list[Row]) -> None:
    assert _why(*rows) == ""


@pytest.mark.parametrize(("epoch", "excuse"), [(2, LOST), (1, "")])
def test_a_controller_that_knows_a_change_takes_its_proposal_twice(epoch: int, excuse: str) -> None:
    """It had the answer to its write; the proposal that is refused builds on the change before."""
    assert _why(_proposed(epoch), FOUND, _refused()) == excuse


def test_a_kraft_controller_has_no_answers_to_lose() -> None:
    assert _why(_proposed(), _changed(3), _refused(), zookeeper=False) == ""


UNKNOWN = "UNKNOWN_TOPIC_ID"
NEXT: Row = ("broker-3", facts.ControllerActive(2, True))
RESIGNED: Row = ("broker-2", facts.ControllerActive(1, False))
STOPPED: Row = ("broker-2", facts.HostStopped("crash"))
NEW = [("broker-3", created()), ("broker-3", changed(2, (1, 2))), ("broker-1", led(0)), _proposed()]


def test_a_deposed_controller_does_not_know_a_topic_of_the_next_one() -> None:
    assert _why(NEXT, *NEW, _refused(UNKNOWN)) == UNKNOWN_TOPIC
    assert _why(NEXT, *NEW, _refused("UNKNOWN_TOPIC_OR_PARTITION")) == UNKNOWN_TOPIC


@pytest.mark.parametrize(
    "rows",
    [
        [*NEW, NEXT, _refused(UNKNOWN)],  # the deposed one has created the topic
        [*NEW, _refused(UNKNOWN)],  # nobody is deposed
        [NEXT, RESIGNED, *NEW, _refused(UNKNOWN)],  # it knows that it is
        [NEXT, STOPPED, *NEW, _refused(UNKNOWN)],
        [NEXT, *NEW, _refused("INELIGIBLE_REPLICA")],
        [NEXT, *NEW, _refused(UNKNOWN), _refused("INELIGIBLE_REPLICA")],
        [NEXT, *NEW, _refused(UNKNOWN, leader_epoch=1)],  # another leader's
    ],
)
def test_a_controller_that_ought_to_know_the_topic_explains_nothing(rows: list[Row]) -> None:
    assert _why(*rows) == ""
