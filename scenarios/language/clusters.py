"""The clusters of a scenario, each as a scenario of its own, and the sites between them."""

from __future__ import annotations

from kafkasim.scenarios.language.nodes import node_names
from kafkasim.scenarios.language.tables import FaultTable, Scenario
from kafkasim.sim.faults.kinds import KINDS


def members(scenario: Scenario) -> dict[str, Scenario]:
    """Return what each cluster is alone, by name; the only one of other scenarios is ""."""
    if not scenario.clusters:
        return {"": scenario}
    within = scenario.expect.within
    return {
        each.name: Scenario.model_construct(
            name=scenario.name,
            claim=scenario.claim,
            duration=scenario.duration,
            cluster=each.cluster,
            topics=each.topics,
            acls=each.acls,
            workload=each.workload,
            streams=each.streams,
            faults=each.faults,
            operations=each.operations,
            expect=each.expect.model_copy(update={"within": within}),
        )
        for each in scenario.clusters
    }


def sites(scenario: Scenario) -> dict[str, str]:
    """Return the site of each cluster by its name."""
    return {each.name: each.site or each.name for each in scenario.clusters}


def hosts(scenario: Scenario) -> dict[str, list[str]]:
    """Return the hosts of each cluster by its name, the operator's among them: ``a.broker-1``."""
    return {
        name: [f"{name}.{node}" for node in (*node_names(alone), "admin-1")]
        for name, alone in members(scenario).items()
        if name
    }


def between_sites(table: FaultTable, scenario: Scenario) -> FaultTable:
    """Return a fault of several clusters with hosts and sites in place of the names of clusters.

    Without ``peers`` the far side of a link is all other sites, or all other hosts.
    """
    of_cluster, places = hosts(scenario), dict.fromkeys(sites(scenario).values())

    def named(names: list[str]) -> list[str]:
        return [host for name in names for host in of_cluster.get(name, [name])]

    near = named([name for name in (table.node, *table.nodes) if name is not None])
    far = named(table.peers)
    if KINDS[table.kind].link and not far:
        every = [host for some in of_cluster.values() for host in some]
        others = list(places) if all(name in places for name in near) else every
        far = [name for name in others if name not in near]
    return table.model_copy(update={"node": None, "nodes": near, "peers": far})
