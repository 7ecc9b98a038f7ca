"""A scenario and a seed as plain data: every range, selector and nemesis replaced by its draw.

A run of the plain data with the same seed has the same digest. The seed then decides only the draws
of the simulator (delays of the network, jitter of timers), whose random streams do not depend on
the number of faults or operations. So a table can be removed without a change of the others.
"""

from __future__ import annotations

from kafkasim.scenarios.language.files.data import Data, as_data
from kafkasim.scenarios.language.nodes import node_names, select
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import FaultTable, OperationTable, Scenario
from kafkasim.scenarios.language.time_limits import limit_us
from kafkasim.scenarios.language.units import duration_text
from kafkasim.scenarios.running.fault_schedule import drawn_faults
from kafkasim.sim.faults.kinds import Fault
from kafkasim.sim.streams import Streams

KEYS = {
    "extra-us": "extra", "offset-us": "offset", "loss": "loss", "factor": "factor", "ppm": "ppm",
    "how": "how", "path": "path", "api": "api", "purpose": "purpose", "direction": "direction",
}  # fmt: skip
"""A parameter of the simulator's fault to the key of the scenario language."""


def plain(scenario: Scenario, seed: int, variants: list[str]) -> Data:
    """Return the data of a scenario that draws nothing: ``seed`` has drawn it.

    ``variants`` are added to those of its cluster. A twin is left out.
    """
    data = as_data(scenario)
    data.pop("twin", None)
    streams = Streams(seed)
    drawn = drawn_faults(scenario, streams)
    pairs = list(zip(scenario.faults, data.get("faults", []), drawn))
    data["faults"] = [
        _drawn_table(fault) if table.kind == "nemesis" else _repetition(table, given, fault)
        for table, given, faults in pairs
        for fault in faults
    ]
    data["operations"] = [
        _operation(scenario, table, given, streams, index)
        for index, (table, given) in enumerate(
            zip(scenario.operations, data.get("operations", []), strict=True)
        )
    ]
    for key in ("faults", "operations"):
        if not data[key]:
            del data[key]
    if variants:
        named = [*scenario.cluster.variants, *variants]
        data["cluster"] = {**data.get("cluster", {}), "variants": named}
    return _with_limit(data, scenario)


def _with_limit(data: Data, scenario: Scenario) -> Data:
    """Give the cluster the time to converge that the scenario gives it.

    A nemesis alone makes that longer (``language/time_limits.py:SILENT``).
    """
    limit = limit_us(scenario)
    if scenario.expect.within is None and limit_us(parse(data, "the drawn scenario")) != limit:
        data["expect"] = {**data.get("expect", {}), "within": duration_text(limit)}
    return data


def _repetition(table: FaultTable, given: Data, fault: Fault) -> Data:
    """Return one repetition of a fault table, with what the seed drew for it."""
    made = {key: value for key, value in given.items() if key not in ("every", "count")}
    if "node" in made:
        made["node"] = _host(made["node"], fault.targets)
    first = 0 if table.node is None else 1
    if table.nodes:
        made["nodes"] = [_host(n, (t,)) for n, t in zip(table.nodes, fault.targets[first:])]
    if table.peers:
        made["peers"] = [_host(n, (o,)) for n, o in zip(table.peers, fault.others)]
    if table.at is not None:
        made["at"] = duration_text(fault.at_us)
    if fault.duration_us is not None:
        made["for"] = "ever" if fault.lasts else duration_text(fault.duration_us)
    return made


def _host(name: str, drawn: tuple[str, ...]) -> str:
    return drawn[0] if name.startswith("any-") else name


def _drawn_table(fault: Fault) -> Data:
    """Return the table of a fault that a nemesis drew."""
    place = {"rack": fault.targets[0]} if fault.kind == "rack-loss" else {"node": fault.targets[0]}
    table: Data = {"kind": fault.kind, **place}
    if fault.others:
        table["peers"] = list(fault.others)
    table["at"] = duration_text(fault.at_us)
    if fault.duration_us is not None:
        table["for"] = "ever" if fault.lasts else duration_text(fault.duration_us)
    for name, value in fault.parameters:
        table[KEYS[name]] = duration_text(int(value)) if name.endswith("-us") else value
    if fault.guarded:
        table["guarded"] = True
    return table


def _operation(
    scenario: Scenario, table: OperationTable, given: Data, streams: Streams, index: int
) -> Data:
    """Return an operation with its time and host drawn, in the order in which a run draws them."""
    rng = streams.stream("scenario", "operation", index)
    made = dict(given)
    if table.at is not None:
        made["at"] = duration_text(table.at.draw(rng))
    if table.node is not None and table.node.startswith("any-"):
        nodes = node_names(scenario)
        made["node"] = select(table.node, nodes, rng, combined=scenario.cluster.combined)
    return made
