"""``kafkasim search``: random clusters under random faults, with or without a rule broken."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkasim.scenarios.commands.common import OK, SAFETY, InputError, progress_bar, say, say_json
from kafkasim.scenarios.searching.draw import MODES, mode_of
from kafkasim.scenarios.searching.search import Finding, Tally, command
from kafkasim.scenarios.searching.search import search as run_search
from kafkasim.scenarios.variants.compose import compose, only_mode


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
    if mode is not None and mode not in MODES:
        raise InputError(f"--mode {mode}: allowed are {' and '.join(MODES)}")
    mode = mode or only_mode(variants)
    span = range(first, first + seeds)
    if mode is not None:
        start = first + (mode_of(first) != mode)
        span = range(start, start + 2 * seeds, 2)
    tally = Tally()
    with progress_bar("searching", seeds) as advance:
        for finding in run_search(span, variants, jobs):
            tally.add(finding)
            advance()
            if finding.failed and not json:
                say(finding.report)
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
