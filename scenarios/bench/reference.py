"""The reference run beside bare simpy.

A machine's speed drifts within seconds, and two things measured in turn drift together. So bare
simpy runs for a moment after every simulated second, and the ratio of the two is what compares
between machines; so do the events and the trace bytes, which depend on no machine.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import simpy

from kafkasim.scenarios.bench.clock import TimedRun
from kafkasim.scenarios.language.spec import load
from kafkasim.scenarios.language.tables import ClusterTable, Scenario

REFERENCE = Path(__file__).parents[1] / "bench.toml"
SLICE_EXCHANGES = 4_000


class BareSimpy:
    """Ping-pong of two timeouts with callbacks, the least that an exchange can cost in simpy."""

    def __init__(self) -> None:
        self.exchanges = 0
        self.seconds = 0.0  # CPU

    def run(self) -> None:
        """Make some exchanges."""
        env = simpy.Environment()
        left = SLICE_EXCHANGES

        def request(_: object) -> None:
            env.timeout(1).callbacks.append(respond)

        def respond(_: object) -> None:
            nonlocal left
            left -= 1
            if left:
                env.timeout(1).callbacks.append(request)

        began = time.process_time()
        request(None)
        env.run()
        self.seconds += time.process_time() - began
        self.exchanges += SLICE_EXCHANGES


def reference() -> Scenario:
    """Return the reference scenario, in KRaft mode."""
    return load(REFERENCE)


def in_zookeeper_mode(scenario: Scenario) -> Scenario:
    """Return a scenario with the same brokers on a ZooKeeper ensemble."""
    cluster = {
        "mode": "zookeeper",
        "brokers": scenario.cluster.brokers,
        "config": scenario.cluster.config,
    }
    return scenario.model_copy(update={"cluster": ClusterTable.model_validate(cluster)})


def table(runs: int) -> Iterator[str]:
    """Yield the lines of the reference run's table: ``runs`` seeds, and one in ZooKeeper mode."""
    scenario = reference()
    yield (
        "mode       seed  exchanges  events/ex    exch/s  bare simpy   ratio  CPU s  bytes/row"
        "  verdict"
    )
    for seed in range(1, runs + 1):
        yield _row(scenario, seed)
    yield _row(in_zookeeper_mode(scenario), 1)


def _row(scenario: Scenario, seed: int) -> str:
    bare = BareSimpy()
    with tempfile.TemporaryDirectory() as scratch:
        timed = TimedRun(scenario, seed, Path(scratch), bare.run)
        result = timed.execute()
        size = (Path(scratch) / "trace.parquet").stat().st_size
    rate, bare_rate = result.exchanges / timed.seconds, bare.exchanges / bare.seconds
    events = next(timed.run.world.kernel._eid) / result.exchanges
    return (
        f"{scenario.cluster.mode:9}  {seed:4}  {result.exchanges:9}  {events:9.2f}  {rate:8.0f}"
        f"  {bare_rate:10.0f}  {rate / bare_rate:6.4f}  {timed.seconds:5.2f}"
        f"  {size / result.events:9.1f}  {result.verdict}"
    )
