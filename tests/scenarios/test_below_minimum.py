"""What waits for a coordinator whose partition has lost too many replicas."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.judging.progress import Progress
from kafkasim.scenarios.judging.transactions.liveness.controllers.below_minimum import BelowMinimum
from kafkasim.scenarios.judging.transactions.liveness.holders import Holders
from kafkasim.scenarios.judging.transactions.liveness.positions import Positions
from tests.scenarios.coordinator_waits import (
    BEGUN,
    CLIENT,
    GROUP,
    GROUPS,
    OPEN,
    SHARES,
    STATES,
    WAITS,
    Gone,
    home,
    topics,
)
from tests.scenarios.fact_makers import FakeTrace, Row


def _minimum(resource: str, value: str) -> Row:
    return "controller-1", facts.ConfigChanged(9, resource, "min.insync.replicas", value)


def _excuse(line: str, gone: list[Gone], *rows: Row) -> str:
    trace = FakeTrace()
    ids = {"producer-1": "writer"}
    judge = BelowMinimum(trace, ids, gone, Holders(trace, ids, Positions(trace)))
    trace.record([*topics(2), BEGUN, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", judge.excuse)


@pytest.mark.parametrize(("line", "topic"), WAITS)
def test_a_coordinator_that_too_few_replicas_are_left_to_writes_nothing(
    line: str, topic: str
) -> None:
    both = [Gone("late", 2), Gone("unlisted", 3)]
    assert _excuse(line, both, home(topic, 1)) == "late"
    assert _excuse(line, both, home(topic, 1, 2)) == ""  # in the ISR, so it is there
    assert _excuse(line, both[:1], home(topic, 1)) == ""  # the third may come back
    assert _excuse(line, both, home(topic, 1, 2), home(topic, 1, epoch=1)) == "late"
    assert _excuse(line, both, home("orders", 1)) == ""


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
    assert _excuse(GROUP, [Gone("late", *gone)], home(GROUPS, *isr), *rows) == why


def test_a_partition_needs_no_more_replicas_than_it_has() -> None:
    trace = FakeTrace()
    holders = Holders(trace, {}, Positions(trace))
    judge = BelowMinimum(trace, {}, [Gone("late", 2, 3)], holders)
    change = facts.PartitionChanged(5, GROUPS, 0, 1, 1, 0, (1,), (1,), "created", unclean=False)
    trace.record([*topics(2), ("controller-1", change)])
    assert judge.excuse(GROUP) == ""


@pytest.mark.parametrize("line", [CLIENT.replace("-1", "-2"), OPEN.replace("id 7", "id 8")])
def test_nobody_else_waits_for_it(line: str) -> None:
    """Other clients have no transactional id."""
    homes = [home(topic, 1) for topic in (GROUPS, STATES, SHARES)]
    assert _excuse(line, [Gone("late", 2, 3)], *homes) == ""


@pytest.mark.parametrize(
    ("error", "leader", "why"),
    [
        (("async", "COORDINATOR_NOT_AVAILABLE"), 1, ""),
        (("sync", "COORDINATOR_NOT_AVAILABLE"), 1, "late"),  # it waits for its commit
        (("async", "COORDINATOR_NOT_AVAILABLE"), 2, "late"),  # whose broker is down
    ],
)
def test_a_group_reads_on_what_its_consumers_hold(
    error: tuple[str, str], leader: int, why: str
) -> None:
    """The coordinator refuses its commits only."""
    kind, name = error
    held = facts.Positioned("billing", "m1", "orders", 0, 2, "committed")
    fails = facts.CommitResult("billing", "m1", "orders", 0, 2, 1, kind, name, revoking=False)
    line = GROUP.replace("is at 0", "is at 2").replace("nobody", "consumer-1")
    rows = [home(GROUPS, 1), home("orders", leader, leader=leader)]
    reads = [("consumer-1", held), ("consumer-1", fails)]
    assert _excuse(line, [Gone("late", 2, 3)], *rows, *reads) == why
    assert _excuse(line, [Gone("late", 2, 3)], *rows) == "late"  # nobody holds it
