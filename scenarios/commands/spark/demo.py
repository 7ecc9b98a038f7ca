"""``kafkasim demo``: one phenomenon, many seeds, verdicts, two pictures and the seed to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkasim.scenarios.commands.common import make_directory, say
from kafkasim.scenarios.commands.spark import fleets
from kafkasim.scenarios.showing import report

SCENARIO = "gc-pause-isr-flapping"
DIRECTORY = Path("kafkasim-demo")


def demo(
    runs: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 200,
    out: Annotated[Path, typer.Option(help="Where runs and pictures go.")] = DIRECTORY,
    master: fleets.Master = "",
    conf: fleets.Conf = None,
) -> int:
    """Run 200 seeds of GC pauses that make ISRs flap on local Spark, judge and draw them.

    Prints the verdict table, draws the ISR flapping of the most interesting seed and a view of the
    whole fleet, and ends with the command that replays that seed.
    """
    make_directory(out)
    spark = fleets.spark_session(master, conf)
    summary = fleets.run_fleet(spark, [SCENARIO], range(runs), [], [], str(out))
    stored = fleets.open_place(summary.out, master, conf)
    verdicts = fleets.judge(stored)
    fleets.show(verdicts)
    for line in fleets.summary_lines(summary):
        say(line)
    failed = [run for run in verdicts.runs if run.verdict == "fail"]
    counts = {
        row["run"]: row["count"]
        for row in stored.facts("IsrChanged").groupBy("run").count().collect()
    }
    best = max(failed or verdicts.runs, key=lambda run: counts.get(run.run, 0))
    pictures = fleets.draw("isr-flapping", stored, out / "isr-flapping", best.run)
    pictures += fleets.draw("fleet", stored, out / "fleet")
    say(f"pictures: {', '.join(str(path) for path in pictures)}")
    what = "a failure" if failed else "no failure, the most ISR changes"
    flaps = counts.get(best.run, 0)
    say(f"most interesting: seed {best.seed}: {what} ({flaps} changes of an ISR)")
    say(f"replay: {report.command(best.seed, SCENARIO)} --explain")
    return summary.exit_code or verdicts.exit_code
