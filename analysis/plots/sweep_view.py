"""A sweep as pictures: lines with bands for one axis, heat maps for two, small multiples for three.

Points that were sampled from ranges, or from more than three axes, are shown as the measure over
each axis in turn, one dot a point.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import LogLocator, NullFormatter

from kafkasim.analysis.plots import style
from kafkasim.analysis.sweeps.axes import Axis
from kafkasim.analysis.sweeps.measured import Measure
from kafkasim.analysis.sweeps.sweep import Swept
from kafkasim.analysis.sweeps.tables import number, percent
from kafkasim.analysis.words import counted

HEAT = "YlOrRd"
MOST_PANELS = 4
OF_PANEL = 0.7  # how much of a panel's width its axis has, beside labels and colour scale
CHARACTER = 0.085  # the width of a character of a tick label, in inches


TITLE_COLUMNS = 44  # what fits above the narrowest heat map and its colour scale


def draw(swept: Swept, measures: Sequence[Measure], out: Path) -> list[Path]:
    """Draw the first measures of a sweep, at most four, and return the files (PNG and SVG)."""
    shown = list(measures)[:MOST_PANELS]
    axes = swept.sweep.axes
    gridded = not swept.sweep.sampled and len(axes) <= 3
    if gridded and len(axes) == 1:
        fig = _lines(swept, shown)
    elif gridded and len(axes) == 2:
        fig = _heat_maps(swept, shown)
    elif gridded:
        fig = _multiples(swept, shown[0])
    else:
        fig = _dots(swept, shown[0])
    points, runs = counted(len(swept.sweep.points), "point"), counted(swept.runs, "run")
    style.heading(fig, _title(swept), f"{points}  ·  {runs} of each, on the same seeds")
    return style.save(fig, out)


def _title(swept: Swept) -> str:
    return swept.sweep.question or swept.sweep.name


def _lines(swept: Swept, shown: Sequence[Measure]) -> Any:
    axis = swept.sweep.axes[0]
    rows, columns = _grid(len(shown))
    fig = style.figure(2.2 + 3.6 * columns, 0.6 + 3.6 * rows)
    for panel, one in zip(fig.subplots(rows, columns, squeeze=False).flat, shown, strict=True):
        found = [swept.estimate(index, one) for index in range(len(swept.sweep.points))]
        places = range(len(found))
        low = [point.value if math.isnan(point.low) else point.low for point in found]
        high = [point.value if math.isnan(point.high) else point.high for point in found]
        panel.fill_between(places, low, high, color=style.IN_ISR, alpha=0.5, linewidth=0)
        panel.plot(places, [point.value for point in found], "o-", color=style.LEADER, zorder=3)
        style.clean(panel)
        panel.grid(True, axis="y", color=style.GRID, linewidth=0.8)
        panel.set_xticks(places, [level.name for level in axis.levels])
        _turn(panel, axis)
        panel.set_xlabel(axis.title)
        panel.set_ylabel(_broken(one.axis))
        panel.set_ylim(bottom=min(0.0, *low))
        panel.margins(x=0.06)
    return fig


def _heat_maps(swept: Swept, shown: Sequence[Measure]) -> Any:
    across, down = _oriented(swept.sweep.axes)
    width = max(3.4, 0.95 * len(swept.sweep.axes[across].levels) + 1.9)
    height = max(2.2, 0.55 * len(swept.sweep.axes[down].levels) + 2.0)
    rows, columns = _grid(len(shown))
    fig = style.figure(max(6.5, width * columns), height * rows + 0.3)
    for panel, one in zip(fig.subplots(rows, columns, squeeze=False).flat, shown, strict=True):
        low, high = _bounds(swept, one)
        _heat_map(fig, panel, swept, one, across, down, {}, (low, high))
        panel.set_title(_panel_title(one.axis), fontsize=9, loc="left")
    return fig


def _panel_title(measure: str) -> str:
    """Return a measure's name broken to the width of a heat map; a longer line leaves the page."""
    return textwrap.fill(measure, TITLE_COLUMNS)


def _grid(panels: int) -> tuple[int, int]:
    """Return rows and columns: four panels in one row are too small to read on a page."""
    return (2, 2) if panels == 4 else (1, panels)


def _multiples(swept: Swept, one: Measure) -> Any:
    """Return a heat map of two axes for each level of the third, the one with fewest levels."""
    axes = swept.sweep.axes
    apart = min(range(3), key=lambda place: (len(axes[place].levels), -place))
    rest = [place for place in range(3) if place != apart]
    levels = axes[apart].levels
    columns = min(3, len(levels))
    rows = math.ceil(len(levels) / columns)
    wide = max(3.2, 0.8 * len(axes[rest[0]].levels) + 1.8)
    high = max(2.2, 0.5 * len(axes[rest[1]].levels) + 1.6)
    fig = style.figure(max(6.5, wide * columns), high * rows + 0.7)
    panels = fig.subplots(rows, columns, squeeze=False).flat
    for place, panel in enumerate(panels):
        if place >= len(levels):
            panel.set_visible(False)
            continue
        _heat_map(fig, panel, swept, one, rest[0], rest[1], {apart: place}, _bounds(swept, one))
        panel.set_title(f"{axes[apart].name} = {levels[place].name}", fontsize=9, loc="left")
    fig.supxlabel(one.axis, fontsize=9)
    return fig


def _heat_map(
    fig: Any, panel: Any, swept: Swept, one: Measure, across: int, down: int,
    fixed: dict[int, int], bounds: tuple[float, float],
) -> None:  # fmt: skip
    x, y = swept.sweep.axes[across], swept.sweep.axes[down]
    cells = [[math.nan] * len(x.levels) for _ in y.levels]
    for index, point in enumerate(swept.sweep.points):
        if any(
            point.levels[axis] != swept.sweep.axes[axis].levels[at] for axis, at in fixed.items()
        ):
            continue
        column, row = x.levels.index(point.levels[across]), y.levels.index(point.levels[down])
        cells[row][column] = swept.estimate(index, one).value
    image = panel.imshow(cells, cmap=HEAT, aspect="auto", vmin=bounds[0], vmax=bounds[1])
    shown = percent if one.is_probability else number
    for row, values in enumerate(cells):
        for column, value in enumerate(values):
            dark = bounds[1] > bounds[0] and (value - bounds[0]) / (bounds[1] - bounds[0]) > 0.6
            panel.text(
                column, row, shown(value), ha="center", va="center", fontsize=8,
                color="white" if dark else style.INK,
            )  # fmt: skip
    panel.set_xticks(range(len(x.levels)), [level.name for level in x.levels])
    panel.set_yticks(range(len(y.levels)), [level.name for level in y.levels])
    _turn(panel, x)
    panel.set_xlabel(x.title)
    panel.set_ylabel(y.title)
    panel.tick_params(length=0)
    for side in panel.spines.values():
        side.set_visible(False)
    fig.colorbar(image, ax=panel, shrink=0.85, pad=0.02)


def _dots(swept: Swept, one: Measure) -> Any:
    axes = swept.sweep.axes
    columns = min(3, len(axes))
    rows = math.ceil(len(axes) / columns)
    fig = style.figure(4.0 * columns, 3.0 * rows + 0.7)
    values = [swept.estimate(index, one) for index in range(len(swept.sweep.points))]
    for place, panel in enumerate(fig.subplots(rows, columns, squeeze=False).flat):
        if place >= len(axes):
            panel.set_visible(False)
            continue
        axis = axes[place]
        where, ticks = _positions(swept, place)
        errors = [
            [0.0 if math.isnan(point.low) else point.value - point.low for point in values],
            [0.0 if math.isnan(point.high) else point.high - point.value for point in values],
        ]
        panel.errorbar(
            where, [point.value for point in values], errors, fmt="o", markersize=4,
            color=style.LEADER, ecolor=style.IN_ISR, elinewidth=1.2,
        )  # fmt: skip
        style.clean(panel)
        panel.grid(True, axis="y", color=style.GRID, linewidth=0.8)
        if ticks:
            panel.set_xticks(range(len(ticks)), ticks)
            _turn(panel, axis)
        elif axis.low > 0 and axis.high / axis.low >= 10:
            _logarithmic(panel)
        panel.set_xlabel(axis.title)
        panel.set_ylabel(_broken(one.axis) if place % columns == 0 else "")
    return fig


def _logarithmic(panel: Any) -> None:
    """Let an axis run in the logarithm, with plain numbers at 1, 2, 5, 10, 20, …"""
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.xaxis.set_major_formatter("{x:,g}")
    panel.xaxis.set_minor_formatter(NullFormatter())


def _positions(swept: Swept, place: int) -> tuple[list[float], list[str]]:
    """Return where each point lies along an axis, and the names of levels, if it has levels."""
    axis = swept.sweep.axes[place]
    names = [point.levels[place].name for point in swept.sweep.points]
    if axis.is_range:
        return [float(name.removesuffix(axis.unit)) for name in names], []
    levels = [level.name for level in axis.levels]
    return [float(levels.index(name)) for name in names], levels


def _oriented(axes: Sequence[Axis]) -> tuple[int, int]:
    """Return which axis runs across: the one with more levels."""
    return (0, 1) if len(axes[0].levels) >= len(axes[1].levels) else (1, 0)


def _bounds(swept: Swept, one: Measure) -> tuple[float, float]:
    values = [swept.estimate(index, one).value for index in range(len(swept.sweep.points))]
    known = [value for value in values if not math.isnan(value)]
    low, high = min([0.0, *known]), max([0.0, *known])
    return low, high if high > low else low + 1.0


def _broken(text: str) -> str:
    """Return the name of an axis on two lines: what is measured, and how it is summed up."""
    return text.replace(" (", "\n(")


def _turn(panel: Any, axis: Axis) -> None:
    """Turn the labels below a panel if they do not fit side by side."""
    columns = panel.get_subplotspec().get_gridspec().ncols
    width = panel.figure.get_size_inches()[0] / columns * OF_PANEL
    longest = max(len(level.name) for level in axis.levels)
    if len(axis.levels) * (longest + 1) * CHARACTER > width:
        for label in panel.get_xticklabels():  # each ends below its place
            label.set(rotation=25, horizontalalignment="right", rotation_mode="anchor")
