"""CPU seconds of the phases of a run, and of what is done between two slices of it."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafkasim.analysis.judging.verdict import Result
from kafkasim.model import facts
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.runner import ScenarioRun

SLICE_US = 1_000_000


class TimedRun:
    """One run, with the CPU time of its boot and of its workload.

    The workload counts from ``settle_us`` after ready to the end of the scenario's duration.
    ``between()`` runs after every simulated second, and its CPU time is not counted.
    """

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        directory: Path | None = None,
        between: Callable[[], None] | None = None,
        settle_us: int = 0,
    ) -> None:
        self.run = ScenarioRun(scenario, seed, directory, [])
        self.boot_seconds = 0.0  # CPU, until the cluster is ready
        self.load_seconds = 0.0  # CPU, of the workload
        self.seconds = 0.0  # CPU, of everything
        self._settle_us = settle_us
        self._load_us = scenario.duration - settle_us
        self._between = between
        self._apart = 0.0  # CPU seconds spent in ``between``
        self._marks: dict[str, tuple[float, int]] = {}  # CPU time and exchanges at a moment
        self.run.trace.subscribe(facts.Phase, self._on_phase)
        if between is not None:
            self.run.world.at(SLICE_US, self._slice, None)

    def execute(self) -> Result:
        """Run it, and note what it cost."""
        gc.collect()  # the world of the run before this one
        began = time.process_time()
        result = self.run.execute()
        self.seconds = time.process_time() - began - self._apart
        self.boot_seconds = self._marks["ready"][0] - began
        self.load_seconds = self._marks["liveness"][0] - self._marks["load"][0]
        return result

    @property
    def ms_per_simulated_second(self) -> float:
        """CPU milliseconds per simulated second of the workload."""
        return self.load_seconds * 1e9 / self._load_us

    @property
    def exchanges_per_simulated_second(self) -> float:
        """Requests that were answered per simulated second of the workload."""
        return self.exchanges * 1e6 / self._load_us

    @property
    def exchanges(self) -> int:
        """Requests that were answered during the workload."""
        return self._marks["liveness"][1] - self._marks["load"][1]

    def _on_phase(self, _seq: int, _t_us: int, _node: str, fact: Any) -> None:
        self._mark(fact.phase)
        if fact.phase == "safety":
            world = self.run.world
            world.at(world.now + self._settle_us, self._mark, "load")

    def _mark(self, moment: str) -> None:
        cpu = time.process_time() - self._apart
        self._marks[moment] = (cpu, self.run.world.network.exchanges)

    def _slice(self, _: None) -> None:
        assert self._between is not None
        began = time.process_time()
        self._between()
        self._apart += time.process_time() - began
        world = self.run.world
        world.at(world.now + SLICE_US, self._slice, None)
