"""The schedules of metadata are many, and half of them hurt the controller or its quorum.

What a schedule hurts is read from its faults and operations, not from its name. In KRaft mode the
quorum is the voters; in ZooKeeper mode it is the ensemble, through which a controller is elected.
"""

from __future__ import annotations

import pytest

from kafkasim.scenarios.language.nodes import controller_hosts
from kafkasim.scenarios.language.tables import FaultTable, OperationTable, Scenario
from kafkasim.sim.faults.kinds import KINDS
from tests.fidelity.playing import ZOOKEEPER, load, names

ACTIVE = "active-controller"
DOWN = ("stop", "restart")
"""The operations that end a process."""


def quorum(scenario: Scenario) -> set[str]:
    """Return the hosts of the servers that elect the controller or store what it decides."""
    cluster = scenario.cluster
    if cluster.mode == "zookeeper":
        return {f"zookeeper-{number}" for number in range(1, cluster.zookeepers + 1)}
    return set(controller_hosts(cluster.controllers, cluster.combined).values())


def controllers(scenario: Scenario) -> set[str]:
    """Return the names under which a fault finds the active controller.

    In ZooKeeper mode it is the broker that creates /controller first, so the only broker that does
    not wait for its first start; in KRaft mode only the selector is sure.
    """
    cluster = scenario.cluster
    if cluster.mode == "kraft":
        return {ACTIVE}
    brokers = {f"broker-{number}" for number in range(1, cluster.brokers + 1)}
    late = {name for name, node in cluster.nodes.items() if node.start > 0}
    return {ACTIVE} | (brokers - late if len(brokers - late) == 1 else set())


def hurts(scenario: Scenario, event: FaultTable | OperationTable) -> bool:
    """Return whether a fault or an operation hurts the active controller or its quorum.

    A cut between a server of the quorum and brokers alone does not: the quorum goes on.
    """
    targets = {*event.nodes, *([event.node] if event.node else [])}
    if isinstance(event, OperationTable):
        return event.kind in DOWN and bool(targets & (controllers(scenario) | quorum(scenario)))
    if targets & controllers(scenario):
        return True
    hit = targets & quorum(scenario)
    if not KINDS[event.kind].link:
        return bool(hit)
    far = (controllers(scenario) | quorum(scenario)) & set(event.peers)
    if scenario.cluster.mode == "zookeeper":
        return bool(hit or far) and _cuts_all_brokers(scenario, targets | set(event.peers))
    return bool(hit) and (bool(far) or not event.peers)


def _cuts_all_brokers(scenario: Scenario, ends: set[str]) -> bool:
    return ends >= {f"broker-{number}" for number in range(1, scenario.cluster.brokers + 1)}


def hurt(version: str = "") -> list[str]:
    """Return the schedules with an event that hurts the controller or its quorum."""
    scenarios = [load(name, version or "4.0.0") for name in names(version)]
    return [
        each.name for each in scenarios
        if any(hurts(each, event) for event in (*each.faults, *each.operations))
    ]  # fmt: skip


def test_half_of_the_schedules_hurt_the_controller_or_its_quorum() -> None:
    kraft, zookeeper = names(), names(ZOOKEEPER)
    assert len(kraft) >= 40
    assert len(zookeeper) >= 10
    assert 2 * len(hurt()) >= len(kraft), hurt()
    assert 2 * len(hurt() + hurt(ZOOKEEPER)) >= len(kraft + zookeeper), hurt(ZOOKEEPER)


@pytest.mark.parametrize(
    ("fault", "mode", "expected"),
    [
        ({"kind": "crash", "node": ACTIVE}, "kraft", True),
        ({"kind": "crash", "node": "controller-2"}, "kraft", True),
        ({"kind": "crash", "node": "controller-4"}, "kraft", False),  # no voter
        ({"kind": "crash", "nodes": ["broker-1", "controller-1"]}, "kraft", True),
        ({"kind": "crash", "node": "broker-1"}, "kraft", False),
        ({"kind": "crash", "node": "broker-1"}, "zookeeper", True),  # the first to start
        ({"kind": "crash", "node": "broker-2"}, "zookeeper", False),
        ({"kind": "crash", "node": "zookeeper-2"}, "zookeeper", True),
        ({"kind": "isolate", "node": "controller-3"}, "kraft", True),
        (
            {"kind": "partition", "node": "controller-1", "peers": ["controller-2"]},
            "kraft",
            True,
        ),
        ({"kind": "partition", "node": "controller-1", "peers": ["broker-1"]}, "kraft", False),
        ({"kind": "partition", "node": "broker-1", "peers": ["controller-1"]}, "kraft", False),
        ({"kind": "partition", "node": "broker-3", "peers": ["zookeeper-1"]}, "zookeeper", False),
    ],
)
def test_what_hurts(fault: dict[str, object], mode: str, expected: bool) -> None:
    late = {f"broker-{number}": {"start": "2s"} for number in (2, 3)}
    cluster = {"mode": mode, "brokers": 3}
    if mode == "zookeeper":
        cluster["nodes"] = late
    scenario = Scenario.model_validate(
        {"name": "one", "claim": "", "duration": "9s", "cluster": cluster}
    )
    assert hurts(scenario, FaultTable.model_validate({"at": "1s", **fault})) is expected
