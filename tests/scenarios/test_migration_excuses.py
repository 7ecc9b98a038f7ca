"""Applications of a group that changes its protocol may end by an error that Kafka answers."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.judging.group_members import Excuses
from tests.scenarios.fact_makers import FakeTrace, Row

STARTED: Row = ("consumer-1", facts.HostStarted(1))
ASSIGNED: Row = ("consumer-1", facts.ConsumerAssigned("billing", "m2", 2, ()))
GONE = "GROUP_ID_NOT_FOUND: group billing"
NOT_CONVERTED = "UNKNOWN_SERVER_ERROR: group billing"


def group(state: str, *members: str, protocol: str = "") -> Row:
    return "broker-1", facts.GroupState("billing", state, 1, members, protocol, "")


def to(protocol: str) -> Row:
    return "broker-1", facts.GroupConverted("billing", protocol, "")


@pytest.mark.parametrize(
    ("reason", "rows", "covered"),
    [
        (GONE, [STARTED, 1, to("consumer"), ASSIGNED, 1, to("classic")], True),
        (GONE, [STARTED, 1, ASSIGNED, 1, group("PreparingRebalance", "m1")], True),
        (GONE, [STARTED, 1, group("PreparingRebalance", "m1")], False),  # refused when it joined
        (GONE, [ASSIGNED, 1, STARTED, 1, group("PreparingRebalance", "m1")], False),
        (GONE, [to("classic"), 1, STARTED, 1, to("consumer"), ASSIGNED], False),
        (GONE, [STARTED, ASSIGNED, 1, group("Stable", "m1", protocol="uniform")], False),
        (NOT_CONVERTED, [group("PreparingRebalance", "m1"), 1, STARTED], True),
        (NOT_CONVERTED, [group("PreparingRebalance", "m1", protocol="range"), 1, STARTED], False),
        (
            NOT_CONVERTED,
            [
                group("PreparingRebalance", "m1"), 1,
                group("CompletingRebalance", "m1", protocol="range"), 1, STARTED,
            ],
            False,
        ),
    ],
)  # fmt: skip
def test_an_error_is_excused_by_what_the_group_was(
    reason: str, rows: list[Row | int], covered: bool
) -> None:
    trace = FakeTrace()
    excuses = Excuses(trace)
    trace.record([row if isinstance(row, tuple) else ("world", row) for row in rows])
    failed = facts.ApplicationFailed("consumer-1-task-1", True, "KafkaError", reason, ())
    assert excuses.cover("consumer-1", failed) is covered
