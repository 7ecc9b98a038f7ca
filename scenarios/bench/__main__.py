"""``make bench``: what a run and its start cost, in CPU time of one process.

Numbers belong to one machine and moment; ratios, events and exponents compare. A change of more
than 3 % is explained in its commit.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import resource
import sys

from kafkasim.scenarios.bench import budgets, costs, fleets, growth, reference, start
from kafkasim.scenarios.running.runner import ScenarioRun


def main() -> None:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="reference runs (default 3)")
    parser.add_argument("--no-growth", action="store_true", help="leave out the growth tables")
    parser.add_argument("--profile", action="store_true", help="print one run under cProfile, too")
    options = parser.parse_args()
    gc.freeze()  # the modules: collecting between two runs then costs next to nothing
    print(f"Python {sys.version.split()[0]}, one process, full trace and invariants, CPU time")
    parts = {
        "start": start.table,
        "the reference run beside bare simpy": lambda: reference.table(options.runs),
        "an exchange of the reference run by budget": budgets.table,
        "without load, and searching": costs.table,
        "a fleet beside a pool of processes": fleets.table,
    }
    if not options.no_growth:
        parts["growth"] = growth.table
    for title, table in parts.items():
        print(f"\n{title}")
        for line in table():
            print(f"  {line}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory of the process: {peak:.0f} MiB")
    if options.profile:
        _profile()


def _profile() -> None:
    """Print calls per exchange and the functions that take longest, under cProfile."""
    profile = cProfile.Profile()
    run = ScenarioRun(reference.reference(), 1, None, [])
    exchanges = profile.runcall(run.execute).exchanges
    stats = pstats.Stats(profile)
    entries: dict[tuple[str, int, str], tuple[int, int, float, float, object]]
    entries = vars(stats)["stats"]
    calls = sum(count for _, count, _, _, _ in entries.values())
    python = sum(entry[1] for (file, _, _), entry in entries.items() if file != "~")
    print(f"\ncalls per exchange: {calls / exchanges:.1f}, of Python {python / exchanges:.1f}")
    stats.sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
