"""Shrink the scenario of one seed: first fix its values, then make it small, with the same anomaly.

The directory of a shrink holds ``drawn.toml`` (the values that the seed drew; the same digest),
``shrunk.toml`` (the small scenario; it names its own digest and the removed parts) and
``answers.txt``, from which a killed shrink continues (:mod:`.journal`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafkasim.model.facts import SCHEMA_VERSION
from kafkasim.scenarios.language.files.data import Data
from kafkasim.scenarios.language.spec import ScenarioError, load, parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.shrinking.amounts import grows, removed
from kafkasim.scenarios.shrinking.journal import Journal
from kafkasim.scenarios.shrinking.plain import plain
from kafkasim.scenarios.shrinking.reducing import reductions
from kafkasim.scenarios.shrinking.toml_file import toml_text
from kafkasim.scenarios.shrinking.trial import OutOfBudget, Shown, Trials, digest_of, examine
from kafkasim.sim.trace.store import code_version

DRAWN_FILE = "drawn.toml"
SHRUNK_FILE = "shrunk.toml"
ANSWERS_FILE = "answers.txt"

Watch = Callable[[str, int, Data], None]
"""``watch(reduction, runs, data)``: called before each run, for a progress bar."""


@dataclass(frozen=True)
class Shrunk:
    """What a shrink came to. Without an anomaly there is no ``shrunk`` file, and ``data`` is None.

    ``finished`` is False if the budget was spent first; another call goes on.
    """

    drawn: Path
    original: Data
    shown: Shown  # by the drawn scenario
    keep: str | None = None
    shrunk: Path | None = None
    data: Data | None = None
    digest: str = ""  # of the shrunk scenario's run
    runs: int = 0
    finished: bool = True

    @property
    def removed(self) -> list[str]:
        """What was taken out, a line for each kind of thing, with the amounts before and after."""
        return [] if self.data is None else removed(self.original, self.data)


class NotReplayed(Exception):
    """A file that was written does not give the digest of the run that it is about: a bug."""


def shrink(
    scenario: Scenario,
    seed: int,
    directory: Path,
    *,
    variants: list[str],
    keep: str | None = None,
    budget: int,
    watch: Watch = lambda _reduction, _runs, _data: None,
) -> Shrunk:
    """Write the plain scenario of a seed and the smallest one found within ``budget`` runs.

    Raises:
        ScenarioError: the run does not show what is to be kept.
        NotReplayed: a file does not replay.
    """
    directory.mkdir(parents=True, exist_ok=True)
    original = plain(scenario, seed, variants)
    first = _write_drawn(directory / DRAWN_FILE, scenario, original, seed, variants)
    keep = keep or first.first
    if keep is None:
        return Shrunk(directory / DRAWN_FILE, original, first)
    if keep not in first.findings:
        found = ", ".join(first.findings) or "nothing"
        raise ScenarioError(f"--keep {keep}: seed {seed} shows {found}")
    about = {
        "scenario": digest_of(original), "seed": seed, "keep": keep,
        "code": code_version(), "schema": SCHEMA_VERSION,
    }  # fmt: skip
    journal = Journal(directory / ANSWERS_FILE, about)
    trials = Trials(original, seed, keep, journal, budget)
    reducing = _Reducing(original, trials)
    trials.watch = lambda runs: watch(reducing.reduction, runs, reducing.data)
    finished = reducing.reduce()
    shown = examine(parse(reducing.data, SHRUNK_FILE), seed)
    done = Shrunk(
        directory / DRAWN_FILE, original, first, keep, directory / SHRUNK_FILE, reducing.data,
        shown.digest, trials.runs, finished,
    )  # fmt: skip
    _write_shrunk(done, seed, len(journal.answers))
    return done


def _write_drawn(
    path: Path, scenario: Scenario, data: Data, seed: int, variants: list[str]
) -> Shown:
    """Write the plain scenario; return what it shows, which is what the original shows."""
    named = [*scenario.cluster.variants, *variants]
    cluster = scenario.cluster.model_copy(update={"variants": named})
    drawn = examine(scenario.model_copy(update={"cluster": cluster}), seed)
    comments = [
        f"{scenario.name} with the values of seed {seed}; the simulator still draws from the seed.",
        f"kafkasim run {path.name} --seed {seed} gives digest {drawn.digest[:16]}.",
    ]
    path.write_text(toml_text(data, comments), encoding="utf-8")
    _replay(path, seed, drawn.digest)
    return drawn


class _Reducing:
    """One shrink under way: the smallest scenario so far, and the reduction that is tried."""

    def __init__(self, data: Data, trials: Trials) -> None:
        self.data = data
        self.reduction = ""
        self._trials = trials

    def keeps(self, candidate: Data) -> bool:
        """Return whether a candidate keeps the anomaly; it is then the smallest one."""
        try:
            kept = not grows(self.data, candidate) and self._trials.keeps(candidate)
        except ScenarioError:
            return False
        if kept:
            self.data = candidate
        return kept

    def reduce(self) -> bool:
        """Apply all reductions until none helps; return False if the budget is spent before."""
        while True:
            before = self.data
            for self.reduction, reduction in reductions.ALL.items():
                try:
                    self.data = reduction(self.data, self.keeps)
                except OutOfBudget:
                    return False
            if self.data == before:
                return True


def _write_shrunk(done: Shrunk, seed: int, candidates: int) -> None:
    assert done.data is not None
    assert done.shrunk is not None
    comments = [
        f"{done.keep}, made small from {done.drawn.name}"
        + (
            f" in {candidates} candidates."
            if done.finished
            else " so far; run the same command to continue."
        ),
        f"kafkasim run {done.shrunk.name} --seed {seed} gives digest {done.digest[:16]}.",
        "",
        "Taken out, or lowered:",
        *(f"  {line}" for line in done.removed),
    ]
    done.shrunk.write_text(toml_text(done.data, comments), encoding="utf-8")
    _replay(done.shrunk, seed, done.digest)


def _replay(path: Path, seed: int, digest: str) -> None:
    """Run a file as its reader will.

    Raises:
        NotReplayed: it gives another digest.
    """
    again = examine(load(path), seed)
    if again.digest != digest:
        raise NotReplayed(f"{path}: digest {again.digest[:16]}, not {digest[:16]}")
