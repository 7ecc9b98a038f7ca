"""``kafkasim shrink``: make the scenario of one seed plain and small."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkasim.scenarios.commands.common import (
    InputError,
    make_directory,
    of_one_cluster,
    progress_bar,
    say,
    say_json,
)
from kafkasim.scenarios.commands.exits import OK
from kafkasim.scenarios.commands.runs import Apps, Settings, Variants, run_request
from kafkasim.scenarios.commands.searching import About, Only, given
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running import report
from kafkasim.scenarios.variants.compose import compose

if TYPE_CHECKING:
    from kafkasim.scenarios.shrinking.shrink import Shrunk


Named = Annotated[
    str | None,
    typer.Argument(metavar="SCENARIO", help="A name from `kafkasim list`, or a .toml file."),
]
FromSearch = Annotated[
    int | None,
    typer.Option(
        "--from-search", min=0, metavar="N", help="Seed N of `kafkasim search [SCENARIO]`."
    ),
]


def shrink(
    scenario: Named = None,
    seed: Annotated[int, typer.Option(min=0, help="The seed of the run.")] = 0,
    from_search: FromSearch = None,
    settings: Settings = None,
    app: Apps = None,
    only: Only = None,
    about: About = None,
    variant: Variants = None,
    twin: Annotated[bool, typer.Option("--twin", help="Shrink the scenario's twin.")] = False,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="ANOMALY", help="The anomaly to keep.", show_default="the first failure"
        ),
    ] = None,
    budget: Annotated[int, typer.Option(min=0, help="How many runs at most.")] = 500,
    out: Annotated[
        Path | None, typer.Option(help="Where it writes.", show_default="shrink/SCENARIO-SEED")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> int:
    """Write the scenario of one seed with fixed values, and a small one with the same anomaly.

    drawn.toml has the values that the seed drew; its run has the same digest. For shrunk.toml,
    tables, hosts, partitions, keys and time are removed as long as the anomaly remains. If a shrink
    was killed or used up its budget, the same command continues it. With a budget of 0 nothing is
    removed, and drawn.toml is the result.
    """
    if from_search is None:
        if scenario is None or only or about:
            raise InputError(
                "give SCENARIO, --from-search N, or both; --only and --about need --from-search"
            )
        asked = run_request(scenario, settings, variant, twin, app=app)
        wanted, named = of_one_cluster(asked.scenario, "shrink"), asked.variants
    else:
        if twin:
            raise InputError("--twin does not go with --from-search")
        named = list(variant or [])
        compose(named)
        source = given(scenario, settings, app, only, about)
        wanted, seed = source.scenario(from_search), from_search
    directory = make_directory(out or Path("shrink") / f"{wanted.name}-{seed}")
    done = _shrunk(wanted, seed, directory, named, keep, budget)
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
    end = "" if done.finished else "; the budget is used up, run the same command to continue"
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
