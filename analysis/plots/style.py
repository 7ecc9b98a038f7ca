"""What the pictures share: colours, a canvas without a display, and saving as PNG and SVG."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from kafkasim.analysis.figures.timeline import Timeline

INK = "#22303c"
FAINT = "#8895a1"
GRID = "#e3e8ec"
LEADER = "#1f5fa8"
IN_ISR = "#9cc4e4"
OUT = "#f28e2b"
WARM_UP = "#59a14f"
PAUSED = "#6b4c9a"
DOWN = "#3d3d3d"
FAULT = "#c0392b"
SERIES = ("#1f5fa8", "#f28e2b", "#3a9a6b", "#6b4c9a", "#b03a5b", "#7f6a3f", "#4aa3b5", "#8895a1")

matplotlib.rcParams.update(
    {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "text.color": INK,
        "axes.edgecolor": FAINT,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "svg.hashsalt": "kafkasim",
        "svg.fonttype": "none",
    }
)


def figure(width: float, height: float) -> Figure:
    """Return an empty figure."""
    return Figure(figsize=(width, height), facecolor="white", layout="constrained")


def clean(axes: Any) -> None:
    """Take away what says nothing: the frame's upper and right side; draw a faint grid."""
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.grid(True, axis="x", color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)


def shade_faults(axes: Any, line: Timeline, label: bool = False) -> None:
    """Shade the time of each fault; with ``label`` name what was done to whom above the axes."""
    ends: list[float] = []
    for began, ended, fault, target in sorted(line.faults):
        left, right = seconds(line, began), seconds(line, ended)
        axes.axvspan(left, right, color=FAULT, alpha=0.10, linewidth=0, zorder=0)
        if label:
            axes.annotate(
                f"{fault} {target}", (left, 1.0), xycoords=("data", "axes fraction"),
                xytext=(0, 4 + 10 * _row(ends, left, axes)), textcoords="offset points",
                fontsize=7.5, color=FAULT, annotation_clip=False,
            )  # fmt: skip


def _row(ends: list[float], left: float, axes: Any) -> int:
    """Return the lowest row whose last label ends before this one begins."""
    low, high = axes.get_xlim()
    width = (high - low) * 0.17
    for row, end in enumerate(ends):
        if end <= left:
            ends[row] = left + width
            return row
    ends.append(left + width)
    return len(ends) - 1


def seconds(line: Timeline, t_us: int) -> float:
    """Return seconds since t = 0 of the scenario."""
    return (t_us - line.ready_us) / 1e6


def heading(fig: Figure, title: str, subtitle: str) -> None:
    """Write a title, and a fainter line below it."""
    fig.suptitle(f"{title}\n", x=0.01, ha="left", fontsize=13, fontweight="bold", color=INK)
    fig.text(0.0105, 1 - 0.36 / fig.get_figheight(), subtitle, fontsize=9, color=FAINT, va="top")


def save(fig: Figure, out: Path) -> list[Path]:
    """Write ``out``.png and ``out``.svg; the SVG has no date, so equal data give equal bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    base = out.with_suffix("") if out.suffix in (".png", ".svg") else out
    png, svg = (base.with_name(base.name + suffix) for suffix in (".png", ".svg"))
    fig.savefig(png, dpi=150)
    fig.savefig(svg, metadata={"Date": None})
    return [png, svg]


def png(fig: Figure) -> bytes:
    """Return a figure as PNG, without the date."""
    out = BytesIO()
    fig.savefig(out, format="png", dpi=130, metadata={"Software": None})
    return out.getvalue()


def one_line(parts: Iterable[str]) -> str:
    """Join what there is to say."""
    return "  ·  ".join(part for part in parts if part)


def run_line(manifest: Mapping[str, Any]) -> str:
    """Return scenario, seed and verdict of a run, for the line below a title."""
    return one_line([manifest["scenario"], f"seed {manifest['seed']}", manifest["verdict"]])
