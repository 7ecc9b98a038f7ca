"""Sweeps and comparisons as tables: in the terminal, as Parquet and as CSV."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from rich.table import Table

from kafkasim.analysis.sweeps.compare import Comparison
from kafkasim.analysis.sweeps.measured import Measure
from kafkasim.analysis.sweeps.statistics import Estimate
from kafkasim.analysis.sweeps.sweep import Swept
from kafkasim.analysis.words import counted

ABOUT = b"kafkasim"
"""The key of the metadata of a Parquet file that says what was asked."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)


def write(rows: Sequence[Mapping[str, Any]], target: Path, about: Mapping[str, Any]) -> list[Path]:
    """Write rows as ``target``.parquet and ``target``.csv, and return the files.

    ``about`` says what was asked; it goes into the metadata of the Parquet file as JSON.
    """
    told = {ABOUT: json.dumps(about, ensure_ascii=False).encode()}
    table = pa.Table.from_pylist([dict(row) for row in rows]).replace_schema_metadata(told)
    files = [target.with_suffix(suffix) for suffix in (".parquet", ".csv")]
    pq.write_table(table, files[0])
    pyarrow.csv.write_csv(table, files[1])
    return files


def read(target: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of ``target``.parquet, and what was asked."""
    table = pq.read_table(target.with_suffix(".parquet"))
    return table.to_pylist(), json.loads((table.schema.metadata or {}).get(ABOUT, b"{}"))


def number(value: float) -> str:
    """Return a number with three significant digits, thousands in full."""
    if math.isnan(value):
        return "—"
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def figure(one: Estimate, measure: Measure) -> str:
    """Return an estimate with its interval: ``12.4 (9.8 to 15.1)``; shares in percent."""
    return interval(one, percent if measure.is_probability else number)


def interval(one: Estimate, shown: Callable[[float], str]) -> str:
    """Return an estimate with its interval, each number as ``shown`` writes it."""
    if one.n == 0:
        return "—"
    if math.isnan(one.low) or one.low == one.high:
        return shown(one.value)
    return f"{shown(one.value)} ({shown(one.low)} to {shown(one.high)})"


def percent(value: float) -> str:
    """Return a share in percent."""
    return "—" if math.isnan(value) else f"{value * 100:.3g} %"


def sweep_table(swept: Swept, measures: Sequence[Measure]) -> Table:
    """Return the points of a sweep with the chosen measures."""
    points, runs = counted(len(swept.sweep.points), "point"), counted(swept.runs, "run")
    title = f"{swept.sweep.name}: {points}, {runs} of each"
    table = Table(title=title, title_justify="left", caption_justify="left")
    for axis in swept.sweep.axes:
        plain = all(_NUMBER.match(level.name) for level in axis.levels)
        table.add_column(axis.name, justify="right" if plain else "left")
    for one in measures:
        table.add_column(one.axis, justify="right")
    for index, point in enumerate(swept.sweep.points):
        figures = [figure(swept.estimate(index, one), one) for one in measures]
        table.add_row(*(level.name for level in point.levels), *figures)
    table.caption = "in brackets: 95 % intervals (Wilson; bootstrap over runs)"
    return table


def comparison_table(compared: Comparison, all_measures: bool = False) -> Table:
    """Return the measures of A, B and their paired difference; by default those that differ."""
    table = Table(
        title=f"{counted(compared.pairs, 'pair')} of runs, each pair with one seed",
        title_justify="left", caption_justify="left",
    )  # fmt: skip
    table.add_column("measure")
    for name in ("A", "B", "B − A", "lower / higher", "chance"):
        table.add_column(name, justify="right")
    for one in compared.measures:
        if not (one.differs or all_measures):
            continue
        table.add_row(
            one.measure.axis, figure(one.a, one.measure), figure(one.b, one.measure),
            figure(one.difference.estimate, one.measure),
            f"{one.difference.lower} / {one.difference.higher}",
            probability(one.difference.p_value), style=None if one.clear else "dim",
        )  # fmt: skip
    table.caption = (
        "lower / higher: pairs in which B has less / more than A. chance: how probable so uneven a"
        "\nsplit is if the setting has no effect (exact sign test, McNemar's for shares of runs)."
    )
    return table


def probability(value: float) -> str:
    """Return a p-value."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
