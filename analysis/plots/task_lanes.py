"""Who had which task of Kafka Streams, when: a lane per task and instance.

A lane is dark while the instance processes the task, orange while it restores the task's stores to
process it, light while it has a standby, green while that is a warm-up, which is to take the task
over. Below is how many tasks nobody processes, of those that somebody has processed before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from kafkasim.analysis.figures.tasks import KINDS as TASK_KINDS
from kafkasim.analysis.figures.tasks import Applications, TaskView
from kafkasim.analysis.figures.timeline import COLUMNS, KINDS, OneRun, Row, Timeline, build
from kafkasim.analysis.plots import lanes, style

DRAWN_KINDS = tuple(dict.fromkeys((*KINDS, *TASK_KINDS)))
DRAWN_COLUMNS = (
    *COLUMNS, "group", "thread", "task", "role", "state", "start_offset", "end_offset", "offset",
    "process_id", "warmup_tasks",
)  # fmt: skip
MOST_TASKS = 12

Task = tuple[str, str]  # application.id, task
Spans = dict[str, list[tuple[float, float]]]


class _Lanes:
    """What each instance did with each task: spans by colour, and what is open."""

    def __init__(self, line: Timeline) -> None:
        self._line = line
        self.spans: dict[tuple[Task, str], Spans] = {}
        self._open: dict[tuple[Task, str], tuple[float, str]] = {}  # since, colour
        self.idle: list[tuple[float, int]] = [(0.0, 0)]  # from then on: tasks nobody processes
        self._known: dict[Task, None] = {}  # that somebody has processed

    def take(self, t_us: int, applications: Applications) -> None:
        """Take what all threads have from a moment on."""
        now = style.seconds(self._line, t_us)
        held = dict(_held(applications))
        for lane in [*self._open, *held]:
            since, before = self._open.get(lane, (now, ""))
            colour = _colour(held[lane]) if lane in held else ""
            if colour == before:
                continue
            self._close(lane, since, now, before)
            if colour:
                self._open[lane] = now, colour
        running = {task: None for (task, _), each in held.items() if each.processes}
        self._known |= running
        self.idle.append((now, len(self._known) - len(running)))

    def end(self) -> None:
        """Close what is open at the end of the run."""
        now = style.seconds(self._line, self._line.end_us)
        for lane, (since, colour) in list(self._open.items()):
            self._close(lane, since, now, colour)
        self.idle.append((now, self.idle[-1][1]))

    def _close(self, lane: tuple[Task, str], since: float, now: float, colour: str) -> None:
        if self._open.pop(lane, None) is not None:
            self.spans.setdefault(lane, {}).setdefault(colour, []).append((since, now - since))


def _held(applications: Applications) -> Iterator[tuple[tuple[Task, str], TaskView]]:
    for group, threads in applications.threads.items():
        for thread in threads.values():
            for name, task in thread.tasks.items():
                yield ((group, name), thread.node), task


def _colour(task: TaskView) -> str:
    if task.role != "active":
        return style.WARM_UP if task.role == "warm-up" else style.IN_ISR
    if task.processes:
        return style.LEADER
    return style.OUT if task.state == "RESTORING" else style.FAINT


def draw(run: OneRun, out: Path) -> list[Path]:
    """Draw a run as ``out``.png and ``out``.svg."""
    return style.save(picture(rows(run), style.run_line(run.manifest)), out)


def rows(run: OneRun) -> list[Row]:
    """Return the rows of a run that :func:`picture` draws."""
    return run.read(DRAWN_KINDS, DRAWN_COLUMNS)


def picture(rows: Sequence[Row], subtitle: str) -> Any:
    """Return the figure for the rows of one run."""
    line = build([row for row in rows if row["kind"] in KINDS])
    found = _followed(rows, line)
    keys = sorted(dict.fromkeys(task for task, _ in found.spans), key=_order)
    shown = keys[:MOST_TASKS]
    every = sorted(
        [lane for lane in found.spans if lane[0] in shown],
        key=lambda lane: (_order(lane[0]), _number(lane[1])),
    )
    fig = style.figure(12, 2.6 + 0.2 * len(every) + 0.9)
    upper, lower = fig.subplots(2, 1, sharex=True, height_ratios=[max(2.0, 0.2 * len(every)), 1.0])
    upper.set_xlim(0, style.seconds(line, line.end_us))
    heights = lanes.places(every)
    for lane, y in heights.items():
        lanes.draw(upper, line, found.spans[lane], lane[1], y)
    style.clean(upper)
    style.shade_faults(upper, line, label=True)
    several = len({group for group, _ in keys}) > 1
    names = {key: f"{key[0]} {key[1]}" if several else f"task {key[1]}" for key in shown}
    lanes.label(upper, heights, names)
    _idle(lower, line, found.idle)
    seconds = _task_seconds(found.idle)
    told = f"{seconds:.1f} task seconds unprocessed" if keys else "no application of Kafka Streams"
    note = f"{len(shown)} of {len(keys)} tasks shown" if len(keys) > len(shown) else ""
    style.heading(fig, "Who had which task", style.one_line([subtitle, told, note]))
    fig.legend(handles=_legend(), loc="outside lower left", ncols=8, frameon=False, fontsize=8)
    return fig


def _followed(rows: Sequence[Row], line: Timeline) -> _Lanes:
    applications, found = Applications(), _Lanes(line)
    for row in rows:
        if row["kind"] == "HostStopped":
            applications.on_host_stopped(row)
        elif row["kind"] in applications.handlers:
            applications.handlers[row["kind"]](row)
        else:
            continue
        found.take(row["t_us"], applications)
    found.end()
    return found


def _order(task: Task) -> tuple[str, list[int]]:
    return task[0], [int(part) for part in task[1].split("_")]


def _number(node: str) -> int:
    return int(node.rpartition("-")[2])


def _task_seconds(idle: Sequence[tuple[float, int]]) -> float:
    return sum((until - since) * count for (since, count), (until, _) in pairwise(idle))


def _idle(axes: Any, line: Timeline, idle: Sequence[tuple[float, int]]) -> None:
    """Draw how many tasks nobody processes."""
    times, counts = [each for each, _ in idle], [each for _, each in idle]
    axes.fill_between(times, counts, step="post", color=style.OUT, linewidth=0, alpha=0.85)
    style.clean(axes)
    style.shade_faults(axes, line)
    axes.set_ylim(0, max(1, *counts) * 1.1)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
    axes.set_ylabel("tasks that\nnobody processes", fontsize=8)
    axes.set_xlabel("seconds since the cluster was ready")


def _legend() -> list[Patch]:
    return [
        Patch(color=style.LEADER, label="processes"),
        Patch(color=style.OUT, label="restores"),
        Patch(color=style.IN_ISR, label="stands by"),
        Patch(color=style.WARM_UP, label="warms up"),
        Patch(color=style.FAINT, label="suspended"),
        Patch(color=style.PAUSED, label="instance paused"),
        Patch(color=style.DOWN, label="instance down"),
        Patch(color=style.FAULT, alpha=0.12, label="fault"),
    ]
