"""Keep what a search finds: one directory for each place of the model that fails.

Two failures count once if their anomaly breaks at the same place: the same anomaly, the same kind
of decisive fact with its reason, and the same rule behind it (``chain.py:place_of`` in
analysis/explain). A crash of the simulator is placed by its exception and the function that raised
it. The first seed of a place is shrunk, explained and reported; of later ones
the seed is noted. ``failures.json`` lists all, also those of earlier searches into the directory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kafkasim.analysis.explain.explain import firsts
from kafkasim.scenarios.language.spec import load
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.running.stored import explain
from kafkasim.scenarios.searching.search import SWARM, Source
from kafkasim.scenarios.shrinking.shrink import Shrunk, shrink
from kafkasim.scenarios.shrinking.trial import Shown, examine, shown

INDEX_FILE = "failures.json"
EXPLANATION_FILE = "explanation.txt"
REPORT_FILE = "report.html"
RUN = "run"

Report = Callable[[Path, Path], None]
"""``report(run, page)`` writes the HTML page about the run in a directory."""


@dataclass
class Failure:
    """One place that fails: where it is kept, the seeds that reach it, and what was shrunk."""

    place: list[str]
    directory: str  # below that of the search
    variants: list[str]
    seeds: list[int] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


class Keeper:
    """The failures of a search, and the directory in which they are kept."""

    def __init__(
        self, directory: Path, budget: int, report: Report, source: Source = SWARM
    ) -> None:
        self.directory = directory
        self._report = report
        self._source = source
        self.failures: dict[tuple[str, ...], Failure] = {}
        self._budget = budget
        index = directory / INDEX_FILE
        if index.exists():
            for data in json.loads(index.read_text(encoding="utf-8")):
                known = Failure(**data)
                self.failures[(*known.place, *known.variants)] = known

    def add(self, seed: int, variants: list[str]) -> Failure:
        """Keep a seed that fails with ``variants``; shrink it if its place is new."""
        scenario = self._source.scenario(seed)
        place, anomaly = _place(scenario, seed, variants)
        key = (*place, *variants)
        known = self.failures.get(key)
        if known is None:
            name = re.sub(r"[^A-Za-z0-9.-]+", "-", "-".join(place)).strip("-")
            taken = [each.directory for each in self.failures.values()]
            name = name if name not in taken else f"{name}-{len(taken)}"
            known = self.failures[key] = Failure(list(place), name, variants)
            done = shrink(
                scenario, seed, self.directory / name,
                variants=variants, keep=anomaly, budget=self._budget,
            )  # fmt: skip
            known.removed = done.removed
            self._tell(done, seed, self.directory / name)
        if seed not in known.seeds:
            known.seeds.append(seed)
        self._write()
        return known

    def _write(self) -> None:
        data: list[dict[str, Any]] = [asdict(each) for each in self.failures.values()]
        text = json.dumps(data, indent=2, ensure_ascii=False)
        (self.directory / INDEX_FILE).write_text(text + "\n", encoding="utf-8")

    def _tell(self, done: Shrunk, seed: int, directory: Path) -> None:
        """Leave the run of the shrunk scenario, why it shows what it shows, and its report."""
        if done.shrunk is None or done.keep is None or done.keep.startswith("crash"):
            return
        run(load(done.shrunk), seed, directory / RUN)
        explained, ready_us = explain(directory / RUN, done.keep)
        lines = [line for each in explained for line in (*each.lines(ready_us), "")]
        (directory / EXPLANATION_FILE).write_text("\n".join(lines), encoding="utf-8")
        self._report(directory / RUN, directory / REPORT_FILE)


def _place(scenario: Scenario, seed: int, variants: list[str]) -> tuple[tuple[str, ...], str]:
    """Return where a failing run breaks the model, and the anomaly that it shows first."""
    with TemporaryDirectory(prefix="kafkasim-") as place:
        try:
            result = run(scenario, seed, Path(place), variants)
        except Exception:  # the same exception again, with its place
            named = scenario.cluster.model_copy(update={"variants": variants})
            crash = examine(scenario.model_copy(update={"cluster": named}), seed).first
            assert crash is not None
            return (crash,), crash
        found: Shown = shown(result)
        anomaly = found.first
        assert anomaly is not None, f"seed {seed} fails in the search and passes here"
        explained = firsts(explain(Path(place), anomaly)[0]).get(anomaly)
        return (explained[0].place if explained else (anomaly,)), anomaly
