"""What waits for the marker of a decided transaction that too few replicas are left to take."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.copies.missed_markers import MissedEnds
from kafkasim.analysis.judging.copies.uncopied import Uncopied
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.coordinators.unwritten_markers import (
    UnwrittenMarkers,
)
from kafkasim.analysis.judging.transactions.liveness.standstill import Standstill
from kafkasim.model import facts
from tests.scenarios.coordinator_waits import CLIENT, OPEN, PROCESSOR, Gone, home, topics
from tests.scenarios.fact_makers import FakeTrace, Row

OTHER = facts.TopicCreated(2, "outputs", "outputs", 1, 3, 2)
BEGUN: Row = ("producer-1", facts.TransactionBegun("writer", 0, 7, 0))
STUCK = home("orders", 1)
LAG = "group billing is at {} of 4 in orders-0 (last read by consumer-1)"
READS: list[Row] = [
    ("consumer-1", facts.ReadsCommitted("billing")),
    ("consumer-1", facts.Positioned("billing", "m1", "orders", 0, 0, "earliest")),
    ("consumer-1", facts.Polled("billing", "m1", "orders", 0, 3, -1, (2,), (9,))),
]
ENDS: Row = (
    "broker-1",
    facts.FinalReplica(
        "orders", 0, True, 1, 0, 4, 3, 4, (0, 0), (0, 3), (3, 4), (0, 0), (-1, 7), (0, 0), (1, 1),
        (9, 10),
    ),
)  # fmt: skip
"""The transaction holds the last stable offset at 3."""


def _state(state: str, *partitions: str, id_: str = "writer", pid: int = 7) -> Row:
    fact = facts.TransactionState(id_, pid, 0, "Ongoing", state, partitions, 1, 0, "end")
    return "broker-1", fact


def _decided(state: str = "PrepareAbort", *partitions: str) -> list[Row]:
    names = partitions or ("orders-0",)
    return [_state("Ongoing", *names), _state(state, *names)]


def _marker(topic: str = "orders", pid: int = 7, offset: int = 5) -> Row:
    return "broker-1", facts.MarkerWritten(topic, 0, pid, 0, False, offset, 1, 0)


def _passed(offset: int, *acknowledged: int) -> Row:
    return "broker-1", facts.HighWatermark("orders", 0, 1, offset, 2, acknowledged)


def _excuse(line: str, *rows: Row, gone: tuple[int, ...] = (2, 3), stuck: str = "") -> str:
    trace = FakeTrace()
    progress = Progress(trace)
    uncopied = Uncopied(trace, lambda _: True)
    uncopied.follow()
    missed = MissedEnds(trace, Contents(trace), uncopied)
    unwritten = UnwrittenMarkers(trace, [Gone("late", *gone)], lambda _key, _epoch: stuck)
    judge = Standstill(trace, lambda _: [], progress.positions, missed, unwritten)
    trace.record([*topics(2), ("controller-1", OTHER), BEGUN, *rows])
    return progress.stall_excuse([line], lambda _: "", judge.excuse)


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
@pytest.mark.parametrize("line", [CLIENT, PROCESSOR, OPEN])
def test_a_partition_with_too_few_replicas_takes_no_marker(line: str, state: str) -> None:
    decided = _decided(state, "outputs-0", "orders-0")
    assert _excuse(line, *decided, STUCK) == "late"
    assert _excuse(line, *decided, home("orders", 1, 2)) == ""
    assert _excuse(line, *decided, STUCK, gone=(3,)) == ""  # the second may come back
    assert _excuse(line, *decided, STUCK, home("orders", 1, 2, epoch=1)) == ""
    assert _excuse(line, *decided, home("outputs", 1, 2)) == ""
    assert _excuse(line, *decided, STUCK, gone=(), stuck="lost-answer") == "lost-answer"
    assert _excuse(line, *decided, home("orders", 1, 2), gone=(), stuck="lost-answer") == ""


@pytest.mark.parametrize(
    "rows",
    [
        [_state("Ongoing", "orders-0")],
        [*_decided(), _state("CompleteAbort")],
        [*_decided(), _state("CompleteAbort"), _state("Ongoing", "orders-0")],
        _decided("PrepareAbort", "outputs-0"),
        [_state("Ongoing", "orders-0", id_="other", pid=8),
         _state("PrepareAbort", "orders-0", id_="other", pid=8)],
        [*_decided(), ("controller-1", facts.TopicDeleted(9, "orders", "orders"))],
    ],
    ids=["open", "complete", "next", "elsewhere", "another-id", "deleted"],
)  # fmt: skip
@pytest.mark.parametrize("line", [CLIENT, PROCESSOR, OPEN])
def test_only_a_decided_transaction_with_that_partition_waits(rows: list[Row], line: str) -> None:
    assert _excuse(line, *rows, STUCK) == ""


def test_nobody_else_waits_for_its_marker() -> None:
    """A healthy partition of the same transaction is due its marker."""
    decided = _decided("PrepareAbort", "outputs-0", "orders-0")
    lines = (
        CLIENT.replace("-1", "-2"),
        OPEN.replace("id 7", "id 8"),
        OPEN.replace("orders", "outputs"),
    )
    assert [_excuse(line, *decided, STUCK) for line in lines] == ["", "", ""]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([_marker(), _passed(6, 1, 2)], ""),
        ([_marker()], "late"),  # the ISR shrank before the high watermark passed it
        ([_marker(), _passed(5, 1, 2)], "late"),
        ([_marker(), _passed(6, 1)], "late"),  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        ([_marker(pid=8), _passed(6, 1, 2)], "late"),
        ([_marker("outputs"), _passed(6, 1, 2)], "late"),
        ([_marker(), ("broker-2", facts.BecameLeader("orders", 0, 2, 1, 5, 5, (1, 2))),
          _passed(6, 1, 2)], "late"),  # the coordinator asks the next leader
        ([_marker(), _marker("outputs"), _passed(6, 1, 2)], ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("line", [CLIENT, OPEN])
def test_a_marker_that_was_confirmed_is_there(rows: list[Row], why: str, line: str) -> None:
    assert _excuse(line, *_decided(), *rows, STUCK) == why
    again = _decided()  # the marker was the one of the transaction before
    assert _excuse(line, *_decided(), *rows, *again, STUCK) == "late"


def test_a_reader_of_committed_records_waits_in_front_of_it() -> None:
    decided = _decided()
    assert _excuse(LAG.format(3), *decided, STUCK, *READS, ENDS) == "late"
    assert _excuse(LAG.format(3), *decided, STUCK, *READS[1:], ENDS) == ""
    assert _excuse(LAG.format(3), *decided[:1], STUCK, *READS, ENDS) == ""
    assert _excuse(LAG.format(0), *decided, STUCK, *READS[:2], ENDS) == ""  # it has to read on
