"""What all commands share: exit codes, consoles, errors of the user, output directories."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from kafkasim.analysis.judging.verdict import Result
from kafkasim.model.config import ConfigError
from kafkasim.scenarios.language.files.rules import shown, with_digests
from kafkasim.scenarios.language.spec import ScenarioError
from kafkasim.scenarios.showing.state import MomentError
from kafkasim.scenarios.variants.variant import VariantError
from kafkasim.sim.trace.store import MANIFEST_FILE, TRACE_FILE, ManifestError

OK = 0
CRASH = 1
USAGE = 2
SAFETY = 10
LIVENESS = 11
NONDETERMINISM = 12
STOPPED = 130
"""The exit code after Ctrl-C, as a shell has it."""


class InputError(Exception):
    """Something the user gave cannot be used; the message is one line that names it."""


class Crashed(Exception):
    """The simulator itself failed in a run: how to replay it, and the directory of its trace.

    ``variants`` were in force: a rule may have given what the rest of the model does not expect.
    """

    def __init__(self, replay: str, directory: Path | None, variants: Sequence[str] = ()) -> None:
        super().__init__(replay)
        self.replay = replay
        self.told = "the simulator itself failed"
        if variants:
            names = ", ".join(map(shown, variants))
            self.told = f"the model failed with {names} in force; run the seed without, too"
        self.directory = directory


INPUT_ERRORS = (
    InputError, ScenarioError, VariantError, ManifestError, ConfigError, MomentError,
)  # fmt: skip
"""Errors that mean bad input: one line on stderr and exit code 2."""


def named_variants(given: list[str] | None) -> list[str] | None:
    """Return the ids of variants from the command line, files of rules with their digests.

    Raises:
        ScenarioError: a file cannot be read.
    """
    return None if given is None else with_digests(given, Path(), "--variant")


def one_line(error: BaseException) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split())


def say(text: str = "") -> None:
    """Print plain text to stdout, never wrapped, never coloured."""
    sys.stdout.write(text + "\n")


def say_json(thing: Any) -> None:
    """Print one JSON document to stdout."""
    say(json.dumps(thing, ensure_ascii=False, sort_keys=False))


def console() -> Console:
    """Return a console for tables on stdout; what is not a terminal is as wide as it needs."""
    return Console() if sys.stdout.isatty() else Console(width=160)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Any]:
    """Show a progress bar on stderr if that is a terminal.

    Yields ``advance(text)``; ``text`` replaces ``what``.
    """
    quiet = Console(stderr=True)
    said = TextColumn("{task.description}")
    columns = (said, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=quiet, disable=not quiet.is_terminal) as progress:
        task = progress.add_task(what, total=total)
        yield lambda text=what: progress.update(task, advance=1, description=text)


@contextmanager
def status(what: str) -> Iterator[None]:
    """Show a spinner on stderr if that is a terminal."""
    quiet = Console(stderr=True)
    if not quiet.is_terminal:
        yield
        return
    with quiet.status(what):
        yield


def exit_code(results: Sequence[Result]) -> int:
    """Return what the verdicts of several runs amount to: safety before liveness."""
    failures = [result.failure for result in results if result.verdict == "fail"]
    if not failures:
        return OK
    return LIVENESS if all(failure == "liveness" for failure in failures) else SAFETY


class Shown(Protocol):
    """What a table of verdicts needs of a run."""

    @property
    def seed(self) -> int: ...

    @property
    def verdict(self) -> str: ...

    @property
    def anomalies(self) -> Sequence[str]: ...


def verdict_table(name: str, results: Sequence[Shown]) -> Table:
    """Return a table of what several runs of one scenario showed, with rates."""
    from kafkasim.analysis.interval import wilson
    from kafkasim.analysis.words import counted

    table = Table("verdict", "anomalies", "runs", "rate (95 % interval)", "first seed",
                  title=f"{name}: {counted(len(results), 'run')}")  # fmt: skip
    counts: dict[tuple[str, str], list[int]] = {}
    for result in results:
        counts.setdefault((result.verdict, ", ".join(result.anomalies)), []).append(result.seed)
    for (verdict, anomalies), seeds in sorted(counts.items(), key=lambda item: -len(item[1])):
        low, high = wilson(len(seeds), len(results))
        rate = f"{len(seeds) / len(results):.1%} ({low:.1%} to {high:.1%})"
        style = {"fail": "red", "expected": "yellow"}.get(verdict, "green")
        table.add_row(verdict, anomalies or "—", str(len(seeds)), rate, str(seeds[0]), style=style)
    return table


def make_directory(path: Path) -> Path:
    """Create a directory for output.

    Raises:
        InputError: it cannot be created or written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".kafkasim-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"--out {path}: cannot be written: {error.strerror}") from None
    return path


RunName = Annotated[
    str,
    typer.Option(
        "--run", metavar="NAME", show_default="the first",
        help="The run of a fleet, e.g. split-brain/seed-000007, or its seed.",
    ),
]  # fmt: skip


@contextmanager
def run_directory(place: Path, run: str = "") -> Iterator[Path]:
    """Yield the directory of one stored run.

    ``place`` is such a directory, the trace in it, a tree of them, or the place of a fleet on this
    machine; ``run`` chooses from the last two.

    Raises:
        InputError: there is no such directory, no finished run in it, or none of that name.
    """
    path = place.parent if place.is_file() and place.name in (TRACE_FILE, MANIFEST_FILE) else place
    if not path.is_dir():
        raise InputError(f"{path}: no such directory; give the directory of a run (run --out DIR)")
    if (path / MANIFEST_FILE).is_file():
        if run:
            raise InputError(f"--run: {path} holds one run only")
        yield path
    elif run and (path / run / MANIFEST_FILE).is_file():
        yield path / run
    elif any((path / "runs").glob("*.parquet")):
        with _of_fleet(path, run) as directory:
            yield directory
    else:
        raise InputError(
            f"{path}: no finished run in this directory (no {MANIFEST_FILE}); give the directory of"
            " a run (run --out DIR), or of a fleet"
        )


@contextmanager
def _of_fleet(place: Path, run: str) -> Iterator[Path]:
    from kafkasim.analysis.extract import extracted
    from kafkasim.analysis.runs import BadInput

    try:
        with extracted(place, run) as (name, directory):
            typer.echo(f"{name} of {place}", err=True)
            try:
                yield directory
            except INPUT_ERRORS as error:  # the directory is gone when the user reads of it
                told = one_line(error)
                if str(directory) not in told:
                    raise
                raise InputError(told.replace(str(directory), f"{place}: {name}")) from None
    except BadInput as error:
        raise InputError(one_line(error)) from None
