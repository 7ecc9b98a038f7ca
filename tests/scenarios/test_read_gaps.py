"""Share partitions whose start stays behind a read gap, though all records are done, by hand."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.source import Loss
from kafkasim.analysis.judging.transactions.liveness.shares.read_gaps import HELD_BACK, ReadGaps
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row
from tests.scenarios.share_partitions import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    PARTITION,
    TOPIC,
    final,
)
from tests.scenarios.transaction_cases import loss

LINE = "share group workers is at 4 of 10 in orders-0"
FIRST, NEXT = "broker-1", "broker-2"
ACQUIRED = 1
DELETED: Row = (FIRST, facts.ShareGroupState("workers", "Dead", 1, (), ""))


def _loaded(node: str = FIRST, epoch: int = 0, state_epoch: int = 1) -> Row:
    return node, facts.SharePartitionLoaded(*PARTITION, epoch, state_epoch, 0)


def _moved(
    first: int, last: int, state: str = "ACKNOWLEDGED", node: str = FIRST, epoch: int = 0
) -> Row:
    of = ("workers", "m", "id", 0, epoch, first, last, state, 1, "acknowledged")
    return node, facts.ShareMoved(*of)


def _aborted(first: int, last: int) -> Row:
    of = ("workers", "m", "id", 0, 1, first, last, "ARCHIVED", 1, "aborted")
    return NEXT, facts.ShareMoved(*of)


def _given(first: int, last: int, node: str = NEXT, epoch: int = 1) -> Row:
    return node, facts.ShareAcquired("workers", "m", "id", 0, epoch, first, last, 1, 9)


def _final(
    *ranges: tuple[int, int, int], start: int = 4, gap: int = 4, node: str = NEXT, epoch: int = 1
) -> Row:
    return final(*ranges, start=start, gap=gap, node=node, epoch=epoch)


def _excuse(*rows: Row, line: str = LINE, lost: tuple[Loss, ...] = ()) -> str:
    trace = FakeTrace()
    gaps = ReadGaps(trace, lambda key: lost if key == ("id", 0) else ())
    trace.record([TOPIC, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", gaps.excuse)


BEHIND = _moved(4, 9)
THE_GAP = [_given(0, 3), _moved(0, 3, node=NEXT, epoch=1)]
READ = (4, 9, ACKNOWLEDGED)
HELD = [_loaded(), BEHIND, _loaded(NEXT, 1), *THE_GAP]


@pytest.mark.parametrize("rows", [
    [*HELD, _final(READ)],
    [*HELD, _final((0, 3, ACKNOWLEDGED), READ)],  # the gap is in its cache yet
    [_loaded(), _moved(4, 6), _moved(7, 9, "ARCHIVED"), _loaded(NEXT, 1), *THE_GAP,
     _final((4, 6, ACKNOWLEDGED), (7, 9, ARCHIVED))],
    [_loaded(), BEHIND, _loaded("broker-3", 1), _loaded(NEXT, 2),  # one between tells nothing
     _given(0, 3, epoch=2), _moved(0, 3, node=NEXT, epoch=2), _final(READ, epoch=2)],
    [*HELD, _moved(4, 9, "AVAILABLE"), _final(READ)],  # the first leader hears of no answer
    [_loaded(), _moved(4, 8), _loaded(NEXT, 1), *THE_GAP,  # the next one does the rest
     _given(9, 9), _moved(9, 9, node=NEXT, epoch=1), _final(READ)],
    [_loaded(), BEHIND, _loaded(NEXT, 1), *THE_GAP,
     _given(9, 9), _moved(9, 9, node=NEXT, epoch=1), _final(READ)],  # what was not written
])  # fmt: skip
def test_a_start_offset_stays_behind_the_gap_that_its_leader_has_fetched(rows: list[Row]) -> None:
    """SharePartition.findLastOffsetAcknowledged: the gap ends with the next record that is new."""
    assert _excuse(*rows) == HELD_BACK


@pytest.mark.parametrize("rows", [
    [*HELD, _final(READ, gap=-1)],  # no gap holds it back
    [*HELD, _final(READ, gap=2)],
    [*HELD, _final(READ, start=2)],
    [*HELD, _final((4, 8, ACKNOWLEDGED))],  # a record is behind all that was read
    [*HELD, _final((4, 10, ACKNOWLEDGED))],
    [*HELD, _final((4, 8, ACKNOWLEDGED), (9, 9, AVAILABLE))],  # it was not written
    [*HELD, _final((4, 8, ACKNOWLEDGED), (9, 9, ACQUIRED))],
    [*HELD, _final((4, 6, ACKNOWLEDGED), (8, 9, ACKNOWLEDGED))],  # another gap
    [*HELD, _final((5, 9, ACKNOWLEDGED))],
    [*HELD[:-1], _final(READ)],  # the gap is not done
    [*HELD[:-1], _moved(0, 3, "AVAILABLE", node=NEXT, epoch=1), _final(READ)],
    [*HELD[:-1], _moved(0, 3), _final(READ)],
    [*HELD],  # nobody leads it when the run ends
    [*HELD, _final(READ, node=FIRST)],
    [*HELD, _final(READ, epoch=0)],
    [*HELD, _loaded("broker-3", 2), _final(READ)],
])  # fmt: skip
def test_a_leader_that_holds_records_which_are_not_done_goes_on(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


LED_ANEW = [_loaded(NEXT, 1), *THE_GAP, _final(READ)]


@pytest.mark.parametrize("rows", [
    [_loaded(), *LED_ANEW],  # nobody has accepted what the state says
    [_loaded(), _moved(4, 8), *LED_ANEW],
    [_loaded(), _moved(4, 9, "AVAILABLE"), *LED_ANEW],
    [_loaded(), _moved(4, 9, "ACQUIRED"), *LED_ANEW],
    [_loaded(), LED_ANEW[0], BEHIND, *LED_ANEW[1:]],  # after the state was read
    [*HELD, _given(9, 9), _final(READ)],  # it was not done
    [*HELD, _given(9, 9), _moved(9, 9, "AVAILABLE", node=NEXT, epoch=1), _final(READ)],
    [_loaded(), BEHIND, DELETED, *LED_ANEW],
    [*HELD, DELETED, _final(READ)],
    [_loaded(), BEHIND, _loaded(NEXT, 1, state_epoch=2), *LED_ANEW[1:]],  # the offsets were reset
])  # fmt: skip
def test_what_a_leader_has_read_must_have_been_done_before(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


ABORTED = [_loaded(), BEHIND, _loaded(NEXT, 1), _aborted(0, 3)]
ALL = [(0, 3, ARCHIVED), READ]


@pytest.mark.parametrize("rows", [
    [*ABORTED, _final(*ALL, start=0)],
    [*ABORTED[:2], _moved(1, 2), _loaded(NEXT, 1), _aborted(0, 0), _aborted(3, 3),
     _final((0, 0, ARCHIVED), (1, 2, ACKNOWLEDGED), (3, 3, ARCHIVED), READ, start=0)],
])  # fmt: skip
def test_a_start_offset_stays_before_aborted_records_if_all_that_follows_is_done(
    rows: list[Row],
) -> None:
    """SharePartition.filterAbortedTransactionalAcquiredRecords moves no start offset."""
    assert _excuse(*rows, line=LINE.replace("at 4", "at 0")) == HELD_BACK


@pytest.mark.parametrize("rows", [
    [*ABORTED[:3], *THE_GAP, _final(*ALL, start=0)],  # an acknowledgement moves it
    [*ABORTED[:3], _aborted(0, 2), _final(*ALL, start=0)],
    [*ABORTED[:3], _aborted(1, 3), _final(*ALL, start=0)],
    [*ABORTED, _given(9, 9), _final(*ALL, start=0)],
    [*ABORTED, _final(*ALL, start=0, gap=-1)],
    [*ABORTED, _final((0, 2, ARCHIVED), READ, start=0)],
])  # fmt: skip
def test_before_anything_else_no_start_offset_stays(rows: list[Row]) -> None:
    assert _excuse(*rows, line=LINE.replace("at 4", "at 0")) == ""


def test_a_record_whose_offset_was_lost_since_is_another_one() -> None:
    rows = [*HELD, _final(READ)]
    assert _excuse(*rows, lost=(loss(9, 10, seq=3),)) == ""
    assert _excuse(*rows, lost=(loss(9, 10, seq=1),)) == HELD_BACK  # lost before it was done
    assert _excuse(*rows, lost=(loss(2, 4, seq=3),)) == HELD_BACK


@pytest.mark.parametrize("line", [
    LINE.replace("workers", "others"),
    LINE.replace("orders-0", "orders-1"),
    LINE.replace("orders", "payments"),
    LINE.replace("at 4", "at 3"),
    LINE.replace("of 10", "of 11"),
    "group workers is at 4 of 10 in orders-0 (last read by consumer-1)",
    "orders-0 has no leader",
])  # fmt: skip
def test_what_waits_for_something_else_is_not_excused(line: str) -> None:
    assert _excuse(*HELD, _final(READ), line=line) == ""
