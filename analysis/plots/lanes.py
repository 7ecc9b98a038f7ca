"""Lanes over time, in groups: who was what when, with the pauses and stops of each lane's host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from kafkasim.analysis.figures.timeline import Timeline
from kafkasim.analysis.plots import style

HEIGHT = 0.8

Spans = Mapping[str, Sequence[tuple[float, float]]]
"""By colour: begins and durations, in seconds"""

Group = TypeVar("Group")
Lane = TypeVar("Lane")


def places(lanes: Sequence[tuple[Group, Lane]]) -> dict[tuple[Group, Lane], float]:
    """Return the height of every lane: one unit each, and a gap between groups."""
    found: dict[tuple[Group, Lane], float] = {}
    y = 0.0
    for number, lane in enumerate(lanes):
        if number:
            y += 1.0 if lanes[number - 1][0] == lane[0] else 1.7
        found[lane] = y
    return found


def draw(axes: Any, line: Timeline, spans: Spans, node: str, y: float) -> None:
    """Draw a lane, and on it when its host was paused or down."""
    for colour, parts in spans.items():
        axes.broken_barh(parts, (y - HEIGHT / 2, HEIGHT), facecolors=colour, linewidth=0, zorder=2)
    for kind, colour, height in (
        (line.paused, style.PAUSED, 0.26),
        (line.down, style.DOWN, HEIGHT),
    ):
        parts = [
            (style.seconds(line, began), (ended - began) / 1e6)
            for began, ended in kind.get(node, [])
        ]
        axes.broken_barh(
            parts,
            (y - height / 2, height),
            facecolors=colour,
            edgecolor="white",
            linewidth=0.6,
            zorder=3,
        )


def label(
    axes: Any, heights: Mapping[tuple[Group, str], float], names: Mapping[Group, str]
) -> None:
    """Name every lane by its host, and every group of lanes in bold beside them."""
    axes.set_yticks(list(heights.values()), [node for _, node in heights])
    axes.tick_params(axis="y", length=0, labelsize=7)
    axes.set_ylim(max(heights.values(), default=0) + 0.8, -0.8)
    for group, name in names.items():
        mine = [y for (other, _), y in heights.items() if other == group]
        axes.text(
            -0.075, sum(mine) / len(mine), name, ha="right", va="center",
            transform=axes.get_yaxis_transform(), fontweight="bold", fontsize=8.5,
        )  # fmt: skip
