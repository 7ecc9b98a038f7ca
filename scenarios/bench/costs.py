"""CPU time of a simulated second without load, of idle partitions, of one seed of the search."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kafkasim.scenarios.bench.clock import TimedRun
from kafkasim.scenarios.bench.growth import Size, measure
from kafkasim.scenarios.bench.reference import in_zookeeper_mode, reference
from kafkasim.scenarios.searching.search import examine

SEEDS = 40
BUSY, IDLE = 6, 594
"""Partitions that are written to, and others to which nobody writes."""
CLIENTS = 6


def table(seeds: int = SEEDS) -> Iterator[str]:
    """Yield the lines: idle in both modes, idle partitions, then a search of ``seeds`` seeds."""
    idle = reference().model_copy(update={"workload": [], "faults": []})
    for scenario in (idle, in_zookeeper_mode(idle)):
        timed = TimedRun(scenario, 1)
        timed.execute()
        yield (
            f"idle, {scenario.cluster.mode}: {timed.ms_per_simulated_second:.1f} CPU ms a"
            f" simulated second ({timed.exchanges_per_simulated_second:.0f} exchanges)"
        )
    few, many = (measure(Size(BUSY, clients=CLIENTS, idle=idle)) for idle in (0, IDLE))
    each = [cost.second_ms / cost.exchanges for cost in (few, many)]
    yield (
        f"an exchange among {BUSY + IDLE} partitions, {IDLE} of them idle: {each[1] / each[0]:.2f}"
        f" times the CPU of one among {BUSY} ({each[1] * 1000:.0f} and {each[0] * 1000:.0f} µs)"
    )
    began = time.process_time()
    simulated = sum(examine(seed).sim_seconds for seed in range(seeds))
    took = time.process_time() - began
    yield (
        f"search: {took / seeds:.2f} CPU s a seed, {took * 1000 / simulated:.1f} CPU ms a simulated"
        f" second ({seeds} seeds)"
    )
