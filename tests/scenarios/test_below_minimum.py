"""What waits for a coordinator whose partition has lost too many replicas."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.judging.progress import Progress
from kafkasim.scenarios.judging.transactions.liveness.controllers.below_minimum import BelowMinimum
from tests.scenarios.fact_makers import FakeTrace, Row

GROUPS, STATES, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
GROUP = "group billing is at 0 of 4 in orders-0 (last read by nobody)"
COMMIT = "group billing was given records below 4 of orders-0 and has committed 0"
SHARE = "share group billing is at 0 of 4 in orders-0"
CLIENT = "producer-1 has records that are neither acknowledged nor failed"
PROCESSOR = "producer-1 handles what it was given"
OPEN = "orders-0 has an open transaction of producer id 7 from offset 3 on"


class _Gone:
    """A judge that knows why some brokers are down for ever."""

    def __init__(self, why: str, *brokers: int) -> None:
        self._lines = {f"broker-{broker} is down": why for broker in brokers}

    def excuse(self, line: str) -> str:
        return self._lines.get(line, "")


def _home(topic: str, *isr: int, epoch: int = 0) -> Row:
    change = facts.PartitionChanged(
        5, topic, 0, isr[0], 1, epoch, isr, (1, 2, 3), "fenced", unclean=False
    )
    return "controller-1", change


def _minimum(resource: str, value: str) -> Row:
    return "controller-1", facts.ConfigChanged(9, resource, "min.insync.replicas", value)


CREATED: list[Row] = [
    ("controller-1", facts.TopicCreated(1, topic, topic, 1, 3, 2))
    for topic in (GROUPS, STATES, SHARES, "orders")
]
BEGUN: Row = (
    "broker-1",
    facts.TransactionState("writer", 7, 0, "Empty", "Ongoing", ("orders-0",), 1, 0, "add"),
)


def _excuse(line: str, gone: list[_Gone], *rows: Row) -> str:
    trace = FakeTrace()
    judge = BelowMinimum(trace, {"producer-1": "writer"}, gone)
    trace.record([*CREATED, BEGUN, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", judge.excuse)


@pytest.mark.parametrize(
    ("line", "topic"),
    [
        (GROUP, GROUPS),
        (COMMIT, GROUPS),
        (SHARE, GROUPS),
        (SHARE, SHARES),
        (CLIENT, STATES),
        (PROCESSOR, STATES),
        (OPEN, STATES),
    ],
)
def test_a_coordinator_that_too_few_replicas_are_left_to_writes_nothing(
    line: str, topic: str
) -> None:
    both = [_Gone("late", 2), _Gone("unlisted", 3)]
    assert _excuse(line, both, _home(topic, 1)) == "late"
    assert _excuse(line, both, _home(topic, 1, 2)) == ""  # in the ISR, so it is there
    assert _excuse(line, both[:1], _home(topic, 1)) == ""  # the third may come back
    assert _excuse(line, both, _home(topic, 1, 2), _home(topic, 1, epoch=1)) == "late"
    assert _excuse(line, both, _home("orders", 1)) == ""


@pytest.mark.parametrize(
    ("rows", "gone", "why"),
    [
        ([_minimum("topic:__consumer_offsets", "3")], (2,), ""),  # it had two
        ([_minimum("topic:__consumer_offsets", "1")], (2, 3), ""),
        ([_minimum("broker:", "1")], (2, 3), ""),
        ([_minimum("topic:orders", "1")], (2, 3), "late"),
    ],
)
def test_the_least_that_the_isr_had_to_have_counts(
    rows: list[Row], gone: tuple[int, ...], why: str
) -> None:
    isr = [each for each in (1, 2, 3) if each not in gone]
    assert _excuse(GROUP, [_Gone("late", *gone)], _home(GROUPS, *isr), *rows) == why


def test_a_partition_needs_no_more_replicas_than_it_has() -> None:
    trace = FakeTrace()
    judge = BelowMinimum(trace, {}, [_Gone("late", 2, 3)])
    change = facts.PartitionChanged(5, GROUPS, 0, 1, 1, 0, (1,), (1,), "created", unclean=False)
    trace.record([*CREATED, ("controller-1", change)])
    assert judge.excuse(GROUP) == ""


@pytest.mark.parametrize("line", [CLIENT.replace("-1", "-2"), OPEN.replace("id 7", "id 8")])
def test_nobody_else_waits_for_it(line: str) -> None:
    """Other clients have no transactional id."""
    homes = [_home(topic, 1) for topic in (GROUPS, STATES, SHARES)]
    assert _excuse(line, [_Gone("late", 2, 3)], *homes) == ""
