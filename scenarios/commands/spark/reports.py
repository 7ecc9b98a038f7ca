"""``kafkasim report``: one HTML file about a run, a fleet or a sweep."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkasim.analysis.explain.explain import firsts
from kafkasim.analysis.story.story import tell
from kafkasim.scenarios.commands.common import InputError, make_directory, say, status
from kafkasim.scenarios.commands.exits import OK
from kafkasim.scenarios.commands.places import ClusterName, cluster_directories
from kafkasim.scenarios.commands.spark.fleets import (
    Conf,
    Master,
    input_errors,
    judge,
    one_run,
    open_place,
)
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running import report as showing
from kafkasim.scenarios.running.replay import added_variants
from kafkasim.scenarios.running.runner import run as run_once
from kafkasim.scenarios.running.stored import explain
from kafkasim.sim.trace.store import MANIFEST_FILE, ManifestError, read_manifest

if TYPE_CHECKING:
    from kafkasim.analysis.report.page import Part
    from kafkasim.analysis.report.runs import Judged, Told
    from kafkasim.analysis.stored import Stored

STORY_LINES = 60
MOST_RUNS = 3
REPORT_FILE = "report.html"


def report(
    place: Annotated[
        str, typer.Argument(metavar="DIR", help="Where run, fleet, sweep or compare --out wrote.")
    ],
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="NAME",
            help="A run to show with a timeline, by name or seed. Repeatable.",
            show_default="the first of each kind of failure, else of each expected anomaly, else"
            " the first run",
        ),
    ] = None,
    cluster: ClusterName = "",
    out: Annotated[
        Path | None, typer.Option(help="The HTML file.", show_default="DIR/report.html")
    ] = None,
    master: Master = "",
    conf: Conf = None,
) -> int:
    """Write one self-contained HTML file about runs: verdicts, pictures, timelines.

    The file needs no network. A run shown has a timeline that the mouse and keys zoom and move, its
    events, and the explanation of its anomalies. On paper a picture replaces the timeline. The runs
    of a fleet are simulated again for this, from their configuration and seed.
    """
    target = out or _default_target(place)
    make_directory(target.parent)
    with input_errors():
        if (Path(place) / MANIFEST_FILE).is_file():
            if run:
                raise InputError(f"--run: {place} holds one run only")
            report_run(Path(place), target, place, cluster)
        else:
            _write(target, place, _fleet_parts(place, run or [], cluster, master, conf))
    say(str(target))
    return OK


def report_run(directory: Path, target: Path, shown: str = "", cluster: str = "") -> None:
    """Write the page about the run in a directory; ``shown`` is how the page names that.

    ``cluster`` is the one to show of several, "" for all.
    """
    place = shown or str(directory)
    _write(target, place, _directory_parts("run-1", directory, place, cluster))


def _write(target: Path, place: str, parts: Sequence[Part]) -> None:
    from kafkasim.analysis.report.page import render

    name = Path(place).resolve().name or place
    target.write_text(render(f"kafkasim: {name}", "", parts), encoding="utf-8")


def _default_target(place: str) -> Path:
    from kafkasim.analysis.spark.files import local_path

    path = local_path(place)
    if path is None:
        raise InputError(f"{place} is not on this machine: give --out FILE")
    if not path.is_dir():
        raise InputError(f"{place}: no such directory")
    return path / REPORT_FILE


def _fleet_parts(
    place: str, names: Sequence[str], cluster: str, master: str, conf: Sequence[str] | None
) -> list[Part]:
    from kafkasim.analysis.report import places, sweeps
    from kafkasim.analysis.report.runs import Judged
    from kafkasim.analysis.runs import chosen
    from kafkasim.analysis.spark.files import local_path
    from kafkasim.analysis.stored import RUNS_TABLE

    path = local_path(place)
    measured = [] if path is None else sweeps.measured_parts(path)
    if measured and path is not None and not (path / RUNS_TABLE).is_dir():
        if names:
            raise InputError(f"--run: {place} holds the results of a sweep, and no runs")
        return measured
    stored = open_place(place, master, conf)
    answered = [] if path is None else places.answers_parts(path)
    verdicts = judge(stored)
    judged = {run.run: run for run in verdicts.runs}
    if measured:
        parts = [*measured, sweeps.runs_part(verdicts)]
        wanted = sweeps.interesting(verdicts, MOST_RUNS)
    else:
        parts = [*answered, places.fleet_part(stored, verdicts)]
        wanted = places.interesting(verdicts, MOST_RUNS)
    if names:
        wanted = [chosen(list(judged), name, stored.place) for name in names]
    for number, name in enumerate(wanted, start=1):
        run = judged[name]
        about = Judged(run.verdict, [*run.anomalies, *run.expected], "")
        if measured:
            about = Judged(
                sweeps.verdict_of(run), sweeps.shown_by(run), sweeps.shares(verdicts, run)
            )
        with status(f"{name} …"):
            parts += _stored_parts(f"run-{number}", stored, name, cluster, about)
    return parts


def _stored_parts(key: str, stored: Stored, name: str, cluster: str, judged: Judged) -> list[Part]:
    """Return the parts about a run of a fleet, or of a tree of run directories."""
    found = [run for run in stored.runs if run.name == name]
    if found[0].crashed:
        raise InputError(f"--run {name}: the simulator crashed in this run, there is no timeline")
    if found[0].directory is not None:
        directory = found[0].directory
        return _directory_parts(key, directory, str(directory), cluster, judged=judged)
    from kafkasim.analysis.report.places import stored_request
    from kafkasim.analysis.spark.files import local_path

    place = str(local_path(stored.place) or stored.place)
    asked = {**stored_request(stored, name), "place": place, "run": name}
    scenario = parse(asked["spec"], name)
    with TemporaryDirectory(prefix="kafkasim-report-") as scratch:
        variants = added_variants(scenario, asked)
        result = run_once(scenario, asked["seed"], Path(scratch), variants)
        of_twin = scenario.twin.variants if asked["twin"] and scenario.twin else []
        asked["given"] = [variant for variant in variants if variant not in of_twin]
        if result.digest != asked["digest"]:
            lead = ("Simulated again for this page, with another digest than the stored run has:"
                    " it was stored by other code.")  # fmt: skip
            judged = replace(judged, lead=lead)
        shown = f"{name} in {stored.place}"
        return _directory_parts(key, Path(scratch), shown, cluster, asked, judged)


def _directory_parts(
    key: str, directory: Path, shown: str, cluster: str = "", asked: dict[str, Any] | None = None,
    judged: Judged | None = None,
) -> list[Part]:  # fmt: skip
    """Return the part about a run; of several clusters one each, with the verdict on that."""
    with cluster_directories(directory, cluster=cluster) as found:
        if "" in found:
            return [_directory_part(key, directory, shown, asked, judged)]
        parts = [
            (name, _directory_part(f"{key}-{name}", alone, shown, asked))
            for name, alone in found.items()
        ]
        return [replace(part, title=f"{part.title}: cluster {name}") for name, part in parts]


def _directory_part(
    key: str, directory: Path, shown: str, asked: dict[str, Any] | None = None,
    judged: Judged | None = None,
) -> Part:  # fmt: skip
    from kafkasim.analysis.report import runs

    manifest = read_manifest(directory)
    if judged is None:
        judged = runs.Judged(str(manifest["verdict"]), manifest.get("anomalies", ()), "")
    if not judged.lead and judged.verdict:
        judged = replace(judged, lead=str(manifest.get("claim", "")))
    told = _told(directory, manifest, shown, asked, judged)
    return runs.part(key, one_run(str(directory)), told)


def _told(
    directory: Path, manifest: Mapping[str, Any], shown: str, asked: dict[str, Any] | None,
    judged: Judged,
) -> Told:  # fmt: skip
    """Return story, explanations and findings of a run in a directory."""
    from kafkasim.analysis.report.run_facts import Finding
    from kafkasim.analysis.report.runs import Told

    try:
        explained, ready_us = explain(directory)
    except ManifestError:
        explained, ready_us = [], int(manifest.get("ready_us", 0))
    lines: list[str] = []
    findings = []
    for same in firsts(explained).values():
        if _is_claim(same[0].anomaly) and same[0].anomaly not in judged.found:
            continue
        lines += [*([""] if lines else []), *same[0].lines(ready_us)]
        for each in same:
            if each.turn is not None:
                findings.append(Finding(each.turn.t_us, each.anomaly, each.where, each.found))
    label = "" if asked is None else asked["label"]
    replay = (
        f"kafkasim replay {shown}" if asked is None else replay_command(asked, manifest["scenario"])
    )
    return Told(tell(directory, STORY_LINES), lines, findings, replay, judged, label)


def replay_command(asked: Mapping[str, Any], name: str) -> str:
    """Return the command that repeats a stored run.

    A scenario that is not, or not so, in the catalogue came from a file: the place has its tables.
    """
    settings, twin = asked["settings"], asked["twin"]
    try:
        known = library.scenario(name, settings, twin=twin)[0].model_dump()
    except ScenarioError:
        known = {}
    if known == parse(asked["spec"], name).model_dump():
        return showing.command(asked["seed"], name, settings, asked["given"], twin)
    return shlex.join(["kafkasim", "replay", asked["place"], "--run", asked["run"]])


def _is_claim(anomaly: str) -> bool:
    """Return whether an anomaly says that the scenario was wrong about what is seen."""
    return anomaly.startswith(("missing:", "seen:"))
