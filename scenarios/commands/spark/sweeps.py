"""``kafkasim sweep`` and ``compare``: what settings buy and cost, over many runs on Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkasim.scenarios.commands.common import InputError, console, make_directory, say, say_json
from kafkasim.scenarios.commands.exits import OK
from kafkasim.scenarios.commands.runs import Settings, Variants, run_request
from kafkasim.scenarios.commands.spark.fleets import (
    Conf,
    Master,
    fleet_progress,
    input_errors,
    spark_session,
    summary_lines,
)
from kafkasim.scenarios.language import library
from kafkasim.scenarios.running import report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkasim.analysis.source.jobs import Configuration
    from kafkasim.analysis.sweeps.compare import Comparison
    from kafkasim.analysis.sweeps.measured import Measure
    from kafkasim.analysis.sweeps.sweep import Sweep, Swept

SWEEP_PLACE = "kafkasim-sweep"
COMPARE_PLACE = "kafkasim-compare"
DEFAULT_RUNS = 50

Out = Annotated[str, typer.Option(help="Where the runs go: a path, or a URI that Hadoop knows.")]
Results = Annotated[
    Path | None,
    typer.Option(help="Where tables and pictures go, on this machine.", show_default="--out"),
]
Measures = Annotated[
    list[str] | None,
    typer.Option(
        "--measures", help="What to show: latency-p99-ms, lost-write, isr-changes:lag … Repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print only one JSON object.")]


Grid = Annotated[
    list[str] | None,
    typer.Option("--grid", metavar="KEY=V1,V2", help="An axis: values, or LOW..HIGH. Repeatable."),
]
SampleText = Annotated[
    str | None,
    typer.Option(metavar="KIND:N", help="N points instead of the full grid: lhs:N, sobol:N."),
]
PointRuns = Annotated[
    int | None,
    typer.Option(min=1, help="How many seeds of each point.", show_default="the scenario's, or 50"),
]
UntilWidth = Annotated[
    str | None,
    typer.Option(
        metavar="MEASURE=W", help="Add seeds until each interval of MEASURE is at most W wide."
    ),
]
MostRuns = Annotated[
    int, typer.Option(min=1, help="The most seeds of a point that --until-width may use.")
]
SeedFrom = Annotated[int, typer.Option(min=0, help="The first seed.")]
ScenarioName = Annotated[str, typer.Argument(metavar="SCENARIO", help="A name or a .toml file.")]


def sweep(
    scenario: ScenarioName,
    grid: Grid = None,
    sample: SampleText = None,
    runs: PointRuns = None,
    seed_from: SeedFrom = 0,
    measures: Measures = None,
    until_width: UntilWidth = None,
    most_runs: MostRuns = 1000,
    settings: Settings = None,
    variant: Variants = None,
    out: Out = SWEEP_PLACE,
    results: Results = None,
    master: Master = "",
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Run every combination of the axes' values on the same seeds, and measure the effects.

    The axes are those of --grid, or of the scenario's table `sweep`. Writes sweep.parquet,
    sweep.csv and a picture. The same command continues a sweep that was stopped.
    """
    with _input_errors():
        from kafkasim.analysis.sweeps.measured import DEFAULT
        from kafkasim.analysis.sweeps.sweep import chosen, parse_until, run_sweep

        asked = library.scenario(scenario, settings or [])[0].sweep
        shown = chosen(measures or [], asked.measures if asked else [], DEFAULT)
        count = runs or (asked.runs if asked else DEFAULT_RUNS)
        until = parse_until(until_width, max(most_runs, count)) if until_width else None
        planned = plan(scenario, grid or [], sample, settings or [], variant or [])
        place = _results(out, results)
        spark = spark_session(master, conf)
        with fleet_progress() as progress:
            swept = run_sweep(
                spark, planned, count, out,
                first_seed=seed_from, until=until, progress=progress,
            )  # fmt: skip
    files = write_sweep(swept, shown, place)
    if json:
        say_json({"ended": swept.ended, "rows": swept.rows(), "files": [str(f) for f in files]})
    else:
        show_sweep(swept, shown, files)
    return swept.fleet.exit_code if swept.fleet else OK


def plan(
    scenario: str, grid: Sequence[str], sample: str | None, settings: Sequence[str],
    variants: Sequence[str],
) -> Sweep:  # fmt: skip
    """Return the sweep that a command describes, with each point read and checked.

    Raises:
        SweepError: the axes or the sample are wrong.
        ScenarioError: the scenario is wrong, or wrong at a point.
        VariantError: an unknown variant.
    """
    from kafkasim.analysis.sweeps.axes import axes_of, parse_sample, points
    from kafkasim.analysis.sweeps.sweep import Sweep

    asked = run_request(scenario, list(settings), list(variants), False).scenario
    table = asked.sweep
    drawn = sample or (table.sample if table and not grid else None)
    axes = axes_of(table.axes if table else [], grid)
    found = points(axes, parse_sample(drawn) if drawn else None)
    question, answer = (table.question, asked.claim) if table and not grid else ("", "")
    planned = Sweep(
        scenario, tuple(axes), tuple(found), tuple(settings), tuple(variants), question, answer,
        sampled=bool(drawn),
    )  # fmt: skip
    for point in found:
        library.scenario(scenario, [*settings, *point.settings])
    return planned


def answer(
    spark: SparkSession,
    name: str,
    place: Path,
    runs: int | None = None,
    settings: Sequence[str] = (),
) -> tuple[Swept, list[Measure], list[Path]]:
    """Run a sweep of the catalogue below ``place``; return it, what to show, and its files.

    ``runs`` are the seeds of each point; by default as many as the scenario says. ``settings``
    override keys of the scenario at every point.
    """
    from kafkasim.analysis.sweeps.sweep import chosen, run_sweep

    asked = library.scenario(name)[0].sweep
    assert asked is not None, name
    shown = chosen([], asked.measures, [])
    planned = plan(name, [], None, settings, [])
    with fleet_progress() as progress:
        out = str(make_directory(place))
        swept = run_sweep(spark, planned, runs or asked.runs, out, progress=progress)
    return swept, shown, write_sweep(swept, shown, place)


def write_sweep(swept: Swept, shown: Sequence[Measure], place: Path) -> list[Path]:
    """Write tables and picture of a sweep, and return the files."""
    from kafkasim.analysis.plots.sweep_view import draw
    from kafkasim.analysis.sweeps.tables import write

    told = write(swept.rows(), place / "sweep", swept.about(shown))
    return [*told, *draw(swept, shown, place / "sweep")]


def show_sweep(swept: Swept, shown: Sequence[Measure], files: Sequence[Path]) -> None:
    """Print a sweep: its table, how it ended, and where everything is."""
    from kafkasim.analysis.sweeps.tables import sweep_table

    if swept.sweep.question:
        say(swept.sweep.question)
    console().print(sweep_table(swept, shown))
    say(f"ended: {swept.ended}")
    for line in summary_lines(swept.fleet) if swept.fleet else []:
        say(line)
    say("written: " + ", ".join(str(file) for file in files))


SideA = Annotated[
    list[str] | None, typer.Option("--a", metavar="KEY=VALUE", help="A setting of A. Repeatable.")
]
SideB = Annotated[
    list[str] | None, typer.Option("--b", metavar="KEY=VALUE", help="A setting of B. Repeatable.")
]
Pairs = Annotated[int, typer.Option(min=2, help="How many pairs of runs.")]
Everything = Annotated[
    bool, typer.Option("--all", help="Show the measures without any difference too.")
]


def compare(
    scenario: ScenarioName,
    a: SideA = None,
    b: SideB = None,
    runs: Pairs = 200,
    seed_from: SeedFrom = 0,
    everything: Everything = False,
    settings: Settings = None,
    variant: Variants = None,
    out: Out = COMPARE_PLACE,
    results: Results = None,
    master: Master = "",
    conf: Conf = None,
    json: Json = False,
) -> int:
    """Run two configurations on the same seeds, and print how and where they differ.

    A is the scenario with the settings of --a, B with those of --b. Writes compare.parquet,
    compare.csv and a picture of the differences.
    """
    _check_sides(a or [], b or [])
    sides = [[*(settings or []), *(given or [])] for given in (a, b)]
    for side in sides:
        run_request(scenario, side, list(variant or []), False)
    with _input_errors():
        from kafkasim.analysis.source.jobs import Configuration
        from kafkasim.analysis.sweeps.compare import compare as compare_both

        name = Path(scenario).stem
        first, second = (
            Configuration(scenario, tuple(side), False, tuple(variant or []), _label(name, given))
            for side, given in zip(sides, (a, b), strict=True)
        )
        if first.label == second.label:
            raise InputError(f"A and B are the same: {', '.join(a or ['the scenario as it is'])}")
        place = _results(out, results)
        spark = spark_session(master, conf)
        with fleet_progress() as progress:
            seeds = range(seed_from, seed_from + runs)
            compared = compare_both(spark, first, second, seeds, out, progress)
    files = write_comparison(compared, place)
    if json:
        say_json({"pairs": compared.pairs, "measures": compared.rows(),
                  "outliers": [{"seed": one.seed, "measure": one.measure.name, "a": one.a,
                                "b": one.b} for one in compared.outliers]})  # fmt: skip
    else:
        show_comparison(compared, files, everything)
    return compared.fleet.exit_code


def _check_sides(a: Sequence[str], b: Sequence[str]) -> None:
    """Raise InputError unless A or B sets something, as KEY=VALUE."""
    if not a and not b:
        raise InputError("A and B are the same: give --a KEY=VALUE, --b KEY=VALUE, or both")
    for option, given in (("--a", a), ("--b", b)):
        for setting in given:
            if "=" not in setting:
                raise InputError(f"{option} {setting!r}: give KEY=VALUE")


def write_comparison(compared: Comparison, place: Path) -> list[Path]:
    """Write tables and picture of a comparison, and return the files."""
    from kafkasim.analysis.plots.compare_view import draw
    from kafkasim.analysis.sweeps.tables import write

    told = write(compared.rows(), place / "compare", compared.about())
    return [*told, *draw(compared, place / "compare")]


def show_comparison(compared: Comparison, files: Sequence[Path], everything: bool) -> None:
    """Print a comparison: A and B, the measures, and the seeds to look at."""
    from kafkasim.analysis.sweeps.tables import comparison_table, number

    for name, side in (("A", compared.a), ("B", compared.b)):
        say(f"{name}: {' '.join((side.name, *side.settings))}")
    console().print(comparison_table(compared, everything))
    if not any(one.differs for one in compared.measures):
        say("A and B differ in no measure of any pair")
    for one in compared.outliers:
        a, b = (
            ("yes" if value else "no") if one.measure.is_probability else number(value)
            for value in (one.a, one.b)
        )
        say(f"seed {one.seed}: {one.measure.title}: A {a}, B {b}")
        for name, side in (("A", compared.a), ("B", compared.b)):
            say(f"  {name}: {explain_command(side, one.seed, files[0].parent / name)}")
    for line in summary_lines(compared.fleet):
        say(line)
    say("written: " + ", ".join(str(file) for file in files))


def explain_command(side: Configuration, seed: int, place: Path) -> str:
    """Return the command that runs one seed of a configuration and tells its story.

    Several settings go to a file, named as ``place`` with the suffix .settings.
    """
    settings = list(side.settings)
    if len(settings) > 1:
        file = place.with_name(f"{place.name}.settings")
        file.write_text("".join(f"{setting}\n" for setting in settings))
        settings = [f"@{file}"]
    return f"{report.command(seed, side.name, settings, side.variants)} --explain"


@contextmanager
def _input_errors() -> Iterator[None]:
    from kafkasim.analysis.sweeps.axes import SweepError

    try:
        with input_errors():
            yield
    except SweepError as error:
        raise InputError(str(error)) from None


def _label(name: str, given: Sequence[str] | None) -> str:
    return f"{name}[{','.join(given)}]" if given else name


def _results(out: str, results: Path | None) -> Path:
    """Return the directory of this machine for tables and pictures, made if it is not there.

    Raises:
        InputError: it cannot be written, or only a URI of elsewhere was given.
    """
    from kafkasim.analysis.spark.files import local_path

    place = results or local_path(out)
    if place is None:
        raise InputError(f"--out {out} is not on this machine: give --results DIR for the tables")
    return make_directory(place)
