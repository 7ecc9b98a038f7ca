"""``kafkasim audit``: how many records of each window came to each tier, and who lost some."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from kafkasim.scenarios.commands.common import InputError, console, say, say_json
from kafkasim.scenarios.commands.exits import OK, SAFETY
from kafkasim.scenarios.commands.spark.fleets import (
    Conf,
    Master,
    StoredPlace,
    input_errors,
    open_place,
)
from kafkasim.scenarios.language.units import duration_us

if TYPE_CHECKING:
    from kafkasim.analysis.figures.audit import Window


def audit(
    place: StoredPlace,
    window: Annotated[str, typer.Option(metavar="T", help="The width of a window.")] = "5s",
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON list.")] = False,
    master: Master = "",
    conf: Conf = None,
) -> int:
    """Print how many records of each window of event time came to each tier of each run.

    Tiers are the producers, each cluster, each mirror and each group. A tier lost what a tier
    before it has; it doubled what it has more often. Exit code 10: a tier lost records.
    """
    try:
        window_us = duration_us(window)
    except ValueError as error:
        raise InputError(f"--window {error}") from None
    if window_us < 1:
        raise InputError(f"--window {window}: give more than 0s")
    with input_errors():
        from kafkasim.analysis.figures.audit import audit as compared

        found = compared(open_place(place, master, conf), window_us)
    lost = any(count.lost for each in found for count in each.counts.values())
    if json:
        say_json([{**asdict(each), "counts": each.by_tier()} for each in found])
    else:
        _show(found, window_us / 1e6)
    return SAFETY if lost else OK


def _show(found: list[Window], seconds: float) -> None:
    """Print a table for each topic, and below it which tier lost or doubled what."""
    topics: dict[tuple[str, str], list[Window]] = {}
    for each in found:
        topics.setdefault((each.run, each.place), []).append(each)
    for (run, place), windows in topics.items():
        tiers = list(windows[0].by_tier())
        table = Table("from", *tiers, title=f"{run}: {place}")
        for each in windows:
            cells = [_cell(*each.by_tier()[tier].values()) for tier in tiers]
            table.add_row(f"{each.number * seconds:+g} s", *cells)
        console().print(table)
        lines = [line for each in windows for line in each.lines(seconds)]
        for line in lines or ["every tier has each record once"]:
            say(line)


def _cell(records: int, lost: int, doubled: int) -> str:
    extra = f" (+{doubled})" if doubled else ""
    return f"{records}{extra}" + (f", {lost} lost" if lost else "")
