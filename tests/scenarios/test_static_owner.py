"""What nobody has once a static member came back before it had handed it over (KIP-429)."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.groups.static_owner import (
    RETURNED,
    StaticOwners,
)
from kafkasim.model import facts
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from tests.scenarios.fact_makers import FakeTrace, Row

LINE = "group billing is at 0 of 4 in orders-1 (last read by nobody)"
OLD, NEW, OTHER = "m-1", "m-1-again", "m-2"


def _group(
    state: str, generation: int = 5, node: str = "broker-1", owner: str = OLD, reason: str = ""
) -> Row:
    members = (OTHER, owner)
    return node, facts.GroupState("billing", state, generation, members, "coop", reason, OTHER)


def _joins(member: str, *owned: str, static: bool = True, node: str = "broker-1") -> Row:
    instance = "one" if static else None
    told = facts.MemberRequest(
        "billing", member, instance, "JoinGroup", 4, ("orders",), ("coop",), 1, 1, owned
    )
    return node, told


def _stable(owner: str = OLD, node: str = "broker-1", reason: str = "") -> list[Row]:
    """Generation 5 keeps orders-1 for the next one."""
    told = {owner: ("orders-0",), OTHER: ("orders-2",)}
    assigned = [facts.GroupAssigned("billing", 5, each, had) for each, had in told.items()]
    return [_group("Stable", 5, node, owner, reason), *[(node, each) for each in assigned]]


def _handover(*, static: bool = True) -> list[Row]:
    """The owner has told what it has, and then has to give orders-1 up."""
    joined = [_joins(OLD, "orders-0", "orders-1", static=static), _joins(OTHER, "orders-2")]
    return [*joined, _group("CompletingRebalance"), *_stable()]


ASKED: list[Row] = [_joins(OLD, "orders-0"), _group("PreparingRebalance")]
LOADED = _stable(node="broker-2", reason="loaded")


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    owners = StaticOwners(trace)
    trace.record(rows)
    return Progress(trace).stall_excuse([line], lambda _: "", owners.excuse)


def test_a_static_owner_that_came_back_hands_nothing_over() -> None:
    """Whether its JoinGroup came, and its coordinator failed, or it never sent one."""
    assert _excuse(*_handover(), *_stable(NEW)) == RETURNED
    assert _excuse(*_handover(), *ASKED, *LOADED, *_stable(NEW, "broker-2")) == RETURNED
    assert _excuse(*_handover(), *_stable(NEW), *_stable(NEW, "broker-2", "loaded")) == RETURNED


def test_an_owner_that_did_not_fail_must_hand_over() -> None:
    assert _excuse(*_handover()) == ""
    assert _excuse(*_handover(), *ASKED, *LOADED) == ""
    undone = _stable(OLD)  # its new id could not be committed
    assert _excuse(*_handover(), *_stable(NEW), *undone) == ""


def test_a_coordinator_that_lives_must_rebalance() -> None:
    assert _excuse(*_handover(), *ASKED) == ""
    assert _excuse(*_handover(), *ASKED, *_stable(NEW)) == ""
    assert _excuse(*_handover(), *_stable(NEW), _joins(OTHER, "orders-2")) == ""
    assert _excuse(*_handover(), _joins(OLD, "orders-0"), *_stable(NEW)) == ""
    again = [*_handover(), *ASKED, *LOADED, _group("PreparingRebalance", node="broker-2")]
    assert _excuse(*again, *_stable(NEW, "broker-2")) == ""


def test_only_a_static_member_comes_back_without_a_rebalance() -> None:
    assert _excuse(*_handover(static=False), *_stable(NEW)) == ""


def test_what_was_not_withheld_must_be_read() -> None:
    back = [*_handover(), *_stable(NEW)]
    for name in ("orders-0", "orders-2", "orders-3"):
        assert _excuse(*back, line=LINE.replace("orders-1", name)) == ""
    assert _excuse(*back, line=LINE.replace("billing", "other")) == ""
    assert _excuse(*back, line="orders-0: ISR [1] of [1, 2, 3]") == ""
    given: Row = ("broker-1", facts.GroupAssigned("billing", 5, OTHER, ("orders-1", "orders-2")))
    assert _excuse(*back, given) == ""


def test_the_next_generation_assigns_everything() -> None:
    back = [*_handover(), *_stable(NEW)]
    for state in ("PreparingRebalance", "CompletingRebalance", "Empty", "Dead"):
        assert _excuse(*back, _group(state, 5 + (state[0] == "C"))) == ""
    assert _excuse(*back, _group("Stable", 6, "broker-2", NEW, "loaded")) == ""
    assert _excuse(*back, ("broker-1", facts.GroupConverted("billing", "consumer", ""))) == ""


def test_a_deposed_coordinator_rebalances_for_nobody() -> None:
    back = [*_handover(), *ASKED, *LOADED, *_stable(NEW, "broker-2")]
    for state in ("PreparingRebalance", "Stable", "Empty", "Dead"):
        assert _excuse(*back, _group(state)) == RETURNED
    assert _excuse(*back, _joins(OLD, "orders-0")) == RETURNED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("static", "coordinator", "stalled"),
    [
        (True, "crashes", ["no-progress", "unseen"]),
        (False, "crashes", []),
        (True, "lives", []),
    ],
)
def test_an_owner_and_its_coordinator_crash_in_a_handover(
    static: bool, coordinator: str, stalled: list[str]
) -> None:
    config = {"session.timeout.ms": 30_000, "auto.offset.reset": "earliest",
              "partition.assignment.strategy": ["cooperative-sticky"]}  # fmt: skip
    members = [
        {"kind": "consumer-group", "group": "billing", "start": start,
         "config": config | ({"group.instance.id": name} if static else {})}
        for name, start in (("one", "0s"), ("two", "0s"), ("three", "3s"))
    ]  # fmt: skip
    revoked = {"when": {"fact": "ConsumerRevoked", "count": 1}, "at": "50ms"}
    crashes = [{"kind": "crash", "node": "@node", "for": "3s", **revoked}]
    if coordinator == "crashes":
        crashes.append({"kind": "crash", "node": "coordinator:billing", "for": "9s", **revoked})
    scenario = {
        "name": "handover", "claim": "Nobody gets what its owner has revoked.",
        "duration": "12s",
        "cluster": {
            "brokers": 4, "controllers": 1, "kafka-version": "4.0",
            "config": {"offsets.topic.num.partitions": 1,
                       "group.initial.rebalance.delay.ms": 500},
        },
        "topics": [{"name": "orders", "partitions": 4, "replication-factor": 3}],
        "workload": [{"kind": "producer", "rate": "20/s", "keys": "uniform:100"}, *members],
        "faults": crashes, "expect": {"permits": ["duplicate"]},
    }  # fmt: skip
    result = run(parse(scenario, "handover"), 1)
    assert (result.verdict, result.anomalies) == ("expected", ["duplicate", *stalled])
