"""Translate a fault of a scenario into a fault of the simulator (:mod:`kafkasim.sim.faults`).

Selectors become hosts or roles, ranges become drawn durations, and keys become parameters.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

from kafkasim.model.directories import root
from kafkasim.scenarios.language.nodes import (
    OFFSETS_PARTITIONS,
    TRANSACTION_PARTITIONS,
    select,
)
from kafkasim.scenarios.language.tables import FaultTable, WhenTable
from kafkasim.sim.faults.kinds import KINDS, Fault, Parameter, When


def translate(
    table: FaultTable,
    nodes: list[str],
    rng: random.Random,
    *,
    repetition: int = 0,
    offsets_partitions: int = OFFSETS_PARTITIONS,
    transaction_partitions: int = TRANSACTION_PARTITIONS,
    combined: int = 0,
    log_dirs: Sequence[str] = (),
) -> Fault:
    """Return the simulator's fault for a repetition (from 0) of a scenario's fault.

    ``nodes`` are the names of all hosts, ``rng`` draws hosts of any-KIND selectors and durations
    of ranges. ``offsets_partitions`` and ``transaction_partitions`` are the cluster's
    offsets.topic.num.partitions and transaction.state.log.num.partitions, ``combined`` its number
    of combined controllers, and ``log_dirs`` the log.dirs of the node that the fault names.
    """

    choose = partial(
        select,
        nodes=nodes,
        rng=rng,
        offsets_partitions=offsets_partitions,
        transaction_partitions=transaction_partitions,
        combined=combined,
    )

    def selected(names: Sequence[str | None]) -> tuple[str, ...]:
        return tuple([choose(name) for name in names if name is not None])

    targets = selected([table.rack] if table.rack is not None else [table.node, *table.nodes])
    link = KINDS[table.kind].link
    peers = table.peers or [name for name in nodes if name not in targets]
    others = selected(peers) if link else ()
    at_us = 0 if table.at is None else table.at.draw(rng)
    if table.every is not None:
        at_us += sum(table.every.draw(rng) for _ in range(repetition))
    return Fault(
        table.kind,
        targets,
        others,
        at_us,
        when=None if table.when is None else condition(table.when),
        duration_us=None if table.for_ is None else table.for_.draw(rng),
        parameters=_parameters(table, log_dirs),
        guarded=table.guarded,
        until=None if table.until is None else condition(table.until),
    )


def condition(table: WhenTable) -> When:
    """Return the simulator's condition for a scenario's."""
    return When(
        table.fact,
        tuple(table.fields.items()),
        table.node,
        table.count,
        tuple(table.at_least.items()),
        tuple(table.at_most.items()),
        table.request,
        table.response,
        table.after,
    )


def _parameters(table: FaultTable, log_dirs: Sequence[str]) -> tuple[tuple[str, Parameter], ...]:
    path = table.path
    if table.dir is not None:  # the only log directory is the whole disk
        path = "" if len(log_dirs) < 2 else root(table.dir)
    given: list[tuple[str, Parameter | None]] = [
        ("extra-us", table.extra),
        ("loss", table.loss),
        ("factor", table.factor),
        ("offset-us", table.offset),
        ("ppm", table.ppm),
        ("how", table.how),
        ("path", path),
        ("api", table.api),
        ("purpose", table.purpose),
        ("direction", table.direction),
    ]
    return tuple((name, parameter) for name, parameter in given if parameter is not None)
