"""Share partitions whose start offset the log start moved to records that are done, by hand."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.shares.moved_starts import (
    LACKS_STATE,
    MOVED,
    MovedStarts,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row
from tests.scenarios.share_partitions import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    LOADED,
    NODE,
    PARTITION,
    TOPIC,
    final,
    log,
)

LINE = "share group workers is at 8 of 12 in orders-0"


def _moved(first: int, last: int, state: str, reason: str = "acknowledged") -> Row:
    return NODE, facts.ShareMoved("workers", "m", "id", 0, 1, first, last, state, 1, reason)


def _start(offset: int, reason: str = "log-start", node: str = NODE) -> Row:
    return node, facts.ShareStartMoved(*PARTITION, 1, offset, reason)


def _failed(offset: int = 8, node: str = NODE) -> Row:
    return node, facts.ShareStartFailed(*PARTITION, 1, offset)


def _final(*ranges: tuple[int, int, int], start: int = 8, gap: int = -1) -> Row:
    return final(*ranges, start=start, gap=gap)


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    starts = MovedStarts(trace)
    trace.record([TOPIC, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", starts.excuse)


DONE_FIRST = [LOADED, _moved(8, 11, "ACKNOWLEDGED")]
PASSED = [*DONE_FIRST, _start(8)]
BELOW, BEHIND = (4, 7, ARCHIVED), (8, 11, ACKNOWLEDGED)
LOG = log((6, 10), (10, 12))


@pytest.mark.parametrize("rows", [
    [*PASSED, _final(BELOW, BEHIND), LOG],
    [*PASSED, _final((4, 11, ARCHIVED)), LOG],
    [*PASSED, _final(BELOW, (8, 9, ARCHIVED), (11, 11, ACKNOWLEDGED)), log((6, 10), (11, 12))],
    [LOADED, _start(8), _final(BELOW, BEHIND), LOG],  # it read that they are done
    [*PASSED, _moved(4, 7, "AVAILABLE"), _final(BELOW, BEHIND), LOG],  # below the start offset
    [LOADED, _start(8), _moved(8, 11, "ARCHIVED", "aborted"), _final(BELOW, BEHIND), LOG],
])  # fmt: skip
def test_the_log_start_moves_the_start_to_records_that_are_done(rows: list[Row]) -> None:
    assert _excuse(*rows) == MOVED


@pytest.mark.parametrize("rows", [
    [LOADED, _start(8), _moved(8, 11, "ACKNOWLEDGED"), _final(BELOW, BEHIND), LOG],
    [*PASSED, _moved(11, 11, "ACKNOWLEDGED"), _final(BELOW, BEHIND), LOG],
    [*PASSED, _final(BELOW, (8, 11, AVAILABLE)), LOG],  # there is more to do
    [*PASSED, _final(BELOW, (8, 10, ACKNOWLEDGED)), LOG],
    [*PASSED, _final(BELOW, (10, 11, ACKNOWLEDGED)), LOG],  # the log has 8 and 9
    [*PASSED, _final(BELOW, BEHIND, gap=9), LOG],
    [*PASSED, _final(BELOW, BEHIND, start=7), LOG],
    [*DONE_FIRST, _start(7), _final(BELOW, BEHIND), LOG],
    [*DONE_FIRST, _start(8, "records"), _final(BELOW, BEHIND), LOG],
    [*DONE_FIRST, _start(8), _start(8, "records"), _final(BELOW, BEHIND), LOG],
    [*DONE_FIRST, _start(8, node="broker-2"), _final(BELOW, BEHIND), LOG],
    [*DONE_FIRST, _final(BELOW, BEHIND), LOG],
    [*PASSED, _final(BELOW, BEHIND)],
    [*PASSED, LOG],
])  # fmt: skip
def test_another_stall_is_not_excused(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


GONE_ON = [LOADED, _start(8), _moved(10, 11, "ACKNOWLEDGED"), _failed()]
IN_FRONT, LATER = (10, 11, ACKNOWLEDGED), log((6, 8), (10, 12))


@pytest.mark.parametrize("rows", [
    [*GONE_ON, _final(BELOW, IN_FRONT), LATER],
    [*GONE_ON, _moved(10, 11, "ARCHIVED"), _failed(), _final(BELOW, IN_FRONT), LATER],
    [*GONE_ON, _final(BELOW, IN_FRONT), log((10, 12))],
])  # fmt: skip
def test_the_start_stays_where_it_has_no_state(rows: list[Row]) -> None:
    assert _excuse(*rows) == LACKS_STATE


@pytest.mark.parametrize("rows", [
    [*GONE_ON[:3], _final(BELOW, IN_FRONT), LATER],  # the leader tells of no exception
    [*GONE_ON[:3], _failed(7), _final(BELOW, IN_FRONT), LATER],
    [*GONE_ON[:3], _failed(node="broker-2"), _final(BELOW, IN_FRONT), LATER],
    [*GONE_ON, _moved(10, 11, "ACKNOWLEDGED"), _final(BELOW, IN_FRONT), LATER],  # not afterwards
    [*GONE_ON, _start(9), _moved(10, 11, "ACKNOWLEDGED"), _final(BELOW, IN_FRONT), LATER],
    [*GONE_ON, _final(BELOW, (10, 11, AVAILABLE)), LATER],
    [*GONE_ON, _final(BELOW, (8, 9, ARCHIVED), IN_FRONT), LATER],  # it has a state
    [*GONE_ON, _final(BELOW, IN_FRONT), log((6, 10), (10, 12))],  # there are records
    [*GONE_ON, _final(BELOW, IN_FRONT, gap=9), LATER],
])  # fmt: skip
def test_a_start_without_a_state_excuses_nothing_else(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


@pytest.mark.parametrize(("rows", "unanswered"), [
    ([*GONE_ON], ["workers"]),
    ([*GONE_ON, _moved(10, 11, "ARCHIVED")], ["workers"]),
    ([*GONE_ON[:3]], []),
    ([*GONE_ON, _start(10)], []),  # the log start has moved it to another place
    ([*GONE_ON, LOADED], []),  # a leader begins anew
    ([*GONE_ON[:3], _failed(node="broker-2")], []),
])  # fmt: skip
def test_a_start_without_a_state_leaves_acknowledgements_unanswered(
    rows: list[Row], unanswered: list[str]
) -> None:
    trace = FakeTrace()
    starts = MovedStarts(trace)
    trace.record([TOPIC, *rows])
    assert [each for each in ("others", "workers") if starts.leave_unanswered(each)] == unanswered


def test_only_share_groups_stop_so() -> None:
    line = "group workers is at 8 of 12 in orders-0"
    assert _excuse(*PASSED, _final(BELOW, BEHIND), LOG, line=line) == ""
