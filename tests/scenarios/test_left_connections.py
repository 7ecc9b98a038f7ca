"""An old consumer whose fetches are answered on connections that it has given up (KIP-219)."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.groups.left_connections import (
    LEFT,
    LeftConnections,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row, T

LINE = "group billing is at 5 of 9 in orders-0 (last read by consumer-1)"


def _leader(node: str = "broker-1", epoch: int = 0) -> Row:
    return node, facts.BecameLeader(T, 0, epoch, 0, 0, 0, (1,))


BEGUN: list[Row] = [
    ("broker-1", facts.TopicCreated(1, T, "orders", 1, 1, 1)),
    _leader(),
]
OLD: Row = ("consumer-1", facts.PartitionOwner("billing", "m-1", "orders", 0, "claimed", ""))
THROTTLED: Row = ("broker-1", facts.Throttled("consumer-1", "Fetch", 9_500))
POLLED: Row = ("consumer-1", facts.Polled("billing", "m-1", T, 0, 5, 9, (4,), (1,)))
END: Row = ("world", facts.Phase("end", ""))


def _later(seconds: float) -> Row:
    return "", seconds


def _turns(count: int, seconds: float = 5) -> list[Row]:
    """Every few seconds the leader throttles a new connection of the consumer."""
    return [each for _ in range(count) for each in (THROTTLED, _later(seconds))]


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    judge = LeftConnections(trace)
    trace.record([*BEGUN, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", judge.excuse)


def test_an_old_consumer_may_never_be_served_on_the_connection_that_it_has() -> None:
    """It leaves each one before its throttle time is over."""
    assert _excuse(OLD, POLLED, *_turns(5), END) == LEFT


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([*_turns(5), END], id="no old consumer"),
        pytest.param([OLD, *_turns(3), END], id="less than two turns of the quota"),
        pytest.param([OLD, *_turns(5, 9.5), END], id="it waits for the throttle time"),
        pytest.param([OLD, *_turns(5, 9.495), END], id="it waits for it by a fast clock"),
        pytest.param([OLD, *_turns(4), POLLED, *_turns(2), END], id="it was served"),
        pytest.param([OLD, *_turns(5), _later(5), END], id="nothing is muted at the end"),
        pytest.param([OLD, _leader("broker-2", 1), *_turns(5), END], id="another leader"),
    ],
)
def test_others_are_flagged(rows: list[Row]) -> None:
    """Nothing that the consumer has left keeps it from its quota."""
    assert not _excuse(*rows)


@pytest.mark.parametrize("other", ["orders-1", "billing-0"])
def test_only_its_own_partitions_wait_for_it(other: str) -> None:
    """Partitions of other leaders have other quotas."""
    assert not _excuse(OLD, *_turns(5), END, line=LINE.replace("orders-0", other))


def test_who_reads_for_another_group_is_no_old_consumer_of_this_one() -> None:
    """The line names the group and its last reader."""
    assert not _excuse(OLD, *_turns(5), END, line=LINE.replace("billing", "audit"))
    assert not _excuse(OLD, *_turns(5), END, line=LINE.replace("consumer-1", "consumer-2"))
