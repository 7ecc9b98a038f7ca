"""``kafkasim run`` and ``kafkasim replay``: one seed of a scenario or several, in this process."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kafkasim.analysis.judging.verdict import Result
from kafkasim.scenarios.commands.common import (
    InputError,
    console,
    exit_code,
    make_directory,
    progress_bar,
    say,
    say_json,
    status,
    verdict_table,
)
from kafkasim.scenarios.commands.errors import Crashed
from kafkasim.scenarios.commands.exits import NONDETERMINISM, OK, SAFETY, STOPPED
from kafkasim.scenarios.commands.places import RunName, run_directory
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.files.applications import split
from kafkasim.scenarios.language.files.rules import with_digests
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running import report
from kafkasim.scenarios.running.runner import run as run_once
from kafkasim.scenarios.variants.compose import compose
from kafkasim.scenarios.variants.variant import VariantError
from kafkasim.sim.trace.store import MANIFEST_FILE, TRACE_FILE

if TYPE_CHECKING:
    from kafkasim.scenarios.running.replay import Replay

LONG_STORY = 40
SHORT_STORY = 12
"""Lines of a story: with --explain, and inside the report of a failure."""


def named_variants(given: list[str] | None) -> list[str] | None:
    """Return the ids of variants from the command line, files of rules with their digests.

    Raises:
        ScenarioError: a file cannot be read.
    """
    return None if given is None else with_digests(given, Path(), "--variant")


def named_settings(given: list[str] | None) -> list[str] | None:
    """Return settings from the command line, with those of ``@FILE`` in its place, one a line.

    Raises:
        InputError: a file cannot be read.
    """
    found: list[str] = []
    for one in given or []:
        try:
            lines = Path(one[1:]).read_text().splitlines() if one.startswith("@") else [one]
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--set {one}: no file of lines KEY=VALUE: {error}") from None
        found += [line for line in lines if line.strip()]
    return None if given is None else found


ScenarioName = Annotated[
    str, typer.Argument(metavar="SCENARIO", help="A name from `kafkasim list`, or a .toml file.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", callback=named_settings,
        help="Override a key of the scenario, e.g. cluster.config.replica.lag.time.max.ms=5000 or"
        " workload.0.rate=500/s; or @FILE with one a line. Repeatable.",
    ),
]  # fmt: skip
Variants = Annotated[
    list[str] | None,
    typer.Option(
        "--variant", metavar="ID", callback=named_variants,
        help="Run with this variant (list --variants), or own rules: FILE.py[:CLASS]. Repeatable.",
    ),
]  # fmt: skip


Apps = Annotated[
    str | None,
    typer.Option(
        "--app", metavar="FILE[:FUNCTION]",
        help="Run this async function in place of the scenario's consumers. [function: main]",
    ),
]  # fmt: skip
RestartPolicy = Annotated[
    str | None,
    typer.Option(
        "--restart", metavar="POLICY",
        help="With --app: when its process is started again (never, on-failure, always).",
        show_default="never",
    ),
]  # fmt: skip


@dataclass
class RunRequest:
    """The scenario that the user asked for, with all that decides a run besides the seed."""

    name: str
    scenario: Scenario
    settings: list[str]
    given: list[str]  # variants from the command line
    variants: list[str]  # those and the twin's
    twin: bool

    def replay_command(self, seed: int, out: Path | None = None) -> str:
        """Return the command that runs one seed of this request again."""
        return report.command(seed, self.name, self.settings, self.given, self.twin, out)

    def run(self, seed: int, directory: Path | None, only_failed: bool = False) -> Result:
        """Run one seed; its files go to ``directory``, None keeps none.

        Raises:
            Crashed: the simulator failed.
        VariantError: a rule of a user's own raised an exception.
        """
        if directory is not None:
            make_directory(directory)
            (directory / MANIFEST_FILE).unlink(missing_ok=True)  # unfinished until it is back
        try:
            return run_once(self.scenario, seed, directory, self.variants, only_failed)
        except VariantError:
            raise
        except Exception as error:
            raise Crashed(self.replay_command(seed), directory, self.variants) from error


def run_request(
    name: str,
    settings: list[str] | None,
    variants: list[str] | None,
    twin: bool = False,
    allow_unmodelled: bool = False,
    app: str | None = None,
    restart: str | None = None,
) -> RunRequest:
    """Read the scenario and check everything that decides a run besides the seed.

    ``app`` is an application that runs in place of the scenario's consumers, and ``restart`` the
    restart policy of its processes.

    Raises:
        InputError: the scenario has no consumers for an application, or there is none to restart.
        ScenarioError: an unknown scenario, a wrong key or value, no twin.
        VariantError: an unknown variant, or two that do not go together.
    """
    given = list(variants or [])
    wanted_settings = [*(settings or []), *for_consumers(name, app, restart, allow_unmodelled)]
    notes: list[str] = []
    scenario, added = library.scenario(
        name, wanted_settings, twin=twin, allow_unmodelled=allow_unmodelled, notes=notes
    )
    for note in notes:
        typer.echo(note, err=True)
    wanted = [*added, *given]
    compose(given)
    try:
        compose([*scenario.cluster.variants, *wanted])
    except VariantError as error:
        raise VariantError(f"{name}: {error}") from None
    return RunRequest(name, scenario, wanted_settings, given, wanted, twin)


def for_consumers(
    name: str, app: str | None, restart: str | None = None, allow_unmodelled: bool = False
) -> list[str]:
    """Return the settings that put an application in place of a scenario's consumers.

    Without consumer groups it is in place of the producers. None is no application, so no settings.
    The file that it takes the place of need not exist. ``restart`` is the restart policy of the
    application's processes.

    Raises:
        InputError: the scenario has neither, or a policy has no application.
        ScenarioError: there is no such scenario.
    """
    if app is None:
        if restart is not None:
            raise InputError(
                f"--restart {restart}: needs --app; a workload of {name} has the key restart"
            )
        return []
    path, function = split(app)
    tables = library.source(name)[0].get("workload")
    known = tables if isinstance(tables, list) else []
    kinds = [table.get("kind") if isinstance(table, dict) else None for table in known]
    kind = "consumer-group" if "consumer-group" in kinds else "producer"
    places = [index for index, each in enumerate(kinds) if each == kind]
    if not places:
        library.scenario(name, allow_unmodelled=allow_unmodelled)  # which tells a misspelled kind
        raise InputError(
            f"--app: {name} has no workload of kind consumer-group or producer to run it for"
        )
    given = {"app": f'"{path.absolute()}:{function}"'}
    if restart is not None:
        given["restart"] = f'"{restart}"'
    return [f"workload.{place}.{key}={text}" for place in places for key, text in given.items()]


def run(
    scenario: ScenarioName,
    seed: Annotated[int, typer.Option(min=0, help="The seed; with --runs the first seed.")] = 0,
    runs: Annotated[
        int | None,
        typer.Option(min=1, help="How many seeds, beginning with --seed.", show_default="1"),
    ] = None,
    settings: Settings = None,
    app: Apps = None,
    restart: RestartPolicy = None,
    variant: Variants = None,
    twin: Annotated[
        bool, typer.Option("--twin", help="Run the twin, which must fail with named anomalies.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Keep trace and manifest in this directory (with --runs: below it)."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print only one JSON object (with --runs: a list).")
    ] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print the events: faults, elections, ISRs, losses.")
    ] = False,
    allow_unmodelled: Annotated[
        bool,
        typer.Option(
            "--allow-unmodelled", help="Ignore properties of a config-file that are not modelled."
        ),
    ] = False,
) -> int:
    """Run a scenario and judge it.

    Prints one line if the run went as expected. For a failure it prints what was found, the events,
    and the command that replays the run. Times count from the moment the cluster is ready.
    """
    asked = run_request(scenario, settings, variant, twin, allow_unmodelled, app, restart)
    if out is not None:
        make_directory(out)
    if twin:
        return _run_twin(asked, seed, runs, out, json, explain)
    if runs is None or runs == 1:
        result, place = _run_kept(asked, seed, out, only_failed=not explain)
        _show(asked, result, json, explain, place)
        _drop(result, out, place)
        return exit_code([result])
    return _run_many(asked, range(seed, seed + runs), out, json, explain)


def _run_many(asked: RunRequest, seeds: range, out: Path | None, json: bool, explain: bool) -> int:
    results = _results(asked, seeds, out)
    stopped = len(results) < len(seeds)
    if stopped:
        typer.echo(f"stopped after {len(results)} of {len(seeds)} runs", err=True)
    if json:
        say_json([result.summary() for result in results])
    elif results:
        _show_many(asked, results, explain)
    return STOPPED if stopped else exit_code(results)


def _results(asked: RunRequest, seeds: range, out: Path | None) -> list[Result]:
    """Run seed after seed; after Ctrl-C return what has been found so far."""
    results: list[Result] = []
    with progress_bar(asked.scenario.name, len(seeds)) as advance:
        for seed in seeds:
            place = None if out is None else out / f"seed-{seed}"
            try:
                results.append(asked.run(seed, place))
            except KeyboardInterrupt:
                break
            advance()
    return results


def _show_many(asked: RunRequest, results: list[Result], explain: bool) -> None:
    for result in results:
        _head(result)
        if explain and result.directory is not None:
            _story(Path(result.directory))
    failed = [result for result in results if result.verdict == "fail"]
    for result in failed[:1]:
        told = [] if result.directory is None else _told(result.directory, SHORT_STORY)
        say(_screen(asked, result, told))
    console().print(verdict_table(results[0].scenario, results))


def _run_kept(
    asked: RunRequest, seed: int, out: Path | None, only_failed: bool = False
) -> tuple[Result, Path]:
    """Run one seed with its trace on disk, where ``--explain`` and a failure need it.

    Two processes that run the same scenario and seed at once write to different places.
    """
    place = out or Path(gettempdir()) / "kafkasim" / f"{asked.scenario.name}-{seed}-{os.getpid()}"
    with status(f"{asked.scenario.name}, seed {seed} …"):
        return asked.run(seed, place, only_failed and out is None), place


def _drop(result: Result, out: Path | None, place: Path) -> None:
    """Remove the trace, unless the user asked for it or the run failed."""
    if out is None and result.verdict != "fail":
        shutil.rmtree(place, ignore_errors=True)


def _show(asked: RunRequest, result: Result, json: bool, explain: bool, place: Path) -> None:
    if json:
        say_json(result.summary())
        return
    _head(result)
    if result.verdict == "fail":
        say(_screen(asked, result, [] if explain else _told(place, SHORT_STORY)))
    if explain:
        _story(place)
        if result.verdict == "expected":
            say(f"found, and expected of this scenario: {', '.join(result.anomalies)}")
            for line in report.findings(result):
                say(line)


def _head(result: Result) -> None:
    for line in (report.headline(result), *report.remarks(result)):
        say(line)


def _screen(asked: RunRequest, result: Result, told: list[str]) -> str:
    return report.screen(result, asked.replay_command(result.seed), told)


def _told(place: Path | str, lines: int) -> list[str]:
    from kafkasim.analysis.story.story import tell  # reads Parquet, with Arrow

    return tell(Path(place), lines)


def _story(place: Path) -> None:
    from kafkasim.analysis.story.clients import noticed

    for line in _told(place, LONG_STORY):
        say(line)
    for line in noticed(place):
        say(f"  {line}")


# ------------------------------------------------------------------------------------- the twin


def fails_as_named(scenario: Scenario, result: Result) -> bool:
    """Return whether a run of the twin failed with every anomaly that the scenario names."""
    assert scenario.twin is not None, scenario.name
    return result.verdict == "fail" and all(n in result.anomalies for n in scenario.twin.fails)


def _run_twin(
    asked: RunRequest, first: int, runs: int | None, out: Path | None, json: bool, explain: bool
) -> int:
    """Run the twin, by default seed after seed until one fails as the scenario says."""
    twin = asked.scenario.twin
    assert twin is not None, asked.name
    tried: list[dict[str, Any]] = []
    shown = False
    seeds = range(first, first + (runs or twin.seeds))
    for seed in seeds:
        place = out if runs in (None, 1) or out is None else out / f"seed-{seed}"
        result, kept = _run_kept(asked, seed, place)
        failed = fails_as_named(asked.scenario, result)
        shown = shown or failed
        tried.append({**result.summary(), "twin": {"fails": twin.fails, "failed_as_named": failed}})
        if not json:
            _head(result)
        if not json and failed:
            say(_screen(asked, result, [] if explain else _told(kept, SHORT_STORY)))
        if explain and not json:
            _story(kept)
        if failed and runs is None:
            break
    if json:
        say_json(tried[-1] if runs in (None, 1) else tried)
    else:
        wanted = ", ".join(twin.fails)
        if shown:
            say(f"twin: failed as it must ({wanted}): {twin.claim}")
        else:
            say(
                f"twin: did NOT fail with {wanted} in {len(tried)} seeds: nothing shows that the"
                " check works"
            )
    return OK if shown else SAFETY


# ------------------------------------------------------------------------------------- replay


def replay(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="The directory of a run (run --out) or a fleet, or a journal (serve --record).",
        ),
    ],
    run: RunName = "",
    out: Annotated[
        Path | None, typer.Option(help="Keep a journal's trace and manifest in this directory.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print only one JSON object.")] = False,
) -> int:
    """Run a stored run again and compare it row by row with its trace.

    A journal of kafkasim serve is run again in simulated time, and judged.
    """
    if place.is_file() and place.name not in (TRACE_FILE, MANIFEST_FILE):
        return _replay_journal(place, out, json)
    with run_directory(place, run) as directory, status(f"replaying {place} …"):
        again = _replayed(directory)
    manifest, result = again.manifest, again.result
    if json:
        difference = again.difference
        say_json({
            "scenario": result.scenario, "seed": result.seed, "identical": again.identical,
            "digest": manifest["digest"], "replayed_digest": result.digest,
            "code_version": manifest["code_version"], "replayed_code_version": result.code_version,
            "events": result.events,
            "first_difference": None if difference is None else
            {"stored": difference.stored, "replayed": difference.replayed},
        })  # fmt: skip
        return OK if again.identical else NONDETERMINISM
    if not again.same_code:
        say(f"note: the run was stored by code {manifest['code_version']}, this is code"
            f" {result.code_version}; a difference may come from that")  # fmt: skip
    if again.identical:
        say(f"identical: {result.scenario}  seed {result.seed}  {result.events} rows"
            f"  digest {result.digest[:16]}")  # fmt: skip
        return OK
    stored = f"stored {manifest['rows']} rows, digest {manifest['digest'][:16]}"
    replayed = f"replayed {result.events} rows, digest {result.digest[:16]}"
    say(f"different: {result.scenario}  seed {result.seed}  {stored}; {replayed}")
    if again.difference is None:
        say("all rows are equal: somebody changed the digest in the manifest")
    else:
        for line in again.difference.lines():
            say(line)
    return NONDETERMINISM


def _replayed(directory: Path) -> Replay:
    from kafkasim.scenarios.running.replay import replay as repeat  # reads Parquet, with Arrow

    return repeat(directory)


def _replay_journal(path: Path, out: Path | None, json: bool) -> int:
    """Replay a live session: is the trace the same, and what was lost of what clients were told?"""
    from kafkasim.scenarios.wire.journal import replay_journal

    if out is not None:
        make_directory(out)
        (out / MANIFEST_FILE).unlink(missing_ok=True)
    with status(f"replaying {path} …"):
        again = replay_journal(path, out)
    result = again.result
    if json:
        told = {"same_digest": again.same_digest, "same_code": again.same_code}
        say_json({**result.summary(), **told})
    else:
        if not again.same_code:
            say("note: the session was served by other code; its replay may be another run")
        if again.same_digest is None:
            say(
                "note: the journal has no end, as of a server that was killed; replayed up to there"
            )
        elif not again.same_digest and again.same_code:
            say("different: the replay's digest is not that of the session")
        _head(result)
        if result.verdict == "fail":
            told_by = [] if out is None else _told(out, SHORT_STORY)
            say(report.screen(result, f"kafkasim replay {path} --out DIR", told_by))
    if again.same_digest is False and again.same_code:
        return NONDETERMINISM
    return exit_code([result])
