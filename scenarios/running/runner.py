"""Run one scenario with one seed, in four phases.

Boot starts the servers and creates the topics. The safety phase runs workloads, faults and
operations for the scenario's duration. The liveness phase heals everything and demands that the
cluster converges within a limit. The end writes the ground truth of all hosts, and the judges
give their verdict.

The trace's time starts with the world; durations of a scenario count from the fact
``Phase(ready)``. A run is a function of (scenario, variants, seed, code): wall times are measured
beside it and go into no digest.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafkasim.analysis.judging.court import Court
from kafkasim.analysis.judging.courts import Courts
from kafkasim.analysis.judging.mirrors import Mirrored
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.verdict import Result
from kafkasim.model import facts
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.facts.world import EPOCH_US
from kafkasim.scenarios.language.clusters import members, sites
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.time_limits import limit_us
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.scenarios.running.cluster_run import ClusterRun, ClusterTrace
from kafkasim.scenarios.running.fault_schedule import FaultSchedule
from kafkasim.scenarios.running.mirrors import Mirrors
from kafkasim.scenarios.running.sites import Sites
from kafkasim.scenarios.variants.own_loading import own_rules_named
from kafkasim.sim.trace.recording import Sink, Trace
from kafkasim.sim.trace.store import code_version, judges_version, write_manifest, write_timing
from kafkasim.sim.world import World

BOOT_LIMIT_US = 120_000_000
STEP_US = 100_000
"""How often the phases look whether their condition holds."""

PRODUCE_AFTER_HEAL_US = 2_000_000

WORK_US = 1000 * ConsumerConfig().max_poll_interval_ms
"""How long a user's application may handle what its last poll() returned, after all is read. So
long may its producer then have records without a result (linger.ms, delivery.timeout.ms)."""


class ScenarioRun:
    """One run in the making; with ``only_failed`` its directory keeps a failed run only.

    ``members`` are its clusters by name; the only one of a scenario without names is "".
    """

    cluster_run: type[ClusterRun] = ClusterRun

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        directory: Path | None,
        variants: Sequence[str],
        epoch_us: int = EPOCH_US,
        only_failed: bool = False,
        sink: Sink | None = None,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.directory = directory
        self.only_failed = only_failed
        self.sink = sink
        self.variants = [*scenario.cluster.variants, *variants]
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        self.trace = Trace(directory, sink)
        self.manifest: dict[str, Any] = {}  # of an ended run that stores its facts
        self.world = World(seed, self.trace, epoch_us=epoch_us)
        self.ready_us = 0
        self.members = {
            name: self._member(name, alone, variants) for name, alone in members(scenario).items()
        }
        self.mirrors = Mirrors(self.world, scenario, self.members)
        self.mirrored = Mirrored(self.trace, self.mirrors.judged())
        self.sites = Sites(self.world, self.trace, scenario)

    def _member(self, name: str, alone: Scenario, variants: Sequence[str]) -> ClusterRun:
        if not name:
            return self.cluster_run(self.world, self.trace, alone, variants)
        trace = ClusterTrace(self.trace, name)
        part = self.world.part(name, sites(self.scenario)[name], trace)
        return self.cluster_run(part, trace, alone, variants)

    # The parts of the only cluster.

    @property
    def _only(self) -> ClusterRun:
        (member,) = self.members.values()
        return member

    @property
    def cluster(self) -> Cluster:
        """The servers and client hosts."""
        return self._only.cluster

    @property
    def court(self) -> Court:
        """The judges."""
        return self._only.court

    @property
    def progress(self) -> Progress:
        """What controllers and brokers have told."""
        return self._only.progress

    @property
    def faults(self) -> FaultSchedule:
        """All that is done on purpose."""
        return self._only.faults

    def execute(self) -> Result:
        """Run all phases and return the result."""
        began = time.perf_counter()
        gc.collect()  # the previous run's world consists of reference cycles
        gc.disable()
        try:
            if self._boot():
                self._safety()
                self._liveness()
                self._let_applications_end()
            self._end()
            return self._result(time.perf_counter() - began)
        except BaseException:
            self._release()
            self.trace.close()  # it tells what happened until then
            raise
        finally:
            gc.enable()  # a collection follows that looks at all that is left of the run

    # Phases.

    def _boot(self) -> bool:
        """Start servers and create topics; return whether all clusters got ready in time."""
        clusters = list(self.members.values())
        for each in clusters:
            each.cluster.start_servers()
        if not self._until(lambda: all(each.is_up() for each in clusters), BOOT_LIMIT_US):
            for each in clusters:
                each.note_down()
            return False
        for each in clusters:
            each.create_topics()
        if not self._until(lambda: all(each.has_topics() for each in clusters), BOOT_LIMIT_US):
            for each in clusters:
                each.note_missing_topics()
            return False
        for each in clusters:
            each.learn_topics()
        self.ready_us = self.world.now
        self._phase("ready", "")
        return True

    def _safety(self) -> None:
        self._phase("safety", "")
        for each in self.members.values():
            each.cluster.clients.start_workloads()
            each.faults.arm(self.ready_us)
        self.mirrors.start()
        self.sites.arm(self.ready_us)
        self.world.run(self.ready_us + self.scenario.duration)

    def _liveness(self) -> None:
        """Heal everything and demand progress within the limit."""
        clusters = list(self.members.values())
        injectors = [self.sites.injector, *[each.faults.injector for each in clusters]]
        lasting = [each for one in injectors for each in one.active if each.lasts]
        told = [f"{each.kind} of {each.target} lasts" for each in lasting]
        self._phase("liveness", " and ".join(told))
        self._heal()
        self.world.run(self.world.now + PRODUCE_AFTER_HEAL_US)
        self._heal()  # what faults armed before the heal still restart
        for each in clusters:
            each.cluster.clients.control.producing = False
        within = self.scenario.expect.within
        limit = max(limit_us(each.scenario) for each in clusters) if within is None else within
        if self._converges(limit):
            return
        # The producers are done by now; only processors may have transactions open.
        reading = max(each.reading_us() for each in clusters)
        if within is not None or not self._converges(reading):
            behind = self.mirrors.waits(self.sites.lasting())
            for name, each in self.members.items():
                each.waits = [*each.convergence.waits(), *behind.get(name, ())]

    def _heal(self) -> None:
        self.sites.injector.heal_all()
        self.mirrors.heal(self.sites.lasting())
        for each in self.members.values():
            each.faults.heal()

    def _let_applications_end(self) -> None:
        """Run until applications have handled what they got, and producers have sent it."""
        clusters = list(self.members.values())
        handling = [each.cluster.clients.control.handling for each in clusters]
        self._until(lambda: not any(handling), WORK_US)
        handled_us, lookers = self.world.now, [each.convergence for each in clusters]
        self._until(lambda: all(each.sends_done(handled_us) for each in lookers), WORK_US)

    def _converges(self, limit: int) -> bool:
        """Run until nothing is missing; return whether that was so within ``limit`` µs."""
        lookers = [each.convergence for each in self.members.values()]
        lasting = self.sites.lasting()
        return self._until(
            lambda: (
                False not in [each.is_reached() for each in lookers]
                and self.mirrors.is_reached(lasting)
            ),
            limit,
        )

    @property
    def missing(self) -> list[str]:
        """What the run still lacks at its limit, in sentences."""
        return self._all(lambda each: map(str, each.waits))

    def _end(self) -> None:
        self._phase("end", "; ".join(self.missing) if self.missing else "converged")
        for each in self.members.values():
            each.end()

    def _until(self, done: Callable[[], bool], limit: int) -> bool:
        """Run until a condition holds; return whether it did within ``limit`` µs."""
        deadline = self.world.now + limit
        while not done():
            if self.world.now >= deadline:
                return False
            self.world.run(self.world.now + STEP_US)
        return True

    def _all(self, of: Callable[[ClusterRun], Iterable[str]]) -> list[str]:
        """Return what all clusters have of something; each names its cluster if there are more."""
        return [
            f"{name}: {each}" if name else each
            for name, member in self.members.items()
            for each in of(member)
        ]

    def _release(self) -> None:
        self.mirrors.release()
        for each in self.members.values():
            each.cluster.clients.release()

    def _phase(self, phase: str, reason: str) -> None:
        self.trace.record(self.world.now, "world", facts.Phase(phase, reason))

    # Judgement.

    def _result(self, wall: float) -> Result:
        permits = self.scenario.expect.permits if self.scenario.clusters else ()
        judges = {name: each.court for name, each in self.members.items()}
        courts = Courts(judges, self.mirrored, permits)
        verdict = courts.verdict(self.ready_us)
        if self.only_failed and verdict.word != "fail":
            self.trace.drop()
            self.directory = None
        self.trace.close()
        self._release()
        result = Result(
            scenario=self.scenario.name,
            seed=self.seed,
            digest=self.trace.digest,
            verdict=verdict.word,
            failure=verdict.failure,
            anomalies=verdict.failed or verdict.expected,
            expected=verdict.expected,
            events=self.trace.rows,
            sim_seconds=self.world.now / 1e6,
            wall_seconds=round(wall, 3),
            code_version=code_version(),
            config_digest=config_digest(self.scenario, self.variants),
            variants=self.variants,
            acted=list(
                dict.fromkeys([a for each in self.members.values() for a in each.cluster.acted])
            ),
            missing=self.missing,
            findings=verdict.findings,
            observations=courts.seen,
            remarks=[
                *self._all(lambda each: each.remarks_on(self.ready_us)),
                *self.mirrored.figures(),
            ],
            exchanges=self.world.network.exchanges,
            ready_us=self.ready_us,
            topics=courts.topics,
            directory=None if self.directory is None else str(self.directory),
        )
        if self.directory is not None or self.sink is not None:
            self.manifest = self._manifest(result, courts.judged_by)
        if self.directory is not None:
            write_timing(self.directory, {"wall_seconds": result.wall_seconds})
            write_manifest(self.directory, self.manifest)
        return result

    def _manifest(self, result: Result, judged_by: dict[str, Any]) -> dict[str, Any]:
        """Return what decides a run and what came of it; equal runs have equal manifests."""
        manifest = result.summary()
        del manifest["directory"], manifest["wall_seconds"]
        return {
            **manifest,
            "rows": result.events,
            "exchanges": result.exchanges,
            "schema_version": facts.SCHEMA_VERSION,
            "reason": "; ".join(result.missing) or "converged",
            "claim": self.scenario.claim,
            "ready_us": result.ready_us,
            "topics": result.topics,
            "findings": [asdict(finding) for finding in result.findings],
            "judges": judges_version(),
            "spec": self.scenario.model_dump(mode="json", by_alias=True),
            "judged_by": judged_by,
        }


def run(
    scenario: Scenario,
    seed: int,
    directory: Path | None = None,
    variants: Sequence[str] = (),
    only_failed: bool = False,
) -> Result:
    """Run a scenario with a seed; with a directory, leave trace and manifest there.

    With ``only_failed`` a run that passes, or fails as expected, leaves none.

    Raises:
        VariantError: a rule of a user's own raised an exception.
    """
    freeze_modules()
    with own_rules_named(seed):
        return ScenarioRun(scenario, seed, directory, variants, only_failed=only_failed).execute()


def run_into(
    sink: Sink, scenario: Scenario, seed: int, variants: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a scenario with a seed, give its facts to ``sink``, and return its manifest.

    Raises:
        VariantError: a rule of a user's own raised an exception.
    """
    freeze_modules()
    with own_rules_named(seed):
        mine = ScenarioRun(scenario, seed, None, variants, sink=sink)
        mine.execute()
        return mine.manifest


@functools.cache
def freeze_modules() -> None:
    """Exempt the objects of all loaded modules from garbage collection, once in a process.

    The little garbage that imports leave stays with them: to look for it takes 50 ms of CPU.
    """
    gc.freeze()


def config_digest(scenario: Scenario, variants: Sequence[str]) -> str:
    """Return a short digest of everything that decides a run besides seed and code."""
    data = [scenario.model_dump(mode="json", by_alias=True), list(variants)]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
