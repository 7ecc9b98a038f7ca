"""Run scenarios in a process of its own and print what they did: a helper of test_determinism.

``python tests/determinism_probe.py SEED NAME…`` prints a JSON line for each scenario: its name,
digest and number of rows; ``… SEED --rows NAME`` prints the rows of one.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kafkasim.model.facts import FACTS
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.runner import ScenarioRun

SECONDS = 3
OVERRIDES = {
    "expect": {},
    "cluster.config.offsets.topic.num.partitions": 3,
    "cluster.config.group.initial.rebalance.delay.ms": 100,
}


def shortened(name: str) -> Scenario:
    """Return a catalogue scenario cut to a few seconds: what strikes later strikes at once."""
    data, place = library.source(name)
    data = {key: value for key, value in data.items() if key != "twin"}
    data |= {"duration": f"{SECONDS}s", "faults": _all_early(data, "faults")}
    if "clusters" not in data:
        return parse(_light_cluster(data, place), place)
    data |= {"clusters": [_light_cluster(each, place) for each in data["clusters"]], "expect": {}}
    return parse(data, place)


def _light_cluster(data: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a scenario, or one of its clusters, with light workloads."""
    for table in ("faults", "operations"):
        data[table] = _all_early(data, table)
    data["workload"] = [_light(workload) for workload in data.get("workload", [])]
    return library.apply(data, OVERRIDES, place)


def _all_early(data: dict[str, Any], table: str) -> list[dict[str, Any]]:
    return [_early(item, i) for i, item in enumerate(data.get(table, []))]


def _early(item: dict[str, Any], index: int) -> dict[str, Any]:
    return {**item, "at": f"{200 + 300 * index}ms"} if "at" in item else item


def _light(workload: dict[str, Any]) -> dict[str, Any]:
    early = {key: value for key, value in workload.items() if key not in ("start", "stop")}
    early["count"] = min(int(workload.get("count", 1)), 2)
    if workload["kind"] == "producer":
        early["rate"] = "20/s"
    return early


class Probe(ScenarioRun):
    """A run that ends after its safety phase: convergence is not the question here."""

    def _liveness(self) -> None:
        self._heal()
        self.world.run(self.world.now + 500_000)


def probe(name: str, seed: int, rows: list[str] | None = None) -> str:
    """Run one scenario and return its digest; the rows go into ``rows``."""
    run = Probe(shortened(name), seed, None, ())
    if rows is not None:
        for kind in FACTS.values():
            run.trace.subscribe(kind, lambda *row: rows.append(repr(row)))
    result = run.execute()
    return json.dumps({"name": name, "digest": result.digest, "rows": result.events})


if __name__ == "__main__":
    number, chosen = int(sys.argv[1]), sys.argv[2:]
    if chosen[0] == "--rows":
        kept: list[str] = []
        probe(chosen[1], number, kept)
        print("\n".join(kept))
    else:
        for scenario_name in chosen:
            print(probe(scenario_name, number), flush=True)
