"""``kafkasim search``: random clusters under random faults, with or without a rule broken.

``kafkasim shrink`` makes the scenario of one failed seed small.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkasim.scenarios.commands.common import (
    OK,
    SAFETY,
    InputError,
    make_directory,
    progress_bar,
    say,
    say_json,
)
from kafkasim.scenarios.commands.runs import Settings, Variants, run_request
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.searching.draw import MODES, draw, mode_of
from kafkasim.scenarios.searching.search import Finding, Tally, command
from kafkasim.scenarios.searching.search import search as run_search
from kafkasim.scenarios.showing import report
from kafkasim.scenarios.variants.compose import compose, only_mode

if TYPE_CHECKING:
    from kafkasim.scenarios.shrinking.keep import Keeper
    from kafkasim.scenarios.shrinking.shrink import Shrunk


def search(
    variant: Annotated[
        list[str] | None,
        typer.Option(
            "--variant",
            help="Put this variant in force and stop at the first seed that shows it. Repeatable.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="How many seeds at most.")] = 100,
    first: Annotated[int, typer.Option(min=0, help="The first seed.")] = 1,
    mode: Annotated[
        str | None, typer.Option(help="kraft (the even seeds) or zookeeper (the odd ones) only.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Processes side by side.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Keep each distinct failure here: shrunk, with a report.")
    ] = None,
    budget: Annotated[
        int, typer.Option(min=0, help="With --out: how many runs a shrink may take.")
    ] = 300,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object only.")] = False,
) -> int:
    """Draw a cluster, a workload and faults from each seed, run them and judge the run.

    Without a variant all seeds run and every failure is a bug of the simulator (exit code 10). With
    one the search ends at the first seed that fails with it and passes without it (exit code 0);
    when the seeds were not enough it says so (exit code 10). A variant that shows in one mode only
    is sought in that mode, unless --mode says otherwise.
    """
    variants = list(variant or [])
    compose(variants)
    span = _span(variants, mode, first, seeds)
    tally = Tally()
    keeper = None if out is None else _keeper(out, budget)
    with progress_bar("searching", seeds) as advance:
        for finding in run_search(span, variants, jobs):
            tally.add(finding)
            advance()
            if finding.failed:
                _failed(finding, keeper, variants, json)
            if variants and finding.verdict == "fail":
                break
    hit = next((f for f in tally.findings if f.verdict == "fail"), None) if variants else None
    if json:
        _print_json(tally, variants, first, hit)
    else:
        _conclude(tally, variants, None if hit is None else hit.seed)
    if variants:
        return OK if hit is not None else SAFETY
    return SAFETY if tally.findings else OK


def _keeper(out: Path, budget: int) -> Keeper:
    from kafkasim.scenarios.commands.spark.reports import report_run
    from kafkasim.scenarios.shrinking.keep import Keeper

    return Keeper(make_directory(out), budget, report_run)


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


def _failed(finding: Finding, keeper: Keeper | None, variants: list[str], json: bool) -> None:
    """Print a failure and keep it; one that fails without the variants, too, is a bug of ours."""
    if not json:
        say(finding.report)
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
        "verdicts": tally.verdicts,
        "found": None if hit is None else {"seed": hit.seed, "anomalies": hit.anomalies},
        "failures": [{"seed": f.seed, "verdict": f.verdict, "anomalies": f.anomalies}
                     for f in tally.findings],
    })  # fmt: skip


def _conclude(tally: Tally, variants: list[str], hit: int | None) -> None:
    hours = tally.sim_seconds / 3600
    counts = ", ".join(f"{count} {name}" for name, count in tally.verdicts.items())
    modes = ", ".join(f"{count} {mode}" for mode, count in tally.modes.items())
    say(f"{tally.seeds} seeds ({modes}), {hours:.2f} simulated hours: {counts}")
    if not variants:
        return
    names = " + ".join(variants)
    if hit is None:
        say(f"{names}: not found in {tally.seeds} seeds")
    else:
        say(f"{names}: found after {tally.seeds} seeds, by seed {hit}")
        say(f"  without it the seed passes: {command(hit)}")


def shrink(
    scenario: Annotated[
        str | None,
        typer.Argument(metavar="SCENARIO", help="A name from `kafkasim list`, or a .toml file."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the run.")] = 0,
    from_search: Annotated[
        int | None,
        typer.Option("--from-search", min=0, metavar="N", help="Seed N of `kafkasim search`."),
    ] = None,
    settings: Settings = None,
    variant: Variants = None,
    twin: Annotated[bool, typer.Option("--twin", help="Shrink the scenario's twin.")] = False,
    keep: Annotated[
        str | None,
        typer.Option(metavar="ANOMALY", help="What to keep.", show_default="what failed first"),
    ] = None,
    budget: Annotated[int, typer.Option(min=0, help="How many runs at most.")] = 500,
    out: Annotated[
        Path | None, typer.Option(help="The directory.", show_default="shrink/SCENARIO-SEED")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object only.")] = False,
) -> int:
    """Make the scenario of one seed plain and small, with the same anomaly.

    Writes two scenarios: drawn.toml has what the seed drew and gives the same digest; shrunk.toml
    is what is left when tables, hosts, partitions, keys and time are taken out as long as the
    anomaly stays. A shrink that was killed, or whose budget was spent, goes on when it is called
    again. With a budget of 0 only drawn.toml is of interest.
    """
    if (scenario is None) == (from_search is None):
        raise InputError("give either SCENARIO or --from-search N")
    given = list(variant or [])
    if from_search is not None:
        if settings or twin:
            raise InputError("--set and --twin go with SCENARIO, not with --from-search")
        compose(given)
        data = draw(from_search)
        wanted, seed = parse(data, data["name"]), from_search
    else:
        assert scenario is not None
        asked = run_request(scenario, settings, variant, twin)
        wanted, given = asked.scenario, asked.variants
    directory = make_directory(out or Path("shrink") / f"{wanted.name}-{seed}")
    done = _shrunk(wanted, seed, directory, given, keep, budget)
    if json:
        say_json(_shrink_summary(done, seed))
    else:
        _tell_shrunk(done, seed)
    return OK


def _shrunk(
    scenario: Scenario, seed: int, directory: Path, given: list[str], keep: str | None, budget: int
) -> Shrunk:
    from kafkasim.scenarios.shrinking.shrink import shrink as run_shrink

    with progress_bar("shrinking", budget) as advance:

        def watch(reduction: str, _runs: int, data: dict[str, Any]) -> None:
            sizes = [f"{len(data[key])} {key}" for key in ("faults", "operations") if key in data]
            advance(f"{reduction}: {', '.join(sizes) or 'nothing happens'}")

        return run_shrink(
            scenario, seed, directory, variants=given, keep=keep, budget=budget, watch=watch
        )


def _tell_shrunk(done: Shrunk, seed: int) -> None:
    say(f"drawn:  {report.command(seed, str(done.drawn))}  (digest {done.shown.digest[:16]})")
    if done.shrunk is None:
        say("nothing to shrink: the run shows no anomaly")
        return
    say(f"shrunk: {report.command(seed, str(done.shrunk))}  (digest {done.digest[:16]})")
    end = "" if done.finished else "; the budget is spent, call again to go on"
    say(f"{done.keep} is kept, {done.runs} runs{end}")
    for line in done.removed:
        say(f"  {line}")


def _shrink_summary(done: Shrunk, seed: int) -> dict[str, Any]:
    return {
        "seed": seed, "findings": list(done.shown.findings), "kept": done.keep,
        "drawn": str(done.drawn), "drawn_digest": done.shown.digest,
        "shrunk": None if done.shrunk is None else str(done.shrunk), "shrunk_digest": done.digest,
        "removed": done.removed, "runs": done.runs, "finished": done.finished,
    }  # fmt: skip
