"""Check the clusters of a scenario, the links between their sites, and the faults between them."""

from __future__ import annotations

import random
from collections.abc import Callable

from kafkasim.scenarios.language.checks.allowed import some
from kafkasim.scenarios.language.clusters import between_sites, hosts, members, sites
from kafkasim.scenarios.language.tables import ExpectTable, FaultTable, Scenario
from kafkasim.scenarios.language.translate import translate
from kafkasim.sim.faults.kinds import FaultError, validate

ALONE = ("cluster", "topics", "workload", "operations")
"""The keys that each cluster has, and not the scenario."""


def check_clusters(scenario: Scenario, check: Callable[[Scenario], None]) -> None:
    """Check a scenario of several clusters; ``check`` checks one of them alone.

    Raises:
        ValueError: for the first mistake.
    """
    for key in ALONE:
        if key in scenario.model_fields_set:
            raise ValueError(f"{key}: each of the clusters has its own; write clusters.{key}")
    alone = members(scenario)
    for index, each in enumerate(scenario.clusters):
        if each.name in [other.name for other in scenario.clusters[:index]]:
            raise ValueError(f"clusters.{index}.name: two clusters are called {each.name!r}")
        if each.expect.within is not None:
            raise ValueError(f"clusters.{index}.expect.within: write expect.within of the scenario")
        try:
            check(alone[each.name])
        except ValueError as error:
            raise ValueError(f"clusters.{index}.{error}") from None
    given = scenario.expect.model_fields_set - {"within"}
    if given:
        raise ValueError(
            f"expect.{ExpectTable.model_fields[min(given)].alias}: each of the clusters has its"
            " own; allowed: within"
        )
    _check_links(scenario)
    for index, fault in enumerate(scenario.faults):
        _check_fault(f"faults.{index}", fault, scenario)


def _check_links(scenario: Scenario) -> None:
    known = dict.fromkeys(sites(scenario).values())
    for index, link in enumerate(scenario.links):
        for site in link.sites:
            if site not in known:
                raise ValueError(f"links.{index}.sites: no site {site!r}; allowed: {some(known)}")
        if not link.latency:
            raise ValueError(f"links.{index}.latency: allowed: more than 0s")
        if link.sites[0] == link.sites[1]:
            raise ValueError(f"links.{index}.sites: give two sites, not {link.sites[0]!r} twice")


def _check_fault(place: str, fault: FaultTable, scenario: Scenario) -> None:
    known = dict.fromkeys([*sites(scenario).values(), *hosts(scenario)])
    every = dict.fromkeys([*known, *[host for each in hosts(scenario).values() for host in each]])
    if fault.kind == "nemesis":
        raise ValueError(f"{place}.kind: a nemesis strikes one cluster; write clusters.faults")
    if fault.at is None and fault.when is None:
        raise ValueError(f"{place}: give at, when, or both")
    if fault.count > 1 and fault.every is None:
        raise ValueError(f"{place}.count: needs every")
    named: dict[str, list[str | None]] = {
        "node": [fault.node],
        "nodes": [*fault.nodes],
        "peers": [*fault.peers],
    }
    if fault.kind == "rack-loss":
        named["rack"] = [fault.rack]
        every = dict.fromkeys(sites(scenario).values())
    for key, names in named.items():
        for name in names:
            if name is not None and name not in every:
                raise ValueError(
                    f"{place}.{key}: no site, cluster or host {name!r}; allowed: {some(every)}"
                )
    try:
        validate(translate(between_sites(fault, scenario), [], random.Random(0)))
    except FaultError as error:
        raise ValueError(f"{place}.{error.field}: {error.problem}") from None
