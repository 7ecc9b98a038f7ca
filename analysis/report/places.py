"""The part of the page about the runs of a fleet, and which of them are shown one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kafkasim.analysis.answers import ANSWERS_FILE
from kafkasim.analysis.plots import fleet_view
from kafkasim.analysis.plots.style import png
from kafkasim.analysis.report.page import Part, Picture, Table
from kafkasim.analysis.verdict import RATE_COLUMNS
from kafkasim.analysis.words import counted

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored
    from kafkasim.analysis.verdict import RunVerdict, Verdicts

MOST_VERDICTS = 200


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
    told = f"{counted(len(verdicts.runs), 'run')}: {lead}."
    return Part("fleet", "All runs", told, pictures=pictures,
                tables=[*_rates(verdicts), _runs(verdicts)])  # fmt: skip


def answers_parts(directory: Path) -> list[Part]:
    """Return the part about what ``kafkasim ask`` has found there, if it has."""
    file = directory / ANSWERS_FILE
    if not file.is_file():
        return []
    told = json.loads(file.read_text(encoding="utf-8"))
    table = Table("The worst run of each question", told["columns"], told["rows"])
    return [Part("answers", "What breaks the cluster", tables=[table])]


def _rates(verdicts: Verdicts) -> list[Table]:
    """Return the table of what was found, if anything was."""
    rows = [rate.cells() for rate in verdicts.rates]
    numbers = range(1, len(RATE_COLUMNS))
    return [Table("What was found", RATE_COLUMNS, rows, numbers=numbers)] if rows else []


def _runs(verdicts: Verdicts) -> Table:
    others = [run for run in verdicts.runs if run.verdict != "pass"]
    shown = [*others, *(run for run in verdicts.runs if run.verdict == "pass")][:MOST_VERDICTS]
    some = "" if len(shown) == len(verdicts.runs) else f": {len(shown)} of {len(verdicts.runs)}"
    rows = [(run.run, run.verdict, ", ".join([*run.anomalies, *run.expected]), run.digest[:16])
            for run in shown]  # fmt: skip
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
