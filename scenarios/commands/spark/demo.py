"""``kafkasim demo``: a sweep with its heat map, and a healthy cluster beside one that loses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkasim.analysis.source.jobs import Configuration
from kafkasim.analysis.sweeps.measured import measure
from kafkasim.analysis.sweeps.tables import number
from kafkasim.scenarios.commands.common import make_directory, say
from kafkasim.scenarios.commands.spark import fleets, sweeps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkasim.analysis.sweeps.compare import Comparison
    from kafkasim.analysis.sweeps.sweep import Swept

SWEEP = "lag-and-pause"
FENCED = "from 7s on the controller may fence the broker, whatever the lag time is"
"""What the claim of the sweep's scenario says of broker.session.timeout.ms, 9 s."""
UNTIL_REJOINED = "duration=25s"
"""The longest pause ends at 17 s; a minute's rate of ISR changes is of so much time."""
LOSS = "acks-and-failover"
OTHERS = '["broker-1", "broker-2", "broker-3", "controller-1", "controller-2", "controller-3"]'
CUT_OFF = ("duration=30s", "faults.2.kind=partition", f"faults.2.peers={OTHERS}")
"""A leader is cut off at 5 to 8 s, and back 14 s later."""
DIRECTORY = Path("kafkasim-demo")


def demo(
    runs: Annotated[int, typer.Option(min=2, help="How many seeds of each point.")] = 8,
    out: Annotated[Path, typer.Option(help="Where runs and pictures go.")] = DIRECTORY,
    master: fleets.Master = "",
    conf: fleets.Conf = None,
) -> int:
    """Answer two questions on local Spark: which pauses flap the ISR, and what acks=1 loses.

    A sweep over replica.lag.time.max.ms and the length of a GC pause gives a heat map, and a
    timeline of the run with the most ISR changes. Then acks=all and acks=1 are compared on the same
    seeds while a leader is cut off. The answers are the last five lines; the tables are files.
    """
    make_directory(out)
    spark = fleets.spark_session(master, conf)
    swept = _sweep(spark, runs, out / "sweep")
    compared = _compare(spark, 2 * runs, out / "acks")
    code = 0
    for place, fleet in ((out / "sweep", swept.fleet), (out / "acks", compared.fleet)):
        assert fleet is not None
        for line in fleets.summary_lines(fleet):
            say(line)
        code = code or fleet.exit_code
        if "fail" in fleet.verdicts:
            verdicts = fleets.judge(fleets.open_place(str(place), master, conf))
            fleets.show(verdicts)
            code = code or verdicts.exit_code
    for line in ("", *answers(swept, compared, out)):
        say(line)
    return code


def answers(swept: Swept, compared: Comparison, out: Path) -> list[str]:
    """Return what the demo found, in five lines: two answers, and where to see more."""
    restless = swept.sweep.configurations()[_most_restless(swept)]
    pictures = [out / "sweep/sweep.png", out / "sweep/isr-flapping.png", out / "acks/compare.png"]
    loses = [one.seed for one in compared.outliers if one.measure.name == "lost-write"]
    least = sweeps.explain_command(compared.b, loses[0] if loses else 0, out / "acks/B")
    return [
        f"which pauses change the ISR: {_flapping(swept)} ({swept.runs} runs of each); {FENCED}",
        f"a leader is cut off: {_lost(compared)}",
        f"see a loss: {least}",
        f"see the ISR flap: {sweeps.explain_command(restless, 0, out / 'sweep/isr-flapping')}",
        f"pictures: {', '.join(map(str, pictures))}; the tables are beside them",
    ]


def _flapping(swept: Swept) -> str:
    """Return from which pause on the ISR changes, for each replica.lag.time.max.ms."""
    changes = measure("isr-changes-per-minute")
    shortest: dict[str, str] = {}
    lags = dict.fromkeys(point.levels[1].name for point in swept.sweep.points)
    for index, point in enumerate(swept.sweep.points):
        pause, lag = (level.name for level in point.levels)
        if swept.estimate(index, changes).value > 0:
            shortest.setdefault(lag, pause)
    found = [f"from {shortest[lag]} at {lag}" if lag in shortest else f"none at {lag}"
             for lag in lags]  # fmt: skip
    return f"{', '.join(found)} ms of {swept.sweep.axes[1].name}"


def _lost(compared: Comparison) -> str:
    """Return what each side lost, of how many records that were acknowledged to it."""
    found = {one.measure.name: one for one in compared.measures}
    records, million = found["lost-records"], found["lost-per-million"]
    runs = found["lost-write"]
    told = []
    for label, lost, share, losing in (
        (compared.b.label, records.b, million.b, runs.b),
        (compared.a.label, records.a, million.a, runs.a),
    ):
        interval = f"95 % interval {number(lost.low)} to {number(lost.high)}"
        told.append(
            f"{label} lost {number(lost.value)} acknowledged records a run ({interval},"
            f" {share.value / 1e4:.1f} % of them) in {losing.value * losing.n:.0f} of"
            f" {compared.pairs} runs"
            if lost.value > 0
            else f"{label} lost none in {compared.pairs} runs"
        )
    return "; ".join(told)


def _sweep(spark: SparkSession, runs: int, out: Path) -> Swept:
    """Sweep and draw, and draw the run with the most ISR changes."""
    swept, _, _ = sweeps.answer(spark, SWEEP, out, runs, [UNTIL_REJOINED])
    stored = fleets.open_place(str(out))
    run = f"{swept.sweep.labels()[_most_restless(swept)]}/seed-000000"
    fleets.draw("isr-flapping", stored.one(run), out / "isr-flapping")
    return swept


def _most_restless(swept: Swept) -> int:
    changes = measure("isr-changes-per-minute")
    points = range(len(swept.sweep.points))
    return max(points, key=lambda index: swept.estimate(index, changes).value)


def _compare(spark: SparkSession, runs: int, out: Path) -> Comparison:
    """Compare acks=all with acks=1, and write tables and picture."""
    from kafkasim.analysis.sweeps.compare import compare

    a, b = (
        Configuration(LOSS, (*CUT_OFF, f'workload.0.config.acks="{acks}"'), label=f"acks={acks}")
        for acks in ("all", "1")
    )
    with fleets.fleet_progress() as progress:
        compared = compare(spark, a, b, range(runs), str(make_directory(out)), progress)
    sweeps.write_comparison(compared, out)
    return compared
