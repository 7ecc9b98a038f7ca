"""``kafkasim fleet``, ``check``, ``plot`` and ``metrics``: what needs Spark, imported only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kafkasim.scenarios.commands.common import (
    OK,
    SAFETY,
    InputError,
    console,
    existing_directory,
    make_directory,
    one_line,
    run_directory,
    say,
    say_json,
    status,
)
from kafkasim.scenarios.commands.runs import Settings, Variants, run_request
from kafkasim.scenarios.commands.views import RunDirectory
from kafkasim.scenarios.language import library
from kafkasim.scenarios.showing.state import last_moment, moment_us
from kafkasim.sim.trace.store import read_manifest

if TYPE_CHECKING:
    from kafkasim.analysis.fleet import Summary
    from kafkasim.analysis.verdict import Verdicts

FLEET_DIRECTORY = Path("kafkasim-fleet")

FleetDirectory = Annotated[
    Path, typer.Argument(metavar="DIR", help="What fleet --out or run --out wrote.")
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave damaged runs out (and say so), don't refuse.")
]
Master = Annotated[str, typer.Option(help="The Spark master, e.g. spark://host:7077.")]


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn errors about the user's input into :class:`InputError`."""
    from kafkasim.analysis.runs import BadInput
    from kafkasim.analysis.spark.java import JavaMissing

    try:
        yield
    except (BadInput, JavaMissing) as error:
        raise InputError(one_line(error)) from None


@contextmanager
def fleet_progress() -> Iterator[Callable[[int, int, Mapping[str, int]], None]]:
    """Show a progress bar on stderr; yields the callback that a fleet reports its runs to."""
    err = Console(stderr=True)
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
               TextColumn("{task.fields[verdicts]}"))  # fmt: skip
    with Progress(*columns, console=err, disable=not err.is_terminal) as bar:
        task = bar.add_task("runs", total=None, verdicts="starting Spark …")

        def report(done: int, total: int, verdicts: Mapping[str, int]) -> None:
            text = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
            bar.update(task, completed=done, total=total, verdicts=text)

        yield report


def run_fleet(
    names: Sequence[str], seeds: range, settings: Sequence[str], variants: Sequence[str],
    out: Path, master: str, twin: bool = False,
) -> Summary:  # fmt: skip
    """Check the scenarios, then run every seed of each on Spark; return what the fleet did.

    Raises:
        InputError: the output directory or Java cannot be used.
        ScenarioError: an unknown scenario, key or value.
        VariantError: an unknown variant, or two that do not go together.
    """
    for name in names:
        run_request(name, list(settings), list(variants), twin)
    make_directory(out)
    with input_errors():
        from kafkasim.analysis.fleet import Configuration
        from kafkasim.analysis.fleet import run_fleet as run_all

        wanted = [Configuration(n, tuple(settings), twin, tuple(variants)) for n in names]
        with fleet_progress() as progress:
            return run_all(wanted, seeds, out, master, progress)


def judge(directory: Path, skip_bad: bool = False) -> Verdicts:
    """Judge all runs below a directory with the checks of ``analysis``.

    Raises:
        InputError: there is no run, or a damaged one.
    """
    with input_errors(), status(f"judging {directory} …"):
        from kafkasim.analysis import verdict

        return verdict.judge(directory, skip_bad)


def show(verdicts: Verdicts) -> None:
    """Print the verdict tables."""
    out = console()
    out.print(verdicts.table())
    if any(run.verdict != "pass" for run in verdicts.runs):
        out.print(verdicts.runs_table())
    counts: dict[str, int] = {}
    for run in verdicts.runs:
        counts[run.verdict] = counts.get(run.verdict, 0) + 1
    say("  ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items())))
    for line in verdicts.skipped:
        say(f"skipped: {line}")


def fleet(
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="Names or .toml files.")
    ],
    runs: Annotated[int, typer.Option(min=1, help="How many seeds of each scenario.")] = 100,
    seed_from: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    settings: Settings = None,
    variant: Variants = None,
    twin: Annotated[
        bool, typer.Option("--twin", help="Run the twins, which must fail as the scenarios say.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Where the runs go; all Spark workers must see it.")
    ] = FLEET_DIRECTORY,
    master: Master = "local[*]",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object only.")] = False,
) -> int:
    """Run many seeds of scenarios as Spark tasks, then judge them all in one job.

    The same command resumes a fleet that was stopped: it skips every run that exists already with
    the same code and configuration. One run in a hundred is repeated outside Spark and
    compared.
    """
    seeds = range(seed_from, seed_from + runs)
    summary = run_fleet(scenarios, seeds, settings or [], variant or [], out, master, twin)
    verdicts = judge(out)
    twins = [twin_outcome(name, verdicts) for name in scenarios] if twin else []
    failure = max((one.exit_code for one in twins), default=0) if twin else verdicts.exit_code
    code = summary.exit_code or failure
    if json:
        told = {**summary_json(summary), "verdict": verdicts.to_json(), "exit_code": code}
        say_json(told | ({"twins": [asdict(one) for one in twins]} if twin else {}))
        return code
    show(verdicts)
    for line in (*summary_lines(summary), *(one.line() for one in twins)):
        say(line)
    return code


@dataclass(frozen=True)
class TwinOutcome:
    """How many runs of a twin failed with every anomaly that its scenario names."""

    scenario: str
    claim: str
    fails: list[str]
    runs: int
    failed_as_named: int

    @property
    def exit_code(self) -> int:
        """0 if some run failed as the scenario says, as for ``run --twin``."""
        return OK if self.failed_as_named else SAFETY

    def line(self) -> str:
        """Return the line that the command prints."""
        wanted = ", ".join(self.fails)
        if not self.failed_as_named:
            return (
                f"twin of {self.scenario}: did NOT fail with {wanted} in {self.runs} runs:"
                " nothing shows that the check works"
            )
        counts = f"{self.failed_as_named} of {self.runs} runs failed as they must"
        return f"twin of {self.scenario}: {counts} ({wanted}): {self.claim}"


def twin_outcome(name: str, verdicts: Verdicts) -> TwinOutcome:
    """Return how many runs of a scenario's twin failed as the scenario says."""
    scenario = library.scenario(name)[0]
    assert scenario.twin is not None, name
    label = f"{scenario.name}-twin"
    mine = [run for run in verdicts.runs if run.run.partition("/")[0].startswith(label)]
    failed = [
        run
        for run in mine
        if run.verdict == "fail" and all(one in run.anomalies for one in scenario.twin.fails)
    ]
    return TwinOutcome(
        scenario.name, scenario.twin.claim, scenario.twin.fails, len(mine), len(failed)
    )


def summary_json(summary: Summary) -> dict[str, Any]:
    """Return what a fleet did, for ``--json``."""
    return {
        "out": str(summary.out), "runs": summary.total, "ran": summary.ran,
        "skipped": summary.skipped, "wall_seconds": summary.seconds, "events": summary.rows,
        "verdicts": summary.verdicts, "crashes": summary.crashes, "replayed": summary.replayed,
        "nondeterministic": [f"{m.label} seed {m.seed}" for m in summary.mismatches],
    }  # fmt: skip


def summary_lines(summary: Summary) -> list[str]:
    """Return the lines about what a fleet did."""
    ran = f"{summary.ran} runs in {summary.seconds:.0f} s ({summary.skipped} were there already)"
    repeated = f"{summary.replayed} repeated outside Spark, {len(summary.mismatches)} different"
    lines = [f"{ran}, {summary.rows} events; {repeated}; all in {summary.out}"]
    lines += [f"crash: {name} (see its manifest.json)" for name in summary.crashes[:6]]
    lines += [
        f"nondeterminism: {m.label} seed {m.seed}: digest {m.digest[:16]}, repeated"
        f" {m.replayed[:16]}"
        for m in summary.mismatches[:6]
    ]
    return lines


def check(
    directory: FleetDirectory,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object only.")] = False,
    skip_bad: SkipBad = False,
) -> int:
    """Judge every run below a directory with all Spark checks, and print the verdict table."""
    verdicts = judge(directory, skip_bad)
    if json:
        say_json(verdicts.to_json())
    else:
        show(verdicts)
    return verdicts.exit_code


class Picture(StrEnum):
    """The pictures that can be drawn."""

    isr_flapping = "isr-flapping"
    fleet = "fleet"
    latency = "latency"


def plot(
    kind: Annotated[
        Picture, typer.Argument(help="isr-flapping and latency: a run; fleet: a fleet.")
    ],
    directory: FleetDirectory,
    out: Annotated[
        Path | None, typer.Option(help="The picture; PNG and SVG are written. [default: DIR/KIND]")
    ] = None,
) -> int:
    """Draw a picture of a run or a fleet."""
    existing_directory(directory)
    if out is not None:
        make_directory(out.parent)
    for path in draw(kind.value, directory, None if out is None else out.with_suffix("")):
        say(str(path))
    return OK


def draw(kind: str, directory: Path, target: Path | None) -> list[Path]:
    """Draw one kind of picture, ``target`` without suffix, and return the files.

    Raises:
        InputError: there is no run, or a damaged one.
    """
    with input_errors(), status(f"drawing {kind} …"):
        from kafkasim.analysis import plots

        return plots.draw(kind, directory, target)


def metrics(
    run: RunDirectory,
    at: Annotated[
        str, typer.Option("--at", metavar="T", help="Seconds after ready, 20s, 1m, ready, or end.")
    ] = "end",
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object only.")] = False,
) -> int:
    """Print the metrics of a run at a moment, under Kafka's JMX names."""
    directory = run_directory(run)
    with input_errors():
        from kafkasim.analysis.runs import find_runs

        find_runs(directory)  # names a file that is no trace before anything else reads it
    manifest = read_manifest(directory)
    at_us = moment_us(at, manifest, last_moment(directory)) - int(manifest.get("ready_us", 0))
    with input_errors():
        from kafkasim.analysis import metrics as measuring

        found = measuring.collect(directory, at_us)
    if json:
        say_json(found[0].to_json() if len(found) == 1 else [one.to_json() for one in found])
        return OK
    for one in found:
        table = Table("object", "name", "tags", "attribute", "value", title=f"{directory} at {at}")
        for metric in one.metrics:
            value = f"{metric.value:.6g}"
            table.add_row(metric.object, metric.name, metric.tags, metric.attribute, value)
        console().print(table)
    return OK
