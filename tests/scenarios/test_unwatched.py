"""Classic members of a consumer group whose records are not committed in time, by hand."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.groups.unwatched import (
    UNWATCHED,
    UnwatchedMembers,
)
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row

LINE = "group billing is at 0 of 4 in orders-1 (last read by nobody)"
HOME = ("offsets", 0)
NODE = "broker-1"


def _asks(api: str, member: str, *, node: str = NODE) -> Row:
    return node, facts.MemberRequest("billing", member, None, api, 0, ("orders",), (), 6000, 9000)


def _group(*members: str, reason: str = "", node: str = NODE) -> Row:
    return node, facts.GroupState("billing", "Reconciling", 3, members, "uniform", reason, "")


def _has(member: str, *names: str) -> Row:
    return NODE, facts.GroupAssigned("billing", 3, member, names)


def _high_watermark(offset: int) -> Row:
    return NODE, facts.HighWatermark(*HOME, 0, offset, 1, (1,))


APPENDED: Row = (NODE, facts.Appended(*HOME, 0, 5, 8, -1, -1, -1, ()))
NEW = [_asks("ConsumerGroupHeartbeat", "new"), _group("new"), _has("new", "orders-0"), ("world", 1)]
JOINS = [*NEW, _asks("JoinGroup", "old"), _group("new", "old")]
COMES = [*JOINS, APPENDED]
END: list[Row] = [("world", 60), ("world", facts.Phase("end", LINE))]


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    members = UnwatchedMembers(trace, lambda _group: HOME, 5_000_000)
    trace.record([*rows, *END])
    return Progress(trace).stall_excuse([line], lambda _: "", members.excuse)


def test_a_member_whose_records_wait_too_long_has_no_session() -> None:
    assert _excuse(*COMES) == UNWATCHED
    assert _excuse(*COMES, ("world", 5), _high_watermark(8)) == UNWATCHED
    assert _excuse(*JOINS, ("world", 1), APPENDED) == UNWATCHED


@pytest.mark.parametrize(
    "rows",
    [
        JOINS,  # whose records were not appended
        [*COMES, ("world", 4.9), _high_watermark(8)],  # whose records were committed in time
        [*COMES, _asks("Heartbeat", "old")],
        [*COMES, _asks("SyncGroup", "old")],
        [*COMES, _group("new")],
        [*COMES, _group("new", "old", reason="loaded", node="broker-2")],
        [*COMES, _has("new", "orders-0", "orders-1")],
        [*COMES, NEW[0], _group("new", "old"), _has("new", "orders-1")],
        [*NEW, _asks("JoinGroup", "new"), _group("new"), APPENDED],
        [_asks("JoinGroup", "old"), _group("old"), APPENDED],  # a classic group
    ],
)  # fmt: skip
def test_other_members_have_sessions_or_nothing_to_keep(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


def test_another_group_is_not_explained() -> None:
    assert _excuse(*COMES, line=LINE.replace("billing", "audit")) == ""
