"""``python -m kafkasim.analysis.bench``: judge 1, 5 and 20 million facts, beside DuckDB.

Each measurement is a process of its own, so that its peak memory is its own: resident memory of
Spark's JVM, or of the process with DuckDB. Both have the same number of threads.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

THREADS = os.cpu_count() or 2
MILLION = 1_000_000


def main() -> None:
    """Print the table, or with ``--measure`` one measurement as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 5, 20], help="of facts")
    parser.add_argument("--directory", type=Path, help="where the fleets are, and stay")
    parser.add_argument("--measure", choices=["make", *MEASURED], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure == "make":
        make(options.directory, options.millions)
    elif options.measure:
        print(json.dumps(MEASURED[options.measure](options.directory)))
    else:
        with tempfile.TemporaryDirectory(prefix="kafkasim-bench-") as scratch:
            table(options.directory or Path(scratch), options.millions)


def table(directory: Path, millions: list[int]) -> None:
    """Print a line for each size, then a line for each of the heaviest checks."""
    call("make", directory, millions)
    print(f"judging, {THREADS} threads; peak is resident memory")
    for number in millions:
        place = directory / f"rows-{number * MILLION}"
        whole, queries, duck = (call(name, place, []) for name in MEASURED)
        print(
            f"{whole['rows']:>12,} facts, {whole['runs']:,} runs: all checks"
            f" {whole['seconds']:.1f} s, peak {whole['peak']} MiB"
        )
        for name, (rows, seconds) in queries["queries"].items():
            theirs, took = duck["queries"][name]
            assert rows == theirs, f"{name}: Spark finds {rows}, DuckDB {theirs}"
            print(f"    {name:26} Spark {seconds:7.2f} s  DuckDB {took:7.2f} s"
                  f"  ratio {seconds / took:5.1f}")  # fmt: skip
        ours = sum(seconds for _, seconds in queries["queries"].values())
        theirs = sum(seconds for _, seconds in duck["queries"].values())
        print(f"    {'together':26} Spark {ours:7.2f} s  DuckDB {theirs:7.2f} s  ratio"
              f" {ours / theirs:5.1f}; peak {queries['peak']} and {duck['peak']} MiB",
              flush=True)  # fmt: skip


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

    missing = [n * MILLION for n in millions if not (directory / f"rows-{n * MILLION}").exists()]
    if missing:
        make(session(), directory, missing)


def judging(place: Path) -> dict[str, Any]:
    """Measure the judgement of a fleet with all checks."""
    from kafkasim.analysis.spark.session import session
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge

    spark = session()
    spark.range(1).collect()  # Spark has started
    began = time.perf_counter()
    stored = open_stored(spark, str(place))
    verdicts = judge(stored)
    return {
        "runs": len(verdicts.runs), "rows": stored.rows, "seconds": time.perf_counter() - began,
        "peak": _peak(int(_jvm(spark).java.lang.ProcessHandle.current().pid())),
    }  # fmt: skip


def heaviest(place: Path) -> dict[str, Any]:
    """Measure the heaviest checks one by one, as Spark runs them."""
    from kafkasim.analysis.bench.duck import QUERIES
    from kafkasim.analysis.checks import CHECKS
    from kafkasim.analysis.load import views
    from kafkasim.analysis.spark.session import session
    from kafkasim.analysis.stored import open_stored

    spark = session()
    spark.range(1).collect()
    found = {}
    with views(open_stored(spark, str(place))):
        for name in QUERIES:
            began = time.perf_counter()
            rows = spark.sql(f"SELECT count(*) FROM ({CHECKS[name]})").collect()[0][0]
            found[name] = (rows, time.perf_counter() - began)
    peak = _peak(int(_jvm(spark).java.lang.ProcessHandle.current().pid()))
    return {"queries": found, "peak": peak}


def duck(place: Path) -> dict[str, Any]:
    """Measure the heaviest checks in DuckDB."""
    from kafkasim.analysis.bench.duck import measure

    return {"queries": measure(place, THREADS), "peak": _peak(os.getpid())}


MEASURED = {"judging": judging, "heaviest": heaviest, "duck": duck}


def _jvm(spark: Any) -> Any:
    return spark.sparkContext._jvm


def _peak(process: int) -> int:
    """Return the peak resident memory of a process in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) // 1024
    return 0


if __name__ == "__main__":
    main()
