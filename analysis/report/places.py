"""The parts of the page about a fleet and about what a sweep or comparison has written."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kafkasim.analysis.plots import fleet_view
from kafkasim.analysis.report.page import Part, Picture, Table, png

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored
    from kafkasim.analysis.verdict import RunVerdict, Verdicts

TABLES = {"sweep": "Sweep", "compare": "Comparison"}
"""What ``kafkasim sweep`` and ``compare`` write: the name of the files, and the heading."""

MOST_VERDICTS = 200


def sweep_parts(directory: Path) -> list[Part]:
    """Return the parts about the tables and pictures that lie in a directory."""
    parts = []
    for name, title in TABLES.items():
        table = directory / f"{name}.csv"
        if not table.is_file():
            continue
        with table.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.reader(lines))
        picture = directory / f"{name}.png"
        pictures = [Picture(picture.read_bytes(), title)] if picture.is_file() else []
        shown = Table("All estimates", rows[0], [[_rounded(cell) for cell in row]
                      for row in rows[1:]], folded=bool(pictures))  # fmt: skip
        parts.append(Part(name, title, pictures=pictures, tables=[shown]))
    return parts


def _rounded(cell: str) -> str:
    try:
        value = float(cell)
    except ValueError:
        return cell
    return f"{value:.4g}"


def fleet_part(stored: Stored, verdicts: Verdicts) -> Part:
    """Return the part about all runs: their verdicts, and how their measures are distributed."""
    counts: dict[str, int] = {}
    for run in verdicts.runs:
        counts[run.verdict] = counts.get(run.verdict, 0) + 1
    lead = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    points = fleet_view.points(stored)
    pictures = []
    if points:
        text = "ISR changes per minute and partition seconds without service, one dot a run"
        pictures.append(Picture(png(fleet_view.picture(points)), text))
    return Part("fleet", "All runs", f"{len(verdicts.runs)} runs: {lead}.", pictures=pictures,
                tables=[*_rates(verdicts), _runs(verdicts)])  # fmt: skip


def _rates(verdicts: Verdicts) -> list[Table]:
    """Return the checks that found something, and folded those that found nothing."""
    columns = ("check", "runs", "violations", "expected", "rate (95 % interval)")
    found: dict[bool, list[tuple[str, ...]]] = {True: [], False: []}
    for rate in verdicts.rates:
        share = f"{rate.rate:.1%} ({rate.low:.1%} to {rate.high:.1%})"
        found[rate.violations + rate.expected > 0].append(
            (rate.check, str(rate.runs), str(rate.violations), str(rate.expected), share)
        )
    some = Table("Checks that found something", columns, found[True], numbers=(1, 2, 3, 4))
    none = Table("Checks that found nothing", columns, found[False], True, (1, 2, 3, 4))
    return [some, none] if found[True] else [none]


def _runs(verdicts: Verdicts) -> Table:
    others = [run for run in verdicts.runs if run.verdict != "pass"]
    shown = [*others, *(run for run in verdicts.runs if run.verdict == "pass")][:MOST_VERDICTS]
    some = "" if len(shown) == len(verdicts.runs) else f": {len(shown)} of {len(verdicts.runs)}"
    rows = [(run.run, run.verdict, ", ".join(run.anomalies), run.digest[:16]) for run in shown]
    return Table(f"Runs{some}", ("run", "verdict", "anomalies", "digest"), rows, folded=True)


def interesting(verdicts: Verdicts, most: int) -> list[str]:
    """Return runs to look at: the first of each kind of failure, else of what was expected, else
    the first."""
    kinds: dict[tuple[str, ...], RunVerdict] = {}
    order = {"fail": 0, "expected": 1, "pass": 2}
    for run in sorted(verdicts.runs, key=lambda run: order.get(run.verdict, 3)):
        if run.verdict in order:
            kinds.setdefault((run.verdict, *run.anomalies), run)
    return [run.run for run in list(kinds.values())[:most]]


def stored_request(stored: Stored, name: str) -> dict[str, Any]:
    """Return what decides a stored run, with its label and how it was asked for."""
    wanted = ("label", "seed", "spec", "settings", "variants", "twin", "digest")
    row = stored.runs_table().where(F.col("run") == name).select(*wanted).collect()[0].asDict()
    return {**row, "spec": json.loads(row["spec"])}
