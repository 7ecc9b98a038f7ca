"""What nobody assigns once a coordinator has failed behind the downgrade of a group (KIP-848)."""

from __future__ import annotations

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.groups.downgrade import FORGOTTEN, Downgrades
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row

LEADER, OTHER, GONE = "m-1", "m-2", "m-3"
LINE = "group billing is at 0 of 4 in orders-2 (last read by nobody)"


def _group(state: str, generation: int = 5, node: str = "broker-1", leader: str = LEADER) -> Row:
    members = (LEADER, OTHER) if leader else (LEADER, OTHER, GONE)
    return node, facts.GroupState("billing", state, generation, members, "range", "", leader)


def _has(member: str, *names: str) -> Row:
    return "consumer-1", facts.ConsumerAssigned("billing", member, 5, names)


def _gives_up(member: str, *names: str) -> Row:
    return "consumer-1", facts.ConsumerRevoked("billing", member, 5, names, False)


def _sends(api: str, member: str, generation: int = 5, node: str = "broker-2") -> Row:
    return node, facts.MemberRequest("billing", member, None, api, generation, (), (), 0, 0)


def _loads(node: str = "broker-2") -> list[Row]:
    """Another coordinator reads that orders-2 is the leader's; nobody reads orders-3."""
    assigned = {LEADER: ("orders-0", "orders-2"), OTHER: ("orders-1",)}
    told = [facts.GroupAssigned("billing", 5, each, had) for each, had in assigned.items()]
    return [_group("Stable", node=node), *[(node, each) for each in told]]


SERVED: list[Row] = [
    _has(LEADER, "orders-0"), _has(OTHER, "orders-1", "orders-2"), _gives_up(OTHER, "orders-2"),
]  # fmt: skip
BECAME_CLASSIC: list[Row] = [
    ("broker-1", facts.GroupConverted("billing", "classic", "")), _group("Stable"),
]  # fmt: skip
DOWNGRADED: list[Row] = [*SERVED, *BECAME_CLASSIC, _group("PreparingRebalance")]


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    downgrades = Downgrades(trace)
    trace.record(rows)
    return Progress(trace).stall_excuse([line], lambda _: "", downgrades.excuse)


def test_a_coordinator_that_loads_a_downgraded_group_rebalances_nothing() -> None:
    """Neither what was still to be handed over nor what is nobody's finds a reader."""
    for rows in (DOWNGRADED + _loads(), DOWNGRADED + _loads() + _loads("broker-3")):
        assert _excuse(*rows) == FORGOTTEN
        assert _excuse(*rows, line=LINE.replace("orders-2", "orders-3")) == FORGOTTEN


def test_what_a_member_has_must_be_read() -> None:
    for name in ("orders-0", "orders-1"):
        assert _excuse(*DOWNGRADED, *_loads(), line=LINE.replace("orders-2", name)) == ""
    assert _excuse(*DOWNGRADED, *_loads(), line=LINE.replace("billing", "other")) == ""
    assert _excuse(*DOWNGRADED, *_loads(), _has(LEADER, "orders-2")) == ""
    assert _excuse(*DOWNGRADED, *_loads(), line="orders-0: ISR [1] of [1, 2, 3]") == ""


def test_a_member_that_joins_again_has_what_the_record_assigns() -> None:
    loaded = [*DOWNGRADED, *_loads()]
    assert _excuse(*loaded, _sends("SyncGroup", LEADER)) == ""
    assert _excuse(*loaded, _sends("SyncGroup", OTHER)) == FORGOTTEN
    assert _excuse(*loaded, _sends("Heartbeat", LEADER)) == FORGOTTEN
    assert _excuse(*loaded, _sends("SyncGroup", LEADER, generation=4)) == FORGOTTEN
    assert _excuse(*loaded, _sends("SyncGroup", LEADER, node="broker-1")) == FORGOTTEN


def test_a_coordinator_that_lives_must_rebalance() -> None:
    assert _excuse(*SERVED) == ""
    assert _excuse(*SERVED, *BECAME_CLASSIC) == ""
    assert _excuse(*DOWNGRADED) == ""
    assert _excuse(*DOWNGRADED, _group("CompletingRebalance", 6), _group("Stable", 6)) == ""


def test_a_group_without_a_downgrade_must_read_all() -> None:
    formed = [*SERVED, _group("Stable"), _group("PreparingRebalance"), *_loads()]
    assert _excuse(*formed) == ""
    assert _excuse(*DOWNGRADED[:-1], *_loads()) == ""  # it had no rebalance to forget


def test_the_next_rebalance_assigns_everything() -> None:
    for state in ("PreparingRebalance", "CompletingRebalance", "Empty"):
        assert _excuse(*DOWNGRADED, *_loads(), _group(state, node="broker-2")) == ""
    assert _excuse(*DOWNGRADED, *_loads(), _group("Stable", 6, "broker-3")) == ""


def test_a_deposed_coordinator_rebalances_for_nobody() -> None:
    for state in ("PreparingRebalance", "CompletingRebalance", "Empty"):
        assert _excuse(*DOWNGRADED, *_loads(), _group(state, 6)) == FORGOTTEN


def test_a_downgrade_that_was_not_committed_did_not_happen() -> None:
    served = _group("Stable", 5, "broker-2", leader="")
    assert _excuse(*DOWNGRADED, served, *_loads()) == ""
    undone: Row = ("broker-1", facts.GroupConverted("billing", "consumer", ""))
    assert _excuse(*DOWNGRADED, undone, *_loads()) == ""


def test_a_group_that_its_upgrade_left_as_it_was_is_no_downgrade() -> None:
    """The upgrade could not be appended, and the group has had no new state by it."""
    undone: Row = ("broker-1", facts.GroupConverted("billing", "classic", ""))
    later: Row = ("world", 1)
    rows = [*SERVED, undone, later, _group("Stable"), _group("PreparingRebalance"), *_loads()]
    assert _excuse(*rows) == ""
