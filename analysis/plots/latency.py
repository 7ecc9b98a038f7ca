"""Produce latency over time: every acknowledged batch, and percentiles in windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kafkasim.analysis.figures.metrics import percentile
from kafkasim.analysis.figures.timeline import COLUMNS, KINDS, OneRun, Row, build
from kafkasim.analysis.plots import style

WINDOWS = 60


def draw(run: OneRun, out: Path) -> list[Path]:
    """Draw a run as ``out``.png and ``out``.svg."""
    rows = run.read([*KINDS, "Acked", "SendFailed"], [*COLUMNS, "latency_us", "acks", "record_ids"])
    manifest = run.manifest
    return style.save(picture(rows, f"{manifest['scenario']}  ·  seed {manifest['seed']}"), out)


def picture(rows: Sequence[Row], subtitle: str) -> Any:
    """Return the figure for the rows of one run."""
    line = build(rows)
    # A batch belongs to the moment it was sent: what waits shows when it began to wait.
    acked = [
        (
            (row["t_us"] - row["latency_us"] - line.ready_us) / 1e6,
            row["latency_us"],
            len(row["record_ids"]),
        )
        for row in rows
        if row["kind"] == "Acked"
    ]
    failed = [row for row in rows if row["kind"] == "SendFailed"]
    fig = style.figure(12, 4.6)
    axes = fig.subplots()
    end = style.seconds(line, line.end_us)
    axes.set_xlim(0, end)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.scatter([t for t, _, _ in acked], [latency / 1000 for _, latency, _ in acked], s=5,
                 color=style.IN_ISR, linewidths=0, label="one batch", zorder=2)  # fmt: skip
    for percent, colour in ((50, style.LEADER), (99, style.OUT)):
        times, values = windows(acked, end, percent)
        axes.plot(
            times,
            values,
            color=colour,
            linewidth=1.8,
            marker=".",
            markersize=4,
            label=f"p{percent} of the records",
            zorder=3,
        )
    if failed:
        axes.scatter(
            [(row["t_us"] - row["latency_us"] - line.ready_us) / 1e6 for row in failed],
            [row["latency_us"] / 1000 for row in failed],
            marker="x", s=26, color=style.FAULT, label="given up", zorder=4,
        )  # fmt: skip
    style.clean(axes)
    axes.grid(True, axis="y", color=style.GRID, linewidth=0.8)
    style.shade_faults(axes, line, label=True)
    axes.set_ylabel("send() to acknowledgement, ms")
    axes.set_xlabel("seconds since the cluster was ready, when the batch was sent")
    fig.legend(loc="outside lower left", ncols=4, frameon=False, fontsize=8)
    said = [subtitle, f"{len(acked)} batches acknowledged", f"{len(failed)} given up"]
    style.heading(fig, "Produce latency", style.one_line(said))
    return fig


def windows(
    points: Sequence[tuple[float, int, int]], end: float, percent: int
) -> tuple[list[float], list[float]]:
    """Return the middle of each window and its percentile in ms, NaN where nothing was sent.

    A point is a batch: when it was sent, its latency, its records, each of which counts.
    """
    width = max(end, 1e-6) / WINDOWS
    held: dict[int, list[int]] = {}
    for t, latency, count in points:
        held.setdefault(int(t / width), []).extend([latency] * count)
    times, values = [], []
    for number in range(WINDOWS + 1):
        found = percentile(sorted(held.get(number, [])), percent)
        times.append((number + 0.5) * width)
        values.append(math.nan if found is None else found / 1000)
    return times, values
