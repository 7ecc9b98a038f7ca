"""Run one scenario for each seed, on the unmodified model or with variants.

The whole scenario is drawn (:class:`Swarm`), or faults are drawn for a user's scenario
(:class:`Given`). A failure of a drawn scenario without variants is a bug of kafkasim: in the model,
the simulator or a judge. A failure of a user's scenario is the result that the user looks for. With
variants, a failure counts as found only if the same seed passes without them.
"""

from __future__ import annotations

import multiprocessing
import shlex
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from kafkasim.analysis.judging.verdict import in_order
from kafkasim.scenarios.language.files.rules import shown
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.report import screen
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.searching.about.parts import draw_about, mode_about
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.searching.given_plan import with_faults
from kafkasim.scenarios.variants.variant import VariantError


class Source(Protocol):
    """Where the scenario of a seed comes from."""

    @property
    def drawn_whole(self) -> bool:
        """Whether a failure without variants is a bug of ours, and no answer to a user."""

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario of a seed."""

    def mode(self, seed: int) -> str:
        """Return the mode of the cluster of a seed: kraft or zookeeper."""

    def command(self, seed: int, variants: Sequence[str] = ()) -> str:
        """Return the command that runs one seed again."""


@dataclass(frozen=True)
class Swarm:
    """Scenarios that are drawn whole: cluster, workload and faults; all ``about`` one part."""

    about: str | None = None  # one of parts.PARTS
    drawn_whole: bool = True

    def scenario(self, seed: int) -> Scenario:
        """Draw everything."""
        data = draw(seed) if self.about is None else draw_about(self.about, seed)
        return parse(data, data["name"])

    def mode(self, seed: int) -> str:
        """Even seeds are KRaft, odd ones ZooKeeper, if ZooKeeper has the part."""
        return mode_about(self.about, seed)

    def command(self, seed: int, variants: Sequence[str] = ()) -> str:
        """Name the seed, and what it is about."""
        part = [] if self.about is None else ["--about", self.about]
        return shlex.join(["kafkasim", "search", *part, *_one(seed), *_named(variants)])


SWARM = Swarm()


@dataclass(frozen=True)
class Given:
    """A user's scenario, with the faults that each seed draws for it.

    ``asked`` are the arguments and options of ``kafkasim search`` that name it, and ``only`` the
    kinds of faults that it gets.
    """

    given: Scenario
    asked: tuple[str, ...]
    only: tuple[str, ...] = ()
    drawn_whole: bool = False

    def scenario(self, seed: int) -> Scenario:
        """Draw the faults."""
        return with_faults(self.given, seed, self.only)

    def mode(self, seed: int) -> str:
        """It is the scenario's, whatever the seed."""
        return self.given.cluster.mode

    def command(self, seed: int, variants: Sequence[str] = ()) -> str:
        """Name the scenario as it was asked for, and the seed."""
        return shlex.join(["kafkasim", "search", *self.asked, *_one(seed), *_named(variants)])

    def shrink(self, seed: int) -> str:
        """Return the command that makes the scenario of one seed small."""
        return shlex.join(["kafkasim", "shrink", *self.asked, "--from-search", str(seed)])


def _one(seed: int) -> list[str]:
    return ["--first", str(seed), "--seeds", "1"]


def _named(variants: Sequence[str]) -> list[str]:
    return [part for name in variants for part in ("--variant", shown(name))]


@dataclass(frozen=True)
class Finding:
    """What one seed showed.

    ``anomalies`` are what failed, invariants first, in the order in which they broke. ``report``
    is the screen of a seed that failed, or the traceback of a crash.
    """

    seed: int
    verdict: str  # pass | expected | fail | crash | unmodified: a user's fails without variants too
    anomalies: tuple[str, ...] = ()
    sim_seconds: float = 0.0
    report: str = ""
    acted: bool = False  # whether a variant has decided otherwise than Kafka

    @property
    def failed(self) -> bool:
        """Whether the claim was broken or the simulator crashed."""
        return self.verdict in ("fail", "crash")

    @property
    def is_of_variant(self) -> bool:
        """Whether a variant in force is what failed: the seed passes without it."""
        return self.failed and self.anomalies != ("unmodified",)


@dataclass
class Tally:
    """A whole search: what its seeds showed, how long they simulated, which failed."""

    source: Source = SWARM
    ran: list[Finding] = field(default_factory=list)

    @property
    def seeds(self) -> int:
        """How many seeds ran."""
        return len(self.ran)

    @property
    def sim_seconds(self) -> float:
        """How long they simulated."""
        return sum(each.sim_seconds for each in self.ran)

    @property
    def verdicts(self) -> dict[str, int]:
        """How many seeds had each verdict, the first one first."""
        return dict(Counter(each.verdict for each in self.ran))

    @property
    def modes(self) -> dict[str, int]:
        """How many clusters there were of each mode."""
        return dict(Counter(self.source.mode(each.seed) for each in self.ran))

    @property
    def findings(self) -> list[Finding]:
        """Those that failed."""
        return [each for each in self.ran if each.failed]

    @property
    def acted(self) -> int:
        """In how many seeds a variant decided otherwise than Kafka."""
        return sum(each.acted for each in self.ran)

    def knows(self, finding: Finding) -> bool:
        """Return whether an earlier seed failed in the same way."""
        return any(each.anomalies == finding.anomalies for each in self.findings)


def examine(seed: int, variants: Sequence[str] = (), source: Source = SWARM) -> Finding:
    """Run the scenario of one seed, with ``variants`` in force."""
    scenario, replay = source.scenario(seed), source.command(seed, variants)
    try:
        result = run(scenario, seed, None, list(variants))
    except VariantError:  # a rule of the user's own raised an exception
        raise
    except Exception:  # a broken assertion in model or simulator, reported as such
        report = f"crash: seed {seed}\n{traceback.format_exc()}  replay: {replay}"
        return Finding(seed, "crash", ("crash",), 0.0, report)
    failed = result.verdict == "fail"
    failures = (name for name, fails in in_order(result.findings).items() if fails)
    anomalies = tuple(failures) if failed else tuple(result.anomalies)
    report = screen(result, replay) if failed else ""
    acted = bool(result.acted)
    return Finding(seed, result.verdict, anomalies, result.sim_seconds, report, acted)


def search(
    seeds: Iterable[int], variants: Sequence[str] = (), jobs: int = 1, source: Source = SWARM
) -> Iterator[Finding]:
    """Run the scenarios of ``seeds``, ``jobs`` processes at a time; yield the findings in order.

    Seeds run apart from each other, so the findings do not depend on ``jobs``.
    """
    work = ((seed, tuple(variants), source) for seed in seeds)
    if jobs <= 1:
        yield from map(_examine, work)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs) as pool:
        yield from pool.imap(_examine, work)


def _examine(work: tuple[int, tuple[str, ...], Source]) -> Finding:
    seed, variants, source = work
    found = examine(seed, variants, source)
    if not (variants and found.failed and examine(seed, (), source).failed):
        return found
    if not source.drawn_whole:
        return replace(found, verdict="unmodified", report="")
    names = ", ".join(map(shown, variants))
    report = f"{found.report}\n  it fails without {names} too: a bug of ours"
    return replace(found, verdict="crash", anomalies=("unmodified",), report=report)
