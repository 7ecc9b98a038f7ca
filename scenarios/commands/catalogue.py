"""``kafkasim list``: what scenarios, variants and rules there are."""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from kafkasim.scenarios.commands.common import console, say, say_json


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
        from kafkasim.scenarios.variants.page import page
        from kafkasim.scenarios.variants.registry import BUGS

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
    found = _tables(CATALOGUE)
    told = [(one["name"], one["claim"], one.get("expect", {}).get("permits", [])) for one in found]
    if json:
        say_json([{"name": name, "claim": claim, "permits": few} for name, claim, few in told])
        return
    table = Table("scenario", "claim", "permits", title="Scenarios (kafkasim run NAME)")
    for name, claim, few in told:
        table.add_row(name, claim, ", ".join(few) or "—")
    console().print(table)


CATALOGUE = Path(__file__).parents[1] / "catalogue"


def _tables(folder: Path) -> list[dict[str, Any]]:
    """Return the built-in scenarios of a folder as they stand in their files: checking their tables
    would take a second."""
    files = sorted(folder.glob("*.toml"), key=lambda file: file.stem)
    return [tomllib.loads(file.read_text(encoding="utf-8")) for file in files]


def _sweeps(json: bool) -> None:
    found = _tables(CATALOGUE / "sweeps")
    told = [(one["name"], one["sweep"]["question"], one["claim"]) for one in found]
    if json:
        say_json([{"name": name, "question": q, "finding": claim} for name, q, claim in told])
        return
    table = Table("sweep", "question", "what it found", title="Sweeps (kafkasim sweep NAME)")
    for row in told:
        table.add_row(*row)
    console().print(table)


def _rules(json: bool) -> None:
    """Print the rules of each part, a line each, so that grep finds one by Kafka's word for it."""
    from kafkasim.scenarios.variants.own_listing import all_rules
    from kafkasim.scenarios.variants.rules import PARTS

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
    from kafkasim.scenarios.variants.registry import VARIANTS

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
