"""``kafkasim ask``: what breaks a cluster, and what decides how much, in one table."""

from __future__ import annotations

import json as as_json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kafkasim.model.config import BrokerConfig, ProducerConfig
from kafkasim.scenarios.commands.common import InputError, console, make_directory, say, say_json
from kafkasim.scenarios.commands.exits import OK
from kafkasim.scenarios.commands.spark import fleets
from kafkasim.scenarios.commands.starting import scenario_text, told
from kafkasim.scenarios.importing.questions import Question, acks_of_hosts, questions
from kafkasim.scenarios.importing.reading import read
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.clusters import members
from kafkasim.scenarios.language.files import applications, rules
from kafkasim.scenarios.language.files.properties import merge
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import ClusterTable, Scenario
from kafkasim.scenarios.running.runner import config_digest
from kafkasim.scenarios.shrinking.toml_file import toml_text
from kafkasim.sim.trace.store import code_version

if TYPE_CHECKING:
    from kafkasim.analysis.answers import Answer
    from kafkasim.analysis.stored import Stored

WIDTH = 220
"""The columns of the table where stdout is no terminal."""


def ask(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A scenario (.toml), or files as for init."),
    ],
    runs: Annotated[int, typer.Option(min=1, help="How many seeds of each question.")] = 2,
    only: Annotated[
        str,
        typer.Option(
            metavar="TEXT", help="Only questions with this in their names, e.g. pause-broker-1."
        ),
    ] = "",
    out: Annotated[Path, typer.Option(help="Where questions and runs go.")] = Path("kafkasim-ask"),
    cluster: Annotated[
        str,
        typer.Option("--cluster", metavar="NAME", help="Of several clusters: ask about this one."),
    ] = "",
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
    master: fleets.Master = "",
    conf: fleets.Conf = None,
) -> int:
    """Ask what breaks a cluster: every broker pauses and crashes, a rack is lost, and so on.

    Each question is a scenario that is written to --out, run on some seeds as Spark tasks. The
    table tells what stopped and for how long in the worst run, what was lost with which acks, the
    setting that decided, and the command that shows it. The same command again runs nothing anew.
    """
    data, place = _given(files, make_directory(out), json, cluster)
    asked = chosen(list(questions(data, parse(data, place))), only)
    parsed = [_written(each, out) for each in asked]
    spark = fleets.spark_session(master, conf)
    names = [str(out / f"{each.name}.toml") for each in asked]
    summary = fleets.run_fleet(spark, names, range(runs), (), (), str(out))
    stored = fleets.open_place(summary.out, master, conf)
    columns, found = _answers(stored, asked, parsed, names, range(runs))
    rows = [each.cells() for each in found]
    kept = {"columns": columns, "rows": rows}
    (out / "answers.json").write_text(as_json.dumps(kept, ensure_ascii=False), encoding="utf-8")
    if json:
        summed = fleets.summary_json(summary)
        say_json({**summed, "answers": [each.to_json() for each in found]})
        return summary.exit_code
    _show(f"{place}: {len(asked)} questions, the worst of {runs} seeds each", columns, rows)
    for line in fleets.summary_lines(summary):
        say(line)
    say(f"page: kafkasim report {shlex.quote(str(out))}")
    return summary.exit_code or OK


def _answers(
    stored: Stored, asked: list[Question], parsed: list[Scenario], names: list[str], seeds: range
) -> tuple[list[str], list[Answer]]:
    """Return the columns of the table, and an answer for each question."""
    with fleets.input_errors():
        from kafkasim.analysis.answers import COLUMNS, Asked, Timeouts, answers

        ran = [
            Asked(each.name, each.text, digest(scenario), code_version(), _command(name))
            for each, scenario, name in zip(asked, parsed, names, strict=True)
        ]
        ends = Timeouts(*timeouts(parsed[0].cluster), request_timeout_s(parsed[0]))
        return list(COLUMNS), answers(stored, ran, seeds, acks_of_hosts(parsed[0]), ends)


def _show(title: str, columns: list[str], rows: list[list[str]]) -> None:
    table = Table(*columns, title=title)
    for row in rows:
        table.add_row(*row)
    usual = console()
    (usual if usual.is_terminal else Console(width=WIDTH)).print(table)


def digest(scenario: Scenario) -> str:
    """Return the digest that a fleet stores of what it runs."""
    return config_digest(scenario, list(scenario.cluster.variants))


def timeouts(cluster: ClusterTable) -> tuple[str, str]:
    """Return the session's and the lag's setting of a cluster, as ``key = value``."""
    config = BrokerConfig.from_properties(cluster.config)
    if cluster.mode == "zookeeper":
        session = f"zookeeper.session.timeout.ms = {config.zookeeper_session_timeout_ms}"
    else:
        session = f"broker.session.timeout.ms = {config.broker_session_timeout_ms}"
    return session, f"replica.lag.time.max.ms = {config.replica_lag_time_max_ms}"


def request_timeout_s(scenario: Scenario) -> float:
    """Return the shortest request.timeout.ms of the scenario's clients, in seconds."""
    name, default = "request.timeout.ms", ProducerConfig().request_timeout_ms
    return min(
        [float(str(each.config.get(name, default))) for each in scenario.workload],
        default=float(default),
    ) / 1000  # fmt: skip


def chosen(asked: list[Question], only: str) -> list[Question]:
    """Return the questions whose names have a text in them.

    Raises:
        InputError: there is none.
    """
    some = [each for each in asked if only in each.name]
    if not some:
        names = ", ".join(each.name for each in asked)
        raise InputError(f"--only {only}: is in the name of no question; there are: {names}")
    return some


def _command(name: str) -> str:
    return f"kafkasim run {shlex.quote(name)} --seed {{seed}} --explain"


def _given(files: list[Path], out: Path, quiet: bool, cluster: str) -> tuple[dict[str, Any], str]:
    """Return the tables of the user's scenario, which files of other kinds are made into first."""
    first = str(files[0])
    notes: list[str] = []
    if len(files) == 1 and (files[0].suffix == ".toml" or not files[0].exists()):
        data, place = library.source(first)
        if "clusters" in data or cluster:
            data = _alone(library.scenario(first)[0], place, cluster)
    else:
        given = read(files)
        text = scenario_text(given)
        notes = told(given)
        first = place = str(out / "scenario.toml")
        Path(place).write_text(text, encoding="utf-8")
        data, place = library.source(place)
    folder = Path(first).parent
    data = merge(data, folder, place, allow_unmodelled=False, notes=notes)
    data = rules.resolve(applications.resolve(data, folder, place), folder, place)
    for line in notes if not quiet else ():
        typer.echo(line, err=True)
    return data, place


def _alone(scenario: Scenario, place: str, cluster: str) -> dict[str, Any]:
    """Return the tables of one of the scenario's clusters, as if it were alone."""
    found = members(scenario)
    if not scenario.clusters or cluster not in found:
        there = f"the clusters {', '.join(found)}" if scenario.clusters else "one cluster"
        asked = f"--cluster {cluster}" if cluster else "--cluster"
        raise InputError(f"{asked}: {place} has {there}; ask takes one of several")
    return found[cluster].model_dump(mode="json", by_alias=True, exclude_defaults=True)


def _written(question: Question, out: Path) -> Scenario:
    path = out / f"{question.name}.toml"
    scenario = parse(question.data, str(path))
    path.write_text(toml_text(question.data, ["Written by kafkasim ask."]), encoding="utf-8")
    return scenario
