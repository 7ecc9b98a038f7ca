"""The interactive timeline of a run: lanes over time by plotly, the lag of the HW below them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import plotly.graph_objects as go

from kafkasim.analysis.plots import style
from kafkasim.analysis.report.run_facts import (
    BROKER,
    CONTROLLER,
    ELECTION,
    EXPAND,
    FAULT,
    FINDING,
    GROUP,
    SHRINK,
    TRUNCATION,
    RunFacts,
    Shown,
)

LANE_PX, LAG_PX, EDGES_PX = 21, 130, 120

MARKS = {
    FINDING: ("", "star", style.FAULT),
    ELECTION: ("leader election", "triangle-up", style.LEADER),
    SHRINK: ("ISR shrinks", "circle", style.OUT),
    EXPAND: ("ISR expands", "circle-open", style.LEADER),
    TRUNCATION: ("truncation", "x", style.FAULT),
    CONTROLLER: ("controller", "square", style.PAUSED),
    BROKER: ("registration", "diamond", style.DOWN),
}
"""What happens at a moment: its lane (a finding has one of its own name), symbol and colour."""

GROUP_STATES = {"Stable": "#3a9a6b", "PreparingRebalance": style.OUT,
                "CompletingRebalance": "#f7c58b"}  # fmt: skip

ROLES = {"leader": style.LEADER, "in ISR": style.IN_ISR, "out of ISR": style.OUT}


@dataclass
class Bars:
    """The bars of one legend entry."""

    colour: str
    lanes: list[int] = field(default_factory=list)
    began: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def add(self, lane: int, began: float, ended: float, text: str) -> None:
        """Add a bar from ``began`` to ``ended``."""
        self.lanes.append(lane)
        self.began.append(began)
        self.length.append(ended - began)
        self.texts.append(text)


@dataclass(frozen=True)
class Marks:
    """The marks of one lane."""

    lane: int
    symbol: str
    colour: str
    rows: Sequence[Shown]


class Lanes:
    """The lanes from above, and the bars and marks that lie on them."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.labels: list[str] = []
        self.bars: dict[str, Bars] = {}
        self.thin: dict[str, Bars] = {}
        self.marks: list[Marks] = []

    def lane(self, label: str) -> int:
        """Add a lane below the others and return its place."""
        self.labels.append(label)
        return len(self.labels) - 1

    def bar(self, name: str, colour: str, lane: int, row: Shown, text: str) -> None:
        """Add a row that lasts as a bar."""
        assert row.until_us is not None, row
        seconds = self.facts.seconds
        bars = self.bars.setdefault(name, Bars(colour))
        bars.add(lane, seconds(row.t_us), seconds(row.until_us), text)


def lanes_of(facts: RunFacts) -> Lanes:
    """Return the lanes: faults, moments, replicas by partition, groups."""
    lanes = Lanes(facts)
    places: dict[tuple[str, str], int] = {}
    for row in facts.rows:
        if row.kind == FAULT:
            name = (row.text, row.where)
            if name not in places:
                places[name] = lanes.lane(_escaped(f"{row.text} {_short(row.where)}"))
            lanes.bar("fault", style.FAULT, places[name], row, hover(facts, row))
    for kind, (label, symbol, colour) in MARKS.items():
        found: dict[str, list[Shown]] = {}
        for row in facts.rows:
            if row.kind == kind and row.until_us is None:
                title = row.text.partition(": ")[0] if kind == FINDING else label
                found.setdefault(title, []).append(row)
        for title, rows in found.items():
            lanes.marks.append(Marks(lanes.lane(_escaped(_short(title))), symbol, colour, rows))
    for key in facts.keys:
        _replicas(lanes, key)
    for row in facts.rows:
        if row.kind == GROUP:
            name = ("", row.where)
            if name not in places:
                places[name] = lanes.lane(f"<b>group {_escaped(_short(row.where))}</b>")
            state = row.text.split("; ")[0].split(" (")[0]
            colour = GROUP_STATES.get(state, style.FAINT)
            lanes.bar(f"group {state}", colour, places[name], row, hover(facts, row))
    return lanes


def _replicas(lanes: Lanes, key: tuple[str, int]) -> None:
    facts, line = lanes.facts, lanes.facts.line
    states = facts.states[key]
    replicas = sorted({one for _, state in states for one in state.replicas})
    for number, replica in enumerate(replicas):
        node = f"broker-{replica}"
        name = f"<b>{_escaped(_short(line.name(key)))}</b>  " if number == 0 else ""
        lane = lanes.lane(f"{name}{node}")
        for row, state in states:
            if replica not in state.replicas:
                continue
            role = "in ISR" if replica in state.isr else "out of ISR"
            role = "leader" if state.leader == replica else role
            text = f"<b>{node}: {role}</b><br>{hover(facts, row)}"
            lanes.bar(role, ROLES[role], lane, row, text)
        for what, colour, spans in (
            ("broker paused", style.PAUSED, line.paused), ("broker down", style.DOWN, line.down),
        ):  # fmt: skip
            for began, ended in spans.get(node, []):
                bars = lanes.thin.setdefault(what, Bars(colour))
                left, right = facts.seconds(began), facts.seconds(ended)
                text = f"<b>{what}: {node}</b><br>{left:.3f} s to {right:.3f} s"
                bars.add(lane, left, right, text)


def hover(facts: RunFacts, row: Shown) -> str:
    """Return the lines that a row's bar or mark shows."""
    until = "" if row.until_us is None else f" to {facts.seconds(row.until_us):.3f} s"
    lines = [f"<b>{_escaped(f'{row.kind} {row.where}')}</b>", _escaped(_folded(row.text)),
             f"{facts.seconds(row.t_us):.3f} s{until}"]  # fmt: skip
    if row.leader:
        lines.append(f"leader {row.leader}, leader epoch {row.epoch}")
        lines.append(f"ISR {row.isr or 'empty'}, HW {row.high_watermark}")
    elif row.epoch:
        lines.append(f"{'generation' if row.kind == GROUP else 'epoch'} {row.epoch}")
    return "<br>".join(lines)


def figure(facts: RunFacts) -> str:
    """Return the timeline as plotly's JSON; equal facts give equal text."""
    lanes = lanes_of(facts)
    order = [*ROLES, *lanes.bars]
    named = sorted(lanes.bars.items(), key=lambda item: order.index(item[0]))
    traces: list[Any] = [_bars(name, bars, 0.74) for name, bars in named]
    traces += [_bars(name, bars, 0.3) for name, bars in lanes.thin.items()]
    traces += [_marks(facts, marks) for marks in lanes.marks]
    traces += _lag(facts)
    drawn = go.Figure(traces, _layout(facts, lanes))
    return json.dumps(json.loads(drawn.to_json()), sort_keys=True, separators=(",", ":"))


def _bars(name: str, bars: Bars, width: float) -> Any:
    return go.Bar(
        y=bars.lanes, base=bars.began, x=bars.length, orientation="h", name=name, width=width,
        marker={"color": bars.colour, "line": {"color": "white", "width": 0.5}},
        hovertext=bars.texts, hoverinfo="text",
    )  # fmt: skip


def _marks(facts: RunFacts, marks: Marks) -> Any:
    return go.Scatter(
        x=[facts.seconds(row.t_us) for row in marks.rows],
        y=[marks.lane] * len(marks.rows), mode="markers", showlegend=False,
        marker={"symbol": marks.symbol, "color": marks.colour, "size": 10},
        hovertext=[hover(facts, row) for row in marks.rows], hoverinfo="text",
    )  # fmt: skip


def _lag(facts: RunFacts) -> list[Any]:
    traces = []
    for number, key in enumerate(facts.keys):
        lags = facts.lags[key]
        traces.append(
            go.Scatter(
                x=[facts.seconds(one.t_us) for one in lags],
                y=[one.log_end - one.high_watermark for one in lags],
                yaxis="y2",
                mode="lines",
                line={
                    "shape": "hv",
                    "width": 1.2,
                    "color": style.SERIES[number % len(style.SERIES)],
                },
                name=f"lag {_escaped(facts.line.name(key))}",
                hoverinfo="text",
                hovertext=[
                    f"<b>{_escaped(one.where)}</b><br>{facts.seconds(one.t_us):.3f} s<br>log end"
                    f" {one.log_end}, HW {one.high_watermark}"
                    for one in lags
                ],
            )
        )
    return traces


def _layout(facts: RunFacts, lanes: Lanes) -> dict[str, Any]:
    count = max(1, len(lanes.labels))  # a short run may have no lane
    height = count * LANE_PX + LAG_PX + EDGES_PX
    lag_share = LAG_PX / (count * LANE_PX + LAG_PX)
    end = facts.seconds(facts.line.end_us)
    return {
        "template": None, "height": height, "barmode": "overlay", "dragmode": "pan",
        "hovermode": "closest", "font": {"size": 12, "color": style.INK},
        "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        "paper_bgcolor": "white", "plot_bgcolor": "white",
        "legend": {"orientation": "h", "y": -60 / (height - EDGES_PX), "yanchor": "top",
                   "x": 0, "xanchor": "left"},
        "xaxis": {"title": {"text": "seconds since the cluster was ready"}, "anchor": "y2",
                  "range": [min(0.0, -0.01 * end), end], "gridcolor": style.GRID,
                  "zeroline": False, "automargin": True},
        "yaxis": {"tickvals": list(range(count)), "ticktext": lanes.labels, "fixedrange": True,
                  "range": [count - 0.4, -0.6], "domain": [lag_share + 0.02, 1],
                  "showgrid": False, "zeroline": False, "automargin": True, "ticks": ""},
        "yaxis2": {"title": {"text": "log end − HW"}, "domain": [0, lag_share - 0.02],
                   "rangemode": "tozero", "fixedrange": True, "gridcolor": style.GRID,
                   "zeroline": False, "automargin": True},
        "shapes": [
            {"type": "rect", "xref": "x", "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
             "x0": facts.seconds(began), "x1": facts.seconds(ended), "line": {"width": 0},
             "fillcolor": style.FAULT, "opacity": 0.10}
            for began, ended, _, _ in facts.line.faults
        ],
    }  # fmt: skip


def _short(text: str, most: int = 26) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _folded(text: str, width: int = 70) -> str:
    words: Sequence[str] = text.split(" ")
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += f"{word} "
    return "\n".join(line.strip() for line in lines)


def _escaped(text: str) -> str:
    """Return text for plotly, which reads a little HTML in labels."""
    replaced = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return replaced.replace("\n", "<br>")
