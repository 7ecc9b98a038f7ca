"""``kafkasim search``: drawn faults, in drawn clusters or in a user's scenario."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkasim.scenarios.commands.common import (
    InputError,
    console,
    make_directory,
    of_one_cluster,
    progress_bar,
    say,
    say_json,
    verdict_table,
)
from kafkasim.scenarios.commands.exits import OK, SAFETY, STOPPED
from kafkasim.scenarios.commands.runs import (
    Apps,
    RestartPolicy,
    Settings,
    named_variants,
    run_request,
)
from kafkasim.scenarios.language.files.rules import shown
from kafkasim.scenarios.running.report import NOT_KEPT
from kafkasim.scenarios.searching.about.parts import ONLY_KRAFT, PARTS
from kafkasim.scenarios.searching.draw import MODES, mode_of
from kafkasim.scenarios.searching.given_plan import KINDS as DRAWN_KINDS
from kafkasim.scenarios.searching.search import Finding, Given, Source, Swarm, Tally
from kafkasim.scenarios.searching.search import search as run_search
from kafkasim.scenarios.variants.compose import compose, only_mode

if TYPE_CHECKING:
    from kafkasim.scenarios.shrinking.keep import Keeper

GivenScenario = Annotated[
    str | None,
    typer.Argument(
        metavar="SCENARIO",
        help="A name or a .toml file. Without it, cluster and workload are drawn, too.",
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KIND",
        help="With SCENARIO: draw only faults of this kind, e.g. gc-pause. Repeatable.",
    ),
]
About = Annotated[
    str | None,
    typer.Option(
        metavar="PART",
        help="Without SCENARIO: draw clients that all use this part, and strike them again"
        f" and again: {', '.join(PARTS)}.",
    ),
]
Sought = Annotated[
    list[str] | None,
    typer.Option(
        "--variant", metavar="ID", callback=named_variants,
        help="Run with this variant (list --variants), or own rules (FILE.py[:CLASS]); stop at the"
        " first seed that fails only with it. Repeatable.",
    ),
]  # fmt: skip
Mode = Annotated[
    str | None,
    typer.Option(help="Without SCENARIO: only kraft (even seeds) or only zookeeper (odd seeds)."),
]
Out = Annotated[
    Path | None, typer.Option(help="Write each distinct failure here, shrunk, with a report.")
]
Budget = Annotated[int, typer.Option(min=0, help="With --out: the most runs of one shrink.")]


def search(
    scenario: GivenScenario = None,
    settings: Settings = None,
    app: Apps = None,
    restart: RestartPolicy = None,
    only: Only = None,
    about: About = None,
    variant: Sought = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds at most.")] = 100,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    mode: Mode = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="How many processes run.", show_default="all cores")
    ] = None,
    out: Out = None,
    budget: Budget = 300,
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> int:
    """Draw faults from each seed, run them and judge the run.

    With SCENARIO, its cluster and clients stay as they are, and a failure shows faults that they do
    not survive. Without SCENARIO, cluster and workload are drawn, too, and a failure is a bug of
    the simulator. All seeds run. The exit code is 10 if one failed.

    With --variant, the search ends at the first seed that fails with the variant and passes without
    it (exit code 0). If no seed does, the exit code is 10, and the search says in how many seeds
    the variant decided otherwise than Kafka. If a variant has an effect in one mode only, the
    search uses seeds of that mode, unless --mode names the other.
    """
    variants = list(variant or [])
    compose(variants)
    source = given(scenario, settings, app, only, about, restart)
    if mode is not None and scenario is not None:
        raise InputError("--mode: a SCENARIO sets its mode (cluster.mode); leave --mode out")
    if mode == "zookeeper" and about in ONLY_KRAFT:
        raise InputError(f"--mode {mode}: {about} need KRaft; leave --mode out")
    span = _span(variants, mode, first, seeds) if scenario is None else range(first, first + seeds)
    keeper = None if out is None else _keeper(out, budget, source)
    tally = _searched(span, variants, jobs or _jobs(len(span)), source, keeper, json)
    hit = next((f for f in tally.findings if f.is_of_variant), None) if variants else None
    stopped = tally.seeds < len(span) and hit is None
    if stopped:
        typer.echo(f"stopped after {tally.seeds} of {len(span)} seeds", err=True)
    if json:
        _print_json(tally, variants, first, hit)
    elif tally.seeds:
        _conclude(tally, variants, hit)
    if stopped:
        return STOPPED
    return SAFETY if (hit is None if variants else tally.findings) else OK


SEEDS_OF_A_PROCESS = 4
"""For fewer a process of its own takes longer to start than they take to run."""


def _jobs(seeds: int) -> int:
    """Return how many processes search by default: as many as there are cores for them."""
    return max(1, min(os.cpu_count() or 1, seeds // SEEDS_OF_A_PROCESS))


def given(
    scenario: str | None,
    settings: list[str] | None = None,
    app: str | None = None,
    only: list[str] | None = None,
    about: str | None = None,
    restart: str | None = None,
) -> Source:
    """Return where the scenarios of a search come from, by its arguments.

    Raises:
        InputError: an option that needs SCENARIO or does not go with it, or it names no part, or
            no drawn fault is of such a kind.
        ScenarioError: there is no such scenario, or a setting is wrong.
    """
    if scenario is None:
        needing = {"--set": settings, "--app": app, "--restart": restart, "--only": only}
        for option, value in needing.items():
            if value:
                raise InputError(f"{option} needs SCENARIO")
        if about is not None and about not in PARTS:
            raise InputError(f"--about {about}: allowed are {', '.join(PARTS)}")
        return Swarm(about)
    if about is not None:
        raise InputError("--about: a SCENARIO has clients of its own; leave --about out")
    asked = [scenario, *(part for one in settings or () for part in ("--set", one))]
    asked += [] if app is None else ["--app", app]
    asked += [] if restart is None else ["--restart", restart]
    for kind in only or ():
        if kind not in DRAWN_KINDS:
            raise InputError(f"--only {kind}: allowed are {', '.join(DRAWN_KINDS)}")
        asked += ["--only", kind]
    wanted = run_request(scenario, settings, None, app=app, restart=restart).scenario
    wanted = of_one_cluster(wanted, "search")
    source = Given(wanted, tuple(asked), tuple(only or ()))
    try:
        source.scenario(0)
    except ValueError as error:
        raise InputError(str(error)) from None
    return source


def _searched(
    span: range,
    variants: list[str],
    jobs: int,
    source: Source,
    keeper: Keeper | None,
    json: bool,
) -> Tally:
    """Run the seeds, as far as Ctrl-C lets them come; tell and keep the failures."""
    tally = Tally(source)
    with progress_bar("searching", len(span)) as advance, suppress(KeyboardInterrupt):
        for finding in run_search(span, variants, jobs, source):
            is_new = finding.failed and not tally.knows(finding)
            tally.ran.append(finding)
            advance()
            if finding.failed:
                if not json and (source.drawn_whole or is_new):
                    say(finding.report if keeper is None else _without_trace(finding.report))
                _keep(finding, keeper, variants, json)
            if variants and finding.is_of_variant:
                break
    return tally


def _without_trace(screen: str) -> str:
    """Return a screen without the line about its trace: the directory that is kept has one."""
    return "\n".join(line for line in screen.split("\n") if line != NOT_KEPT)


def _keeper(out: Path, budget: int, source: Source) -> Keeper:
    from kafkasim.scenarios.commands.spark.reports import report_run
    from kafkasim.scenarios.shrinking.keep import Keeper

    return Keeper(make_directory(out), budget, report_run, source)


def _span(variants: list[str], mode: str | None, first: int, seeds: int) -> range:
    """Return the seeds of a search: those of one mode, if the variants or the user name one.

    Raises:
        InputError: there is no such mode.
    """
    if mode is not None and mode not in MODES:
        raise InputError(f"--mode {mode}: allowed are {' and '.join(MODES)}")
    mode = mode or only_mode(variants)
    if mode is None:
        return range(first, first + seeds)
    start = first + (mode_of(first) != mode)
    return range(start, start + 2 * seeds, 2)


def _keep(finding: Finding, keeper: Keeper | None, variants: list[str], json: bool) -> None:
    """Keep a failure; one that fails without the variants, too, is a bug of ours."""
    if keeper is None:
        return
    kept = keeper.add(finding.seed, [] if finding.anomalies == ("unmodified",) else variants)
    if not json:
        seeds = ", ".join(map(str, kept.seeds))
        say(f"  kept in {keeper.directory / kept.directory}: seeds {seeds}")


def _print_json(tally: Tally, variants: list[str], first: int, hit: Finding | None) -> None:
    say_json({
        "variants": variants, "first": first, "seeds": tally.seeds,
        "sim_seconds": round(tally.sim_seconds, 1), "modes": tally.modes,
        "verdicts": tally.verdicts, "acted": tally.acted if variants else None,
        "found": None if hit is None else {"seed": hit.seed, "anomalies": hit.anomalies},
        "failures": [{"seed": f.seed, "verdict": f.verdict, "anomalies": f.anomalies}
                     for f in tally.findings],
    })  # fmt: skip


def _conclude(tally: Tally, variants: list[str], hit: Finding | None) -> None:
    hours = tally.sim_seconds / 3600
    counts = ", ".join(f"{count} {name}" for name, count in tally.verdicts.items())
    modes = ", ".join(f"{count} {mode}" for mode, count in tally.modes.items())
    if isinstance(tally.source, Given) and not variants:
        _tell_given(tally, tally.source)
    say(f"{tally.seeds} seeds ({modes}), {hours:.2f} simulated hours: {counts}")
    if not variants:
        return
    names = " + ".join(map(shown, variants))
    if hit is None:
        say(f"{names}: not found in {tally.seeds} seeds")
        say(f"  seeds in which it decided otherwise than Kafka: {tally.acted}")
    else:
        say(f"{names}: found after {tally.seeds} seeds, by seed {hit.seed}")
        say(f"  without it the seed passes: {tally.source.command(hit.seed)}")


def _tell_given(tally: Tally, source: Given) -> None:
    """Print what a user's scenario showed, and how often; where it fails, how to go on."""
    console().print(verdict_table(f"{source.given.name} with drawn faults", tally.ran))
    if tally.findings:
        say(f"to get a small scenario: {source.shrink(tally.findings[0].seed)}")
