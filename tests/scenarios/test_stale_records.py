"""Share partitions whose start offset stays in front of records that were removed, by hand."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.shares.stale_records import (
    STALE,
    StaleRecords,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row
from tests.scenarios.share_partitions import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    LOADED,
    NODE,
    TOPIC,
    final,
    log,
)

LINE = "share group workers is at 4 of 12 in orders-0"
OF = ("workers", "m", "id", 0, 1)

GIVEN: Row = (NODE, facts.ShareAcquired(*OF, 4, 6, 1, 3_000_000))


def _moved(state: str, reason: str = "session-ended", node: str = NODE) -> Row:
    return node, facts.ShareMoved(*OF, 4, 6, state, 0, reason)


def _final(*ranges: tuple[int, int, int], start: int = 4, gap: int = -1, node: str = NODE) -> Row:
    return final(*ranges, start=start, gap=gap, node=node)


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    stale = StaleRecords(trace)
    trace.record([TOPIC, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", stale.excuse)


def _archived(first: int = 4, node: str = NODE) -> Row:
    return node, facts.ShareStaleArchived("workers", "id", 0, 1, first, 6)


GIVEN_BACK = [LOADED, GIVEN, _moved("AVAILABLE")]
RELEASED = [*GIVEN_BACK, _archived()]
REMOVED = (4, 6, ARCHIVED)
BEHIND = (7, 11, ACKNOWLEDGED)
LOG = log((0, 2), (7, 12))


@pytest.mark.parametrize("rows", [
    [*RELEASED, _final(REMOVED, BEHIND), LOG],
    [*RELEASED, _final(REMOVED, (7, 8, ARCHIVED), (9, 11, ACKNOWLEDGED)), LOG],
    [*RELEASED, _final(REMOVED, (7, 8, ACKNOWLEDGED), (10, 11, 2)), log((7, 9), (10, 12))],
    [LOADED, _archived(), _final(REMOVED, BEHIND), LOG],  # it read that the record is available
    [LOADED, GIVEN, _moved("ACKNOWLEDGED", "acknowledged"), _moved("AVAILABLE", "rolled-back"),
     _archived(), _final(REMOVED, BEHIND), LOG],
])  # fmt: skip
def test_removed_records_are_archived_without_a_move_of_the_start(rows: list[Row]) -> None:
    assert _excuse(*rows) == STALE


@pytest.mark.parametrize("rows", [
    [*RELEASED, _final(REMOVED, BEHIND), log((3, 5), (7, 12))],  # the log has the record
    [*RELEASED, _final((4, 6, AVAILABLE), BEHIND), LOG],
    [*RELEASED, _final((4, 6, ACKNOWLEDGED), BEHIND), LOG],
    [*RELEASED, _final(REMOVED, (7, 11, AVAILABLE)), LOG],  # there is more to do
    [*RELEASED, _final(REMOVED, (7, 10, ACKNOWLEDGED)), LOG],
    [*RELEASED, _final(REMOVED, (9, 11, ACKNOWLEDGED)), LOG],  # the log has 7 and 8
    [*RELEASED, _final(REMOVED, BEHIND, gap=7), LOG],
    [*RELEASED, _final(REMOVED, BEHIND, start=5), LOG],
    [*RELEASED, _final(BEHIND), LOG],
    [*RELEASED, GIVEN, _final(REMOVED, BEHIND), LOG],  # a member holds it, or has given it back
    [*RELEASED, GIVEN, _moved("ARCHIVED", "acknowledged"), _final(REMOVED, BEHIND), LOG],
    [*GIVEN_BACK, _final(REMOVED, BEHIND), LOG],  # no read began behind the records
    [*GIVEN_BACK, _archived(5), _final(REMOVED, BEHIND), LOG],
    [*GIVEN_BACK, _archived(node="broker-2"), _final(REMOVED, BEHIND), LOG],
    [LOADED, GIVEN, _moved("AVAILABLE", node="broker-2"), _final(REMOVED, BEHIND), LOG],
    [*RELEASED, _final(REMOVED, BEHIND, node="broker-2"), LOG],
    [*RELEASED, _final(REMOVED, BEHIND)],
    [*RELEASED, LOG],
])  # fmt: skip
def test_another_stall_is_not_excused(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


def test_only_share_groups_stop_so() -> None:
    line = "group workers is at 4 of 12 in orders-0"
    assert _excuse(*RELEASED, _final(REMOVED, BEHIND), LOG, line=line) == ""
