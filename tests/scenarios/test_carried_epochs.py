"""A commit of a deleted topic in the topic created again under its name, by hand."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.groups.carried_epochs import (
    CARRIED,
    CarriedEpochs,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row

OLD, NEW, OTHER = "old", "new", "other"
LINE = "group g is at 8 of 12 in orders-0 (last read by consumer-1)"


def _created(topic_id: str, topic: str = "orders") -> Row:
    return "controller-1", facts.TopicCreated(1, topic_id, topic, 1, 3, 2)


def _leads(topic_id: str, epoch: int, start: int) -> Row:
    return "broker-1", facts.BecameLeader(topic_id, 0, epoch, epoch, start, start, (1, 2))


def _commits(topic_id: str, offset: int = 8, error: str = "NONE", group: str = "g") -> Row:
    result = facts.CommitResult(group, "m1", topic_id, 0, offset, 1, "auto", error, True)
    return "consumer-1", result


def _positioned(offset: int = 8, reason: str = "committed") -> Row:
    return "consumer-1", facts.Positioned("g", "m1", NEW, 0, offset, reason)


DELETED: Row = ("controller-1", facts.TopicDeleted(2, OLD, "orders"))
BEFORE = [_created(OLD), _leads(OLD, 0, 0), _leads(OLD, 2, 5)]
AGAIN = [*BEFORE, DELETED, _created(NEW), _leads(NEW, 0, 0)]


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    carried = CarriedEpochs(trace)
    trace.record([*rows])
    return Progress(trace).stall_excuse([line], lambda _: "", carried.excuse)


def test_who_carries_an_epoch_into_a_topic_created_again_knows_no_leader() -> None:
    assert _excuse(*AGAIN, _commits(OLD), _positioned()) == CARRIED
    assert _excuse(*AGAIN, _leads(NEW, 1, 3), _commits(OLD), _positioned()) == CARRIED


@pytest.mark.parametrize(
    "rows",
    [
        [*AGAIN, _commits(OLD), _positioned(), _leads(NEW, 2, 9)],  # the new topic's epoch rises
        [*AGAIN, _commits(OLD), _positioned(), _positioned(8, "truncation")],  # it was validated
        [*AGAIN, _commits(OLD), _positioned(7)],  # another position
        [*AGAIN, _commits(OLD), _positioned(8, "seek")],
        [*AGAIN, _commits(NEW), _positioned()],
        [*AGAIN, _commits(OLD), _commits(NEW), _positioned()],
        [*AGAIN, _commits(OLD, error="UNKNOWN_TOPIC_OR_PARTITION"), _positioned()],
        [*AGAIN, _commits(OLD, group="other"), _positioned()],
        [*AGAIN, _commits(OLD)],
        [_created(OLD), _leads(OLD, 0, 0), _leads(OLD, 2, 8), *AGAIN[3:], _commits(OLD),
         _positioned()],  # its last batch had the new topic's epoch
    ],
)  # fmt: skip
def test_nothing_else_excuses_a_group_in_a_topic_created_again(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


def test_it_excuses_no_other_place() -> None:
    rows = [*AGAIN, _commits(OLD), _positioned()]
    for line in (LINE.replace("is at 8", "is at 9"), LINE.replace("orders-0", "orders-1"),
                 LINE.replace("group g", "group other"), "orders-0 has no leader"):  # fmt: skip
        assert _excuse(*rows, line=line) == ""
