"""Which broker may end itself because it was not registered in time, and stay down."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.controllers.leaderless import Leaderless
from kafkasim.analysis.judging.transactions.liveness.controllers.registrations import (
    LATE_SESSION,
    Registrations,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row

DOWN, SHORT = "broker-1 is down", "orders-0: ISR [2, 3] of [1, 2, 3]"
LIMIT: Row = ("broker-1", facts.TimeLimit("broker.session.timeout.ms", 9_000_000))
STARTS: Row = ("broker-1", facts.HostStarted(1))
ENDS: Row = ("broker-1", facts.HostStopped("halt"))
ELECTED: Row = ("controller-1", facts.ControllerActive(2, True))
DEPOSED: Row = ("controller-2", facts.ControllerActive(1, False))
CUT: Row = ("", facts.FaultStarted("isolate", "broker-1"))
HEALED: Row = ("", facts.FaultEnded("isolate", "broker-1"))


def _wait(seconds: float) -> Row:
    return ("", seconds)


def _registered(broker: int = 1, change: str = "registered", offset: int = 7) -> Row:
    fact = facts.BrokerRegistration(offset, broker, offset, change, True, False, None)
    return ("controller-1", fact)


def _excuse(rows: list[Row], *lines: str) -> str:
    trace = FakeTrace()
    judge = Registrations(trace, 60_000_000)
    trace.record(rows)
    return Progress(trace).stall_excuse(list(lines), lambda _: "", judge.excuse)


@pytest.mark.parametrize(
    "rows",
    [
        [_wait(43), ELECTED, _wait(17)],  # the session of the process before may end 8 s ago
        [_wait(1), CUT, _wait(42), HEALED, _wait(17)],
        [_wait(50), CUT, _wait(10)],
        [_wait(43), ELECTED, _registered(2), _registered(1, "fenced", 8), _wait(17)],
    ],
    ids=["elected", "healed", "cut-off", "another-broker"],
)
def test_a_broker_may_give_up_within_two_sessions_of_what_kept_it(rows: list[Row]) -> None:
    given_up = [LIMIT, STARTS, *rows, ENDS]
    assert _excuse(given_up, DOWN, SHORT) == LATE_SESSION
    assert _excuse(given_up, DOWN, SHORT, "broker-2 is down") == ""
    assert _excuse(given_up, DOWN, "orders-0: ISR [3] of [1, 2, 3]") == ""
    assert _excuse(given_up, DOWN, "orders-0: ISR [1, 3] of [1, 2, 3]") == ""
    assert _excuse(given_up, DOWN, "orders-0 has no leader") == ""
    assert _excuse([*given_up, STARTS], DOWN) == ""


@pytest.mark.parametrize(
    "rows",
    [
        [_wait(41), ELECTED, _wait(19)],
        [_wait(43), DEPOSED, _wait(17)],
        [CUT, _wait(41), HEALED, _wait(19)],
        [_wait(60)],
        [ELECTED, _wait(16)],
        [_wait(1), _registered(), _wait(42), ELECTED, _wait(17)],
    ],
    ids=["two-sessions", "no-election", "two-sessions-healed", "never-kept", "early", "registered"],
)
def test_a_broker_that_controllers_had_time_to_register_has_no_excuse(rows: list[Row]) -> None:
    assert _excuse([LIMIT, STARTS, *rows, ENDS], DOWN) == ""


def test_a_new_controller_records_the_registration_of_the_process_before_again() -> None:
    first, again = _registered(1, offset=3), [_registered(1, "unfenced", 5), _registered(1)]
    rows = [LIMIT, _registered(), STARTS, _wait(43), first, *again, ELECTED, _wait(17), ENDS]
    assert _excuse(rows, DOWN) == LATE_SESSION
    rows = [LIMIT, _registered(), STARTS, _wait(43), _registered(1, offset=8), ELECTED, _wait(17)]
    assert _excuse([*rows, ENDS], DOWN) == ""


def test_only_a_process_that_ends_itself_has_given_up() -> None:
    for reason in ("crash", "shutdown", "disk-error"):
        stops = ("broker-1", facts.HostStopped(reason))
        assert _excuse([LIMIT, STARTS, _wait(43), ELECTED, _wait(17), stops], DOWN) == ""


def test_a_broker_waits_by_its_own_clock() -> None:
    slow: Row = ("broker-1", facts.ClockDrifted(-100_000))
    rows = [LIMIT, slow, STARTS, _wait(43), ELECTED, _wait(17)]
    assert _excuse([*rows, ENDS], DOWN) == ""  # 54 s
    assert _excuse([LIMIT, slow, STARTS, _wait(53), ELECTED, _wait(14), ENDS], DOWN) == LATE_SESSION


def _waits_for(*isr: int, leader: int = -1, elr: tuple[int, ...] = (), epoch: int = 3) -> Row:
    change = facts.PartitionChanged(
        90 + epoch, "T", 0, leader, 2, epoch, isr, (1, 2, 3), "fenced", False, elr
    )
    return ("controller-1", change)


def _unclean(value: str | None) -> Row:
    fact = facts.ConfigChanged(80, "topic:orders", "unclean.leader.election.enable", value)
    return ("controller-1", fact)


TOPIC: Row = ("broker-2", facts.TopicCreated(1, "T", "orders", 1, 3, 1))
DELETED: Row = ("controller-1", facts.TopicDeleted(99, "T", "orders"))
LATE = [TOPIC, LIMIT, STARTS, _wait(43), ELECTED, _wait(10)]
LEADERLESS = "orders-0 has no leader"


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([*LATE, _waits_for(1), _wait(7), ENDS], LATE_SESSION),
        ([*LATE, _waits_for(elr=(1,)), _wait(7), ENDS], LATE_SESSION),
        ([*LATE, _unclean("false"), _waits_for(1), _wait(7), ENDS], LATE_SESSION),
        ([*LATE, _waits_for(1), _wait(7)], ""),
        ([*LATE, _waits_for(1), _wait(7), ("broker-1", facts.HostStopped("crash"))], ""),
        ([*LATE, _waits_for(1), _wait(7), ENDS, STARTS], ""),
        ([*LATE, _waits_for(1, 2), _wait(7), ENDS], ""),
        ([*LATE, _waits_for(1, elr=(2,)), _wait(7), ENDS], ""),
        ([*LATE, _waits_for(), _wait(7), ENDS], ""),
        ([*LATE, _unclean("true"), _waits_for(1), _wait(7), ENDS], ""),
        ([*LATE, _waits_for(1), _waits_for(2, epoch=4), _wait(7), ENDS], ""),
        ([*LATE, _waits_for(1), _waits_for(1, leader=1, epoch=4), _wait(7), ENDS], ""),
        ([*LATE, _waits_for(1), _wait(7), ENDS, DELETED], ""),
    ],
    ids=[
        "in-the-isr", "in-the-elr", "no-unclean-election", "it-goes-on", "a-crash", "started-again",
        "another-in-the-isr", "another-in-the-elr", "nobody", "unclean-election",
        "another-since", "it-leads-since", "deleted",
    ],
)  # fmt: skip
def test_a_partition_waits_for_those_who_have_its_records(rows: list[Row], why: str) -> None:
    trace = FakeTrace()
    registrations = Registrations(trace, 60_000_000)
    judge = Leaderless(trace, {}, {}, judges=[registrations])
    trace.record(rows)
    assert judge.excuse(LEADERLESS) == why
    assert judge.excuse("group billing is at 0 of 4 in orders-0 (last read by nobody)") == why
    assert judge.excuse("orders-1 has no leader") == ""
