"""CPU of a fleet on local Spark beside a pool of plain Python processes that do the same runs.

    python -m kafkasim.scenarios.bench.fleets 1000

Both write the traces of all runs. The CPU time is that of all processes: the command, Spark's JVM,
its workers; the pool and its processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing import Pool
from pathlib import Path

from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running import runner

SCENARIO = "acks-one-loses"
SMALL = 4
LOOK_SECONDS = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def spent(command: Sequence[str]) -> tuple[float, float]:
    """Return the CPU seconds of a command and all that it started, and its wall seconds.

    Spark's daemon does not wait for its workers, nor the command for its JVM: nobody is told what
    they used. So the processes of the command's session are looked at until the last has ended.

    Raises:
        CalledProcessError: the command failed.
    """
    used: dict[int, float] = {}
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        while process.poll() is None:
            used |= _session(process.pid)
            time.sleep(LOOK_SECONDS)
    wall = time.monotonic() - began
    while left := _session(process.pid):
        used |= left
        time.sleep(LOOK_SECONDS)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return sum(used.values()), wall


def _session(leader: int) -> dict[int, float]:
    """Return the CPU seconds of each process of a session, as proc(5) has them."""
    used = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session, *rest = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        if int(session) == leader and state != "Z":
            used[int(place.parent.name)] = (int(rest[7]) + int(rest[8])) / TICKS
    return used


def table(runs: Sequence[int] = (SMALL,)) -> Iterator[str]:
    """Yield a line for each number of runs: a fleet of so many, and the pool."""
    if not Path("/proc/self/stat").exists():
        yield "not measured: there is no /proc"
        return
    for count in runs:
        with tempfile.TemporaryDirectory(prefix="kafkasim-bench-") as place:
            fleet = [sys.executable, "-m", "kafkasim.scenarios.cli", "fleet", SCENARIO]
            cpu, wall = spent([*fleet, "--runs", str(count), "--out", f"{place}/fleet"])
            pool = [sys.executable, "-m", __spec__.name if __spec__ else __name__, "pool"]
            plain, waited = spent([*pool, str(count), f"{place}/pool"])
        yield (
            f"{count} runs of {SCENARIO}: fleet {cpu:.1f} CPU s in {wall:.0f} s, pool of processes"
            f" {plain:.1f} CPU s in {waited:.0f} s: {cpu / plain - 1:+.1%}"
        )


def pool(runs: int, place: Path) -> None:
    """Do the runs in a process for each core, and leave their traces below ``place``."""
    scenario, variants = library.scenario(SCENARIO)
    with Pool(os.cpu_count()) as processes:
        one = partial(_run, scenario, variants, place)
        for _ in processes.imap_unordered(one, range(runs)):
            pass


def _run(scenario: Scenario, variants: Sequence[str], place: Path, seed: int) -> None:
    runner.run(scenario, seed, place / str(seed), variants)


if __name__ == "__main__":
    if sys.argv[1] == "pool":
        pool(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        for line in table([int(argument) for argument in sys.argv[1:]]):
            print(line, flush=True)
