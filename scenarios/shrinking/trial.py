"""Does a candidate still show the anomaly? Runs it, once for each candidate, within a budget.

A candidate is kept if its run shows the same anomaly, failed or excused as before. A candidate
that shows it for another reason than the original is refused:

- With variants in force, the same candidate must show nothing of it without them.
- What the workloads' configuration permits (acks=1 may lose) is no failure of Kafka. A candidate
  must not permit an anomaly that the original does not.
- For no-progress, a candidate's own time to converge must not be longer than the original's.
"""

from __future__ import annotations

import hashlib
import json
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkasim.analysis.judging.finding import NO_PROGRESS
from kafkasim.analysis.judging.verdict import Result, in_order
from kafkasim.scenarios.language.files.data import Data
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.time_limits import limit_us
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.searching.draw_workload import permitted
from kafkasim.scenarios.shrinking.journal import Journal


class OutOfBudget(Exception):
    """All runs that the user allowed have been made."""


@dataclass(frozen=True)
class Shown:
    """What one run showed: its findings by name, each True if it failed and False if excused."""

    findings: dict[str, bool]
    digest: str

    @property
    def first(self) -> str | None:
        """The finding to keep if the user names none: a failed one before an excused one."""
        return next(iter(sorted(self.findings, key=lambda name: not self.findings[name])), None)


def shown(result: Result) -> Shown:
    """Return what a result shows, in the order in which it broke."""
    return Shown(in_order(result.findings), result.digest)


def examine(scenario: Scenario, seed: int) -> Shown:
    """Run a scenario and return what it shows; an exception of the simulator is a finding."""
    try:
        return shown(run(scenario, seed))
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{type(error).__name__} in {frame.name}"
        return Shown({f"crash: {place}": True}, place)


def _unclean(scenario: Scenario) -> bool:
    name = "unclean.leader.election.enable"
    tables = [scenario.cluster.config, *(topic.config for topic in scenario.topics)]
    return any(str(table.get(name, False)).lower() == "true" for table in tables)


def permits(scenario: Scenario) -> list[str]:
    """Return the anomalies that the configuration of a scenario does not rule out."""
    workload = [each.model_dump(mode="json", by_alias=True) for each in scenario.workload]
    return permitted(workload, _unclean(scenario))


class Trials:
    """Runs candidates of one original; answers that the journal has need no run."""

    def __init__(
        self,
        original: Data,
        seed: int,
        keep: str,
        journal: Journal,
        budget: int,
    ) -> None:
        self.seed = seed
        self.keep = keep
        self.runs = 0  # made by this process
        self._journal = journal
        self._budget = budget
        self.watch: Callable[[int], None] = lambda _runs: None  # called before each run
        scenario = parse(original, "the drawn scenario")
        within = scenario.expect.within
        self._limit = limit_us(scenario) if within is None else within
        self._permitted = permits(scenario)
        first = examine(scenario, seed)
        self._failed = first.findings[keep]
        self._alone = bool(scenario.cluster.variants) and not self._shows(_unmodified(scenario))

    def keeps(self, candidate: Data) -> bool:
        """Return whether a candidate is a scenario that shows the same anomaly.

        Raises:
            OutOfBudget: the answer needs a run, and no more are allowed.
        """
        try:
            scenario = parse(candidate, "a candidate")
        except ScenarioError:
            return False
        if self.keep in permits(scenario) and self.keep not in self._permitted:
            return False
        if self.keep == NO_PROGRESS and limit_us(scenario) > self._limit:
            return False
        key = digest_of(candidate)
        known = self._journal.answers.get(key)
        if known is None:
            if self.runs >= self._budget:
                raise OutOfBudget
            known = self._ask(scenario)
            self._journal.add(key, known)
        return known

    def _ask(self, scenario: Scenario) -> bool:
        if not self._shows(scenario):
            return False
        return not (self._alone and self._shows(_unmodified(scenario)))

    def _shows(self, scenario: Scenario) -> bool:
        self.runs += 1
        self.watch(self.runs)
        return examine(scenario, self.seed).findings.get(self.keep) is self._failed


def _unmodified(scenario: Scenario) -> Scenario:
    return scenario.model_copy(
        update={"cluster": scenario.cluster.model_copy(update={"variants": []})}
    )


def digest_of(data: Any) -> str:
    """Return a digest of plain data."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
