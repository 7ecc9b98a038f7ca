"""``kafkasim init``: from the files that a user has to a scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kafkasim.scenarios.commands.common import InputError, say, say_json
from kafkasim.scenarios.commands.exits import OK
from kafkasim.scenarios.importing.cluster import MOST_BROKERS, scenario
from kafkasim.scenarios.importing.given import Given
from kafkasim.scenarios.importing.reading import read
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.shrinking.toml_file import toml_text

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE...",
        help="server.properties (one of each server), variables (KAFKA_…) of a container,"
        " docker-compose.yaml, or resources of Strimzi.",
    ),
]


def init(
    files: Files,
    out: Annotated[Path, typer.Option(help="The scenario to write.")] = Path("scenario.toml"),
    brokers: Annotated[
        int | None,
        typer.Option(
            min=1, max=MOST_BROKERS, help="How many brokers there are, if one file stands for all."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> int:
    """Write a scenario without faults from the files of a cluster.

    Says what was taken from the files, what was defaulted, and what was left out and why.
    """
    if out.exists() and not force:
        raise InputError(f"--out {out}: exists; give another file, or --force")
    given = read(files, brokers)
    text = scenario_text(given)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror}") from None
    if json:
        say_json({
            "out": str(out), "took": given.took, "defaulted": given.defaulted,
            "left_out": given.left_out,
        })  # fmt: skip
        return OK
    for line in told(given):
        say(line)
    say(f"wrote {out}; next: kafkasim run {out} --explain")
    return OK


def scenario_text(given: Given) -> str:
    """Return the scenario that the files mean, as TOML that was checked.

    Raises:
        ScenarioError: a value in the files, or what they say together, cannot be run.
    """
    data = scenario(given)
    parse(data, ", ".join(dict.fromkeys(each.place for each in given.servers)))
    return toml_text(data, ["Written by kafkasim init.", "", *told(given)])


def told(given: Given) -> list[str]:
    """Return what was made of the files, in lines."""
    parts = (("taken", given.took), ("defaulted", given.defaulted), ("left out", given.left_out))
    lines = []
    for title, found in parts:
        lines += [f"{title}:", *(f"  {line}" for line in found)] if found else []
    return lines
