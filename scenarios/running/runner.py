"""Run one scenario with one seed: boot, workload under faults, heal, demand progress, judge.

The trace's time starts with the world; durations of a scenario count from the fact
``Phase(ready)``. A run is a function of (scenario, overrides, variants, seed, code): wall times are
measured beside it and go into no digest.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkasim.model import facts
from kafkasim.model.messages import CreatableTopic
from kafkasim.scenarios.judging.delivery import Anomaly, Delivery
from kafkasim.scenarios.judging.invariants import Invariants, Violation
from kafkasim.scenarios.judging.observations import Observer
from kafkasim.scenarios.judging.progress import Progress, limit_us, missing
from kafkasim.scenarios.language.spec import Scenario
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.scenarios.running.faults import Faults
from kafkasim.scenarios.variants import compose
from kafkasim.sim.trace.store import code_version, write_manifest, write_timing
from kafkasim.sim.trace.trace import Trace
from kafkasim.sim.world import World

BOOT_LIMIT_US = 120_000_000
STEP_US = 100_000
PRODUCE_AFTER_HEAL_US = 2_000_000
NEVER = 1 << 62


@dataclass
class Result:
    """What a run showed. ``verdict``: pass | fail | expected."""

    scenario: str
    seed: int
    digest: str
    verdict: str
    failure: str  # "", safety or liveness
    anomalies: list[str]
    expected: list[str]
    events: int
    sim_seconds: float
    wall_seconds: float
    code_version: str
    config_digest: str
    variants: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    delivery: list[Anomaly] = field(default_factory=list)
    observations: dict[str, int] = field(default_factory=dict)
    exchanges: int = 0
    ready_us: int = 0
    topics: dict[str, str] = field(default_factory=dict)
    directory: str | None = None

    def summary(self) -> dict[str, Any]:
        """Return the object that ``run --json`` prints."""
        names = ("scenario", "seed", "digest", "verdict", "failure", "anomalies", "expected",
                 "events", "sim_seconds", "wall_seconds", "code_version", "config_digest",
                 "variants", "missing", "observations", "directory")  # fmt: skip
        return {name: getattr(self, name) for name in names}


class Run:
    """One run in the making."""

    def __init__(
        self, scenario: Scenario, seed: int, directory: Path | None, variants: Sequence[str]
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.directory = directory
        self.variants = [*scenario.cluster.variants, *variants]
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        self.trace = Trace(directory)
        self.world = World(seed, self.trace)
        self.progress = Progress(self.trace, scenario.cluster.mode == "zookeeper")
        self.cluster = Cluster(self.world, scenario, compose(self.variants))
        self.observer = Observer(self.trace, self.cluster.hosts, self.cluster.first_voters)
        self.faults = Faults(self.world, self.trace, self.cluster, self.progress)
        self.invariants = Invariants(self.trace, self.cluster.log, self.faults.forgive)
        self.delivery = Delivery(self.trace, self.faults.forgive)
        self.missing: list[str] = []
        self.hopeless = ""  # why Kafka cannot do what is missing either
        self.ready_us = 0

    def execute(self) -> Result:
        """Run all phases and return the result."""
        began = time.perf_counter()
        gc.collect()  # the last run's world: it is all cycles
        gc.disable()
        try:
            if self._boot():
                self._safety()
                self._liveness()
            self._end()
        finally:
            gc.enable()
        return self._result(time.perf_counter() - began)

    # Phases.

    def _boot(self) -> bool:
        """Start servers and create topics; False when the cluster does not get ready."""
        self.cluster.start_servers()
        brokers = [int(host.name.rpartition("-")[2]) for host in self.cluster.brokers]
        if not self._until(lambda: self.progress.unfenced() == brokers, BOOT_LIMIT_US):
            self.missing = [f"unfenced brokers: {self.progress.unfenced()} of {brokers}"]
            return False
        self.cluster.start_admin(self._create_topics)
        names = [topic.name for topic in self.scenario.topics]
        if not self._until(lambda: self._has_topics(names), BOOT_LIMIT_US):
            self.missing = [f"topics: {self.progress.missing_partitions() or names}"]
            return False
        created = {fact.topic: topic_id for topic_id, fact in self.progress.topics.items()}
        self.cluster.clients.control.topic_ids.update(created)
        self.ready_us = self.world.now
        self._phase("ready", "")
        return True

    async def _create_topics(self, port: Any) -> None:
        wanted = tuple(
            CreatableTopic(
                t.name,
                -1 if t.assignment else t.partitions,
                -1 if t.assignment else t.replication_factor,
                tuple([tuple(replicas) for replicas in t.assignment]),
                _strings(t.config),
            )
            for t in self.scenario.topics
        )
        await port.call("admin.create_topics", wanted)

    def _has_topics(self, names: list[str]) -> bool:
        known = [fact.topic for fact in self.progress.topics.values()]
        return all(name in known for name in names) and not self.progress.missing_partitions()

    def _safety(self) -> None:
        self._phase("safety", "")
        self.cluster.start_clients()
        self.faults.arm(self.ready_us)
        self.world.run(self.ready_us + self.scenario.duration)

    def _liveness(self) -> None:
        """Heal everything and demand progress within the limit."""
        self._phase("liveness", "")
        self.faults.heal()
        self.world.run(self.world.now + PRODUCE_AFTER_HEAL_US)
        self.faults.heal()  # what faults armed before the heal still restart
        control = self.cluster.clients.control
        control.producing = False
        within = self.scenario.expect.within
        limit = limit_us(self.scenario) if within is None else within
        if not self._until(lambda: not missing(self.cluster, self.progress), limit):
            self.missing = missing(self.cluster, self.progress)
            self.hopeless = self.progress.hopeless(self.missing, self.faults.forgive)

    def _end(self) -> None:
        self._phase("end", "; ".join(self.missing) if self.missing else "converged")
        for host in self.world.hosts.values():
            for fact in host.ground_truth():
                self.trace.record(self.world.now, host.name, fact)

    def _until(self, done: Any, limit: int) -> bool:
        deadline = self.world.now + limit
        while not done():
            if self.world.now >= deadline:
                return False
            self.world.run(self.world.now + STEP_US)
        return True

    def _phase(self, phase: str, reason: str) -> None:
        self.trace.record(self.world.now, "world", facts.Phase(phase, reason))

    # Judgement.

    def _result(self, wall: float) -> Result:
        violations = self.invariants.finish()
        delivery = self.delivery.finish()
        expect = self.scenario.expect
        topics = {topic_id: fact.topic for topic_id, fact in self.progress.topics.items()}
        found: dict[str, bool] = {}  # anomaly -> whether it is expected
        for violation in violations:
            excused = bool(violation.expected)
            found[violation.invariant] = found.get(violation.invariant, True) and excused
        for anomaly in delivery:
            topic = topics.get(anomaly.topic_id, anomaly.topic_id)
            excused = (
                bool(anomaly.expected)
                or anomaly.name in expect.permits
                or f"{anomaly.name}:{topic}" in expect.permits
            )
            found[anomaly.name] = found.get(anomaly.name, True) and excused
        seen = self.observer.seen
        for name in expect.must_see:
            if name not in seen:
                found[f"missing:{name}"] = False
        for name in expect.in_time:
            if seen.get(name, NEVER) > self.ready_us + self.scenario.duration:
                found[f"missing:{name}"] = False
        for name in expect.never:
            if name in seen:
                found[f"seen:{name}"] = False
        if self.missing:
            found["no-progress"] = bool(self.hopeless)
        failed = sorted(name for name, excused in found.items() if not excused)
        expected = sorted(name for name, excused in found.items() if excused)
        verdict = "fail" if failed else "expected" if expected else "pass"
        failure = "" if not failed else "liveness" if failed == ["no-progress"] else "safety"
        self.trace.close()
        result = Result(
            self.scenario.name, self.seed, self.trace.digest, verdict, failure,
            failed or expected, expected, self.trace.rows, self.world.now / 1e6, round(wall, 3),
            code_version(), config_digest(self.scenario, self.variants), self.variants,
            self.missing, violations, delivery, dict(seen), self.world.network.exchanges,
            self.ready_us,
            topics,
            None if self.directory is None else str(self.directory),
        )  # fmt: skip
        if self.directory is not None:
            self._write(result)
        return result

    def _write(self, result: Result) -> None:
        assert self.directory is not None
        manifest = result.summary()
        wall = manifest.pop("wall_seconds")
        del manifest["directory"]
        manifest["rows"] = result.events
        manifest["schema_version"] = facts.SCHEMA_VERSION
        manifest["reason"] = "; ".join(result.missing) or "converged"
        manifest["claim"] = self.scenario.claim
        manifest["permits"] = list(self.scenario.expect.permits)
        manifest["ready_us"] = result.ready_us
        manifest["topics"] = result.topics
        manifest["hopeless"] = self.hopeless
        manifest["forgiven"] = sorted(
            [*key, self.faults.forgive(key)]
            for key in self.progress.partitions
            if self.faults.forgive(key)
        )
        keys = {
            workload.group: self.invariants.cluster.group_key(workload.group)
            for workload in self.scenario.workload
            if workload.kind == "consumer-group"
        }
        manifest["forgiven_groups"] = {
            group: reason for group, key in keys.items() if (reason := self.faults.forgive(key))
        }
        manifest["spec"] = self.scenario.model_dump(mode="json", by_alias=True)
        write_timing(self.directory, {"wall_seconds": wall})
        write_manifest(self.directory, manifest)


def run(
    scenario: Scenario, seed: int, directory: Path | None = None, variants: Sequence[str] = ()
) -> Result:
    """Run a scenario with a seed; with a directory, leave trace and manifest there."""
    _freeze_modules()
    return Run(scenario, seed, directory, variants).execute()


@functools.cache
def _freeze_modules() -> None:
    """Take what is loaded by now out of every later collection, once for a process."""
    gc.collect()
    gc.freeze()


def config_digest(scenario: Scenario, variants: Sequence[str]) -> str:
    """Return a short digest of everything that decides a run besides seed and code."""
    data = [scenario.model_dump(mode="json", by_alias=True), list(variants)]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _strings(config: Any) -> tuple[tuple[str, str], ...]:
    return tuple((key, _property(value)) for key, value in sorted(config.items()))


def _property(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
