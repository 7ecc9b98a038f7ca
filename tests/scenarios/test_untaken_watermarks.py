"""Readers of a follower whose leader takes the newest high watermark for told."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.transactions.liveness.groups.untaken_watermarks import (
    UNTAKEN,
    UntakenWatermarks,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row

LINE = "group billing is at 2 of 4 in orders-0 (last read by consumer-1)"
CREATED: Row = ("controller-1", facts.TopicCreated(1, "T", "orders", 1, 3, 1))
NAMED: Row = ("consumer-1", facts.ReadReplica("billing", "T", 0, 2))
ASKS_AGAIN: Row = ("consumer-1", facts.ReadReplica("billing", "T", 0, -1))


def follows(leader: int, epoch: int) -> Row:
    return "broker-2", facts.BecameFollower("T", 0, epoch, leader, 4)


def moved(high_watermark: int = 4) -> Row:
    return "broker-3", facts.HighWatermark("T", 0, 0, high_watermark, 2, (1, 3))


def ends(high_watermark: int = 2, end: int = 4, leading: bool = False) -> Row:
    return "broker-2", facts.FinalReplica(
        "T", 0, leading, 2, 0, high_watermark, high_watermark, end, *[()] * NESTED
    )


NESTED = len(facts.FinalReplica.__dataclass_fields__) - 8
LEADS: Row = ("broker-2", facts.BecameLeader("T", 0, 1, 2, (1, 2, 3), 4, 2))
TRUNCATES: Row = ("broker-2", facts.Truncated("T", 0, 2, 5, 4))
STARTS = [CREATED, follows(3, 0), NAMED, ASKS_AGAIN]
RETURNS = [*STARTS, moved(), LEADS, follows(3, 2)]


def stopped(node: str) -> Row:
    return node, facts.HostStopped("crash")


@pytest.mark.parametrize(
    "rows",
    [
        [*RETURNS, ends()],
        [*STARTS, moved(), follows(1, 1), follows(3, 2), ends()],
        [*STARTS, moved(), follows(3, 1), ends()],
        [*STARTS, moved(), follows(1, 1), TRUNCATES, ends()],
        [*STARTS, moved(), stopped("broker-1"), LEADS, follows(3, 2), ends()],
    ],
    ids=["led", "followed-another", "a-newer-epoch", "truncated", "a-stranger-stopped"],
)
def test_what_was_sent_to_a_follower_that_did_not_take_it_is_not_sent_again(
    rows: list[Row],
) -> None:
    assert _excuse(rows) == UNTAKEN


@pytest.mark.parametrize(
    "rows",
    [
        RETURNS,
        [*RETURNS, ends(high_watermark=3)],
        [*RETURNS, ends(end=3)],
        [*RETURNS, ends(leading=True)],
        [*RETURNS, moved(), ends()],
        [*STARTS, follows(3, 1), moved(), ends()],
        [*STARTS, moved(), follows(1, 1), ends()],
        [*STARTS, moved(), stopped("broker-3"), LEADS, follows(3, 2), ends()],
        [*STARTS, moved(), stopped("broker-2"), LEADS, follows(3, 2), ends()],
        [*RETURNS, stopped("broker-2"), follows(3, 2), ends()],
        [each for each in [*RETURNS, ends()] if each != NAMED],
        [each for each in [*RETURNS, ends()] if each != CREATED],
    ],
    ids=["no-end", "further", "lacks-records", "leads", "moved-since", "a-newer-epoch-before",
         "another-leader", "leader-stopped", "stopped-before", "stopped", "reads-the-leader",
         "another-topic"],
)  # fmt: skip
def test_a_follower_that_is_sent_the_high_watermark_has_no_excuse(rows: list[Row]) -> None:
    assert _excuse(rows) == ""


def test_other_lines_have_no_excuse() -> None:
    assert _excuse([*RETURNS, ends()], "broker-2 is down") == ""


def _excuse(rows: list[Row], line: str = LINE) -> str:
    trace = FakeTrace()
    judge = UntakenWatermarks(trace)
    trace.record(rows)
    return judge.excuse(line)
