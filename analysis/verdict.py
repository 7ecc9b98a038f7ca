"""The verdicts on stored runs, from the table of findings: pass, fail or expected for each run.

Every run was judged while it ran (``analysis/judging``); one that other judges judged is judged
again from its facts (``rejudged.py``). One query sums the findings up, and for each kind of finding
there is the share of the runs that have it, with a Wilson 95 % interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kafkasim.analysis.interval import wilson
from kafkasim.analysis.judging.finding import CRASH, NO_PROGRESS
from kafkasim.analysis.words import counted

if TYPE_CHECKING:
    from rich.table import Table

    from kafkasim.analysis.runs import StoredRun
    from kafkasim.analysis.stored import Stored

EXIT_CODES = {"pass": 0, "expected": 0, "crash": 1, "safety": 10, "liveness": 11}

COMPILED_FINDINGS = 1_000_000
"""From so many findings on Spark compiles the query that sums them up."""

SUMMED = """
    SELECT run, name, failed, count, first.*
    FROM (SELECT run, name, bool_or(failed) AS failed, sum(count) AS count,
                 min_by(struct(topic, partition, text, expected_by),
                        struct(NOT failed, IF(seq < 0, 1L << 62, seq), text)) AS first
          FROM {findings} GROUP BY run, name)"""
"""Of each run and kind of finding how often, whether it failed, and the first of those that did."""


@dataclass(frozen=True)
class Found:
    """All findings of one name in a run; where, text and ``expected_by`` are those of the first.

    ``expected_by`` is the loss or hole that covers it, "" if one of them failed.
    """

    run: str
    name: str
    failed: bool
    count: int
    topic: str  # "" for none
    partition: int  # −1 for none
    text: str
    expected_by: str


@dataclass(frozen=True)
class RunVerdict:
    """The verdict of one run: pass | fail | expected | crash; ``failure`` names the class."""

    run: str
    scenario: str
    seed: int
    verdict: str
    failure: str
    anomalies: list[str]
    expected: list[str]
    digest: str


RATE_COLUMNS = ("finding", "runs", "violated", "rate (95 %)", "expected", "rate (95 %)")


@dataclass(frozen=True)
class Rate:
    """In how many runs there are findings of a name: the rates, with Wilson 95 % intervals.

    A run with a violation is none of those in which all that was found is expected.
    """

    name: str
    runs: int
    violations: int
    expected: int
    rate: float  # of violations
    low: float
    high: float
    expected_rate: float
    expected_low: float
    expected_high: float

    def cells(self) -> tuple[str, ...]:
        """Return the row of a table with the columns :data:`RATE_COLUMNS`."""
        violated = f"{self.rate:.1%} ({self.low:.1%} to {self.high:.1%})"
        expected = f"{self.expected_rate:.1%}"
        expected += f" ({self.expected_low:.1%} to {self.expected_high:.1%})"
        return (self.name, str(self.runs), str(self.violations), violated,
                str(self.expected), expected)  # fmt: skip


@dataclass
class Verdicts:
    """The verdicts on all runs, the rates of what was found, and what was found in each run.

    ``notes`` are lines about runs that were left out, or judged by other judges.
    """

    runs: list[RunVerdict]
    rates: list[Rate]
    found: list[Found]
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 as expected, 1 a crash, 10 safety, 11 liveness; the most severe of them counts."""
        failures = {run.failure for run in self.runs if run.failure}
        for name in ("crash", "safety", "liveness"):
            if name in failures:
                return EXIT_CODES[name]
        return 0

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {**asdict(self), "exit_code": self.exit_code}

    def table(self, names: Sequence[str] = ()) -> Table:
        """Return the rates as a table for the terminal; those of ``names`` too if they are 0."""
        from rich.table import Table

        table = Table(title=counted(len(self.runs), "run"), title_justify="left")
        for place, name in enumerate(RATE_COLUMNS):
            table.add_column(name, justify="right" if place else "left")
        known = {rate.name for rate in self.rates}
        zero = [rate_of(name, [], len(self.runs)) for name in names if name not in known]
        for rate in (*self.rates, *zero):
            style = "red" if rate.violations else "yellow" if rate.expected else None
            table.add_row(*rate.cells(), style=style)
        return table

    def runs_table(self, most: int = 20) -> Table:
        """Return the runs that did not pass, the failed ones first, as a table for the terminal."""
        from rich.markup import escape
        from rich.table import Table

        table = Table(title="runs that did not pass", title_justify="left")
        for name in ("run", "verdict", "anomalies", "the first"):
            table.add_column(name)
        first: dict[str, Found] = {}
        for one in sorted(self.found, key=lambda one: not one.failed):
            first.setdefault(one.run, one)
        odd = [run for run in self.runs if run.verdict != "pass"]
        for run in sorted(odd, key=lambda run: (run.verdict == "expected", run.run))[:most]:
            style = None if run.verdict == "expected" else "red"
            names = ", ".join(run.anomalies or run.expected)
            told = escape(describe(first[run.run]))
            table.add_row(run.run, run.verdict, names, told, style=style)
        if len(odd) > most:
            table.caption = f"… and {len(odd) - most} more"
        return table


def describe(found: Found) -> str:
    """Return the findings of one name as one line."""
    where = f" {found.topic}-{found.partition}" if found.partition >= 0 else ""
    times = f" ({found.count} times)" if found.count > 1 else ""
    excuse = f" [expected: {found.expected_by}]" if found.expected_by else ""
    return f"{found.name}{where}: {found.text}{times}{excuse}"


def judge(stored: Stored, judges: str) -> Verdicts:
    """Return the verdicts on stored runs; ``judges`` is the version of these judges.

    Runs whose findings other judges made are judged again.
    """
    from kafkasim.analysis.spark.session import INTERPRETED, tuned

    notes = list(stored.bad)
    findings = stored.findings_table()
    others = {run.name for run in stored.runs
              if run.manifest["judges"] != judges and not run.crashed}  # fmt: skip
    if others:
        from kafkasim.analysis.rejudged import findings_of

        mine = stored.spark.createDataFrame([(name,) for name in sorted(others)], "run STRING")
        findings = findings.join(mine, "run", "left_anti")
        findings = findings.unionByName(findings_of(stored, others))
        told = f"{len(others)} of {counted(len(stored.runs), 'run')}"
        notes.append(
            f"{told} had been judged by another version of the judges, and were judged again"
        )
    few = sum(run.manifest.get("found", 0) for run in stored.runs) < COMPILED_FINDINGS
    with tuned(stored.spark, INTERPRETED if few else {}):
        rows = stored.spark.sql(SUMMED, findings=findings).collect()
    return combine(stored.runs, [Found(**row.asDict()) for row in rows], notes)


def combine(
    runs: Sequence[StoredRun], found: Sequence[Found], notes: Sequence[str] = ()
) -> Verdicts:
    """Return the verdicts of runs from what was found in them."""
    by_run: dict[str, list[Found]] = {run.name: [] for run in runs}
    for one in sorted(found, key=lambda one: (one.run, one.name)):
        by_run[one.run].append(one)
    every = [one for mine in by_run.values() for one in mine]
    whole = sum(not run.crashed for run in runs)
    rates = [
        rate_of(name, every, len(runs) if name == CRASH else whole)
        for name in sorted({one.name for one in every})
    ]
    rates.sort(key=lambda rate: (-rate.violations, -rate.expected, rate.name))
    return Verdicts([_verdict(run, by_run[run.name]) for run in runs], rates, every, [*notes])


def _verdict(run: StoredRun, found: Sequence[Found]) -> RunVerdict:
    failed = [one.name for one in found if one.failed]
    excused = [one.name for one in found if not one.failed]
    verdict = "fail" if failed else "expected" if excused else "pass"
    failure = "" if not failed else "liveness" if failed == [NO_PROGRESS] else "safety"
    if run.crashed:
        verdict = failure = CRASH
    manifest = run.manifest
    return RunVerdict(
        run.name, str(manifest["scenario"]), int(manifest["seed"]), verdict, failure,
        failed, excused, str(manifest["digest"]),
    )  # fmt: skip


def rate_of(name: str, found: Sequence[Found], runs: int) -> Rate:
    """Return in how many of some runs there are findings of a name."""
    violated = sum(one.name == name and one.failed for one in found)
    excused = sum(one.name == name and not one.failed for one in found)
    rates = [(hits / runs if runs else 0.0, *wilson(hits, runs)) for hits in (violated, excused)]
    return Rate(name, runs, violated, excused, *rates[0], *rates[1])
