"""A fleet at a glance: ISR flapping and unavailability of every seed, and the verdicts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D

from kafkasim.analysis.plots import style
from kafkasim.analysis.runs import BadInput
from kafkasim.analysis.words import counted

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored

BINS = 110
"""Into how many columns the width is divided: runs of one column are stacked."""

MANY = 12
"""From how many runs on a column fills the row's height, and says how many it holds."""

COLOURS = {"pass": style.LEADER, "expected": style.OUT, "fail": style.FAULT, "crash": style.DOWN}


@dataclass(frozen=True)
class Point:
    """What the picture shows of one run."""

    label: str
    seed: int
    verdict: str
    flaps_per_minute: float
    unavailable_s: float


def draw(stored: Stored, out: Path) -> list[Path]:
    """Draw all runs as ``out``.png and ``out``.svg.

    Raises:
        BadInput: every run crashed.
    """
    found = points(stored)
    if not found:
        raise BadInput(f"{stored.place}: every run crashed, there is nothing to draw")
    return style.save(picture(found), out)


def points(stored: Stored) -> list[Point]:
    """Return a point for each run that got ready."""
    from kafkasim.analysis.figures.measures import MEASURES, measuring

    with measuring(stored):
        wanted = f"SELECT run, isr_changes_per_minute, unavailable_s FROM ({MEASURES})"
        measured = {row[0]: (row[1], row[2]) for row in stored.spark.sql(wanted).collect()}
    return [
        Point(
            str(run.manifest.get("label") or run.name.rpartition("/")[0]
                or run.manifest["scenario"]),
            int(run.manifest["seed"]),
            str(run.manifest["verdict"]),
            *measured[run.name],
        )
        for run in stored.runs
        if run.name in measured
    ]  # fmt: skip


def picture(points: Sequence[Point]) -> Any:
    """Return the figure: a row of dots per configuration, one dot a seed, with its median."""
    labels = sorted({point.label for point in points}, key=_by_numbers)
    fig = style.figure(12, 2.3 + 0.55 * len(labels))
    left, right = fig.subplots(1, 2, sharey=True)
    for axes, name, title in (
        (left, "flaps_per_minute", "ISR changes per minute, all partitions"),
        (right, "unavailable_s", "partition seconds leaderless or under min ISR"),
    ):
        most = max([1.0, *(1.08 * getattr(point, name) for point in points)])
        for y, label in enumerate(labels):
            _dots(axes, [point for point in points if point.label == label], name, y, most / BINS)
        style.clean(axes)
        axes.set_xlabel(title)
        axes.set_xlim(-0.06 * most, most)
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
    verdicts = {name: sum(point.verdict == name for point in points) for name in COLOURS}
    handles = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=f"{name} ({verdicts[name]})")
        for name, colour in COLOURS.items()
        if verdicts[name]
    ]
    handles.append(
        Line2D([], [], marker="^", linestyle="", markersize=6, color=style.INK, label="median")
    )
    fig.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False, fontsize=8)
    seeds = len({point.seed for point in points})
    told = [counted(len(points), "run"), counted(seeds, "seed"), "one dot is one run"]
    style.heading(fig, "Fleet", style.one_line(told))
    return fig


def _by_numbers(label: str) -> list[tuple[float, str]]:
    """Return the key that sorts labels by the numbers in them: 3000 is before 10000."""
    parts = re.split(r"(\d+(?:\.\d+)?)", label)
    return [(float(part), "") if place % 2 else (0.0, part) for place, part in enumerate(parts)]


def _dots(axes: Any, points: Sequence[Point], name: str, y: int, width: float) -> None:
    """Draw one dot a run; runs of nearly one value lie above each other in a column."""
    columns: dict[int, list[Point]] = {}
    for one in sorted(points, key=lambda point: (point.verdict, point.seed)):
        columns.setdefault(round(getattr(one, name) / width), []).append(one)
    for mine in columns.values():
        count = len(mine)
        height = 0.56 * min(1.0, count / MANY)
        axes.scatter(
            [getattr(one, name) for one in mine],
            [y + height * ((index + 0.5) / count - 0.5) for index in range(count)],
            c=[COLOURS.get(one.verdict, style.FAINT) for one in mine],
            s=18, alpha=0.75, linewidths=0, zorder=3,
        )  # fmt: skip
        if count >= MANY:
            middle = sum(getattr(one, name) for one in mine) / count
            axes.text(middle, y - 0.33, f"{count} runs", ha="center", va="bottom", fontsize=7.5)
    values = sorted(getattr(one, name) for one in points)
    axes.plot([values[len(values) // 2]], [y + 0.36], "^", color=style.INK, markersize=6, zorder=4)
