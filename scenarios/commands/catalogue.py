"""``kafkasim list``: what scenarios and variants there are."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Table

from kafkasim.scenarios.commands.common import console, say, say_json
from kafkasim.scenarios.language import library
from kafkasim.scenarios.variants.page import page
from kafkasim.scenarios.variants.registry import BUGS, VARIANTS


def listing(
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead.")] = False,
    variants: Annotated[
        bool, typer.Option("--variants", help="List the variants: old or broken rules of Kafka.")
    ] = False,
    sweeps: Annotated[
        bool, typer.Option("--sweeps", help="List the sweeps, with their questions and answers.")
    ] = False,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page of the historical bugs instead.")
    ] = False,
) -> None:
    """List the built-in scenarios, each with its claim and the anomalies it permits."""
    if markdown:
        say(page(BUGS))
        return
    if variants:
        _variants(json)
        return
    if sweeps:
        _sweeps(json)
        return
    found = [library.scenario(name)[0] for name in library.names()]
    if json:
        say_json(
            [{"name": s.name, "claim": s.claim, "permits": list(s.expect.permits)} for s in found]
        )
        return
    table = Table("scenario", "claim", "permits", title="Scenarios (kafkasim run NAME)")
    for scenario in found:
        table.add_row(scenario.name, scenario.claim, ", ".join(scenario.expect.permits) or "—")
    console().print(table)


def _sweeps(json: bool) -> None:
    found = [library.scenario(name)[0] for name in library.sweeps()]
    told = [(one.name, one.sweep.question, one.claim) for one in found if one.sweep is not None]
    if json:
        say_json([{"name": name, "question": q, "finding": claim} for name, q, claim in told])
        return
    table = Table("sweep", "question", "what it found", title="Sweeps (kafkasim sweep NAME)")
    for row in told:
        table.add_row(*row)
    console().print(table)


def _variants(json: bool) -> None:
    found = VARIANTS
    if json:
        say_json(
            [
                {"id": v.id, "source": v.source, "breaks": v.breaks, "scenario": v.scenario,
                 "claim": v.claim}
                for v in found.values()
            ]
        )  # fmt: skip
        return
    title = "Variants (kafkasim run SCENARIO --variant ID)"
    table = Table("variant", "source", "breaks", "shown by", "claim", title=title)
    for v in found.values():
        table.add_row(v.id, v.source, v.breaks, v.scenario, v.claim)
    console().print(table)
