"""``kafkasim demo``: one phenomenon, many seeds, verdicts, two pictures and the seed to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkasim.scenarios.commands import fleets
from kafkasim.scenarios.commands.common import say
from kafkasim.scenarios.showing import report
from kafkasim.sim.trace.store import read_manifest

SCENARIO = "gc-pause-isr-flapping"
DIRECTORY = Path("kafkasim-demo")


def demo(
    runs: Annotated[int, typer.Option(min=1, help="How many seeds.")] = 200,
    out: Annotated[Path, typer.Option(help="Where runs and pictures go.")] = DIRECTORY,
    master: fleets.Master = "local[*]",
) -> int:
    """Run 200 seeds of GC pauses that make ISRs flap on local Spark, judge and draw them.

    Prints the verdict table, draws the ISR flapping of the most interesting seed and a view of the
    whole fleet, and ends with the command that replays that seed.
    """
    summary = fleets.run_fleet([SCENARIO], range(runs), [], [], out, master)
    verdicts = fleets.judge(out)
    fleets.show(verdicts)
    for line in fleets.summary_lines(summary):
        say(line)
    failed = [run.run for run in verdicts.runs if run.verdict == "fail"]
    name, flaps = _most_interesting(out, failed or [run.run for run in verdicts.runs])
    directory = _place(out, name)
    pictures = fleets.draw("isr-flapping", directory, out / "isr-flapping")
    pictures += fleets.draw("fleet", out, out / "fleet")
    seed = int(read_manifest(directory)["seed"])
    say(f"pictures: {', '.join(str(path) for path in pictures)}")
    what = "a failure" if failed else "no failure, the most ISR changes"
    say(f"most interesting: seed {seed}: {what} ({flaps} changes of an ISR)")
    say(f"replay: {report.command(seed, SCENARIO)} --explain")
    return summary.exit_code or verdicts.exit_code


def _place(out: Path, name: str) -> Path:
    """Return the directory of a run as the verdicts name it."""
    for candidate in (out / name, out / "runs" / name):
        if candidate.is_dir():
            return candidate
    raise AssertionError(f"no directory of run {name} below {out}")


def _most_interesting(out: Path, names: list[str]) -> tuple[str, int]:
    """Return the run with the most ISR changes, the first of several, and their number."""
    from kafkasim.analysis.compact import rows_per_run
    from kafkasim.analysis.runs import find_runs

    counts = rows_per_run(out, find_runs(out)[0], "IsrChanged")
    best = max(names, key=lambda name: counts[name])
    return best, counts[best]
