"""From a scenario's faults to the simulator's: selectors drawn, ranges drawn, names of parameters."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkasim.model.config import BrokerConfig
from kafkasim.model.directories import root
from kafkasim.model.group.hashing import partition_for
from kafkasim.sim.faults.faults import KINDS, Fault, Parameter, When

if TYPE_CHECKING:
    from kafkasim.scenarios.language.spec import Cluster
    from kafkasim.scenarios.language.spec import Fault as FaultSpec
    from kafkasim.scenarios.language.spec import When as WhenSpec

OFFSETS_PARTITIONS = 50


def translate(
    spec: FaultSpec, nodes: list[str], rng: random.Random, repetition: int,
    offsets_partitions: int = OFFSETS_PARTITIONS, combined: int = 0, log_dirs: Sequence[str] = (),
) -> Fault:  # fmt: skip
    """Return the simulator's fault for the ``repetition``-th time a scenario's fault strikes.

    ``nodes`` are all host names; ``rng`` draws what the scenario leaves open;
    ``offsets_partitions`` is the cluster's offsets.topic.num.partitions, ``log_dirs`` are those of
    the node that the fault names.
    """
    names = [spec.rack] if spec.rack is not None else [spec.node, *spec.nodes]
    targets = tuple(
        select(name, nodes, rng, offsets_partitions, combined) for name in names if name is not None
    )
    others: tuple[str, ...] = ()
    if KINDS[spec.kind].link:
        far = spec.peers or [name for name in nodes if name not in targets]
        others = tuple(select(name, nodes, rng, offsets_partitions, combined) for name in far)
    at_us = 0 if spec.at is None else spec.at.draw(rng)
    if spec.every is not None:
        at_us += sum(spec.every.draw(rng) for _ in range(repetition))
    return Fault(
        spec.kind,
        targets,
        others,
        at_us,
        None if spec.when is None else condition(spec.when),
        None if spec.for_ is None else spec.for_.draw(rng),
        _parameters(spec, log_dirs),
        until=None if spec.until is None else condition(spec.until),
    )


def select(
    name: str,
    nodes: list[str],
    rng: random.Random,
    offsets_partitions: int = OFFSETS_PARTITIONS,
    combined: int = 0,
) -> str:
    """Return the node for any-KIND selectors, the role for coordinator:GROUP, else the name.

    The first ``combined`` brokers are controllers, too.
    """
    if name.startswith("any-"):
        kind = name.removeprefix("any-")
        some = [node for node in nodes if node.startswith(f"{kind}-")]
        if kind == "controller":
            some += [f"broker-{number}" for number in range(1, combined + 1)]
        return some[int(rng.random() * len(some))]
    if name.startswith("coordinator:"):
        group = name.partition(":")[2]
        return f"leader:__consumer_offsets-{partition_for(group, offsets_partitions)}"
    return name


def log_dirs_of(cluster: Cluster, node: str | None) -> tuple[str, ...]:
    """Return the log.dirs of a node; of a role, those of the cluster."""
    own = cluster.nodes[node].config if node is not None and node in cluster.nodes else {}
    text = own.get("log.dirs", cluster.config.get("log.dirs", ()))
    return BrokerConfig.from_properties({"log.dirs": text}).log_dirs


def condition(spec: WhenSpec) -> When:
    """Return the simulator's condition for a scenario's."""
    return When(spec.fact, tuple(spec.fields.items()), spec.node, spec.count)


def _parameters(spec: FaultSpec, log_dirs: Sequence[str]) -> tuple[tuple[str, Parameter], ...]:
    path = spec.path
    if spec.dir is not None:
        path = "" if len(log_dirs) < 2 else root(spec.dir)
    given: list[tuple[str, Parameter | None]] = [
        ("extra-us", spec.extra),
        ("loss", spec.loss),
        ("factor", spec.factor),
        ("offset-us", spec.offset),
        ("ppm", spec.ppm),
        ("how", spec.how),
        ("path", path),
        ("api", spec.api),
        ("purpose", spec.purpose),
        ("direction", spec.direction),
    ]
    return tuple((name, parameter) for name, parameter in given if parameter is not None)
