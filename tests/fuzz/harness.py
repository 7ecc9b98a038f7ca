"""Run one mutant through the command line and say what is wrong with the answer.

Right answers are 0, 10 and 11 (it was run and judged), 12 (a replay differs), and 2 with exactly
one line on stderr that names the file. Anything else is a defect of kafkasim.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kafkasim.analysis.judging.verdict import Result
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.commands import runs
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import read_toml
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running import replay as replaying
from kafkasim.scenarios.running.runner import run
from tests.fuzz.mutations import mutate, mutate_bytes, mutate_text, to_toml

JUDGED = (0, 2, 10, 11)
SHORT_US = 1_000_000
"""How long an accepted mutant runs, and how long it may take to converge, in simulated time."""
LAST_SEED = 20
"""Of a twin that asks for thousands of seeds only these are run."""

PROPERTIES = """\
broker.id=1
listeners=PLAINTEXT://:9092
num.io.threads=8
log.dirs=/data/a,/data/b
replica.lag.time.max.ms=30000
min.insync.replicas=1
unclean.leader.election.enable=false
offsets.topic.replication.factor=1
"""
WITH_PROPERTIES = (
    'name = "x"\nclaim = "c"\nduration = "1s"\ncluster = { config-file = "server.properties" }\n'
)
FAILING = "B01-truncate-to-hw"
"""A script of a bug. With its variant, the manifest has findings of invariants and of delivery."""
VIEWS = ("topics", "groups", "quorum", "brokers", "reassignments", "log-dirs")


class Runner:
    """Stands in for the run of an accepted mutant: every ``every``-th really runs, shortly.

    What would take long (many hosts, partitions, records or seeds) is not run: a user may want it.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.accepted = 0
        self.ran = 0

    def __call__(
        self,
        scenario: Scenario,
        seed: int,
        directory: Path | None,
        variants: Sequence[str],
        only_failed: bool = False,
    ) -> Result:
        """Run a mutant for a second, or return that it passed."""
        self.accepted += 1
        if self.accepted % self.every or seed > LAST_SEED or is_large(scenario):
            return passed(scenario, seed)
        self.ran += 1
        expect = scenario.expect.model_copy(update={"within": SHORT_US})
        duration = min(scenario.duration, SHORT_US)
        short = scenario.model_copy(update={"duration": duration, "expect": expect})
        return run(short, seed, directory, variants, only_failed)


def is_large(scenario: Scenario) -> bool:
    """Return whether a second of a scenario may take many seconds."""
    hosts = scenario.cluster.brokers + sum(w.count for w in scenario.workload)
    topics = [*scenario.topics, *scenario.operations]
    replicas = sum(topic.partitions * topic.replication_factor for topic in topics)
    rate = sum(w.rate * w.count for w in scenario.workload if w.kind == "producer")
    faults = sum(fault.count for fault in scenario.faults)
    return hosts > 12 or replicas > 100 or rate > 1000 or faults > 50


def passed(scenario: Scenario, seed: int) -> Result:
    """Return the result of a run that was not made."""
    return Result(
        scenario=scenario.name, seed=seed, digest="0" * 64, verdict="pass", failure="",
        anomalies=[], expected=[], events=0, sim_seconds=0, wall_seconds=0, code_version="",
        config_digest="",
    )  # fmt: skip


def answer(arguments: Sequence[str], file: Path, allowed: Sequence[int] = JUDGED) -> str:
    """Run a command; return what is wrong with its answer, or ""."""
    err = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stderr(err), contextlib.redirect_stdout(out):
        code = invoke(arguments)
        out.flush()
    err.flush()
    told = err.buffer.getvalue().decode()  # type: ignore[attr-defined]
    if code not in allowed:
        return f"exit code {code}: {told[-2000:]}"
    if code == 2 and (told.count("\n") != 1 or str(file) not in told or "Traceback" in told):
        return f"not one line that names {file}: {told[:2000]}"
    return ""


@functools.cache
def sources() -> tuple[dict[str, Any], ...]:
    """Return the data of all scenarios of the catalogue and of the scripts of bugs."""
    return tuple([read_toml(library.path(n)) for n in (*library.names(), *library.scripts())])


def scenario_mutant(number: int, folder: Path) -> str:
    """Try the ``number``-th mutant of a scenario; every seventh with its twin."""
    rng = random.Random(number)
    path = folder / "mutant.toml"
    path.write_text(to_toml(mutate(rng, rng.choice(sources()))), encoding="utf-8", newline="")
    out = ["--out", str(folder / "out")]  # without it, equal names share a temporary directory
    return answer(["run", str(path), *out, *(["--twin"] if number % 7 == 0 else [])], path)


def properties_mutant(number: int, folder: Path) -> str:
    """Try the ``number``-th mutant of a server.properties."""
    path = folder / "mine.toml"
    path.write_text(WITH_PROPERTIES)
    (folder / "server.properties").write_bytes(mutate_text(random.Random(number), PROPERTIES))
    return answer(["run", str(path), "--out", str(folder / "out"), "--json"], folder)


class StoredRun:
    """A stored run whose files are mutated; a replay compares them with the files as they were."""

    def __init__(self, folder: Path) -> None:
        self.base, self.mutant = folder / "base", folder / "mutant"
        self.mutant.mkdir()
        self.result = run(library.scenario(FAILING)[0], 1, self.base, [FAILING])
        self.manifest = json.loads((self.base / "manifest.json").read_text())
        self.trace = (self.base / "trace.parquet").read_bytes()

    def again(self, _: Scenario, __: int, directory: Path, ___: Sequence[str]) -> Result:
        """Stand in for the run of a replay."""
        shutil.copy(self.base / "trace.parquet", directory)
        return self.result

    def try_mutant(self, number: int) -> str:
        """Try the ``number``-th mutant of the manifest or the trace."""
        rng = random.Random(number)
        manifest, trace = json.dumps(self.manifest).encode(), self.trace
        kind = rng.choice(("data", "data", "text", "trace"))
        if kind == "data":
            manifest = json.dumps(mutate(rng, self.manifest), default=str).encode()
        elif kind == "text":
            manifest = mutate_bytes(rng, manifest)
        else:
            trace = mutate_bytes(rng, trace)
        view = rng.choice(VIEWS)
        moment = rng.choice(("end", "ready", "0.5s"))
        commands = [["replay"], ["describe", view, "--at", moment], ["explain"]]
        return self.answer(manifest, trace, rng.choice(commands))

    def answer(self, manifest: bytes, trace: bytes, command: Sequence[str]) -> str:
        """Return what is wrong with a command's answer to a manifest and a trace, or ""."""
        (self.mutant / "manifest.json").write_bytes(manifest)
        (self.mutant / "trace.parquet").write_bytes(trace)
        name, *options = command
        return answer([name, str(self.mutant), *options], self.mutant, (0, 2, 12))


@contextlib.contextmanager
def short_runs(every: int) -> Iterator[Runner]:
    """Let the command ``run`` really run only every ``every``-th accepted mutant, and shortly."""
    runner, kept = Runner(every), runs.run_once
    runs.run_once = runner  # type: ignore[assignment]
    try:
        yield runner
    finally:
        runs.run_once = kept


@contextlib.contextmanager
def stored_run(folder: Path) -> Iterator[StoredRun]:
    """Provide a stored run to mutate."""
    stored, kept = StoredRun(folder), replaying.run
    replaying.run = stored.again  # type: ignore[assignment]
    try:
        yield stored
    finally:
        replaying.run = kept
