"""The part of the page about one run: its timeline, with the story and the explanations beside."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from kafkasim.analysis.figures.timeline import OneRun
from kafkasim.analysis.plots import isr_flapping, task_lanes
from kafkasim.analysis.plots.style import png
from kafkasim.analysis.report.page import Part, Picture, Table, Text, TimedRow, Timeline
from kafkasim.analysis.report.run_facts import Finding, RunFacts, Shown, gather
from kafkasim.analysis.report.run_figure import figure

COLUMN_NAMES = ("from (s)", "to (s)", "what", "where", "leader", "epoch", "ISR", "HW", "details")


@dataclass(frozen=True)
class Judged:
    """The verdict on a run ("" if there is none), the anomalies that it shows, and a sentence."""

    verdict: str
    found: Sequence[str]
    lead: str


@dataclass(frozen=True)
class Told:
    """What others say of a run: its story, why its anomalies came about, how to run it again."""

    story: Sequence[str]
    explanations: Sequence[str]
    findings: Sequence[Finding]
    replay: str
    judged: Judged
    label: str = ""  # the configuration of a run of a fleet, which tells its settings


def part(key: str, run: OneRun, told: Told) -> Part:
    """Return the part of the page about a run."""
    manifest = run.manifest
    facts = gather(run, told.findings)
    about = {
        "found": ", ".join(told.judged.found) or "nothing",
        "replay": told.replay,
        "simulated": f"{float(manifest['sim_seconds']):.1f} s, {manifest['rows']} facts",
        "digest": str(manifest["digest"])[:16],
    }
    beside = [Text("The story", told.story)]
    if told.explanations:
        beside.append(Text("Why", told.explanations))
    name = told.label or manifest["scenario"]
    return Part(
        key, f"{name}, seed {manifest['seed']}", told.judged.lead, told.judged.verdict,
        about, pictures=_tasks(run), timeline=_timeline(run, facts), beside=beside,
    )  # fmt: skip


def _tasks(run: OneRun) -> list[Picture]:
    """Return the picture of tasks, if the run has applications of Kafka Streams."""
    rows = task_lanes.rows(run)
    if not any(row["kind"] == "TaskState" for row in rows):
        return []
    return [Picture(png(task_lanes.picture(rows, "")), "Who had which task of Kafka Streams")]


def _timeline(run: OneRun, facts: RunFacts) -> Timeline:
    text = "ISR lanes of the run: " + ", ".join(facts.line.name(key) for key in facts.keys)
    drawn = figure(facts)
    return Timeline(
        drawn, int(json.loads(drawn)["layout"]["height"]),
        Picture(png(isr_flapping.picture(isr_flapping.rows(run), "")), text), COLUMN_NAMES,
        [_row(facts, row) for row in facts.rows], _lags(facts), _note(facts),
    )  # fmt: skip


def _row(facts: RunFacts, row: Shown) -> TimedRow:
    began = facts.seconds(row.t_us)
    until = "" if row.until_us is None else f"{facts.seconds(row.until_us):.3f}"
    cells = (f"{began:.3f}", until, row.kind, row.where, row.leader, row.epoch, row.isr,
             row.high_watermark, row.text)  # fmt: skip
    return TimedRow(began, row.until_us is None, cells)


def _lags(facts: RunFacts) -> Table:
    found = sorted((one for key in facts.keys for one in facts.lags[key]),
                   key=lambda one: (one.t_us, one.where))  # fmt: skip
    return Table(
        "Log end offset and high watermark of the leaders",
        ("at (s)", "partition", "log end", "HW", "log end − HW"),
        [
            (f"{facts.seconds(one.t_us):.3f}", one.where, str(one.log_end),
             str(one.high_watermark), str(one.log_end - one.high_watermark))
            for one in found
        ], folded=True, numbers=(0, 2, 3, 4),
    )  # fmt: skip


def _note(facts: RunFacts) -> str:
    shown, all_ = len(facts.keys), len(facts.line.user_partitions())
    some = "" if shown == all_ else f" {shown} of {all_} partitions have lanes."
    return f"The lower curves are the records at the leader that are not below the HW yet.{some}"
