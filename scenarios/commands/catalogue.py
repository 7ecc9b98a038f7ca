"""``kafkasim list``: what scenarios, variants and rules there are."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.table import Table

from kafkasim.scenarios.commands.common import console, say, say_json
from kafkasim.scenarios.language import library
from kafkasim.scenarios.variants.own.listing import all_rules
from kafkasim.scenarios.variants.page import page
from kafkasim.scenarios.variants.registry import BUGS, VARIANTS
from kafkasim.scenarios.variants.rules import PARTS


def listing(
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list instead.")] = False,
    variants: Annotated[
        bool, typer.Option("--variants", help="List the variants: old or broken rules of Kafka.")
    ] = False,
    rules: Annotated[
        bool, typer.Option("--rules", help="List the rules that a variant, or yours, may override.")
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
    if rules:
        _rules(json)
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


def _rules(json: bool) -> None:
    """Print the rules of each part, a line each, so that grep finds one by Kafka's word for it."""
    found = all_rules()
    if json:
        say_json([asdict(rule) for rule in found])
        return
    for part in dict.fromkeys(rule.part for rule in found):
        base = PARTS[part]
        say(f"{part}: from {base.__module__} import {base.__name__}")
        for rule in found:
            if rule.part == part:
                others = f"  [{', '.join(rule.variants)}]" if rule.variants else ""
                say(f"    {rule.name}{rule.signature}  {rule.summary}{others}")
        say()


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
    title = "Variants (kafkasim run SCENARIO --variant ID; SCENARIO is ID where none is named)"
    table = Table(title=title)
    table.add_column("variant", no_wrap=True)  # whole ids, to copy
    for name in ("source", "breaks", "claim"):
        table.add_column(name)
    for v in found.values():
        where = "" if v.scenario == v.id else f" (kafkasim run {v.scenario})"
        table.add_row(v.id, v.source, v.breaks, f"{v.claim}{where}")
    console().print(table)
