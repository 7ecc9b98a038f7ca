"""Share groups whose share coordinator has lost that a share partition was initialized."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.shares.forgotten_shares import (
    ForgottenShares,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row, T
from tests.scenarios.transaction_cases import STANDING, loss

STATES = ("share-states", 0)
OTHER_STATES = ("other-states", 0)
LINE = "share group workers is at 0 of 4 in orders-0"

CREATED: list[Row] = [
    ("controller-1", facts.TopicCreated(1, T, "orders", 1, 3, 1)),
    ("controller-1", facts.TopicCreated(2, "share-states", "__share_group_state", 1, 3, 1)),
]  # rows 0 and 1


def _loaded(partition: int = 0, group: str = "workers") -> Row:
    return "broker-2", facts.SharePartitionLoaded(group, T, partition, 1, 0, 0)


def _closed(reason: str = "UNKNOWN_SERVER_ERROR", partition: int = 0) -> Row:
    return "broker-2", facts.SharePartitionClosed("workers", T, partition, 1, reason)


def _excuse(line: str, rows: list[Row], *losses: tuple[tuple[str, int], Any]) -> str:
    trace = FakeTrace()
    judge = ForgottenShares(trace, lambda key: [each for at, each in losses if at == key])
    trace.record([*CREATED, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", judge.excuse)


LOST = (STATES, loss(seq=3))


@pytest.mark.parametrize("rows", [
    [_loaded(), _closed("leadership"), _closed()],
    [_loaded(), _closed("leadership"), _closed(), _closed()],  # its members go on asking
    [_loaded(), _closed("leadership"), _closed(), _loaded(1), _loaded(group="others")],
    [_closed("empty"), _closed("leadership"), _closed()],  # nobody had read it before
])  # fmt: skip
def test_nobody_initializes_a_forgotten_share_partition_again(rows: list[Row]) -> None:
    assert _excuse(LINE, rows, LOST) == STANDING


@pytest.mark.parametrize(("rows", "lost"), [
    ([_loaded(), _closed("leadership"), _closed()], []),
    ([_loaded(), _closed("leadership"), _closed()], [(OTHER_STATES, loss(seq=3))]),
    ([_loaded(), _closed("leadership"), _closed()],
     [(STATES, loss(seq=3, reason="unclean-election"))]),
    ([_loaded(), _closed("leadership"), _closed()], [(STATES, loss(seq=2))]),  # it could read since
    ([_loaded(), _closed("leadership"), _closed()], [(STATES, loss(seq=4))]),  # refused before
    ([_loaded(), _closed("leadership"), _closed(), _loaded()], [LOST]),
    ([_loaded(), _closed("leadership"), _closed(partition=1)], [LOST]),
    ([_loaded(), _closed("leadership"), _closed("NOT_LEADER_OR_FOLLOWER")], [LOST]),
    ([_loaded(), _closed("leadership")], [LOST]),
])  # fmt: skip
def test_any_other_share_partition_goes_on(
    rows: list[Row], lost: list[tuple[tuple[str, int], Any]]
) -> None:
    assert _excuse(LINE, rows, *lost) == ""


@pytest.mark.parametrize("line", [
    "group workers is at 0 of 4 in orders-0 (last read by nobody)",
    "share group others is at 0 of 4 in orders-0",
    "share group workers is at 0 of 4 in payments-0",
    "orders-0 has no leader",
])  # fmt: skip
def test_other_lines_are_not_explained(line: str) -> None:
    assert _excuse(line, [_loaded(), _closed("leadership"), _closed()], LOST) == ""
