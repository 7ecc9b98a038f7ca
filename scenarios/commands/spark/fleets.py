"""``kafkasim fleet``, ``check``, ``plot`` and ``metrics``: what needs Spark, imported only then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kafkasim.analysis.judging.finding import ANOMALIES, CRASH, NO_PROGRESS
from kafkasim.analysis.judging.invariants.online import INVARIANTS
from kafkasim.scenarios.commands.common import (
    InputError,
    console,
    make_directory,
    one_line,
    say,
    say_json,
    status,
)
from kafkasim.scenarios.commands.exits import OK, SAFETY
from kafkasim.scenarios.commands.places import (
    ClusterName,
    RunName,
    cluster_directories,
    clusters_of,
)
from kafkasim.scenarios.commands.runs import (
    Apps,
    RestartPolicy,
    Settings,
    Variants,
    for_consumers,
    run_request,
)
from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.moments import moment_us
from kafkasim.sim.trace.store import judges_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkasim.analysis.figures.metrics import RunMetrics
    from kafkasim.analysis.figures.timeline import OneRun
    from kafkasim.analysis.fleet import Summary
    from kafkasim.analysis.stored import Stored
    from kafkasim.analysis.verdict import Verdicts

FLEET_PLACE = "kafkasim-fleet"

StoredPlace = Annotated[
    str, typer.Argument(metavar="PLACE", help="Where fleet or run --out wrote: a path or a URI.")
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Name damaged runs and go on without them.")
]
Master = Annotated[
    str,
    typer.Option(
        help="The Spark master, e.g. spark://host:7077.",
        show_default="as spark-submit or spark-defaults.conf say, else local[*]",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option(
        "--conf", metavar="KEY=VALUE", help="A setting of Spark, as for spark-submit. Repeatable."
    ),
]


@contextmanager
def input_errors() -> Iterator[None]:
    """Turn errors about the user's input into :class:`InputError`."""
    from kafkasim.analysis.runs import BadInput
    from kafkasim.analysis.spark.java import JavaMissing
    from kafkasim.analysis.spark.session import SparkRefused

    try:
        yield
    except (BadInput, JavaMissing, SparkRefused) as error:
        raise InputError(one_line(error)) from None
    except Exception as error:
        from kafkasim.analysis.spark.files import damaged

        unreadable = damaged(error)
        if unreadable is None:
            raise
        raise InputError(unreadable) from None


def spark_session(
    master: str = "", conf: Sequence[str] | None = None, stored: int = 0
) -> SparkSession:
    """Return the Spark session that the options ask for, to read so many stored bytes.

    Raises:
        InputError: a setting is not KEY=VALUE, or there is no Java.
    """
    settings = {}
    for text in conf or []:
        key, equals, value = text.partition("=")
        if not equals or not key.startswith("spark."):
            raise InputError(f"--conf {text!r}: give spark.KEY=VALUE")
        settings[key] = value
    with input_errors():
        from kafkasim.analysis.spark.session import session

        return session(master, extra=settings, stored=stored)


def open_place(
    place: str, master: str = "", conf: Sequence[str] | None = None, skip_bad: bool = False
) -> Stored:
    """Return the stored runs below a place.

    Raises:
        InputError: there is none, or a damaged one.
    """
    with input_errors():
        from kafkasim.analysis.spark.files import local_path

        path = local_path(place)
        if path is not None and not master and not path.is_dir():
            raise InputError(f"{place}: no such directory")
        from kafkasim.analysis.spark.files import stored_bytes
        from kafkasim.analysis.stored import open_stored

        return open_stored(spark_session(master, conf, stored_bytes(place)), place, skip_bad)


def one_run(
    place: str, name: str = "", master: str = "", conf: Sequence[str] | None = None
) -> OneRun:
    """Return one run of a place; a directory of a run is read without Spark.

    Raises:
        InputError: there is no such run, or it is not whole.
    """
    with input_errors():
        from kafkasim.analysis.figures.timeline import from_directory
        from kafkasim.analysis.runs import MANIFEST, TRACE, find_runs
        from kafkasim.analysis.spark.files import local_path

        path = local_path(place)
        if path is not None and path.name in (MANIFEST, TRACE):
            path = path.parent
        if path is not None and any((path / name).exists() for name in (MANIFEST, TRACE)):
            return from_directory(find_runs(path)[0][0])
        return open_place(place, master, conf).one(name)


@contextmanager
def shown_runs(
    place: str, run: str = "", cluster: str = "", master: str = "",
    conf: Sequence[str] | None = None,
) -> Iterator[dict[str, OneRun]]:  # fmt: skip
    """Yield one run of a place by cluster, as ``places.py:cluster_directories`` does.

    A run of several clusters must lie on this machine.

    Raises:
        InputError: there is no such run, it is not whole, or has no such cluster.
    """
    one = one_run(place, run, master, conf)
    if not cluster and not clusters_of(one.manifest):
        yield {"": one}
        return
    from kafkasim.analysis.spark.files import local_path

    path = local_path(place)
    if path is None:
        raise InputError(f"{place}: a run of several clusters is read on this machine only")
    with cluster_directories(path, run, cluster) as found:
        yield {name: replace(one_run(str(each)), name=one.name) for name, each in found.items()}


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
    spark: SparkSession, names: Sequence[str], seeds: range, settings: Sequence[str],
    variants: Sequence[str], out: str, twin: bool = False, batch: int = 0,
) -> Summary:  # fmt: skip
    """Check the scenarios, then run every seed of each on Spark; return what the fleet did.

    Raises:
        InputError: the output directory cannot be used.
    """
    with input_errors():
        from kafkasim.analysis.fleet import run_fleet as run_all
        from kafkasim.analysis.source.jobs import Configuration

        wanted = [Configuration(n, tuple(settings), twin, tuple(variants)) for n in names]
        with fleet_progress() as progress:
            return run_all(spark, wanted, seeds, out, progress, batch)


def check_requests(
    names: Sequence[str], settings: Sequence[str], variants: Sequence[str], twin: bool = False
) -> None:
    """Check scenarios, settings and variants, before Spark is started for them.

    Raises:
        ScenarioError: an unknown scenario, key or value.
        VariantError: an unknown variant, or two that do not go together.
    """
    for name in names:
        run_request(name, list(settings), list(variants), twin)


def judge(stored: Stored) -> Verdicts:
    """Return the verdicts on stored runs, from what their judges have found."""
    with input_errors(), status(f"reading {stored.place} …"):
        from kafkasim.analysis import verdict

        return verdict.judge(stored, judges_version())


def show(verdicts: Verdicts, everything: bool = False) -> None:
    """Print the verdict tables; with ``everything`` also what was found in no run."""
    out = console()
    names = (*INVARIANTS, *ANOMALIES, NO_PROGRESS, CRASH)
    nowhere = {*names} - {rate.name for rate in verdicts.rates}
    out.print(verdicts.table(names if everything else ()))
    if not everything:
        say(f"found in no run: {len(nowhere)} other kinds of findings (--all shows them)")
    if any(run.verdict != "pass" for run in verdicts.runs):
        out.print(verdicts.runs_table())
    counts: dict[str, int] = {}
    for run in verdicts.runs:
        counts[run.verdict] = counts.get(run.verdict, 0) + 1
    say("  ".join(f"{verdict}: {count}" for verdict, count in sorted(counts.items())))
    for line in verdicts.notes:
        say(f"note: {line}")


def fleet(
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="Names or .toml files.")
    ],
    runs: Annotated[int, typer.Option(min=1, help="How many seeds of each scenario.")] = 100,
    seed_from: Annotated[int, typer.Option(min=0, help="The first seed.")] = 0,
    settings: Settings = None,
    app: Apps = None,
    restart: RestartPolicy = None,
    variant: Variants = None,
    twin: Annotated[
        bool, typer.Option("--twin", help="Run the twins, which must fail with named anomalies.")
    ] = False,
    out: Annotated[
        str, typer.Option(help="Where the runs go: a path, or a URI of any Hadoop file system.")
    ] = FLEET_PLACE,
    batch: Annotated[
        int,
        typer.Option(
            min=0, help="How many runs are committed together.", show_default="100 a Spark task"
        ),
    ] = 0,
    master: Master = "",
    conf: Conf = None,
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> int:
    """Run and judge many seeds of scenarios as Spark tasks, then print the verdicts.

    The same command resumes a fleet that was stopped: it skips every run that exists already with
    the same code and configuration. Every hundredth run is repeated outside Spark, and the digests
    are compared.
    """
    if app is not None and len(scenarios) > 1:
        raise InputError("--app: give one scenario; the others have other workloads")
    given = ([*(settings or []), *for_consumers(scenarios[0], app, restart)], variant or [])
    check_requests(scenarios, *given, twin)
    seeds, spark = range(seed_from, seed_from + runs), spark_session(master, conf)
    summary = run_fleet(spark, scenarios, seeds, *given, out, twin, batch)
    verdicts = judge(open_place(summary.out, master, conf))
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
        "out": summary.out, "runs": summary.total, "ran": summary.ran,
        "skipped": summary.skipped, "wall_seconds": summary.seconds, "events": summary.rows,
        "verdicts": summary.verdicts, "crashes": summary.crashes, "replayed": summary.replayed,
        "nondeterministic": [f"{m.label} seed {m.seed}" for m in summary.mismatches],
    }  # fmt: skip


def summary_lines(summary: Summary) -> list[str]:
    """Return the lines about what a fleet did."""
    from kafkasim.analysis.words import counted

    ran = f"{counted(summary.ran, 'run')} in {summary.seconds:.0f} s"
    ran += f" ({summary.skipped} already stored)"
    repeated = f"{summary.replayed} repeated outside Spark, {len(summary.mismatches)} different"
    lines = [f"{ran}, {summary.rows} events; {repeated}; all in {summary.out}"]
    lines += [f"crash: {name} (see its traceback in runs)" for name in summary.crashes[:6]]
    lines += [
        f"nondeterminism: {m.label} seed {m.seed}: digest {m.digest[:16]}, repeated"
        f" {m.replayed[:16]}"
        for m in summary.mismatches[:6]
    ]
    return lines


def check(
    place: StoredPlace,
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
    skip_bad: SkipBad = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show also what was found in no run.")
    ] = False,
    master: Master = "",
    conf: Conf = None,
) -> int:
    """Print in how many of the runs below a place each guarantee was broken, and where."""
    verdicts = judge(open_place(place, master, conf, skip_bad))
    if json:
        say_json(verdicts.to_json())
    else:
        show(verdicts, everything)
    return verdicts.exit_code


class Picture(StrEnum):
    """The pictures that can be drawn."""

    isr_flapping = "isr-flapping"
    fleet = "fleet"
    latency = "latency"
    tasks = "tasks"


def plot(
    kind: Annotated[
        Picture,
        typer.Argument(
            metavar="KIND", help="isr-flapping, latency or tasks of a run, fleet of a fleet."
        ),
    ],
    place: StoredPlace,
    out: Annotated[
        Path | None, typer.Option(help="The file; PNG and SVG are written.", show_default="KIND")
    ] = None,
    run: RunName = "",
    cluster: ClusterName = "",
    master: Master = "",
    conf: Conf = None,
) -> int:
    """Draw a picture of a run or a fleet; of several clusters one each, with its name behind."""
    if out is not None:
        make_directory(out.parent)
    target = Path(kind.value) if out is None else out.with_suffix("")
    if kind is Picture.fleet:
        if cluster:
            raise InputError("--cluster: the picture of a fleet shows all clusters")
        files = draw(kind.value, open_place(place, master, conf), target)
    else:
        files = []
        with shown_runs(place, run, cluster, master, conf) as found:
            for name, one in found.items():
                named = f"{target.name}-{name}" if len(found) > 1 else target.name
                files += draw(kind.value, one, target.with_name(named))
    for path in files:
        say(str(path))
    return OK


def draw(kind: str, runs: Stored | OneRun, target: Path) -> list[Path]:
    """Draw a picture of stored runs, or of one; ``target`` is without suffix. Return the files.

    Raises:
        InputError: a run is damaged.
    """
    with input_errors(), status(f"drawing {kind} …"):
        from kafkasim.analysis import plots
        from kafkasim.analysis.figures.timeline import OneRun

        if isinstance(runs, OneRun):
            return plots.ONE_RUN[kind](runs, target)
        return plots.draw_fleet(runs, target)


def metrics(
    place: StoredPlace,
    at: Annotated[
        str,
        typer.Option("--at", metavar="T", help="Time since ready, as 20s or 1m; or ready, or end."),
    ] = "end",
    run: RunName = "",
    cluster: ClusterName = "",
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
    master: Master = "",
    conf: Conf = None,
) -> int:
    """Print the metrics of a run at a moment, under Kafka's JMX names."""
    with shown_runs(place, run, cluster, master, conf) as found:
        measured = {name: _metrics_at(one, at) for name, one in found.items()}
    if json:
        told = {name: each.to_json() for name, each in measured.items()}
        say_json(told if len(told) > 1 else next(iter(told.values())))
        return OK
    for name, one in found.items():
        place = f"{one.name} of cluster {name}" if name else one.name
        table = Table("object", "name", "tags", "attribute", "value", title=f"{place} at {at}")
        for metric in measured[name].metrics:
            value = f"{metric.value:.6g}"
            table.add_row(metric.object, metric.name, metric.tags, metric.attribute, value)
        console().print(table)
    return OK


def _metrics_at(one: OneRun, at: str) -> RunMetrics:
    ready_us = int(one.manifest.get("ready_us", 0))
    last_us = round(float(one.manifest.get("sim_seconds", 0.0)) * 1e6)
    at_us = moment_us(at, one.manifest, last_us) - ready_us
    from kafkasim.analysis.figures import metrics as measuring

    with input_errors():
        return measuring.of_run(one, at_us)
