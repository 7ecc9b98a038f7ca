"""Combined nodes: one process with two endpoints, as faults, operators and readers see it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.figures.quorum import replication, status
from kafkasim.analysis.judging.verdict import Result
from kafkasim.model import facts
from kafkasim.model.broker.kraft.combined import CombinedNode
from kafkasim.model.messages import AlterPartitionRequest, ListGroupsRequest, MetadataRequest
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.language.translate import select
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.scenarios.running.stored import state_at


def scenario(combined: int = 3, **more: Any) -> Any:
    return parse(
        {
            "name": "combined",
            "claim": "One process, two offices.",
            "duration": "12s",
            "cluster": {"brokers": 3, "combined": combined,
                        "config": {"offsets.topic.num.partitions": 1}},
            "topics": [{"name": "orders", "partitions": 3, "replication-factor": 3}],
            "workload": [{"kind": "producer", "rate": "20/s", "stop": "8s"}],
            **more,
        },
        "test",
    )  # fmt: skip


def told(spec: Any, *kinds: type, directory: Path | None = None) -> tuple[Result, list[Any]]:
    """Run a scenario; return its result and (node, fact) of some kinds."""
    run = ScenarioRun(spec, 1, directory, [])
    rows: list[Any] = []
    for kind in kinds:
        run.trace.subscribe(kind, lambda _seq, _t, node, fact: rows.append((node, fact)))
    result = run.execute()
    assert result.verdict == "pass", (result.anomalies, result.missing)
    return result, rows


def test_a_crash_takes_both_offices_and_both_come_back() -> None:
    crash = {"kind": "crash", "node": "active-controller", "at": "2s", "for": "2s"}
    result, rows = told(
        scenario(faults=[crash]),
        facts.HostStopped,
        facts.ControllerActive,
        facts.BrokerRegistration,
    )
    ((down, _),) = [row for row in rows if type(row[1]) is facts.HostStopped]
    first, second = [row[0] for row in rows if getattr(row[1], "active", False)]
    assert (first, second != first) == (down, True)
    number = int(down.rpartition("-")[2])
    changes = [
        fact.change for _, fact in rows
        if type(fact) is facts.BrokerRegistration and fact.broker == number
    ]  # fmt: skip
    # Each controller tells what is committed: at first, when the node is back, and unfenced then.
    assert changes[-2:] == ["registered", "unfenced"]
    assert "failover" in result.observations


def test_a_clean_restart_hands_over_leaderships_first_and_then_the_metadata() -> None:
    restart = {"kind": "rolling-restart", "at": "2s", "pause": "1s"}
    result, rows = told(
        scenario(operations=[restart], duration="60s"), facts.HostStopped, facts.PartitionChanged
    )
    assert [(node, fact.reason) for node, fact in rows if type(fact) is facts.HostStopped] == [
        (f"broker-{number}", "shutdown") for number in (1, 2, 3)
    ]
    assert "isr-shrink:fenced" not in result.observations
    assert "controlled-shutdown" in result.observations
    assert "leaderless" not in result.observations


def test_the_quorum_of_combined_nodes_has_the_brokers_ids(tmp_path: Path) -> None:
    told(scenario(2), directory=tmp_path / "run")
    state = state_at(tmp_path / "run", "10s")
    printed = dict(line.split(":", 1) for line in status(state))
    voters, observers = (
        [replica["id"] for replica in json.loads(printed[key])]
        for key in ("CurrentVoters", "CurrentObservers")
    )
    assert (voters, observers) == ([1, 2, 3003], [3])
    table = [line.split() for line in replication(state)]
    assert [row[0] for row in table[1:]] == [
        printed["LeaderId"].strip(),
        *[voter for voter in ("1", "2", "3003") if voter != printed["LeaderId"].strip()],
        "3",
    ]
    assert [row[-1] for row in table[1:]] == ["Leader", "Follower", "Follower", "Observer"]


def test_any_controller_may_be_a_combined_node() -> None:
    class Last:
        def random(self) -> float:
            return 0.999

    nodes = ["broker-1", "broker-2", "broker-3", "producer-1"]
    assert select("any-controller", nodes, Last(), combined=2) == "broker-2"  # type: ignore[arg-type]


def test_what_comes_in_goes_to_the_part_it_was_sent_to() -> None:
    run = ScenarioRun(scenario(), 1, None, [])
    run.execute()
    node = run.world.hosts["broker-1"].process
    assert isinstance(node, CombinedNode)
    node.accepted(9_001, "controller-1")
    node.accepted(9_002, "broker-1")
    assert node.lane_of(AlterPartitionRequest(1, 1, ()), 9_001) == "controller"
    assert node.lane_of(ListGroupsRequest(), 9_002) == "group/several"
    assert node.lane_of(MetadataRequest(None), 9_002) == node.broker.default_lane
    assert node.out is node.broker.out is node.controller.out


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ({"brokers": 2, "combined": 3}, "cluster.combined: 3 is more than the brokers"),
        ({"brokers": 3, "controllers": 1, "combined": 2}, "cluster.combined: 2 is more than"),
        ({"mode": "zookeeper", "combined": 1}, 'cluster.combined: needs mode = "kraft"'),
    ],
)
def test_no_more_combined_nodes_than_there_are_brokers_and_controllers(
    cluster: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message.replace(".", r"\.")):
        scenario(cluster=cluster)
