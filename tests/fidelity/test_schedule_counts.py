"""How many schedules of faults are committed, and how many of them hurt a controller.

What a schedule hurts is derived from its faults. An operation that changes the voters, or stops a
server in good order, does not count.
"""

from __future__ import annotations

import pytest

from kafkasim.scenarios.language.nodes import controller_hosts
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import FaultTable, Scenario
from tests.fidelity.playing import ZOOKEEPER, load, names

ACTIVE = "active-controller"


def quorum_of(scenario: Scenario) -> set[str]:
    """Return the servers that hold the metadata: controllers, or the ZooKeeper ensemble."""
    cluster = scenario.cluster
    if cluster.mode == "zookeeper":
        return {f"zookeeper-{number}" for number in range(1, cluster.zookeepers + 1)}
    servers = cluster.controllers + cluster.standby_controllers
    return set(controller_hosts(servers, cluster.combined).values())


def active_of(scenario: Scenario) -> set[str]:
    """Return the names of the active controller: in ZooKeeper mode the broker that starts first.

    It is unknown, and no broker counts, if two brokers start at once.
    """
    cluster = scenario.cluster
    if cluster.mode != "zookeeper":
        return {ACTIVE}
    brokers = [f"broker-{number}" for number in range(1, cluster.brokers + 1)]
    start = {
        each: (cluster.nodes[each].start if each in cluster.nodes else None) or 0
        for each in brokers
    }
    first = [each for each in brokers if start[each] == min(start.values())]
    return {ACTIVE, *first} if len(first) == 1 else {ACTIVE}


def hurts_a_controller(scenario: Scenario, fault: FaultTable) -> bool:
    """Return whether a fault hits the active controller or a member of the quorum.

    A fault of links hits the active controller if that is at one end, and the quorum if it
    separates members of it: a broker that cannot reach the controllers is the broker's misfortune.
    """
    struck = {*fault.nodes, *([fault.node] if fault.node else [])}
    peers = set(fault.peers)
    active, quorum = active_of(scenario), quorum_of(scenario)
    if not peers:
        return bool(struck & (active | quorum))
    return bool((struck | peers) & active) or bool(struck & quorum and peers & quorum)


def hurting(version: str) -> list[str]:
    """Return the schedules of a version that hurt the active controller or the quorum."""
    found = []
    for name in names(version):
        scenario = load(name, version or "4.0.0")
        if any(hurts_a_controller(scenario, fault) for fault in scenario.faults):
            found.append(name)
    return found


def test_at_least_half_of_forty_schedules_or_more_hurt_a_controller() -> None:
    committed = len(names()) + len(names(ZOOKEEPER))
    found = len(hurting("")) + len(hurting(ZOOKEEPER))
    assert committed >= 40
    assert 2 * found >= committed, f"{found} of {committed} schedules hurt a controller"


def test_at_least_ten_schedules_are_in_zookeeper_mode() -> None:
    modes = [load(name, ZOOKEEPER).cluster.mode for name in names(ZOOKEEPER)]
    assert modes.count("zookeeper") == len(modes)
    assert len(modes) >= 10


@pytest.mark.parametrize(
    ("cluster", "fault", "counts"),
    [
        ({}, {"kind": "crash", "node": "broker-1"}, False),
        ({}, {"kind": "crash", "node": ACTIVE}, True),
        ({}, {"kind": "crash", "nodes": ["broker-1", "controller-2"]}, True),
        ({"combined": 1}, {"kind": "crash", "node": "broker-1"}, True),
        ({"combined": 1}, {"kind": "crash", "node": "broker-2"}, False),
        ({}, {"kind": "partition", "node": "broker-1", "peers": ["controller-1"]}, False),
        ({}, {"kind": "partition", "node": "broker-1", "peers": [ACTIVE]}, True),
        ({}, {"kind": "partition", "node": "controller-1", "peers": ["controller-2"]}, True),
        ({"mode": "zookeeper"}, {"kind": "crash", "node": "zookeeper-1"}, True),
        ({"mode": "zookeeper"}, {"kind": "crash", "node": "broker-1"}, False),  # all start at once
        (
            {"mode": "zookeeper", "nodes": {f"broker-{n}": {"start": "2s"} for n in (1, 3)}},
            {"kind": "crash", "node": "broker-2"},
            True,
        ),
    ],
)
def test_whom_a_fault_hurts(cluster: dict, fault: dict, counts: bool) -> None:
    table = {"name": "x", "claim": "x", "duration": "9s", "cluster": {"brokers": 3, **cluster}}
    scenario = parse({**table, "faults": [{"at": "1s", **fault}]}, "x.toml")
    assert hurts_a_controller(scenario, scenario.faults[0]) == counts
