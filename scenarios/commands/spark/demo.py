"""``kafkasim demo``: a sweep with its heat map, and a healthy cluster beside one that loses."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkasim.scenarios.commands.common import make_directory, say
from kafkasim.scenarios.commands.spark import fleets, sweeps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkasim.analysis.sweeps.sweep import Swept

SWEEP = "lag-and-pause"
LOSS = "acks-and-failover"
OTHERS = '["broker-1", "broker-2", "broker-3", "controller-1", "controller-2", "controller-3"]'
CUT_OFF = ("faults.2.kind=partition", f"faults.2.peers={OTHERS}")
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
    seeds while a leader is cut off, and all of these runs are judged.
    """
    make_directory(out)
    spark = fleets.spark_session(master, conf)
    restless = _sweep(spark, runs, out / "sweep")
    say()
    code = _compare(spark, 2 * runs, out / "acks")
    say()
    stored = fleets.open_place(str(out / "acks"), master, conf)
    verdicts = fleets.judge(stored)
    fleets.show(verdicts)
    say(f"the run with the most ISR changes: {restless}")
    return code or verdicts.exit_code


def _sweep(spark: SparkSession, runs: int, out: Path) -> str:
    """Sweep and draw; return the command that tells the story of the most restless run."""
    swept, shown, files = sweeps.answer(spark, SWEEP, out, runs)
    point = _most_restless(swept)
    stored = fleets.open_place(str(out))
    run = f"{swept.sweep.labels()[point]}/seed-000000"
    files += fleets.draw("isr-flapping", stored, out / "isr-flapping", run)
    sweeps.show_sweep(swept, shown, files)
    return sweeps.explain_command(swept.sweep.configurations()[point], 0)


def _most_restless(swept: Swept) -> int:
    from kafkasim.analysis.sweeps.measured import measure

    changes = measure("isr-changes-per-minute")
    points = range(len(swept.sweep.points))
    return max(points, key=lambda index: swept.estimate(index, changes).value)


def _compare(spark: SparkSession, runs: int, out: Path) -> int:
    """Compare acks=all with acks=1 and return the exit code of the fleet."""
    from kafkasim.analysis.source.jobs import Configuration
    from kafkasim.analysis.sweeps.compare import compare

    a, b = (
        Configuration(LOSS, (*CUT_OFF, f'workload.0.config.acks="{acks}"'), label=f"acks={acks}")
        for acks in ("all", "1")
    )
    with fleets.fleet_progress() as progress:
        compared = compare(spark, a, b, range(runs), str(make_directory(out)), progress)
    files = sweeps.write_comparison(compared, out)
    sweeps.show_comparison(compared, files, everything=False)
    return compared.fleet.exit_code
