"""A comparison as a picture: the difference between A and B in every pair, and its interval.

A panel shows one measure. Each dot is a pair of runs with one seed, sorted by B − A; the bar below
is the median or mean of the differences with its 95 % interval. Where the bar does not reach zero,
these seeds settle which of the two has more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafkasim.analysis.plots import style
from kafkasim.analysis.sweeps.compare import Compared, Comparison
from kafkasim.analysis.sweeps.tables import figure, probability

MOST_PANELS = 6
COLUMNS = 2
LINE = 100  # characters of a heading's line
BELOW = -0.16  # where the bar lies: dots fill the panel from 0 to 1


def draw(compared: Comparison, out: Path) -> list[Path]:
    """Draw the measures that differ, the clearest first, and return the files (PNG and SVG)."""
    shown = clearest(compared.measures)
    rows = max(1, math.ceil(len(shown) / COLUMNS))
    fig = style.figure(11.0, 2.3 * rows + 1.2)
    panels = fig.subplots(rows, COLUMNS, squeeze=False).flat
    for place, panel in enumerate(panels):
        if place < len(shown):
            _panel(panel, shown[place])
        else:
            panel.set_visible(False)
    title = "B − A, seed by seed" if shown else "A and B differ in no measure of any pair"
    told = [f"{name}: {_cut(side)}" for name, side in zip("AB", sides(compared), strict=True)]
    style.heading(fig, f"{title}\n\n", "\n".join([f"{compared.pairs} pairs of runs", *told]))
    return style.save(fig, out)


def sides(compared: Comparison) -> list[str]:
    """Return the sides by what only one of them has, and then by what both have."""
    a, b = ([each.name, *each.variants, *each.settings] for each in (compared.a, compared.b))
    return [
        " ".join(
            [*[one for one in mine if one not in other], *[one for one in mine if one in other]]
        )
        for mine, other in ((a, b), (b, a))
    ]


def clearest(measures: Sequence[Compared]) -> list[Compared]:
    """Return the least probable of those that differ, at most six; of equals, anomalies first."""
    ranked = sorted(
        (one for one in measures if one.differs),
        key=lambda one: (one.difference.p_value, not one.measure.is_probability),
    )
    return ranked[:MOST_PANELS]


def _panel(panel: Any, one: Compared) -> None:
    """Draw the differences of one measure, sorted, with their interval below."""
    scale = 100.0 if one.measure.is_probability else 1.0  # shares in percentage points
    gaps = sorted(scale * gap for gap in one.gaps)
    heights = [(place + 0.5) / len(gaps) for place in range(len(gaps))]
    colours = [style.FAINT if gap == 0 else style.LEADER if gap < 0 else style.OUT for gap in gaps]
    style.clean(panel)
    panel.axvline(0.0, color=style.INK, linewidth=1.0, zorder=1)
    panel.scatter(gaps, heights, s=14, c=colours, zorder=3, linewidths=0)
    found = one.difference.estimate
    if not math.isnan(found.low):
        panel.plot([scale * found.low, scale * found.high], [BELOW, BELOW], color=style.INK,
                   linewidth=5, alpha=0.35, solid_capstyle="butt", zorder=2)  # fmt: skip
    panel.plot([scale * found.value], [BELOW], "D", color=style.INK, markersize=5, zorder=4)
    panel.set_ylim(2 * BELOW, 1.05)
    panel.set_yticks([])
    unit = "percentage points" if one.measure.is_probability else one.measure.unit
    panel.set_xlabel(f"B − A ({unit})" if unit else "B − A")
    lower, higher = one.difference.lower, one.difference.higher
    told = f"A {figure(one.a, one.measure)},  B {figure(one.b, one.measure)}"
    odds = f"lower in {lower}, higher in {higher}; chance {probability(one.difference.p_value)}"
    panel.set_title(f"{one.measure.axis}\n{told}\n{odds}", fontsize=8.5, loc="left")


def _cut(text: str) -> str:
    return text if len(text) <= LINE else text[: LINE - 1] + "…"
