"""The last screen of ``kafkasim demo``: its answers, and commands that fit a line."""

from __future__ import annotations

import shlex
from pathlib import Path

from kafkasim.analysis.fleet import Summary
from kafkasim.analysis.plots.compare_view import sides
from kafkasim.analysis.source.jobs import Configuration
from kafkasim.analysis.sweeps.compare import Compared, Comparison, Outlier
from kafkasim.analysis.sweeps.measured import measure
from kafkasim.analysis.sweeps.statistics import Difference, Estimate
from kafkasim.analysis.sweeps.sweep import Swept
from kafkasim.scenarios.commands.runs import named_settings
from kafkasim.scenarios.commands.spark.demo import CUT_OFF, LOSS, SWEEP, answers
from kafkasim.scenarios.commands.spark.sweeps import plan
from kafkasim.scenarios.language import library

CHANGES = {  # ISR changes a minute by pause and replica.lag.time.max.ms
    ("2s", "3000"): 0, ("4s", "3000"): 5.7, ("6s", "3000"): 5.7, ("6s", "5000"): 1.4,
    ("8s", "3000"): 7.1, ("8s", "5000"): 7.1, ("12s", "3000"): 8.6, ("12s", "5000"): 8.5,
    ("12s", "10000"): 8.4,
}  # fmt: skip


def _swept() -> Swept:
    sweep = plan(SWEEP, [], None, [], [])
    swept = Swept(sweep, 8)
    for index, point in enumerate(sweep.points):
        value = CHANGES.get((point.levels[0].name, point.levels[1].name), 0)
        swept.found[index, "isr-changes-per-minute"] = Estimate(8, value, value, value)
    return swept


def _compared() -> Comparison:
    nothing, difference = Estimate(16, 0, 0, 0), Difference(Estimate(16, 0, 0, 0), 0, 16, 0.0)
    of_b = {"lost-records": (119, 87.5, 145), "lost-per-million": (42_199, 0, 0),
            "lost-write": (1, 0.8, 1)}  # fmt: skip
    measures = [
        Compared(measure(name), nothing, Estimate(16, *values), difference, ())
        for name, values in of_b.items()
    ]
    a, b = (
        Configuration(LOSS, (*CUT_OFF, f'workload.0.config.acks="{acks}"'), label=f"acks={acks}")
        for acks in ("all", "1")
    )
    outliers = [Outlier(7, measure("lost-write"), 0, 1)]
    return Comparison(a, b, 16, measures, outliers, Summary("", 32, 32, 0, 1.0))


def test_the_demo_ends_with_its_answers_in_five_lines(tmp_path: Path) -> None:
    for name in ("sweep", "acks"):
        (tmp_path / name).mkdir()
    told = answers(_swept(), _compared(), tmp_path)
    flapping, lost = told[:2]
    assert flapping == (
        "which pauses change the ISR: from 4s at 3000, from 6s at 5000, from 12s at 10000, none at"
        " 30000 ms of replica.lag.time.max.ms (8 runs of each); from 7s on the controller may fence"
        " the broker, whatever the lag time is"
    )
    assert lost == (
        "a leader is cut off: acks=1 lost 119 acknowledged records a run (95 % interval 87.5 to"
        " 145, 4.2 % of them) in 16 of 16 runs; acks=all lost none in 16 runs"
    )
    assert [line.partition(":")[0] for line in told[2:]] == [
        "see a loss", "see the ISR flap", "pictures"
    ]  # fmt: skip
    for line, kind, name in ((told[2], "partition", LOSS), (told[3], "gc-pause", SWEEP)):
        command = shlex.split(line.partition(": ")[2])
        assert command[:3] == ["kafkasim", "run", name]
        settings = named_settings([command[command.index("--set") + 1]])
        assert settings is not None
        assert kind in [fault.kind for fault in library.scenario(name, settings)[0].faults]
    assert "--seed 7 " in told[2]
    assert len(told) == 5


def test_the_picture_names_first_what_the_sides_differ_in() -> None:
    both = " ".join((LOSS, *CUT_OFF))
    assert sides(_compared()) == [
        f'workload.0.config.acks="all" {both}',
        f'workload.0.config.acks="1" {both}',
    ]
