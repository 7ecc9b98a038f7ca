"""Run seeds × configurations on Spark and store facts, findings and runs, batch by batch.

A fleet is written in batches. First Spark simulates and judges the runs of a batch and commits
their facts, ``<out>/facts/batch=B/kind=K``; then the driver moves their findings to
``<out>/findings/batch=B`` and writes their rows of ``runs``, in one file. Readers take what belongs
to batches that ``runs`` names, so a run is in all tables or in none. A fleet that was killed goes
on where it was: it deletes the facts and findings of batches that ``runs`` does not name, and runs
what is missing there for this code, these judges and this configuration. One fleet at a time may
write to a place.

The tasks make the Parquet files (:mod:`kafkasim.analysis.source.task`), because Spark's JVM takes
longer to write a run's facts, as rows of more than a hundred columns, than Python to simulate them.
Spark commits them as it commits all that tasks write, to any Hadoop file system: its writer of text
stores the bytes of a row and a separator, and the separator is the end of every Parquet file.

PySpark fixes PYTHONHASHSEED in its workers, which would hide an order that depends on hashes.
Therefore the batches of a large fleet take turns with several values of PYTHONHASHSEED, and one run
in a hundred is repeated in the driver, which has another value. A digest that differs is
nondeterminism. Fewer than a hundred runs repeat none.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F

from kafkasim.analysis.runs import BadInput
from kafkasim.analysis.source.jobs import Configuration, FleetJob, prepare
from kafkasim.analysis.source.schema import RUNS, arrow
from kafkasim.analysis.source.task import END, FILES, FINDING_PART, RUN_PART, files_of
from kafkasim.analysis.spark.files import (
    delete,
    located,
    matching,
    read_bytes,
    rename,
    write_bytes,
)
from kafkasim.analysis.spark.session import INTERPRETED, tuned
from kafkasim.analysis.stored import BATCH, FACTS_PLACE, FINDINGS_PLACE, RUNS_TABLE, read_runs
from kafkasim.scenarios.running import runner
from kafkasim.sim.trace.store import code_version, judges_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HASH_SEEDS = 3
"""How many values of PYTHONHASHSEED the workers of a fleet of several batches have.

The first, 0, is PySpark's own: the workers of the first batch serve whatever is asked next.
"""

CHUNK_RUNS = 25
"""Runs of a task at most: their facts of one kind are one file."""

BATCH_RUNS = 100
"""Runs of a batch for each task that Spark runs at once: what a killed fleet repeats at most."""

REPLAY_EVERY = 100
"""Of so many runs the first is repeated in the driver: the 1st, the 101st, … The application of a
user may be what is not deterministic, and small fleets must tell that, too."""

MOST_REPLAYS = 100
"""More runs than this are never repeated: they run one after the other."""

POLL_SECONDS = 0.5

WRITING = INTERPRETED | {
    "spark.sql.maxConcurrentOutputFileWriters": "200",  # there is nothing to sort: no kind has two
}

KNOWN_OF_RUNS = (
    "run", "label", "config_digest", "code_version", "judges", "verdict", "digest", "rows",
)  # fmt: skip
"""The columns of ``runs`` that tell what is done."""

Progress = Callable[[int, int, Mapping[str, int]], None]
"""``progress(done, total, runs by verdict)``, called by the driver while runs are under way."""

Wanted = tuple[int, int]
"""The index of a job and a seed."""


@dataclass(frozen=True)
class Mismatch:
    """One seed gave two digests, which is nondeterminism."""

    label: str
    seed: int
    digest: str
    replayed: str


@dataclass
class Summary:
    """What a fleet did. ``exit_code``: 0, 1 (a run crashed) or 12 (nondeterminism)."""

    out: str
    total: int
    ran: int
    skipped: int
    seconds: float
    verdicts: dict[str, int] = field(default_factory=dict)
    crashes: list[str] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    replayed: int = 0
    rows: int = 0

    @property
    def exit_code(self) -> int:
        """The exit code of the fleet itself; the verdicts on its runs have their own."""
        return 12 if self.mismatches else 1 if self.crashes else 0


@dataclass(frozen=True)
class Done:
    """What ``runs`` says of a finished run."""

    verdict: str
    digest: str
    rows: int


def run_fleet(
    spark: SparkSession,
    configurations: Sequence[Configuration],
    seed_numbers: Iterable[int],
    out: str,
    progress: Progress | None = None,
    batch_runs: int = 0,
) -> Summary:
    """Run all seeds of all configurations that are not stored yet, and repeat some.

    ``out`` is a URI of any Hadoop file system that the executors can write to; ``batch_runs`` is
    how many runs are committed together, by default :data:`BATCH_RUNS` for each task at a time.

    Raises:
        ScenarioError: a configuration is wrong.
        BadInput: what the executors wrote cannot be seen by all, or their code is another one.
    """
    began = time.monotonic()
    fleet = _Fleet(spark, prepare(configurations), located(spark, out))
    numbers = list(dict.fromkeys(seed_numbers))
    fleet.drop_orphans()
    todo = fleet.missing(numbers)
    total = len(fleet.jobs) * len(numbers)
    size = batch_runs or BATCH_RUNS * max(1, spark.sparkContext.defaultParallelism)
    watch = _ProgressReporter(progress, total, total - len(todo))
    parts = [todo[start : start + size] for start in range(0, len(todo), size)]
    for number, part in enumerate(parts):
        fleet.run_batch(part, number % HASH_SEEDS, watch)
    done = fleet.done
    if len(done) < total and any(
        job.run_name(n) not in done for job in fleet.jobs for n in numbers
    ):
        raise BadInput(
            f"{fleet.out}: the code of kafkasim changed while the fleet ran; run it again"
        )
    summary = Summary(fleet.out, total, len(todo), total - len(todo), 0.0)
    for job in fleet.jobs:
        for seed in numbers:
            run = done[job.run_name(seed)]
            summary.verdicts[run.verdict] = summary.verdicts.get(run.verdict, 0) + 1
            summary.rows += run.rows
            if run.verdict == "crash":
                summary.crashes.append(job.run_name(seed))
    watch.report(0, summary.verdicts)
    _replay(summary, [(job, seed) for seed in numbers for job in fleet.jobs], done)
    summary.seconds = round(time.monotonic() - began, 3)
    return summary


class _Fleet:
    """The configurations of a fleet and the tables that it writes."""

    def __init__(self, spark: SparkSession, jobs: list[FleetJob], out: str) -> None:
        self.spark = spark
        self.jobs = jobs
        self.out = out
        self.done: dict[str, Done] = {}  # by name, those of this code and these judges
        self.batches: set[str] = set()
        if self._started():
            with tuned(spark, INTERPRETED):
                read = read_runs(spark, out).select(*KNOWN_OF_RUNS, BATCH).collect()
            self.batches = {row[BATCH] for row in read}
            self.done = self._known(row.asDict() for row in read)

    def drop_orphans(self) -> None:
        """Delete the facts and findings of batches that were never committed."""
        places = [
            place
            for table in (FACTS_PLACE, FINDINGS_PLACE)
            for place in matching(self.spark, f"{self.out}/{table}/{BATCH}=*")
        ]
        for place in places:
            if place.rpartition("=")[2] not in self.batches:
                delete(self.spark, place)

    def missing(self, numbers: Sequence[int]) -> list[Wanted]:
        """Return what is wanted and not in ``runs``, in the order of the seeds."""
        return [
            (index, seed)
            for seed in numbers
            for index, job in enumerate(self.jobs)
            if job.run_name(seed) not in self.done
        ]

    def run_batch(self, part: Sequence[Wanted], hash_seed: int, watch: _ProgressReporter) -> None:
        """Simulate some runs; commit their facts, then findings, then rows of ``runs``.

        Raises:
            BadInput: what the executors wrote is not there for the driver.
        """
        spark, batch = self.spark, self._next_batch()
        facts = f"{self.out}/{FACTS_PLACE}/{BATCH}={batch}"
        chunks = chunked(part, spark.sparkContext.defaultParallelism)
        with tuned(spark, WRITING), _hash_seed(spark, hash_seed):
            numbers = spark.sparkContext.parallelize(range(len(chunks)), len(chunks))
            made = numbers.flatMap(files_of(self.jobs, chunks))
            files = spark.createDataFrame(made, FILES, verifySchema=False)
            files = files.select("kind", F.col("content").cast("string"))
            writer = files.write.partitionBy("kind").option("lineSep", END)
            watch.during(spark, lambda: writer.text(facts), list(accumulate(map(len, chunks))))
        for path in matching(spark, f"{facts}/kind=*/*.txt"):
            rename(spark, path, path.removesuffix(".txt") + ".parquet")
        ended = matching(spark, f"{facts}/kind={RUN_PART}/*.parquet")
        rows = [pq.read_table(io.BytesIO(read_bytes(spark, path))) for path in ended]
        runs = pa.concat_tables(rows) if rows else arrow(RUNS).empty_table()
        if runs.num_rows != len(part):
            raise BadInput(_unseen(self.out, runs.num_rows, len(part)))
        rename(
            spark, f"{facts}/kind={FINDING_PART}", f"{self.out}/{FINDINGS_PLACE}/{BATCH}={batch}"
        )
        delete(spark, f"{facts}/kind={RUN_PART}")
        self._commit(runs.sort_by("run"), batch)
        watch.done += len(part)

    def _commit(self, runs: pa.Table, batch: str) -> None:
        """Write the rows of ``runs`` of a batch as one file, which is there as a whole or not."""
        named = pa.repeat(pa.scalar(batch), runs.num_rows)
        table = io.BytesIO()
        pq.write_table(runs.append_column(BATCH, named), table, compression="zstd")
        place = f"{self.out}/{RUNS_TABLE}/batch-{batch}.parquet"
        write_bytes(self.spark, place, table.getvalue())
        self.done |= self._known(runs.select(KNOWN_OF_RUNS).to_pylist())

    def _next_batch(self) -> str:
        """Return the name of the next batch; later batches have higher names."""
        last = matching(self.spark, f"{self.out}/{FACTS_PLACE}/{BATCH}=*")[-1:]
        return f"{int(last[0].rpartition('=')[2]) + 1 if last else 1:06d}"

    def _started(self) -> bool:
        """Return whether a batch was ever committed."""
        return bool(matching(self.spark, f"{self.out}/{RUNS_TABLE}/*.parquet"))

    def _known(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, Done]:
        """Return the runs that these jobs left with the present code and judges."""
        mine = {(job.label, job.config_digest) for job in self.jobs}
        present = code_version(), judges_version()
        return {
            row["run"]: Done(row["verdict"], row["digest"], row["rows"])
            for row in rows
            if (row["label"], row["config_digest"]) in mine
            and (row["code_version"], row["judges"]) == present
        }


def chunked(part: Sequence[Wanted], tasks: int) -> list[Sequence[Wanted]]:
    """Return the runs of each task, of which ``tasks`` are under way at once.

    The last tasks are short, so that all end at about the same time.
    """
    chunks: list[Sequence[Wanted]] = []
    start = 0
    while start < len(part):
        size = min(CHUNK_RUNS, max(1, (len(part) - start) // (2 * tasks)))
        chunks.append(part[start : start + size])
        start += size
    return chunks


def _unseen(out: str, arrived: int, expected: int) -> str:
    return (
        f"{out}: {arrived} of {expected} runs of a batch arrived; executors and driver do not share"
        " these files (a path on one machine?)"
    )


@contextmanager
def _hash_seed(spark: SparkSession, value: int) -> Iterator[None]:
    """Let Python workers of what is registered meanwhile have that PYTHONHASHSEED."""
    environment = spark.sparkContext.environment
    before = environment["PYTHONHASHSEED"]
    environment["PYTHONHASHSEED"] = str(value)
    try:
        yield
    finally:
        environment["PYTHONHASHSEED"] = before


class _ProgressReporter:
    """Tells the progress callback how many runs are done: those of finished tasks."""

    def __init__(self, progress: Progress | None, total: int, done: int) -> None:
        self.progress = progress
        self.total = total
        self.done = done

    def report(self, running: int, verdicts: Mapping[str, int]) -> None:
        """Report the runs of finished batches, and those that the present one has finished."""
        if self.progress is not None:
            self.progress(min(self.total, self.done + running), self.total, verdicts)

    def during(self, spark: SparkSession, work: Callable[[], None], runs: Sequence[int]) -> None:
        """Report while ``work`` runs, and cancel it when this is interrupted.

        ``runs`` says how many runs the first task has, the first two, and so on; tasks end about
        in their order.
        """
        context = spark.sparkContext
        group = f"kafkasim-fleet-{id(work)}"

        def grouped() -> None:
            context.setJobGroup(group, "a batch of a fleet")
            work()

        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(grouped)
            try:
                while not future.done():
                    self.report((0, *runs)[_finished_tasks(spark, group)], {})
                    wait_for([future], timeout=POLL_SECONDS)
            except BaseException:
                context.cancelJobGroup(group)
                raise
            future.result()


def _finished_tasks(spark: SparkSession, group: str) -> int:
    """Return how many tasks of the first stage of a group's jobs are finished."""
    tracker = spark.sparkContext.statusTracker()
    stages = [
        stage
        for job in tracker.getJobIdsForGroup(group)
        if (info := tracker.getJobInfo(job)) is not None
        for stage in info.stageIds
    ]
    first = tracker.getStageInfo(min(stages)) if stages else None
    return 0 if first is None else int(first.numCompletedTasks)


def _replay(
    summary: Summary, runs: Sequence[tuple[FleetJob, int]], done: Mapping[str, Done]
) -> None:
    """Repeat some runs in the driver, outside Spark's workers, and compare digests."""
    for job, seed in runs[::REPLAY_EVERY][:MOST_REPLAYS]:
        stored = done[job.run_name(seed)]
        if stored.verdict == "crash":
            continue
        digest = runner.run(job.scenario, seed, None, job.variants).digest
        summary.replayed += 1
        if digest != stored.digest:
            summary.mismatches.append(Mismatch(job.label, seed, stored.digest, digest))
