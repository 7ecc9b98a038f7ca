"""What waits for a leader of the metadata quorum that is no voter any more."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.controllers.leaderless import Leaderless
from kafkasim.analysis.judging.transactions.liveness.controllers.registrations import (
    Registrations,
)
from kafkasim.analysis.judging.transactions.liveness.controllers.unlisted_leader import (
    UNLISTED_LEADER,
    UnlistedLeader,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row

HOSTS = {3001: "controller-1", 3002: "controller-2"}
NOT_UNFENCED = "broker-3 is not unfenced since it started"
SHORT = "orders-0: ISR [2] of [2, 3]"


def _leads(node_id: int, epoch: int) -> Row:
    return (HOSTS[node_id], facts.RaftRole("leader", epoch, node_id))


def _voters(node_id: int, *voters: int) -> Row:
    return (HOSTS[node_id], facts.VotersChanged(9, voters, ("",) * len(voters)))


def _broker(broker: int, change: str, offset: int) -> Row:
    fenced = change != "unfenced"
    return ("controller-2", facts.BrokerRegistration(offset, broker, 7, change, fenced, False, ""))


LEADS = _leads(3002, 4)
REMOVED = _voters(3002, 3001)
FENCED = _broker(3, "fenced", 11)


def _excuse(rows: list[Row], *lines: str) -> str:
    trace = FakeTrace()
    judge = UnlistedLeader(trace, HOSTS, Registrations(trace, 60_000_000))
    trace.record(rows)
    return Progress(trace).stall_excuse(list(lines), lambda _: "", judge.excuse)


@pytest.mark.parametrize("line", [NOT_UNFENCED, SHORT])
def test_a_broker_that_is_fenced_while_the_leader_is_no_voter_stays_fenced(line: str) -> None:
    assert _excuse([LEADS, REMOVED, FENCED], line) == UNLISTED_LEADER


@pytest.mark.parametrize(
    "line",
    ["orders-0: ISR [3] of [2, 3]", "orders-0: ISR [2] of [2, 3, 4]", "orders-0 has no leader",
     "broker-2 is not unfenced since it started", "broker-3 is down"],
)  # fmt: skip
def test_what_does_not_wait_for_that_broker_is_judged(line: str) -> None:
    assert _excuse([LEADS, REMOVED, FENCED], line) == ""


@pytest.mark.parametrize(
    "rows",
    [
        [LEADS, FENCED],
        [LEADS, _voters(3002, 3001, 3002), FENCED],
        [LEADS, REMOVED, _voters(3002, 3001, 3002), FENCED],
        [LEADS, REMOVED, FENCED, _leads(3001, 5)],
        [LEADS, REMOVED, FENCED, ("controller-2", facts.RaftRole("resigned", 4, -1))],
        [LEADS, FENCED, ("", 1), REMOVED],
        [LEADS, REMOVED, FENCED, _broker(3, "unfenced", 12)],
        [_leads(3001, 4), _voters(3001, 3001), FENCED],
    ],
    ids=["the voters never changed", "it is a voter", "it is a voter again", "another one leads",
         "it has resigned", "the broker was fenced before", "it was unfenced", "a voter leads"],
)  # fmt: skip
def test_brokers_find_a_leader_that_is_a_voter(rows: list[Row]) -> None:
    assert _excuse(rows, NOT_UNFENCED) == ""


def test_a_broker_that_starts_meanwhile_and_cannot_register_stays_down() -> None:
    """Its session of 9 s may end, and its next attempt come, 18 s after the last fault."""
    limit = ("broker-1", facts.TimeLimit("broker.session.timeout.ms", 9_000_000))
    starts: list[Row] = [LEADS, limit, ("broker-1", facts.HostStarted(1))]
    ends: Row = ("broker-1", facts.HostStopped("halt"))
    down, short = "broker-1 is down", "orders-0: ISR [2] of [2, 1]"
    before, later, rest = (("", 17), ("", 19), ("", 60))
    assert _excuse([*starts, before, REMOVED, rest, ends], down, short) == UNLISTED_LEADER
    assert _excuse([*starts, later, REMOVED, rest, ends], down) == ""
    assert _excuse([*starts, rest, ends], down) == ""
    assert _excuse([*starts, before, REMOVED, rest, ends, _leads(3001, 5)], down) == ""


def _waits_for(isr: tuple[int, ...], elr: tuple[int, ...] = ()) -> list[Row]:
    topic = facts.TopicCreated(1, "T", "orders", 1, 3, 2)
    change = facts.PartitionChanged(
        12, "T", 0, -1, 2, 3, isr, (1, 2, 3), "fenced", unclean=False, elr=elr
    )
    return [("controller-2", topic), ("controller-2", change)]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([LEADS, REMOVED, FENCED, *_waits_for((3,))], UNLISTED_LEADER),
        ([LEADS, REMOVED, FENCED, *_waits_for((), (3,))], UNLISTED_LEADER),
        ([LEADS, REMOVED, FENCED, *_waits_for((), (2, 3))], ""),
        ([LEADS, FENCED, *_waits_for((3,))], ""),
    ],
    ids=["in-the-isr", "in-the-elr", "another-one", "it-is-a-voter"],
)
def test_a_partition_waits_for_those_who_find_no_controller(rows: list[Row], why: str) -> None:
    trace = FakeTrace()
    unlisted = UnlistedLeader(trace, HOSTS, Registrations(trace, 60_000_000))
    judge = Leaderless(trace, {}, {}, judges=[unlisted])
    trace.record(rows)
    assert judge.excuse("orders-0 has no leader") == why
