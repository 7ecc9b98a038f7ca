"""Run drawn scenarios, seed after seed, on the unmodified model or with variants in force.

Without variants every failure is a bug of ours: in the model, the simulator or a judge. With
variants a failure is what the search looks for. It counts only if the same seed passes without
them, so that the variants are what it found.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kafkasim.scenarios.judging.verdict import Result
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.searching.draw import draw, mode_of
from kafkasim.scenarios.showing.report import screen


@dataclass(frozen=True)
class Finding:
    """What one seed of the swarm showed.

    ``anomalies`` are what failed, invariants first, in the order in which they broke. ``report``
    is the screen of a seed that failed, or the traceback of a crash.
    """

    seed: int
    verdict: str  # pass | expected | fail | crash
    anomalies: tuple[str, ...] = ()
    sim_seconds: float = 0.0
    report: str = ""

    @property
    def failed(self) -> bool:
        """Whether the claim was broken or the simulator crashed."""
        return self.verdict in ("fail", "crash")


@dataclass
class Tally:
    """A whole search: how many seeds ran, how long they simulated, which failed."""

    seeds: int = 0
    sim_seconds: float = 0.0
    verdicts: dict[str, int] = field(default_factory=dict)
    modes: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, finding: Finding) -> None:
        """Count one seed."""
        self.seeds += 1
        mode = mode_of(finding.seed)
        self.modes[mode] = self.modes.get(mode, 0) + 1
        self.sim_seconds += finding.sim_seconds
        self.verdicts[finding.verdict] = self.verdicts.get(finding.verdict, 0) + 1
        if finding.failed:
            self.findings.append(finding)


def command(seed: int, variants: Sequence[str] = ()) -> str:
    """Return the command that runs one seed of the swarm again."""
    given = "".join(f" --variant {name}" for name in variants)
    return f"kafkasim search --first {seed} --seeds 1{given}"


def examine(seed: int, variants: Sequence[str] = ()) -> Finding:
    """Run one drawn scenario, with ``variants`` in force."""
    data = draw(seed)
    try:
        result = run(parse(data, data["name"]), seed, None, list(variants))
    except Exception:  # a broken assertion in model or simulator, reported as such
        report = f"crash: seed {seed}\n{traceback.format_exc()}  replay: {command(seed, variants)}"
        return Finding(seed, "crash", ("crash",), 0.0, report)
    if result.verdict != "fail":
        return Finding(seed, result.verdict, tuple(result.anomalies), result.sim_seconds)
    report = screen(result, command(seed, variants))
    return Finding(seed, "fail", ordered(result), result.sim_seconds, report)


def ordered(result: Result) -> tuple[str, ...]:
    """Return what failed in a run: invariants by their first violation, then the rest."""
    first: dict[str, None] = {}
    for violation in result.violations:
        if not violation.expected and violation.invariant in result.anomalies:
            first[violation.invariant] = None
    first.update(dict.fromkeys(result.anomalies))
    return tuple(first)


def search(seeds: Iterable[int], variants: Sequence[str] = (), jobs: int = 1) -> Iterator[Finding]:
    """Run the swarm's ``seeds``, ``jobs`` processes at a time; yield each finding in their order.

    Seeds run apart from each other, so the findings do not depend on ``jobs``.
    """
    work = ((seed, tuple(variants)) for seed in seeds)
    if jobs <= 1:
        yield from map(_examine, work)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs) as pool:
        yield from pool.imap(_examine, work)


def _examine(work: tuple[int, tuple[str, ...]]) -> Finding:
    seed, variants = work
    found = examine(seed, variants)
    if variants and found.failed and examine(seed).failed:
        report = f"{found.report}\n  it fails without {', '.join(variants)} too: a bug of ours"
        return Finding(seed, "crash", ("unmodified",), found.sim_seconds, report)
    return found
