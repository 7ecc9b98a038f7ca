"""``make bench``: the reference run beside bare simpy, in one process, as CPU seconds and ratios.

Prints exchanges (a request and its response) a second, seconds a run, trace bytes a row, peak
memory, and where the time goes by part. Numbers of one machine and moment: compare the ratios.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import resource
import sys
import tempfile
import time
from pathlib import Path

import simpy

from scenarios.runner import Run
from scenarios.spec import load

REFERENCE = Path(__file__).parent / "bench.toml"
BARE_EXCHANGES = 200_000
ROOT = Path(__file__).parent.parent


def bare_simpy() -> float:
    """Return exchanges a CPU second of a ping-pong of two timeouts with callbacks."""
    env = simpy.Environment()
    left = [BARE_EXCHANGES]

    def request(_: object) -> None:
        env.timeout(1).callbacks.append(respond)  # type: ignore[union-attr]

    def respond(_: object) -> None:
        left[0] -= 1
        if left[0]:
            env.timeout(1).callbacks.append(request)  # type: ignore[union-attr]

    gc.collect()
    began = time.process_time()
    request(None)
    env.run()
    return BARE_EXCHANGES / (time.process_time() - began)


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="reference runs (default 3)")
    parser.add_argument("--profile", action="store_true", help="one more run under cProfile")
    options = parser.parse_args()
    scenario = load(REFERENCE)
    rows = []
    for seed in range(1, options.runs + 1):
        bare = bare_simpy()
        with tempfile.TemporaryDirectory() as scratch:
            run = Run(scenario, seed, Path(scratch), [])
            began = time.process_time()
            result = run.execute()
            cpu = time.process_time() - began
            size = (Path(scratch) / "trace.parquet").stat().st_size
        rows.append((bare, result, cpu, size))
    _print(rows)
    if options.profile:
        _profile(scenario)


def _print(rows: list[tuple[float, object, float, int]]) -> None:
    print(f"Python {sys.version.split()[0]}, one process, full trace and invariants on; CPU time")
    print("seed  exchanges     exch/s   bare simpy   ratio   s/run   rows  bytes/row  verdict")
    for bare, result, cpu, size in rows:
        r: object = result
        exchanges = r.exchanges  # type: ignore[attr-defined]
        rate = exchanges / cpu
        print(
            f"{r.seed:4}  {exchanges:9}  {rate:9.0f}  {bare:11.0f}  {rate / bare:6.3f}"  # type: ignore[attr-defined]
            f"  {cpu:6.2f}  {r.events:5}  {size / r.events:9.1f}  {r.verdict}"  # type: ignore[attr-defined]
        )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory of the process: {peak:.0f} MiB; targets: 25 000 exchanges/s, 2.5 s a run")


def _profile(scenario: object) -> None:
    profile = cProfile.Profile()
    run = Run(scenario, 1, None, [])  # type: ignore[arg-type]
    profile.runcall(run.execute)
    stats = pstats.Stats(profile)
    parts: dict[str, float] = {}
    for (file, _, _), (_, _, own, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        path = Path(file)
        inside = path.is_relative_to(ROOT) and ".venv" not in file
        part = "/".join(path.relative_to(ROOT).parts[:2]) if inside else "Python and libraries"
        parts[part] = parts.get(part, 0.0) + own
    total = sum(parts.values())
    print("\nwhere the time goes (own time under cProfile, which favours C code)")
    for part, own in sorted(parts.items(), key=lambda item: -item[1])[:20]:
        print(f"  {own / total:6.1%}  {part}")
    stats.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
