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

import contextlib
import functools
import gc
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kafkasim.analysis.judging.court import Court
from kafkasim.analysis.judging.history.budget import Budget
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.remarks import Remarks
from kafkasim.analysis.judging.settings import Settings
from kafkasim.analysis.judging.verdict import Result
from kafkasim.analysis.judging.wait import BOOT, Wait
from kafkasim.model import facts
from kafkasim.model.client.exceptions import KafkaTimeoutError
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.facts.world import EPOCH_US
from kafkasim.model.messages import CreatableTopic
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.time_limits import limit_us, reading_us
from kafkasim.scenarios.running.client_hosts import subscribed_topics
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.scenarios.running.convergence import Convergence
from kafkasim.scenarios.running.fault_schedule import FaultSchedule
from kafkasim.scenarios.running.judged import judged_settings
from kafkasim.scenarios.running.node_settings import properties_text
from kafkasim.scenarios.running.outside.groups import topic_names
from kafkasim.scenarios.running.outside.storing import final_results
from kafkasim.scenarios.running.share_settings import group_settings
from kafkasim.scenarios.variants.own_loading import own_rules_named
from kafkasim.sim.apps.client_port import ClientPort
from kafkasim.sim.trace.recording import Trace
from kafkasim.sim.trace.store import code_version, judges_version, write_manifest, write_timing
from kafkasim.sim.world import World

BOOT_LIMIT_US = 120_000_000
STEP_US = 100_000
"""How often the phases look whether their condition holds."""

PRODUCE_AFTER_HEAL_US = 2_000_000

WORK_US = 1000 * ConsumerConfig().max_poll_interval_ms
"""How long a user's application may handle what its last poll() returned, after all is read."""


class ScenarioRun:
    """One run in the making; with ``only_failed`` its directory keeps a failed run only."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        directory: Path | None,
        variants: Sequence[str],
        epoch_us: int = EPOCH_US,
        only_failed: bool = False,
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.directory = directory
        self.only_failed = only_failed
        self.variants = [*scenario.cluster.variants, *variants]
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
        self.trace = Trace(directory)
        self.world = World(seed, self.trace, epoch_us=epoch_us)
        self.cluster = Cluster(self.world, self.trace, scenario, self.variants)
        self.waits: list[Wait] = []  # what the run still lacks at its limit
        self.ready_us = 0
        budget = self._follow(judged_settings(scenario, self.cluster))
        self.faults = FaultSchedule(self.world, self.trace, self.cluster, self.progress, budget)

    def _follow(self, settings: Settings) -> Budget:
        """Have the run judged; return the no-loss budget, by which guarded faults start."""
        self.court = Court(self.trace, settings)
        self.progress: Progress = self.court.progress
        self.convergence = Convergence(self.trace, self.scenario, self.cluster, self.progress)
        control = self.cluster.clients.control
        ended = control.caught, control.returned, control.assumed, control.ignored
        told = topic_names(self.scenario), control.created, *ended
        self.remarks = Remarks(self.trace, self.court.readers, self.progress, *told)
        self.trace.subscribe(facts.ApplicationFailed, self._on_application_failed)
        return self.court.history.budget

    def execute(self) -> Result:
        """Run all phases and return the result."""
        began = time.perf_counter()
        gc.collect()  # the previous run's world consists of reference cycles
        gc.disable()
        try:
            if self._boot():
                self._safety()
                self._liveness()
                self._until(lambda: not self.cluster.clients.control.handling, WORK_US)
            self._end()
            return self._result(time.perf_counter() - began)
        except BaseException:
            self.cluster.clients.release()
            self.trace.close()  # it tells what happened until then
            raise
        finally:
            gc.enable()  # a collection follows that looks at all that is left of the run

    # Phases.

    def _boot(self) -> bool:
        """Start servers and create topics; return whether the cluster got ready in time."""
        self.cluster.start_servers()
        brokers = [int(host.name.rpartition("-")[2]) for host in self.cluster.brokers]
        if not self._until(lambda: self.progress.unfenced() == brokers, BOOT_LIMIT_US):
            text = f"unfenced brokers: {self.progress.unfenced()} of {brokers}"
            self.waits = [Wait(BOOT, detail=text)]
            return False
        self.cluster.clients.start_admin(self._create_topics)
        names = [topic.name for topic in self.scenario.topics]
        if not self._until(lambda: self._has_topics(names), BOOT_LIMIT_US):
            unsettled = [self.progress.name(key) for key in self.progress.unsettled()]
            self.waits = [Wait(BOOT, detail=f"topics: {unsettled or names}")]
            return False
        created = {fact.topic: topic_id for topic_id, fact in self.progress.topics.items()}
        self.cluster.clients.control.topic_ids.update(created)
        self.ready_us = self.world.now
        self._phase("ready", "")
        return True

    async def _create_topics(self, port: ClientPort) -> None:
        wanted = tuple(
            CreatableTopic(
                t.name,
                -1 if t.assignment else t.partitions,
                -1 if t.assignment else t.replication_factor,
                tuple([tuple(replicas) for replicas in t.assignment]),
                properties_text(t.config),
            )
            for t in self.scenario.topics
        )
        zookeeper = self.scenario.cluster.mode == "zookeeper"
        method = "admin.create_topics" if zookeeper else "admin.create_topics_at_once"
        with contextlib.suppress(KafkaTimeoutError):  # faults may begin before its answer comes
            await port.call(method, wanted)
        resources = group_settings(self.scenario)
        if resources:
            await port.call("admin.incremental_alter_configs", resources)

    def _has_topics(self, names: list[str]) -> bool:
        return self.progress.has_partitions(names) and not self.progress.unsettled()

    def _safety(self) -> None:
        self._phase("safety", "")
        self.cluster.clients.start_workloads()
        self.faults.arm(self.ready_us)
        self.world.run(self.ready_us + self.scenario.duration)

    def _liveness(self) -> None:
        """Heal everything and demand progress within the limit."""
        lasting = [each for each in self.faults.injector.active if each.lasts]
        told = [f"{each.kind} of {each.target} lasts" for each in lasting]
        self._phase("liveness", " and ".join(told))
        self.faults.heal()
        self.world.run(self.world.now + PRODUCE_AFTER_HEAL_US)
        self.faults.heal()  # what faults armed before the heal still restart
        control = self.cluster.clients.control
        control.producing = False
        within = self.scenario.expect.within
        limit = limit_us(self.scenario) if within is None else within
        if self._converges(limit):
            return
        # The producers are done by now; only processors may have transactions open.
        behind = self.convergence.unread(self.convergence.waits())
        reading = reading_us(self.scenario, behind, self.convergence.unanswered())
        if within is not None or not self._converges(reading):
            self.waits = self.convergence.waits()

    def _converges(self, limit: int) -> bool:
        """Run until nothing is missing; return whether that was so within ``limit`` µs."""
        return self._until(self.convergence.is_reached, limit)

    @property
    def missing(self) -> list[str]:
        """What the run still lacks at its limit, in sentences."""
        return [str(wait) for wait in self.waits]

    def _on_application_failed(
        self, _seq: int, _t: int, node: str, fact: facts.ApplicationFailed
    ) -> None:
        if fact.ended:
            self.cluster.clients.control.ended[node] = None

    def _end(self) -> None:
        self._phase("end", "; ".join(self.missing) if self.missing else "converged")
        for host in self.world.hosts.values():
            for fact in host.ground_truth():
                self.trace.record(self.world.now, host.name, fact)
        for group, nodes in self.cluster.clients.members.items():
            partitions = self._partitions_of(group)
            for node in nodes:
                for result in final_results(self.world.hosts[node].disk, group, partitions):
                    self.trace.record(self.world.now, node, result)
        for wait in self.waits:
            self.trace.record(self.world.now, "world", wait.fact(self.world.now))

    def _partitions_of(self, group: str) -> list[tuple[str, str, int]]:
        """Return (topic, topic id, partition) of what a group reads."""
        topic_ids = self.cluster.clients.control.topic_ids
        names = [
            name
            for workload in self.scenario.workload
            if workload.kind != "producer" and workload.group == group
            for name in subscribed_topics(workload, self.scenario, topic_ids)
        ]
        return [
            (name, topic_ids[name], number)
            for name in dict.fromkeys(names)
            if name in topic_ids
            for number in self.progress.partitions_of(name)
        ]

    def _until(self, done: Callable[[], bool], limit: int) -> bool:
        """Run until a condition holds; return whether it did within ``limit`` µs."""
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
        verdict = self.court.verdict(self.ready_us)
        if self.only_failed and verdict.word != "fail":
            self.trace.drop()
            self.directory = None
        self.trace.close()
        self.cluster.clients.release()
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
            acted=list(self.cluster.acted),
            missing=self.missing,
            findings=verdict.findings,
            observations=dict(self.court.observer.seen),
            remarks=self.remarks.finish(self.missing, self.ready_us),
            exchanges=self.world.network.exchanges,
            ready_us=self.ready_us,
            topics=self.court.topics,
            directory=None if self.directory is None else str(self.directory),
        )
        if self.directory is not None:
            write_timing(self.directory, {"wall_seconds": result.wall_seconds})
            write_manifest(self.directory, self._manifest(result))
        return result

    def _manifest(self, result: Result) -> dict[str, Any]:
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
            "judged_by": asdict(self.court.settings),
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
    _freeze_modules()
    with own_rules_named(seed):
        return ScenarioRun(scenario, seed, directory, variants, only_failed=only_failed).execute()


@functools.cache
def _freeze_modules() -> None:
    """Exempt the objects of all loaded modules from garbage collection, once in a process."""
    gc.collect()
    gc.freeze()


def config_digest(scenario: Scenario, variants: Sequence[str]) -> str:
    """Return a short digest of everything that decides a run besides seed and code."""
    data = [scenario.model_dump(mode="json", by_alias=True), list(variants)]
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
