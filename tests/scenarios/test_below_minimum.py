"""What waits for a coordinator whose partition has lost too many replicas."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.controllers.below_minimum import (
    BelowMinimum,
    HeldWatermarks,
)
from kafkasim.analysis.judging.transactions.liveness.holders import Holders
from kafkasim.analysis.judging.transactions.liveness.positions import Positions
from kafkasim.model import facts
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

MEMBERS = {"processors": ["producer-1"], "mixed": ["producer-1", "consumer-1"]}


def _minimum(resource: str, value: str) -> Row:
    return "controller-1", facts.ConfigChanged(9, resource, "min.insync.replicas", value)


def _excuse(line: str, gone: list[Gone], *rows: Row) -> str:
    trace = FakeTrace()
    ids = {"producer-1": "writer"}
    judge = BelowMinimum(trace, ids, MEMBERS, gone, Holders(trace, ids, Positions(trace)))
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


def _set(offset: int, value: str | None, resource: str = "topic:__consumer_offsets") -> Row:
    return "controller-1", facts.ConfigChanged(offset, resource, "min.insync.replicas", value)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ([_set(2, "1"), _set(3, "3")], [], "late"),  # was lower while the ISR was complete
        ([_set(2, "1"), _set(3, "3"), _set(2, "1")], [], "late"),  # told again by a new controller
        ([_set(2, "3")], [_set(4, "1"), _set(5, "3")], ""),  # let one write while it was in force
        ([_set(2, "3")], [_set(4, None)], ""),  # the brokers' value again, with which it began
        ([_set(2, "3"), _set(3, "1", "broker:")], [], "late"),  # the topic's own value counts
        ([_set(0, "3")], [], ""),  # of a topic of that name before
        ([_set(2, "1")], [_set(3, "3")], ""),
    ],
)
def test_what_was_in_force_since_the_last_of_them_left_counts(
    before: list[Row], after: list[Row], why: str
) -> None:
    rows = [home(GROUPS, 1, 2, 3), *before, home(GROUPS, 1, 3, epoch=1), *after]
    assert _excuse(GROUP, [Gone("late", 2)], *rows) == why


def test_a_broker_that_came_back_left_later() -> None:
    """The minimum that was in force when it had left the first time counts no more."""
    left, back = home(GROUPS, 1, 3, epoch=1), home(GROUPS, 1, 2, 3, epoch=2)
    rows = [home(GROUPS, 1, 2, 3), _set(2, "1"), left]
    assert _excuse(GROUP, [Gone("late", 2)], *rows, _set(3, "3")) == ""
    again = [back, _set(3, "3"), home(GROUPS, 1, 3, epoch=3)]
    assert _excuse(GROUP, [Gone("late", 2)], *rows, *again) == "late"


@pytest.mark.parametrize(
    ("position", "exposed", "end", "isr", "why"),
    [
        (3, 4, 4, (1,), "late"),
        (2, 4, 4, (1,), ""),  # it has to read on to the high watermark
        (3, 4, 3, (1,), ""),  # the record is lost
        (3, 4, 4, (1, 2), ""),
    ],
)
def test_a_group_waits_at_a_high_watermark_that_moves_no_more(
    position: int, exposed: int, end: int, isr: tuple[int, ...], why: str
) -> None:
    trace = FakeTrace()
    judge = HeldWatermarks(trace, [Gone("late", 2, 3)], Positions(trace))
    final = facts.FinalReplica("orders", 0, True, 1, 0, 3, 3, end, (), (), (), (), (), (), (), ())
    trace.record([*topics(2), home("orders", *isr), ("broker-1", final)])
    line = f"group billing is at {position} of {exposed} in orders-0 (last read by consumer-1)"
    assert judge.excuse(line) == why


@pytest.mark.parametrize(
    ("start", "assigned", "positioned", "why"),
    [
        (4, True, False, "late"),
        (3, True, False, ""),  # it is told where the log ends
        (4, False, False, ""),  # nobody has been given the partition
        (4, True, True, ""),  # it begins where the log does
    ],
)
def test_a_member_without_a_position_is_not_told_where_the_log_ends(
    start: int, assigned: bool, positioned: bool, why: str
) -> None:
    """The leader's epoch begins above its high watermark: OFFSET_NOT_AVAILABLE (KIP-207)."""
    trace = FakeTrace()
    judge = HeldWatermarks(trace, [Gone("late", 2, 3)], Positions(trace))
    final = facts.FinalReplica(
        "orders", 0, True, 1, 0, 3, 3, 4, (0, 0, 1, start), (), (), (), (), (), (), ()
    )
    given = facts.GroupAssigned("billing", 1, "m1", ("orders-0",) if assigned else ())
    begins = facts.Positioned("billing", "m1", "orders", 0, 0, "earliest")
    held: list[Row] = [("consumer-1", begins)] if positioned else []
    trace.record([*topics(2), home("orders", 1), ("broker-1", given), *held, ("broker-1", final)])
    assert judge.excuse("group billing is at 0 of 4 in orders-0 (last read by nobody)") == why


@pytest.mark.parametrize(("group", "why"), [("processors", "late"), ("mixed", "")])
def test_a_group_of_processors_waits_for_the_coordinators_of_all_of_them(
    group: str, why: str
) -> None:
    line = GROUP.replace("billing", group)
    rows = [home(GROUPS, 1, 2, 3), home(STATES, 1), home("orders", 1)]
    assert _excuse(line, [Gone("late", 2, 3)], *rows) == why


def test_a_partition_needs_no_more_replicas_than_it_has() -> None:
    trace = FakeTrace()
    holders = Holders(trace, {}, Positions(trace))
    judge = BelowMinimum(trace, {}, {}, [Gone("late", 2, 3)], holders)
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
