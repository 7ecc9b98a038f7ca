"""What all commands share: consoles, tables of verdicts, output directories."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.scenarios.commands.exits import LIVENESS, OK, SAFETY

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from kafkasim.analysis.judging.verdict import Result
    from kafkasim.scenarios.language.tables import Scenario


class InputError(Exception):
    """Something the user gave cannot be used; the message is one line that names it."""


def of_one_cluster(scenario: Scenario, command: str) -> Scenario:
    """Return a scenario that a command takes.

    Raises:
        InputError: it has several clusters, and the command takes one.
    """
    if scenario.clusters:
        names = ", ".join([each.name for each in scenario.clusters])
        raise InputError(f"{scenario.name} has the clusters {names}; {command} takes one cluster")
    return scenario


def one_line(error: BaseException) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split())


def say(text: str = "") -> None:
    """Print plain text to stdout, never wrapped, never coloured."""
    sys.stdout.write(text + "\n")


def heading(cluster: str, shown: Sized) -> None:
    """Print the name of a cluster above what is said of it, if several are shown."""
    if len(shown) > 1:
        say(f"cluster {cluster}:")


def say_json(thing: Any) -> None:
    """Print one JSON document to stdout."""
    say(json.dumps(thing, ensure_ascii=False, sort_keys=False))


def console() -> Console:
    """Return a console for tables on stdout; what is not a terminal is as wide as it needs."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=160)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Any]:
    """Show a progress bar on stderr if that is a terminal.

    Yields ``advance(text)``; ``text`` replaces ``what``.
    """
    if not sys.stderr.isatty():
        yield lambda _text=what: None
        return
    from rich import progress as bars
    from rich.console import Console

    said = bars.TextColumn("{task.description}")
    columns = (said, bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeRemainingColumn())
    with bars.Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total)
        yield lambda text=what: progress.update(task, advance=1, description=text)


@contextmanager
def status(what: str) -> Iterator[None]:
    """Show a spinner on stderr if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
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
    from rich.table import Table

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
