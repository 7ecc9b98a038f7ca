"""What nobody assigns once a static member that leads its group has come back."""

from __future__ import annotations

from kafkasim.model import facts
from kafkasim.scenarios.judging.progress import Progress
from kafkasim.scenarios.judging.transactions.liveness.static_leader import RETURNED, StaticLeaders
from tests.scenarios.fact_makers import FakeTrace, Row, T, created

LINE = "group billing is at 0 of 4 in orders-1 (last read by nobody)"
GROWN: Row = (
    "controller-1",
    facts.PartitionChanged(9, T, 1, 1, 0, 0, (1,), (1,), "created", False),
)
OLD, NEW = "i-1", "i-2"


def _group(state: str, generation: int, leader: str) -> Row:
    told = facts.GroupState("billing", state, generation, (leader,), "range", "", leader)
    return "broker-1", told


def _has(member: str, *names: str) -> Row:
    return "broker-1", facts.GroupAssigned("billing", 1, member, names)


FORMED: list[Row] = [
    ("controller-1", created()), _group("CompletingRebalance", 1, OLD), _group("Stable", 1, OLD),
    _has(OLD, "orders-0"),
]  # fmt: skip
BACK: list[Row] = [_group("Stable", 1, NEW), _has(OLD), _has(NEW, "orders-0")]


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    leaders = StaticLeaders(trace)
    trace.record(rows)
    return Progress(trace).stall_excuse([line], lambda _: "", leaders.excuse)


def test_the_new_process_of_a_static_leader_finds_nothing_new() -> None:
    assert _excuse(*FORMED, GROWN, *BACK) == RETURNED


def test_other_groups_must_read_all() -> None:
    assert _excuse(*FORMED, GROWN) == ""  # the leader never went
    assert _excuse(*FORMED, *BACK, GROWN) == ""  # its new process finds the partition
    assert _excuse(*FORMED, GROWN, *BACK, line=LINE.replace("orders-1", "orders-0")) == ""
    assert _excuse(*FORMED, GROWN, *BACK, line=LINE.replace("billing", "other")) == ""


def test_a_rebalance_assigns_the_partition() -> None:
    again = [_group("PreparingRebalance", 1, NEW), _group("CompletingRebalance", 2, NEW)]
    assert _excuse(*FORMED, GROWN, *BACK, *again, _group("Stable", 2, NEW)) == ""
