"""The parts of the page about sweeps and comparisons: what was measured, and what the runs show.

The points of a sweep and the sides of a comparison are other configurations than the one that the
scenario's claim is about. An anomaly whose probability they measure is no failure there: it is
shown as a share of runs. Whatever they do not measure (two leaders in one epoch, a crash of the
simulator) is a failure there, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkasim.analysis.report.page import Part, Picture, Table
from kafkasim.analysis.sweeps import tables
from kafkasim.analysis.sweeps.measured import PROBABLE, measure
from kafkasim.analysis.sweeps.statistics import Estimate, proportion
from kafkasim.analysis.verdict import RunVerdict, Verdicts
from kafkasim.analysis.words import counted

SWEEP, COMPARISON = "sweep", "compare"
"""The names of the files that ``kafkasim sweep`` and ``compare`` write."""

Rows = Sequence[Mapping[str, Any]]


def measured_parts(directory: Path) -> list[Part]:
    """Return the parts about the sweep and the comparison that a directory has the results of."""
    parts = []
    for name, part in ((SWEEP, _sweep), (COMPARISON, _comparison)):
        if (directory / f"{name}.parquet").is_file():
            picture = directory / f"{name}.png"
            pictures = [Picture(picture.read_bytes(), name)] if picture.is_file() else []
            parts.append(part(*tables.read(directory / name), pictures))
    return parts


def _sweep(rows: Rows, about: Mapping[str, Any], pictures: Sequence[Picture]) -> Part:
    axes, shown = about.get("axes", []), about.get("measures", [])
    points: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        points.setdefault(row["point"], {})[row["measure"]] = row
    told = _not_zero(rows, ("value", "most"))
    known = {row["measure"] for row in told}
    seen = [name for name in PROBABLE if name in known and name not in shown]
    found = []
    for title, names in (("Estimates", shown), ("Runs that show an anomaly", seen)):
        lines = [
            [*(str(next(iter(point.values()))[axis]) for axis in axes),
             *(_figure(point.get(name), name) for name in names)]
            for _, point in sorted(points.items())
        ]  # fmt: skip
        columns = [*axes, *(measure(name).axis for name in names)]
        if names:
            numbers = range(len(axes), len(columns))
            found.append(Table(title, columns, lines, numbers=numbers))
    answer = about.get("answer")
    return Part(SWEEP, str(about.get("question") or "Sweep"),
                f"The scenario's answer: {answer}" if answer else "", pictures=pictures,
                tables=[*found, _every(told)])  # fmt: skip


def _comparison(rows: Rows, about: Mapping[str, Any], pictures: Sequence[Picture]) -> Part:
    columns = ("measure", "A", "B", "B − A", "pairs lower / higher", "chance")
    lines = []
    for row in rows:
        if row["pairs_lower"] + row["pairs_higher"] == 0:
            continue
        one = measure(row["measure"])
        sides = [
            tables.figure(Estimate(row["pairs"], row[side], row[f"{side}_low"],
                                   row[f"{side}_high"]), one)
            for side in ("a", "b", "difference")
        ]  # fmt: skip
        split = f"{row['pairs_lower']} / {row['pairs_higher']}"
        lines.append([one.axis, *sides, split, tables.probability(row["p_value"])])
    differing = Table("Measures that differ in a pair", columns, lines, numbers=range(1, 6))
    facts = {
        name: str(about[name.lower()]) for name in ("A", "B", "Pairs") if name.lower() in about
    }
    lead = (
        "Both runs of a pair have the same seed. Chance: the probability of so uneven a split of"
        " the pairs if the setting has no effect (exact sign test, McNemar's for shares of runs)."
    )
    return Part(COMPARISON, "Comparison", lead, facts=facts, pictures=pictures,
                tables=[differing, _every(_not_zero(rows, ("a", "b")))])  # fmt: skip


def _not_zero(rows: Rows, columns: Sequence[str]) -> Rows:
    """Return the rows of the measures that have some other value than 0; NaN is none."""
    seen = {row["measure"] for row in rows for column in columns if abs(row[column]) > 0}
    return [row for row in rows if row["measure"] in seen]


def _figure(row: Mapping[str, Any] | None, name: str) -> str:
    if row is None:
        return "0"  # ISR changes for a reason that no run at this point has
    return tables.figure(
        Estimate(row["runs"], row["value"], row["low"], row["high"]), measure(name)
    )


def _every(rows: Rows) -> Table:
    """Return the table of all estimates, as the files have them."""
    columns = list(rows[0]) if rows else []
    numbers = [place for place, name in enumerate(columns)
               if not isinstance(rows[0][name], str)]  # fmt: skip
    lines = [[f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row.values()]
             for row in rows]  # fmt: skip
    return Table("All estimates that are not zero everywhere", columns, lines, True, numbers)


def verdict_of(run: RunVerdict) -> str:
    """Return the verdict on a run of a sweep or comparison, "" if it shows what is measured."""
    if run.verdict == "crash":
        return "crash"
    return "fail" if [name for name in run.anomalies if not _is_measured(name)] else ""


def _is_measured(anomaly: str) -> bool:
    """Return whether an anomaly is measured, or is a claim about another configuration."""
    return anomaly in PROBABLE or anomaly.startswith(("missing:", "seen:"))


def shown_by(run: RunVerdict) -> list[str]:
    """Return the anomalies of a run without what the scenario says must or must not be seen."""
    return [name for name in (*run.anomalies, *run.expected)
            if not name.startswith(("missing:", "seen:"))]  # fmt: skip


def runs_part(verdicts: Verdicts) -> Part:
    """Return the part about all runs of a sweep or comparison."""
    runs = verdicts.runs
    seeds, labels = {run.seed for run in runs}, {_label(run) for run in runs}
    lead = (f"{counted(len(runs), 'run')}: {counted(len(labels), 'configuration')},"
            f" {counted(len(seeds), 'seed')}.")  # fmt: skip
    failed = [run for run in runs if verdict_of(run)]
    if failed:
        lead += f" {counted(len(failed), 'run')} failed in a way that is not measured."
    rows = [(run.run, ", ".join(shown_by(run)) or "nothing", run.digest[:16])
            for run in [*failed, *(run for run in runs if not verdict_of(run))]]  # fmt: skip
    table = Table("Runs", ("run", "shows", "digest"), rows, folded=True)
    return Part("fleet", "All runs", lead, "fail" if failed else "", tables=[table])


def interesting(verdicts: Verdicts, most: int) -> list[str]:
    """Return runs to look at: the first of each unmeasured failure, then of what else was shown."""
    kinds: dict[tuple[str, ...], str] = {}
    for run in sorted(verdicts.runs, key=lambda run: (not verdict_of(run), not shown_by(run))):
        if run.verdict != "crash":
            kinds.setdefault(tuple(sorted(shown_by(run))), run.run)
    return list(kinds.values())[:most]


def shares(verdicts: Verdicts, run: RunVerdict) -> str:
    """Return how many runs of a run's configuration show the anomalies that it shows."""
    like = [one for one in verdicts.runs if _label(one) == _label(run)]
    told = []
    for name in shown_by(run):
        hits = sum(name in shown_by(one) for one in like)
        share = tables.interval(proportion(hits, len(like)), tables.percent)
        told.append(f"{hits} of {counted(len(like), 'run')} with this configuration show"
                    f" {name}: {share}.")  # fmt: skip
    return " ".join(told)


def _label(run: RunVerdict) -> str:
    return run.run.rpartition("/")[0]
