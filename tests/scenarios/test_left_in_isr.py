"""What waits for a broker that a lost metadata quorum leaves in ISRs."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.controllers.left_in_isr import LeftInIsr
from kafkasim.analysis.judging.transactions.liveness.controllers.lost_voters import (
    LOST,
    LostVoters,
)
from kafkasim.analysis.judging.transactions.liveness.holders import Holders
from kafkasim.analysis.judging.transactions.liveness.positions import Positions
from kafkasim.model import facts
from tests.scenarios.coordinator_waits import (
    BEGUN,
    CLIENT,
    GROUP,
    GROUPS,
    OPEN,
    SHARES,
    STATES,
    WAITS,
    home,
    topics,
)
from tests.scenarios.fact_makers import FakeTrace, Row, batch, final


class _Voters:
    """A judge that knows that broker-2 is down because the quorum is lost."""

    def excuse(self, line: str) -> str:
        return LOST if line == "broker-2 is down" else ""


def _excuse(line: str, *rows: Row) -> str:
    trace = FakeTrace()
    ids = {"producer-1": "writer"}
    holders = Holders(trace, ids, Positions(trace), {"billing": 9_000_000})
    judge = LeftInIsr(trace, ids, {}, cast(LostVoters, _Voters()), holders)
    trace.record([*topics(1), BEGUN, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", judge.excuse)


@pytest.mark.parametrize(("line", "topic"), WAITS)
def test_a_coordinator_waits_for_a_broker_that_stays_in_the_isr(line: str, topic: str) -> None:
    """It may lead the partition, or only keep the high watermark where it is."""
    assert _excuse(line, home(topic, 1, 2, 3)) == LOST
    assert _excuse(line, home(topic, 2, leader=2)) == LOST
    assert _excuse(line, home(topic, 1, 3)) == ""
    assert _excuse(line, home(topic, 1, 2), home(topic, 1, 3, epoch=1)) == ""
    assert _excuse(line, home(topic, 1, 3, epoch=1), home(topic, 1, 2)) == ""  # told again
    assert _excuse(line, home("orders", 1, 2, 3)) == ""


@pytest.mark.parametrize(
    "line",
    [
        CLIENT.replace("producer-1", "producer-2"),
        OPEN.replace("id 7", "id 8"),
        "orders-0: ISR [1] of [1, 2]",
        "broker-2 is down",
    ],
)
def test_nobody_else_waits_for_it(line: str) -> None:
    """Other clients have no transactional id, and what else is missing has other judges."""
    assert _excuse(line, *[home(topic, 1, 2, 3) for topic in (GROUPS, STATES, SHARES)]) == ""


AT_TWO = GROUP.replace("is at 0", "is at 2").replace("nobody", "consumer-1")
STUCK = home(GROUPS, 1, 2, 3)
LED = home("orders", 1, 3)


def _at(offset: int, reason: str = "committed", node: str = "consumer-1") -> Row:
    return node, facts.Positioned("billing", "m1", "orders", 0, offset, reason)


def _commit(kind: str, offset: int = 2, error: str = "NONE", node: str = "consumer-1") -> Row:
    fact = facts.CommitResult("billing", "m1", "orders", 0, offset, 1, kind, error, revoking=False)
    return node, fact


FAILS = _commit("async", error="COORDINATOR_NOT_AVAILABLE")
"""A commit that nobody waits for."""

READS_COMMITTED: Row = ("consumer-1", facts.ReadsCommitted("billing"))


def _stable(offset: int) -> Row:
    """The leader's log at the end, with its last stable offset."""
    log = final([batch(0, [1, 2, 3, 4])], lso=offset)
    return "broker-1", replace(log, topic_id="orders", partition=0)


@pytest.mark.parametrize(
    "rows",
    [
        [_at(2), FAILS],
        [_at(2), _commit("sync")],
        [_at(2), _commit("auto")],
        [_at(2), FAILS, _at(2, node="consumer-2")],
        [READS_COMMITTED, _at(2), FAILS, _stable(3)],
    ],
    ids=repr,
)
def test_a_group_reads_on_what_its_consumers_hold(rows: list[Row]) -> None:
    """It needs a coordinator for its commits only."""
    assert _excuse(AT_TWO, STUCK, LED, *rows) == ""


@pytest.mark.parametrize(
    "rows",
    [
        [FAILS],  # it has no position
        [_at(2), FAILS, _at(2, "none")],  # it has given the partition up
        [_at(2), FAILS, ("consumer-1", facts.HostStopped("crash"))],
        [_at(2), FAILS, ("consumer-1", facts.HostStopped("crash")),
         ("consumer-1", facts.HostStarted(2)), _at(2)],  # its first commit may be under way
        [_at(2)],  # so it may here
        [_at(2), _commit("sync", error="TIMEOUT")],
        [_at(2), _commit("sync", offset=1)],  # the next commit may be under way
        [_at(2), _commit("async", node="consumer-2")],
        [_at(2, node="producer-1"), _commit("async", node="producer-1")],  # in a transaction
        [_at(2), FAILS, home("orders", 3, leader=-1, epoch=1)],
        [_at(2), FAILS, home("orders", 2, leader=2, epoch=1)],  # which is down
        [READS_COMMITTED, _at(2), FAILS, _stable(2)],  # for the end of a transaction
        [_at(3), FAILS],  # another position than the line tells
    ],
    ids=repr,
)  # fmt: skip
def test_a_group_waits_for_what_only_its_coordinator_gives(rows: list[Row]) -> None:
    assert _excuse(AT_TWO, STUCK, LED, *rows) == LOST


def _committed(group: str = "billing") -> Row:
    return "broker-1", facts.OffsetCommitted(group, "beside", 0, 5, 1, "m1", 1)


FAULT: Row = ("world", facts.FaultStarted("gc-pause", "broker-3"))
ENDED: Row = ("world", facts.FaultEnded("gc-pause", "broker-3"))
TEN: Row = ("world", 10.0)
FIVE: Row = ("world", 5.0)


@pytest.mark.parametrize(
    "rows",
    [
        [LED, TEN, _committed()],
        [FAULT, LED, ENDED, TEN, _committed()],
        [LED, TEN, FAULT, _committed()],
        [LED, TEN, ("consumer-1", facts.HostStopped("crash")), FIVE, _committed()],
    ],
    ids=repr,
)
def test_a_group_had_missed_a_partition_before(rows: list[Row]) -> None:
    assert _excuse(GROUP, *rows, STUCK) == ""


@pytest.mark.parametrize(
    "rows",
    [
        [LED, ("world", 9.9), _committed()],
        [LED, _committed(), TEN],  # it commits nothing afterwards
        [LED, TEN, _committed("others")],
        [LED, FIVE, home("orders", 1, epoch=1), FIVE, _committed()],
        [LED, FIVE, ("consumer-1", facts.HostStarted(1)), FIVE, _committed()],
        [LED, FAULT, TEN, _committed()],
        [LED, FAULT, FAULT, ENDED, TEN, ENDED, _committed()],
        [LED, FIVE, FAULT, ENDED, FIVE, _committed()],
        [LED, _at(0), _at(0, "none"), TEN, _committed()],  # a consumer has held it
        [home("orders", leader=-1), TEN, _committed()],
    ],
    ids=repr,
)
def test_a_group_need_not_have_had_a_partition_before(rows: list[Row]) -> None:
    assert _excuse(GROUP, *rows, STUCK) == LOST
