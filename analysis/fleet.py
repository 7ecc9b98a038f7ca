"""Run seeds × configurations on Spark and store facts, findings and runs, batch by batch.

A fleet is written in batches. First Spark simulates and judges the runs of a batch and commits
their facts, ``<out>/facts/batch=B/kind=K``; then their findings, ``<out>/findings/batch=B``; then
their rows of ``runs``, in one file. Readers take what belongs to batches that ``runs`` names, so a
run is in all tables or in none. A fleet that was killed goes on where it was: it deletes the facts
and findings of batches that ``runs`` does not name, and runs what is missing there for this code,
these judges and this configuration. One fleet at a time may write to a place.

PySpark fixes PYTHONHASHSEED in its workers, which would hide an order that depends on hashes.
Therefore the batches of a large fleet take turns with several values of PYTHONHASHSEED, and one run
in a hundred is repeated in the driver, which has another value. A digest that differs is
nondeterminism.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kafkasim.analysis.runs import BadInput
from kafkasim.analysis.source import KafkaSim, seeds
from kafkasim.analysis.source.jobs import Configuration, FleetJob, prepare, to_option
from kafkasim.analysis.source.schema import MANIFEST, RUN_KIND, TOLD
from kafkasim.analysis.spark.files import delete, exists, located, matching
from kafkasim.analysis.spark.session import tuned
from kafkasim.analysis.stored import BATCH, FACTS_PLACE, FINDINGS_PLACE, RUNS_TABLE, read_runs
from kafkasim.scenarios.running import runner
from kafkasim.sim.trace.store import code_version, judges_version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HASH_SEEDS = 3
"""How many values of PYTHONHASHSEED the workers of a fleet of several batches have."""

BATCH_RUNS = 100
"""Runs of a batch for each task that Spark runs at once: what a killed fleet repeats at most."""

REPLAY_EVERY = 100
"""One run of so many is repeated in the driver."""

MOST_REPLAYS = 100
"""More runs than this are never repeated: they run one after the other."""

POLL_SECONDS = 0.5

WRITING = {
    "spark.sql.adaptive.enabled": "true",  # it gives the files of a kind their size
    "spark.sql.codegen.maxFields": "200",  # facts have more than a hundred columns
}

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
        fleet.run_batch(part, 1 + number % HASH_SEEDS, watch)
    done = fleet.finished() if total else {}
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

    def drop_orphans(self) -> None:
        """Delete the facts and findings of batches that were never committed."""
        places = [
            place
            for table in (FACTS_PLACE, FINDINGS_PLACE)
            for place in matching(self.spark, f"{self.out}/{table}/{BATCH}=*")
        ]
        known = set()
        if places and self._started():
            runs = read_runs(self.spark, self.out)
            known = {row[0] for row in runs.select(BATCH).distinct().collect()}
        for place in places:
            if place.rpartition("=")[2] not in known:
                delete(self.spark, place)

    def missing(self, numbers: Sequence[int]) -> list[Wanted]:
        """Return what is wanted and not in ``runs``, in the order of the seeds."""
        wanted = [(index, seed) for seed in numbers for index in range(len(self.jobs))]
        if not self._started():
            return wanted
        asked = self.spark.createDataFrame(
            [(index, self.jobs[index].label, seed) for index, seed in wanted],
            "job INT, label STRING, seed BIGINT",
        )
        left = asked.join(self._mine(), ["label", "seed"], "left_anti")
        missing = {(row["job"], row["seed"]) for row in left.select("job", "seed").collect()}
        return [one for one in wanted if one in missing]

    def finished(self) -> dict[str, Done]:
        """Return the runs of these jobs that ``runs`` has, by name."""
        columns = self._mine().select("run", "verdict", "digest", "rows")
        return {row[0]: Done(row[1], row[2], row[3]) for row in columns.collect()}

    def run_batch(self, part: Sequence[Wanted], hash_seed: int, watch: _ProgressReporter) -> None:
        """Simulate some runs; commit their facts, then findings, then rows of ``runs``.

        Raises:
            BadInput: what the executors wrote is not there for the driver.
        """
        batch = self._next_batch()
        facts = f"{self.out}/{FACTS_PLACE}/{BATCH}={batch}"
        with tuned(self.spark, WRITING):
            rows = self._simulated(part, hash_seed).hint("rebalance", "kind")
            rows = rows.sortWithinPartitions("kind", "run", "seq")
            writer = rows.write.partitionBy("kind").option("compression", "zstd")
            watch.during(self.spark, lambda: writer.parquet(facts))
        if not exists(self.spark, f"{facts}/kind={RUN_KIND}"):
            raise BadInput(_unseen(self.out, 0, len(part)))
        ended = self.spark.read.schema(f"{MANIFEST} STRING").parquet(f"{facts}/kind={RUN_KIND}")
        told = ended.select(F.from_json(F.col(MANIFEST), TOLD).alias("told")).select("told.*")
        runs = told.select("row.*", F.lit(batch).alias(BATCH)).orderBy("run").coalesce(1)
        arrived = runs.count()
        if arrived != len(part):
            raise BadInput(_unseen(self.out, arrived, len(part)))
        found = told.select(F.inline("findings")).orderBy("run", "seq", "name", "text").coalesce(1)
        found.write.parquet(f"{self.out}/{FINDINGS_PLACE}/{BATCH}={batch}")
        runs.write.mode("append").parquet(f"{self.out}/{RUNS_TABLE}")
        watch.done += len(part)

    def _simulated(self, part: Sequence[Wanted], hash_seed: int) -> DataFrame:
        by_job: dict[int, list[int]] = {}
        for index, seed in part:
            by_job.setdefault(index, []).append(seed)
        asked = [
            replace(self.jobs[index].configuration, label=self.jobs[index].label,
                    seeds=seeds.text(mine))
            for index, mine in by_job.items()
        ]  # fmt: skip
        with _hash_seed(self.spark, hash_seed):
            self.spark.dataSource.register(KafkaSim)
            reader = self.spark.read.format(KafkaSim.name())
            return reader.options(table="fleet", configurations=to_option(asked)).load()

    def _next_batch(self) -> str:
        """Return the name of the next batch; later batches have higher names."""
        last = matching(self.spark, f"{self.out}/{FACTS_PLACE}/{BATCH}=*")[-1:]
        return f"{int(last[0].rpartition('=')[2]) + 1 if last else 1:06d}"

    def _started(self) -> bool:
        """Return whether a batch was ever committed."""
        return bool(matching(self.spark, f"{self.out}/{RUNS_TABLE}/*.parquet"))

    def _mine(self) -> DataFrame:
        """Return the rows of ``runs`` that these jobs left with the present code and judges."""
        jobs = self.spark.createDataFrame(
            [(job.label, job.config_digest) for job in self.jobs],
            "label STRING, config_digest STRING",
        )
        same = (F.col("code_version") == code_version()) & (F.col("judges") == judges_version())
        return (
            read_runs(self.spark, self.out)
            .where(same)
            .join(F.broadcast(jobs), ["label", "config_digest"], "semi")
        )


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
    """Tells the progress callback how many runs are done: finished tasks have one run each."""

    def __init__(self, progress: Progress | None, total: int, done: int) -> None:
        self.progress = progress
        self.total = total
        self.done = done

    def report(self, running: int, verdicts: Mapping[str, int]) -> None:
        """Report the runs of finished batches, and those that the present one has finished."""
        if self.progress is not None:
            self.progress(min(self.total, self.done + running), self.total, verdicts)

    def during(self, spark: SparkSession, work: Callable[[], None]) -> None:
        """Report while ``work`` runs, and cancel it when this is interrupted."""
        context = spark.sparkContext
        group = f"kafkasim-fleet-{id(work)}"

        def grouped() -> None:
            context.setJobGroup(group, "a batch of a fleet")
            work()

        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(grouped)
            try:
                while not future.done():
                    self.report(_finished_tasks(spark, group), {})
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
