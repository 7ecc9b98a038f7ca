"""A fleet at a glance: ISR flapping and unavailability of every seed, and the verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.lines import Line2D

from analysis.metrics import RunMetrics, of_run
from analysis.plots import style
from analysis.runs import BadInput, Run, find_runs

COLOURS = {"pass": style.LEADER, "expected": style.OUT, "fail": style.FAULT, "crash": style.DOWN}


@dataclass(frozen=True)
class Point:
    """What the picture shows of one run."""

    label: str
    seed: int
    verdict: str
    flaps_per_minute: float
    unavailable_s: float


def draw(directory: Path, out: Path) -> list[Path]:
    """Draw all runs below ``directory``.

    Raises:
        BadInput: there is no whole run.
    """
    runs, _ = find_runs(directory, skip_bad=True)
    points = [point(run, of_run(run)) for run in runs if not run.crashed]
    if not points:
        raise BadInput(f"{directory}: every run crashed, there is nothing to draw")
    return style.save(picture(points), out)


def point(run: Run, metrics: RunMetrics) -> Point:
    """Return one run's point: ISR changes per minute, and partition seconds without service."""
    minutes = max(metrics.at_us, 1) / 60e6
    lost = metrics.value("leaderless-ms") + metrics.value("under-min-isr-ms")
    return Point(
        run.name.rpartition("/")[0] or str(run.manifest["scenario"]),
        int(run.manifest["seed"]),
        str(run.manifest["verdict"]),
        metrics.value("isr-flaps", "", "Count") / minutes,
        lost / 1000,
    )


def picture(points: Sequence[Point]) -> Any:
    """Return the figure: a row of dots per configuration, one dot a seed, its mean as a bar."""
    labels = sorted({point.label for point in points})
    fig = style.figure(12, 2.3 + 0.55 * len(labels))
    left, right = fig.subplots(1, 2, sharey=True)
    for axes, name, title in (
        (left, "flaps_per_minute", "ISR changes per minute, all partitions"),
        (right, "unavailable_s", "partition seconds leaderless or under min ISR"),
    ):
        for y, label in enumerate(labels):
            _dots(axes, [point for point in points if point.label == label], name, y)
        style.clean(axes)
        axes.set_xlabel(title)
        axes.set_xlim(0, max([1.0, *(1.08 * getattr(point, name) for point in points)]))
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
    verdicts = {name: sum(point.verdict == name for point in points) for name in COLOURS}
    handles = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=f"{name} ({verdicts[name]})")
        for name, colour in COLOURS.items()
        if verdicts[name]
    ]
    handles.append(Line2D([], [], marker="|", linestyle="", markersize=14, markeredgewidth=2.5,
                          color=style.INK, label="median"))  # fmt: skip
    fig.legend(handles=handles, loc="outside lower left", ncols=5, frameon=False, fontsize=8)
    seeds = len({point.seed for point in points})
    style.heading(fig, "Fleet", f"{len(points)} runs  ·  {seeds} seeds  ·  one dot is one run")
    return fig


def _dots(axes: Any, points: Sequence[Point], name: str, y: int) -> None:
    ordered = sorted(points, key=lambda point: point.seed)
    values = [getattr(point, name) for point in ordered]
    heights = [y + 0.5 * (((index * 7) % 10) / 10 - 0.45) for index in range(len(values))]
    colours = [COLOURS.get(point.verdict, style.FAINT) for point in ordered]
    axes.scatter(values, heights, c=colours, s=18, alpha=0.75, linewidths=0, zorder=3)
    middle = sorted(values)[len(values) // 2]
    axes.plot([middle, middle], [y - 0.32, y + 0.32], color=style.INK, linewidth=2.5, zorder=4)
