"""Share partitions that stop at a read gap of which the log has nothing any more, by hand."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.shares.removed_gaps import (
    REMOVED,
    RemovedGaps,
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
LOCKS = 7


def _final(*ranges: tuple[int, int, int], start: int = 4, gap: int = 4, node: str = NODE) -> Row:
    return final(*ranges, start=start, gap=gap, node=node)


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    gaps = RemovedGaps(trace, LOCKS)
    trace.record([TOPIC, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", gaps.excuse)


READ = (6, 9, ACKNOWLEDGED)
NEW = (10, 11, ACKNOWLEDGED)
LAST_LOCK = (10, 10, ACKNOWLEDGED)
BEHIND = log((0, 2), (8, 10), (10, 12))


@pytest.mark.parametrize("rows", [
    [LOADED, _final(READ), BEHIND],  # each read begins at 8, and ends with its segment
    [LOADED, _final(READ, NEW, gap=-1), BEHIND],  # all is done, and the start offset stays
    [LOADED, _final(READ), log((0, 4), (6, 12))],
    [LOADED, _final(READ, LAST_LOCK, gap=-1), BEHIND],  # as many offsets as locks
    [LOADED, _final(READ, NEW, start=3, gap=-1), BEHIND],  # a former leader was further
])  # fmt: skip
def test_nothing_is_read_of_a_gap_that_the_cleaner_has_removed(rows: list[Row]) -> None:
    assert _excuse(*rows) == REMOVED


@pytest.mark.parametrize("rows", [
    [LOADED, _final(READ), log((0, 2), (5, 6), (8, 12))],  # the gap has records
    [LOADED, _final(READ), log((0, 12))],
    [LOADED, _final((6, 9, AVAILABLE)), BEHIND],
    [LOADED, _final((4, 9, ACKNOWLEDGED)), BEHIND],  # there is no gap
    [LOADED, _final((2, 3, ACKNOWLEDGED), READ), BEHIND],  # the start offset may move
    [LOADED, _final(READ, gap=-1), BEHIND],  # new records are not read
    [LOADED, _final(READ, gap=5), BEHIND],
    [LOADED, _final(READ, LAST_LOCK, gap=5), BEHIND],
    [LOADED, _final((6, 9, AVAILABLE), LAST_LOCK, gap=-1), BEHIND],
    [LOADED, _final(READ, NEW, start=1, gap=-1), BEHIND],  # below 2 the log has records
    [LOADED, _final(READ, start=5, gap=5), BEHIND],  # the group was elsewhere
    [LOADED, _final(READ, node="broker-2"), BEHIND],
    [LOADED, _final(READ)],
    [LOADED, BEHIND],
    [_final(READ), BEHIND],
])  # fmt: skip
def test_another_stall_is_not_excused(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


def _cleaned(base: int, end: int, node: str = NODE) -> Row:
    return node, facts.Cleaned("id", 0, base, end, 0, 12, 0, 1000, ())


STALE = (4, 5, ARCHIVED)
BEHIND_GAP = (8, 8, ARCHIVED)
NEVER_REACHED = (10, 11, AVAILABLE)
WAITS = _final(STALE, BEHIND_GAP, NEVER_REACHED, gap=6)
KEPT = log((0, 2), (8, 9), (10, 12))
TRUNCATED: Row = (NODE, facts.Truncated("id", 0, 1, 12, 8))
SHORTER: Row = (NODE, facts.LogLoaded("id", 0, 0, 8, 8, False))
DELETED: Row = (NODE, facts.LogDeleted("id", 0, 12))


@pytest.mark.parametrize("rows", [
    [LOADED, _cleaned(6, 10), WAITS, KEPT],
    [_cleaned(6, 12), _cleaned(6, 9), LOADED, WAITS, KEPT],  # the last cleaning counts
    [LOADED, _cleaned(6, 10), _final(STALE, BEHIND_GAP, NEVER_REACHED, gap=4), KEPT],
])  # fmt: skip
def test_a_read_of_a_removed_gap_ends_with_its_segment(rows: list[Row]) -> None:
    assert _excuse(*rows) == REMOVED


@pytest.mark.parametrize("rows", [
    [LOADED, _cleaned(6, 12), WAITS, KEPT],  # the segment has an available record
    [LOADED, _cleaned(6, 10), WAITS, log((0, 2), (8, 9), (9, 10), (10, 12))],  # a new one
    [LOADED, _cleaned(6, 10), WAITS, log((0, 2), (7, 8), (8, 9), (10, 12))],  # one in the gap
    [LOADED, _cleaned(6, 10), WAITS, log((0, 2), (6, 9), (10, 12))],
    [LOADED, _cleaned(6, 12), _final(STALE, BEHIND_GAP, (10, 11, ACKNOWLEDGED), gap=6), KEPT],
    [LOADED, _cleaned(6, 10), _final((4, 5, AVAILABLE), BEHIND_GAP, gap=4), KEPT],
    [LOADED, _cleaned(6, 10), _final(STALE, (6, 8, ARCHIVED), gap=4), KEPT],  # there is no gap
    [LOADED, _cleaned(6, 10), _final(STALE, BEHIND_GAP, NEVER_REACHED, gap=-1), KEPT],
    [LOADED, _cleaned(6, 10), WAITS, log((0, 2))],
    [LOADED, WAITS, KEPT],  # nothing tells the segment
    [LOADED, _cleaned(9, 12), WAITS, KEPT],
    [LOADED, _cleaned(6, 10, node="broker-2"), WAITS, KEPT],
    [LOADED, _cleaned(6, 10), TRUNCATED, WAITS, KEPT],
    [LOADED, _cleaned(6, 10), SHORTER, WAITS, KEPT],
    [LOADED, _cleaned(6, 10), DELETED, WAITS, KEPT],
])  # fmt: skip
def test_a_read_with_something_new_is_not_excused(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


def test_only_share_groups_stop_so() -> None:
    line = "group workers is at 4 of 12 in orders-0"
    assert _excuse(LOADED, _final(READ), BEHIND, line=line) == ""
