"""``make bench``: the reference run beside bare simpy, in one process, as CPU seconds and ratios.

Prints exchanges (a request and its response) a second, seconds a run, trace bytes a row, peak
memory, and where the time goes by part. Numbers of one machine and moment: compare the ratios, and
what does not depend on the machine: events and, with ``--profile``, calls per exchange.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import sys
import tempfile
import time
from pathlib import Path

import simpy

from kafkasim.scenarios.language.spec import load
from kafkasim.scenarios.language.tables import ClusterTable, Scenario
from kafkasim.scenarios.running.runner import ScenarioRun

REFERENCE = Path(__file__).parent / "bench.toml"
ROOT = Path(__file__).parent.parent
SLICE_US = 1_000_000
SLICE_EXCHANGES = 4_000


def bare_simpy(exchanges: int) -> float:
    """Return the CPU seconds of a ping-pong of two timeouts with callbacks in bare simpy."""
    env = simpy.Environment()
    left = [exchanges]

    def request(_: object) -> None:
        env.timeout(1).callbacks.append(respond)

    def respond(_: object) -> None:
        left[0] -= 1
        if left[0]:
            env.timeout(1).callbacks.append(request)

    began = time.process_time()
    request(None)
    env.run()
    return time.process_time() - began


class BenchRun(ScenarioRun):
    """The reference run, in slices of simulated time with bare simpy in between.

    A machine's speed drifts within seconds; two things measured in turn drift together.
    """

    bare_seconds = 0.0
    bare_exchanges = 0

    def _safety(self) -> None:
        self._phase("safety", "")
        self.cluster.start_clients()
        self.faults.arm(self.ready_us)
        end = self.ready_us + self.scenario.duration
        while self.world.now < end:
            self.world.run(min(end, self.world.now + SLICE_US))
            self.bare_seconds += bare_simpy(SLICE_EXCHANGES)
            self.bare_exchanges += SLICE_EXCHANGES


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="reference runs (default 3)")
    parser.add_argument("--profile", action="store_true", help="one more run under cProfile")
    options = parser.parse_args()
    scenario = load(REFERENCE)
    older = scenario.model_copy(update={"cluster": in_zookeeper_mode(scenario.cluster)})
    print(f"Python {sys.version.split()[0]}, one process, full trace and invariants on; CPU time")
    print(
        "mode       seed  exchanges  events/ex     exch/s   bare simpy   ratio   s/run   rows"
        "  bytes/row  verdict"
    )
    for seed in range(1, options.runs + 1):
        _measure(scenario, seed)
    _measure(older, 1)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process: {peak:.0f} MiB")
    print("targets: 25 000 exchanges/s and 2.5 s a run where bare simpy does 345 000: ratio 0.072")
    if options.profile:
        _profile(scenario)


def in_zookeeper_mode(cluster: ClusterTable) -> ClusterTable:
    """Return the same brokers on a ZooKeeper ensemble."""
    return ClusterTable.model_validate(
        {"mode": "zookeeper", "brokers": cluster.brokers, "config": cluster.config}
    )


def _measure(scenario: Scenario, seed: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        run = BenchRun(scenario, seed, Path(scratch), [])
        began = time.process_time()
        result = run.execute()
        cpu = time.process_time() - began - run.bare_seconds
        size = (Path(scratch) / "trace.parquet").stat().st_size
    rate = result.exchanges / cpu
    events = next(run.world.kernel._eid) / result.exchanges
    bare = run.bare_exchanges / run.bare_seconds
    print(
        f"{scenario.cluster.mode:9}  {result.seed:4}  {result.exchanges:9}  {events:9.2f}"
        f"  {rate:9.0f}  {bare:11.0f}  {rate / bare:6.4f}"
        f"  {cpu:6.2f}  {result.events:5}  {size / result.events:9.1f}  {result.verdict}"
    )


def _profile(scenario: Scenario) -> None:
    profile = cProfile.Profile()
    run = ScenarioRun(scenario, 1, None, [])
    exchanges = profile.runcall(run.execute).exchanges
    stats = pstats.Stats(profile)
    parts: dict[str, float] = {}
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    entries = vars(stats)["stats"]
    calls = python = 0
    for (file, _, _), (_, count, own, _, _) in entries.items():
        calls += count
        python += count if file != "~" else 0
        path = Path(file)
        inside = path.is_relative_to(ROOT) and ".venv" not in file
        part = "/".join(path.relative_to(ROOT).parts[:2]) if inside else "Python and libraries"
        parts[part] = parts.get(part, 0.0) + own
    total = sum(parts.values())
    print(f"\ncalls per exchange: {calls / exchanges:.1f}, of Python {python / exchanges:.1f}")
    print("where the time goes (own time under cProfile, which favours C code)")
    for part, own in sorted(parts.items(), key=lambda item: -item[1])[:20]:
        print(f"  {own / total:6.1%}  {part}")
    stats.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
