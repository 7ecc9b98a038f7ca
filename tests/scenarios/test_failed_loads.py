"""What waits for a coordinator whose replica has missed a deletion, and cannot be loaded."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.groups.failed_loads import (
    MISSED_DELETION,
    FailedLoads,
)
from kafkasim.model import facts
from kafkasim.model.coordinator.loader import CORRUPT
from tests.scenarios.fact_makers import FakeTrace, Row

TOPIC, P = "O", 0
LAGS = "group billing is at 0 of 4 in orders-0 (last read by nobody)"
SHARES = "share group billing is at 0 of 4 in orders-0"
PROCESSES = "processor-1 handles what it was given"
LINES = (LAGS, SHARES, PROCESSES)

CREATED: Row = ("controller-1", facts.TopicCreated(1, TOPIC, "__consumer_offsets", 1, 3, 1))
AWAY: Row = ("broker-3", facts.LogLoaded(TOPIC, P, 0, 40, 40, False))


def _cleaned(*removed: int, node: str = "broker-1", partition: int = P) -> Row:
    return node, facts.Cleaned(TOPIC, partition, 0, 60, 0, 60, 1, 2000, removed)


def _copies(base: int, end: int, node: str = "broker-3") -> Row:
    return node, facts.Replicated(TOPIC, P, 1, 1, base, end)


def _fails(offset: int = 50, node: str = "broker-3", reason: str = "not a consumer group") -> Row:
    return node, facts.CoordinatorLoadFailed("__consumer_offsets", P, 2, offset, reason)


MISSES = [CREATED, _cleaned(43, 44), AWAY, _copies(44, 60)]


def _excuse(line: str, *rows: Row) -> str:
    trace = FakeTrace()
    judge = FailedLoads(trace, lambda _: (TOPIC, P), {"billing": ("processor-1",)})
    trace.record(rows)
    return Progress(trace).stall_excuse([line], lambda _: "", judge.excuse)


@pytest.mark.parametrize("line", LINES)
def test_a_replica_that_missed_a_tombstone_may_not_load(line: str) -> None:
    assert _excuse(line, *MISSES, _fails()) == MISSED_DELETION


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize(
    "rows",
    [
        MISSES,  # it loads
        [*MISSES, _fails(reason=CORRUPT)],
        [*MISSES, _fails(offset=43)],  # what does not fit stands before what was missed
        [*MISSES, _fails(node="broker-2")],  # another replica, which has missed nothing
        [CREATED, _cleaned(38, 39), AWAY, _copies(40, 60), _cleaned(43, 44), _fails()],
        [CREATED, AWAY, _copies(40, 60), _cleaned(43, 44), _fails()],  # it has copied it before
        [CREATED, _cleaned(43, 44, partition=1), AWAY, _copies(44, 60), _fails()],
        [*MISSES, ("broker-3", facts.Truncated(TOPIC, P, 3, 60, 42)), _fails()],
        [*MISSES, _fails(), ("broker-2", facts.CoordinatorLoaded(P, 3, True))],
        [*MISSES, ("broker-3", facts.CoordinatorLoadFailed("__transaction_state", P, 2, 50, "x"))],
    ],
)  # fmt: skip
def test_any_other_coordinator_is_waited_for(line: str, rows: list[Row]) -> None:
    assert _excuse(line, *rows) == ""


def test_other_lines_are_not_explained() -> None:
    rows = [*MISSES, _fails()]
    assert _excuse("orders-0 has no leader", *rows) == ""
    assert _excuse(PROCESSES.replace("1", "2"), *rows) == ""
