"""Operators change the voters of the metadata quorum (KIP-853)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import ScenarioRun

BASE: dict[str, Any] = {
    "name": "voters",
    "claim": "Voters change one at a time.",
    "duration": "10s",
    "cluster": {"brokers": 1, "controllers": 3, "standby-controllers": 1},
    "topics": [{"name": "orders"}],
}


def answers(*operations: dict[str, Any], **more: Any) -> list[Any]:
    """Return what each operation was answered, and the voters a controller went by, in order."""
    run = ScenarioRun(parse({**BASE, **more, "operations": list(operations)}, "test"), 1, None, [])
    rows: list[Any] = []
    run.trace.subscribe(
        facts.Operated, lambda _s, _t, _n, f: rows.append((f.operation, f.error, f.reason))
    )
    run.trace.subscribe(facts.VotersChanged, lambda _s, _t, node, f: rows.append((node, f.voters)))
    result = run.execute()
    assert result.verdict == "pass", (result.anomalies, result.missing)
    return rows


def test_a_standby_becomes_a_voter_and_stops_being_one() -> None:
    add = {"kind": "add-voter", "node": "controller-4", "at": "2s"}
    remove = {"kind": "remove-voter", "node": "controller-4", "at": "4s"}
    rows = answers(add, remove)
    larger, smaller = (3001, 3002, 3003, 3004), (3001, 3002, 3003)
    told = {row[1] for row in rows if row[0].startswith("controller-")}
    assert told == {larger, smaller}
    assert [row[:2] for row in rows if row[0] in ("add-voter", "remove-voter")] == [
        ("add-voter", "NONE"), ("remove-voter", "NONE"),
    ]  # fmt: skip
    for number in range(1, 5):
        assert [r[1] for r in rows if r[0] == f"controller-{number}"] == [larger, smaller]


def test_wrong_changes_are_refused() -> None:
    rows = answers(
        {"kind": "add-voter", "node": "controller-2", "at": "1s"},
        {"kind": "remove-voter", "node": "controller-4", "at": "2s"},
    )
    assert rows == [
        ("add-voter", "DUPLICATE_VOTER", "voter 3002"),
        ("remove-voter", "VOTER_NOT_FOUND", "voter 3004"),
    ]


def test_the_voters_of_the_configuration_do_not_change() -> None:  # kraft.version 0
    cluster = {"brokers": 1, "controllers": 3}
    change = {"kind": "remove-voter", "node": "controller-3", "at": "2s"}
    again = {"kind": "add-voter", "node": "controller-3", "at": "4s"}
    assert answers(change, again, cluster=cluster) == [
        ("remove-voter", "UNSUPPORTED_VERSION", "voter 3003"),
        ("add-voter", "UNSUPPORTED_VERSION", "voter 3003"),
    ]


def test_describe_quorum_tells_who_votes_and_who_follows() -> None:
    ((_, error, told),) = answers({"kind": "describe-quorum", "at": "3s"})
    assert error == "NONE"
    voters, observers = told.partition("; voters ")[2].split("; observers ")
    assert [part.split(" at ")[0] for part in voters.split(", ")] == ["3001", "3002", "3003"]
    assert sorted(part.split(" at ")[0] for part in observers.split(", ")) == ["1", "3004"]


@pytest.mark.parametrize(
    ("operation", "cluster", "message"),
    [
        ({"kind": "add-voter", "node": "broker-1", "at": "1s"}, {}, "no controller runs on"),
        (
            {"kind": "describe-quorum", "at": "1s"},
            {"mode": "zookeeper"},
            'describe-quorum needs mode = "kraft"',
        ),
    ],
)
def test_only_a_kraft_controller_votes(
    operation: dict[str, Any], cluster: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse({**BASE, "cluster": {"brokers": 1, **cluster}, "operations": [operation]}, "test")


def test_the_broker_of_a_combined_node_learns_the_new_voters() -> None:
    cluster = {"brokers": 1, "controllers": 3, "combined": 1, "standby-controllers": 1}
    add = {"kind": "add-voter", "node": "controller-4", "at": "2s"}
    run = ScenarioRun(parse({**BASE, "cluster": cluster, "operations": [add]}, "test"), 1, None, [])
    assert run.execute().verdict == "pass"
    node: Any = run.world.hosts["broker-1"].process
    addresses = [node.broker._nodes.address(voter) for voter in node.controller.raft.voters]
    assert addresses == ["controller-1", "controller-2", "controller-3", "controller-4"]
