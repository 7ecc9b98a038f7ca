"""Run seeds × configurations as Spark tasks, one run a task, and compact the traces they leave.

A worker writes a run into ``.tmp-…``, its manifest last, and renames the directory to
``<out>/runs/<label>/seed-NNNNNN``. So a fleet that was killed can be resumed: the same command
skips every run whose manifest names the same scenario, seed, configuration and code. A run in which
the simulator crashes leaves a manifest with the verdict ``crash`` and the traceback.

PySpark fixes PYTHONHASHSEED in its workers, which would hide an order that depends on hashes.
Therefore the seeds of a large fleet are spread over several values of PYTHONHASHSEED, and one run
in a hundred is repeated in the driver, which has another value. A digest that differs is
nondeterminism.

This is the only module of analysis/ that imports scenarios/.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkasim.analysis.compact import compact
from kafkasim.analysis.runs import (
    MANIFEST,
    RUNS,
    TRACE,
    BadInput,
    check_trace,
    read_manifest,
)
from kafkasim.model.facts import SCHEMA_VERSION
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running import runner

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext
    from pyspark.sql import SparkSession

HASH_SEEDS = 3
"""How many values of PYTHONHASHSEED the workers of a large fleet have."""

HASH_SEED_RUNS = 500
"""From how many runs on another value is used: its workers start as slowly as dozens of runs."""

REPLAY_EVERY = 100
"""One run of so many is repeated in the driver."""

TOKEN = ".fleet-token"
POLL_SECONDS = 0.5

Progress = Callable[[int, int, Mapping[str, int]], None]
"""``progress(done, total, runs by verdict)``, called by the driver while runs are under way."""


@dataclass(frozen=True)
class Configuration:
    """One configuration of a fleet, as the user names it: a scenario with settings, or its twin."""

    name: str
    settings: tuple[str, ...] = ()
    twin: bool = False
    variants: tuple[str, ...] = ()


@dataclass(frozen=True)
class FleetJob:
    """A configuration that was read and checked; all of its seeds run this."""

    label: str
    scenario: Scenario
    variants: tuple[str, ...]
    config_digest: str
    twin: bool = False


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

    out: Path
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


def prepare(configurations: Sequence[Configuration]) -> list[FleetJob]:
    """Read and check configurations; two of one label get their digests as suffix.

    Raises:
        ScenarioError: naming file and key.
    """
    jobs = []
    for wanted in configurations:
        scenario, variants = library.scenario(wanted.name, wanted.settings, twin=wanted.twin)
        every = (*variants, *wanted.variants)
        digest = runner.config_digest(scenario, [*scenario.cluster.variants, *every])
        label = scenario.name + ("-twin" if wanted.twin else "")
        jobs.append(FleetJob(label, scenario, every, digest, wanted.twin))
    labels = [job.label for job in jobs]
    return [
        replace(job, label=f"{job.label}-{job.config_digest[:8]}")
        if labels.count(job.label) > 1
        else job
        for job in jobs
    ]


def run_fleet(
    configurations: Sequence[Configuration],
    seeds: Iterable[int],
    out: Path,
    master: str = "local[*]",
    progress: Progress | None = None,
    spark: SparkSession | None = None,
) -> Summary:
    """Run all seeds of all configurations that are not done yet, repeat some, and compact.

    Raises:
        ScenarioError: a configuration is wrong.
        BadInput: the workers do not see ``out``.
    """
    began = time.monotonic()
    out = out.resolve()
    jobs = prepare(configurations)
    numbers = list(dict.fromkeys(seeds))
    items = [(job, seed) for seed in numbers for job in jobs]
    _sweep(out, jobs)
    watch = _ProgressReporter(progress, out, items)
    todo = [(job, seed) for job, seed in items if finished(out, job, seed) is None]
    if todo:
        if spark is None:
            from kafkasim.analysis.spark.session import session

            spark = session(master, "kafkasim fleet")
        _check_shared(spark.sparkContext, out)
        _run_all(spark.sparkContext, out, todo, watch)
    manifests = {(job.label, seed): finished(out, job, seed) for job, seed in items}
    summary = Summary(out, len(items), len(todo), len(items) - len(todo), 0.0)
    for (label, seed), manifest in manifests.items():
        verdict = "missing" if manifest is None else str(manifest["verdict"])
        summary.verdicts[verdict] = summary.verdicts.get(verdict, 0) + 1
        if verdict in ("crash", "missing"):
            summary.crashes.append(f"{label}/seed-{seed:06d}")
        summary.rows += 0 if manifest is None else int(manifest["rows"])
    watch.report()
    _replay(summary, jobs, numbers[::REPLAY_EVERY], manifests)
    compact(out)
    summary.seconds = round(time.monotonic() - began, 3)
    return summary


def place(out: Path, label: str, seed: int) -> Path:
    """Return the directory of a run of a fleet."""
    return out / RUNS / label / f"seed-{seed:06d}"


def finished(out: Path, job: FleetJob, seed: int) -> dict[str, Any] | None:
    """Return the manifest of a finished run, None if it is missing or of other code or settings."""
    directory = place(out, job.label, seed)
    try:
        manifest = read_manifest(directory / MANIFEST)
        if manifest["verdict"] != "crash":
            check_trace(directory / TRACE, manifest)
    except BadInput:
        return None
    expected = {
        "scenario": job.scenario.name,
        "seed": seed,
        "config_digest": job.config_digest,
        "code_version": _code_version(),
    }
    return manifest if all(manifest.get(k) == v for k, v in expected.items()) else None


def run_one(
    item: tuple[str, int], jobs: Mapping[str, FleetJob], out: str, directory: Path | None = None
) -> tuple[str, int, str]:
    """Run one seed in a worker and store the run; return label, seed and verdict."""
    label, seed = item
    job = jobs[label]
    target = directory or place(Path(out), label, seed)
    temporary = target.with_name(f".tmp-{target.name}-{_attempt()}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        verdict = runner.run(job.scenario, seed, temporary, job.variants).verdict
    except Exception as error:  # a crash of one run is its result, not the fleet's end
        verdict = "crash"
        _write_crash(temporary, job, seed, error)
    if target.exists():
        shutil.rmtree(target)
    os.replace(temporary, target)
    return label, seed, verdict


def _write_crash(directory: Path, job: FleetJob, seed: int, error: Exception) -> None:
    shutil.rmtree(directory)
    directory.mkdir()
    manifest = {
        "scenario": job.scenario.name,
        "seed": seed,
        "variants": [*job.scenario.cluster.variants, *job.variants],
        "code_version": _code_version(),
        "config_digest": job.config_digest,
        "schema_version": SCHEMA_VERSION,
        "rows": 0,
        "digest": "",
        "reason": f"{type(error).__name__}: {error}".split("\n")[0],
        "verdict": "crash",
        "failure": "crash",
        "anomalies": ["crash"],
        "expected": [],
        "claim": job.scenario.claim,
        "traceback": "".join(traceback.format_exception(error)),
    }
    temporary = directory / f".{MANIFEST}.tmp"
    temporary.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    os.replace(temporary, directory / MANIFEST)


def _attempt() -> str:
    from pyspark import TaskContext

    context = TaskContext.get()
    return str(os.getpid()) if context is None else f"t{context.taskAttemptId()}"


def _code_version() -> str:
    return str(runner.code_version())  # type: ignore[attr-defined]


def _sweep(out: Path, jobs: Sequence[FleetJob]) -> None:
    """Remove the unfinished directories of attempts that were killed."""
    for job in jobs:
        for left in (out / RUNS / job.label).glob(".tmp-*"):
            shutil.rmtree(left, ignore_errors=True)


def _check_shared(context: SparkContext, out: Path) -> None:
    """Check that all workers see ``out``: they read a token that the driver writes there."""
    out.mkdir(parents=True, exist_ok=True)
    token = f"{os.getpid()}-{time.monotonic_ns()}"
    (out / TOKEN).write_text(token)
    slots = max(context.defaultParallelism, 1)
    try:
        rdd = context.parallelize(range(slots), slots)
        work = functools.partial(_read_token, path=str(out / TOKEN))
        read = _with_hash_seed(rdd.map(work), 1).collect()  # in workers that the runs need, too
    finally:
        (out / TOKEN).unlink()
    wrong = [found for found in read if found != token]
    if wrong:
        raise BadInput(f"{out}: not all workers see this directory ({wrong[0]}); share it")


def _read_token(_: int, path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError as error:
        return f"a worker says: {error.strerror}"


def _run_all(
    context: SparkContext,
    out: Path,
    todo: Sequence[tuple[FleetJob, int]],
    watch: _ProgressReporter,
) -> None:
    rdd = _work(context, out, todo)
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(rdd.collect)
        try:
            while not future.done():
                began = time.monotonic()
                watch.report()
                looking = time.monotonic() - began  # to look at thousands of runs takes a while
                wait_for([future], timeout=max(POLL_SECONDS, 20 * looking))
        except BaseException:
            context.cancelAllJobs()
            raise
        future.result()


def _work(context: SparkContext, out: Path, todo: Sequence[tuple[FleetJob, int]]) -> RDD[Any]:
    """Return an RDD of all runs, one a partition, spread over values of PYTHONHASHSEED."""
    jobs = {job.label: job for job, _ in todo}
    work = functools.partial(run_one, jobs=jobs, out=str(out))
    values = min(HASH_SEEDS, 1 + len(todo) // HASH_SEED_RUNS)
    parts = []
    for number in range(values):
        mine = [(job.label, seed) for job, seed in todo if seed % values == number]
        if mine:
            part = context.parallelize(mine, len(mine)).map(work)
            parts.append(_with_hash_seed(part, number + 1))
    return context.union(parts)


def _with_hash_seed(rdd: RDD[Any], hash_seed: int) -> RDD[Any]:
    """Return the RDD, now bound to workers with that PYTHONHASHSEED.

    PySpark fixes the workers' environment when it wraps the RDD's function; asking for the RDD's
    id makes it do so.
    """
    environment = rdd.context.environment
    before = environment["PYTHONHASHSEED"]
    environment["PYTHONHASHSEED"] = str(hash_seed)
    try:
        rdd.id()
    finally:
        environment["PYTHONHASHSEED"] = before
    return rdd


class _ProgressReporter:
    """Tells the progress callback how many runs are finished; each manifest is read once."""

    def __init__(
        self, progress: Progress | None, out: Path, items: Sequence[tuple[FleetJob, int]]
    ) -> None:
        self.progress = progress
        self.out = out
        self.items = items
        self.verdicts: dict[str, int] = {}
        self._waiting = list(items)

    def report(self) -> None:
        if self.progress is None:
            return
        waiting = []
        for job, seed in self._waiting:
            manifest = finished(self.out, job, seed)
            if manifest is None:
                waiting.append((job, seed))
            else:
                verdict = str(manifest["verdict"])
                self.verdicts[verdict] = self.verdicts.get(verdict, 0) + 1
        self._waiting = waiting
        self.progress(len(self.items) - len(waiting), len(self.items), self.verdicts)


def _replay(
    summary: Summary,
    jobs: Sequence[FleetJob],
    seeds: Sequence[int],
    manifests: Mapping[tuple[str, int], dict[str, Any] | None],
) -> None:
    """Repeat some runs in the driver, outside Spark's workers, and compare digests."""
    for job in jobs:
        for seed in seeds:
            manifest = manifests[job.label, seed]
            if manifest is None or manifest["verdict"] == "crash":
                continue
            digest = runner.run(job.scenario, seed, None, job.variants).digest
            summary.replayed += 1
            if digest != manifest["digest"]:
                summary.mismatches.append(
                    Mismatch(job.label, seed, str(manifest["digest"]), digest)
                )
