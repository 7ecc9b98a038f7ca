"""Check the clusters of a scenario, the links between their sites, and the faults between them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.model.config import Config, ConsumerConfig, ProducerConfig
from kafkasim.model.connect.config import PRODUCER, SOURCE_CONSUMER, MirrorConfig, divided
from kafkasim.model.connect.workers.config import WorkerSettings
from kafkasim.scenarios.language.checks.allowed import check_properties, some
from kafkasim.scenarios.language.clusters import between_sites, hosts, members, sites
from kafkasim.scenarios.language.tables import ExpectTable, FaultTable, Scenario
from kafkasim.scenarios.language.translate import translate
from kafkasim.sim.faults.kinds import FaultError, validate

MIRRORING = (
    "mirror-gap", "mirror-disorder", "translated-past", "needless-reread", "checkpoint-behind",
    "checkpoint-regression", "skipped-at-failover", "internal-mirrored", "task-twice",
    "tasks-uneven", "mirror-replay",
)  # fmt: skip
"""The findings about mirrors."""

CONFIGS: dict[str, type[Config]] = {
    "": MirrorConfig,
    SOURCE_CONSUMER: ConsumerConfig,
    PRODUCER: ProducerConfig,
}
"""What the settings of a mirror are, by what is in front of them."""

ALONE = ("cluster", "topics", "workload", "operations")
"""The keys that each cluster has, and not the scenario."""


def check_clusters(scenario: Scenario, check: Callable[[Scenario], None]) -> None:
    """Check a scenario of several clusters; ``check`` checks one of them alone.

    Raises:
        ValueError: for the first mistake.
    """
    for key in ALONE:
        if getattr(scenario, key) != _default(key):
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
    _check_expect(scenario)
    _check_links(scenario)
    _check_mirrors(scenario)
    for index, fault in enumerate(scenario.faults):
        _check_fault(f"faults.{index}", fault, scenario)


def _default(key: str) -> Any:
    """Return the value of a key of a scenario that does not have it, as stored runs write it."""
    return Scenario.model_fields[key].get_default(call_default_factory=True)


def _check_expect(scenario: Scenario) -> None:
    for name, each in ExpectTable.model_fields.items():
        if name not in ("within", "permits") and getattr(scenario.expect, name) != each.default:
            raise ValueError(
                f"expect.{each.alias}: each of the clusters has its own; allowed: within, permits"
            )
    for name in scenario.expect.permits:
        if name not in MIRRORING:
            raise ValueError(
                f"expect.permits: {name!r} is not about mirrors; allowed: {some(MIRRORING)}, and"
                " others in clusters.expect"
            )


def _check_mirrors(scenario: Scenario) -> None:
    known = [each.name for each in scenario.clusters]
    for index, mirror in enumerate(scenario.mirrors):
        place = f"mirrors.{index}"
        for key, name in (("source", mirror.source), ("target", mirror.target)):
            if name not in known:
                raise ValueError(f"{place}.{key}: no cluster {name!r}; allowed: {some(known)}")
        if mirror.source == mirror.target:
            raise ValueError(f"{place}.target: give another cluster than the source")
        given = divided(mirror.config)
        for prefix, kind in CONFIGS.items():
            check_properties(f"{place}.config.{prefix}".rstrip("."), kind, given[prefix])
        of_workers = [key for key in WorkerSettings().properties() if key in mirror.config]
        if of_workers and mirror.workers is None:
            raise ValueError(
                f"{place}.config.{of_workers[0]}: a node without a group has no use for it;"
                " allowed: with workers"
            )


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
    known = [*sites(scenario).values(), *hosts(scenario)]
    nodes = sum(each.workers or 1 for each in scenario.mirrors)
    known += [f"mirror-{number}" for number in range(1, nodes + 1)]
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
