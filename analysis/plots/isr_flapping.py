"""Who was in which ISR, when: a lane per partition and replica, with the lag of the HW below.

A lane is dark while the replica leads, light while it is in the ISR, orange while it is out.
Pauses and stops of its broker are drawn on the lane, faults are shaded behind all lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.patches import Patch

from kafkasim.analysis.figures.timeline import (
    COLUMNS,
    KINDS,
    Key,
    OneRun,
    Row,
    Timeline,
    build,
    read_rows,
)
from kafkasim.analysis.plots import lanes, style

DRAWN_KINDS = (*KINDS, "Appended", "HighWatermark")
DRAWN_COLUMNS = (*COLUMNS, "next_offset", "high_watermark")
MOST_PARTITIONS = 8


def draw(run: OneRun, out: Path) -> list[Path]:
    """Draw a run as ``out``.png and ``out``.svg."""
    return style.save(picture(rows(run), style.run_line(run.manifest)), out)


def rows(run: OneRun) -> list[Row]:
    """Return the rows of a run that :func:`picture` draws."""
    return run.read(DRAWN_KINDS, DRAWN_COLUMNS)


def png_of(directory: Path) -> bytes:
    """Return the picture of the run in a directory of its own as PNG.

    Raises:
        BadInput: the run is not whole.
    """
    return style.png(picture(read_rows(directory, DRAWN_KINDS, DRAWN_COLUMNS), ""))


def picture(rows: Sequence[Row], subtitle: str) -> Any:
    """Return the figure for the rows of one run."""
    line = build(rows)
    keys = chosen(line)
    every = [(key, f"broker-{replica}") for key in keys for replica in _replicas(line, key)]
    fig = style.figure(12, 2.6 + 0.2 * len(every) + 0.9)
    upper, lower = fig.subplots(2, 1, sharex=True, height_ratios=[max(2.0, 0.2 * len(every)), 1.3])
    upper.set_xlim(0, style.seconds(line, line.end_us))
    heights = lanes.places(every)
    for (key, node), y in heights.items():
        lanes.draw(upper, line, _spans(line, key, int(node.partition("-")[2])), node, y)
    style.clean(upper)
    style.shade_faults(upper, line, label=True)
    lanes.label(upper, heights, {key: line.name(key) for key in keys})
    _lag(lower, line, rows, keys)
    count = sum(len(line.change_times(key)) for key in line.user_partitions())
    shown = len(line.user_partitions())
    note = f"{len(keys)} of {shown} partitions shown" if shown > len(keys) else ""
    style.heading(
        fig, "Who was in which ISR", style.one_line([subtitle, f"{count} ISR changes", note])
    )
    fig.legend(handles=_legend(), loc="outside lower left", ncols=6, frameon=False, fontsize=8)
    return fig


def chosen(line: Timeline) -> list[Key]:
    """Return the partitions to show: all, or those that changed most, in the order of names."""
    keys = line.user_partitions()
    most = sorted(keys, key=lambda key: -len(line.changes(key)))[:MOST_PARTITIONS]
    return [key for key in keys if key in most]


def _replicas(line: Timeline, key: Key) -> list[int]:
    return sorted({replica for state in line.partitions[key] for replica in state.replicas})


def _spans(line: Timeline, key: Key, replica: int) -> lanes.Spans:
    spans: dict[str, list[tuple[float, float]]] = {}
    for began, ended, state in line.spans(key):
        left, right = style.seconds(line, began), style.seconds(line, ended)
        colour = style.OUT
        if state.leader == replica:
            colour = style.LEADER
        elif replica in state.isr:
            colour = style.IN_ISR
        elif replica not in state.replicas:
            continue
        spans.setdefault(colour, []).append((left, right - left))
    return spans


def _lag(axes: Any, line: Timeline, rows: Sequence[Row], keys: Sequence[Key]) -> None:
    """Draw how many records at the leader are not below its high watermark yet."""
    log_end: dict[Key, int] = {}
    mark: dict[Key, int] = {}
    points: dict[Key, tuple[list[float], list[int]]] = {key: ([], []) for key in keys}
    for row in rows:
        key = (row["topic_id"], row["partition"])
        if row["kind"] not in ("Appended", "HighWatermark") or key not in points:
            continue
        if row["kind"] == "Appended":
            log_end[key] = row["next_offset"]
        else:
            mark[key] = row["high_watermark"]
        times, lags = points[key]
        times.append(style.seconds(line, row["t_us"]))
        lags.append(max(0, log_end.get(key, 0) - mark.get(key, 0)))
    for number, key in enumerate(keys):
        times, lags = points[key]
        colour = style.SERIES[number % len(style.SERIES)]
        axes.step(times, lags, where="post", color=colour, linewidth=1.0, label=line.name(key))
    style.clean(axes)
    style.shade_faults(axes, line)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("records above HW\n(LEO − HW)", fontsize=8)
    axes.set_xlabel("seconds since the cluster was ready")
    if keys:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=7, frameon=False)


def _legend() -> list[Patch]:
    return [
        Patch(color=style.LEADER, label="leader"),
        Patch(color=style.IN_ISR, label="in ISR"),
        Patch(color=style.OUT, label="out of ISR"),
        Patch(color=style.PAUSED, label="broker paused"),
        Patch(color=style.DOWN, label="broker down"),
        Patch(color=style.FAULT, alpha=0.12, label="fault"),
    ]
