"""``python -m kafkasim.analysis.bench``: judge 1, 5 and 20 million facts, beside DuckDB.

Each measurement is a process of its own, so that its peak memory and CPU seconds are its own: those
of Spark's JVM, or of the process with DuckDB. Both have the same number of threads. CPU seconds
tell how much work it was, also where others use the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkasim.analysis.bench.clock import Clock
from kafkasim.analysis.runs import BadInput

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored

THREADS = os.cpu_count() or 2
MILLION = 1_000_000


def main() -> None:
    """Print the table, or with ``--measure`` one measurement as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 5, 20], help="of facts")
    parser.add_argument("--directory", type=Path, help="where the fleets are, and stay")
    parser.add_argument("--measure", choices=["make", *MEASURED], help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        if options.measure == "make":
            make(options.directory, options.millions)
        elif options.measure:
            print(json.dumps(MEASURED[options.measure](options.directory)))
        else:
            with tempfile.TemporaryDirectory(prefix="kafkasim-bench-") as scratch:
                table(options.directory or Path(scratch), options.millions)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)  # it has said why
    except BadInput as error:
        print(f"{error}; or give another --directory", file=sys.stderr)
        sys.exit(2)


def table(directory: Path, millions: list[int]) -> None:
    """Print a line for each size, then a line for each of the heaviest checks."""
    call("make", directory, millions)
    print(f"judging, {THREADS} threads; peak is resident memory, CPU that of all threads")
    for number in millions:
        place = directory / f"rows-{number * MILLION}"
        whole, queries, duck = (call(name, place, []) for name in MEASURED)
        print(
            f"{whole['rows']:>12,} facts, {whole['runs']:,} runs: all checks"
            f" {whole['seconds']:.1f} s, CPU {whole['cpu']:.1f} s, peak {whole['peak']} MiB",
            flush=True,
        )
        for name, (rows, *ours) in queries["queries"].items():
            found, *theirs = duck["queries"][name]
            assert rows == found, f"{name}: Spark finds {rows}, DuckDB {found}"
            show(name, ours, theirs)
        show("together", *(_sums(one["queries"].values()) for one in (queries, duck)))
        print(f"    peak {queries['peak']} and {duck['peak']} MiB", flush=True)


def show(name: str, ours: Sequence[float], theirs: Sequence[float]) -> None:
    """Print the seconds and CPU seconds of Spark beside those of DuckDB."""
    print(
        f"    {name:26} Spark {ours[0]:7.2f} s  DuckDB {theirs[0]:7.2f} s  ratio"
        f" {ours[0] / theirs[0]:5.1f}; CPU {ours[1]:7.2f} s {theirs[1]:7.2f} s  ratio"
        f" {ours[1] / theirs[1]:5.1f}"
    )


def _sums(measured: Iterable[Sequence[float]]) -> list[float]:
    return [sum(column) for column in zip(*measured)][1:]


def call(what: str, directory: Path, millions: list[int]) -> Any:
    """Run one measurement in a process of its own and return what it prints."""
    command = [sys.executable, "-m", "kafkasim.analysis.bench", "--measure", what]
    command += ["--directory", str(directory)]
    if millions:
        command += ["--millions", *map(str, millions)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout or "null")


def make(directory: Path, millions: list[int]) -> None:
    """Write the fleets to judge."""
    from kafkasim.analysis.bench.made import make
    from kafkasim.analysis.spark.session import session

    make(session(), directory, [number * MILLION for number in millions])


def judging(place: Path) -> dict[str, Any]:
    """Measure the judgement of a fleet with all checks."""
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge

    spark, process = _started(place)
    clock = Clock(process)
    stored = open_stored(spark, str(place))
    verdicts = judge(stored)
    seconds, cpu = clock.read()
    return {"runs": len(verdicts.runs), "rows": stored.rows, "seconds": seconds, "cpu": cpu,
            "peak": _peak(process)}  # fmt: skip


def heaviest(place: Path) -> dict[str, Any]:
    """Measure the heaviest checks one by one, as a judgement runs them: slice by slice, and left
    out of a slice that has no row of what they judge.
    """
    from kafkasim.analysis.bench.duck import QUERIES
    from kafkasim.analysis.checks import CHECKS
    from kafkasim.analysis.load import SMALL_ROWS, views
    from kafkasim.analysis.stored import open_stored

    spark, process = _started(place)
    stored = open_stored(spark, str(place))
    slices = [replace(part, spark=spark.newSession()) for part in stored.slices(SMALL_ROWS)]
    found = {}
    texts = [CHECKS[name] for name in QUERIES]
    with ExitStack() as opened, ThreadPoolExecutor(THREADS) as pool:
        for part in slices:
            opened.enter_context(views(part, texts=texts, rows=stored.rows, small=True))
        for name in QUERIES:
            clock = Clock(process)
            rows = sum(pool.map(_count, slices, repeat(name)))
            found[name] = (rows, *clock.read())
    return {"queries": found, "peak": _peak(process)}


def _count(part: Stored, name: str) -> int:
    from kafkasim.analysis.checks import CHECKS, RARE

    if name in RARE and part.spark.table(RARE[name]).isEmpty():
        return 0
    return int(part.spark.sql(f"SELECT count(*) FROM ({CHECKS[name]})").collect()[0][0])


def duck(place: Path) -> dict[str, Any]:
    """Measure the heaviest checks in DuckDB."""
    from kafkasim.analysis.bench.duck import measure

    return {"queries": measure(place, THREADS), "peak": _peak(os.getpid())}


MEASURED = {"judging": judging, "heaviest": heaviest, "duck": duck}


def _started(place: Path) -> tuple[Any, int]:
    """Start Spark as a judgement of a fleet does; return the session and its JVM's process id."""
    from kafkasim.analysis.spark.files import stored_bytes
    from kafkasim.analysis.spark.session import session

    spark: Any = session(stored=stored_bytes(place))
    spark.range(1).collect()
    return spark, int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())


def _peak(process: int) -> int:
    """Return the peak resident memory of a process in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


if __name__ == "__main__":
    main()
