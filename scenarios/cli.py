"""The console script ``kafkasim``: its commands, its exit codes, and errors on one line of stderr.

This module and ``scenarios/commands`` are the only ones of scenarios that import analysis. The
commands and exit codes are described in ``scenarios/commands/README.md``.
"""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from kafkasim.scenarios.commands.exits import CRASH, OK, STOPPED, USAGE

HELP = """Simulate an Apache Kafka cluster, inject faults, and see which guarantees hold.

The same seed always gives the same run. Start with:

  kafkasim list                                     the built-in scenarios

  kafkasim run gc-pause-isr-flapping --explain      one run and its events

  kafkasim demo                                     two questions, answered by runs on Spark

Exit codes: 0 as expected, 1 a crash of the simulator, 2 bad usage or input, 10 a safety failure
(records were lost, duplicated or contradictory), 11 a liveness failure (no progress after the
faults ended), 12 nondeterminism (a replay differs).
"""


def _flowing(text: str) -> str:
    """Return a text of paragraphs, each on one line, so that a terminal breaks them by its width.

    Indented lines, as the examples of :data:`HELP`, stay as they are.
    """
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(one if one[0] == " " else " ".join(one.split()) for one in paragraphs)


COMMANDS = {
    "list": "catalogue.listing",
    "init": "starting.init",
    "run": "runs.run",
    "replay": "runs.replay",
    "serve": "serving.serve",
    "inject": "serving.inject",
    "answer": "serving.answer",
    "heal": "serving.heal",
    "status": "serving.status",
    "search": "searching.search",
    "shrink": "shrinking.shrink",
    "explain": "views.explain",
    "describe": "views.describe",
    "metrics": "spark.fleets.metrics",
    "fleet": "spark.fleets.fleet",
    "sweep": "spark.sweeps.sweep",
    "compare": "spark.sweeps.compare",
    "ask": "spark.asking.ask",
    "check": "spark.fleets.check",
    "audit": "spark.auditing.audit",
    "plot": "spark.fleets.plot",
    "report": "spark.reports.report",
    "demo": "spark.demo.demo",
    "prepare": "prepare.prepare",
}
"""Each command's function, below ``scenarios/commands``. Only the one that is asked is imported:
all of them take a second of CPU."""


class _Commands(TyperGroup):
    """The commands; in the list that ``--help`` prints they have a name and a summary only."""

    _listing = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # A misspelt name is compared with these.
        self.commands = dict.fromkeys(COMMANDS, cast(Any, None))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return _listed(cmd_name) if self._listing else _loaded(cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._listing = True
        super().format_help(ctx, formatter)
        self._listing = False


def _listed(name: str) -> Any:
    """Return a command as the list of commands shows it, by the text of its module."""
    module, _, function = COMMANDS[name].rpartition(".")
    path = Path(__file__).parent / "commands" / f"{module.replace('.', '/')}.py"
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return _single(name, lambda: None, ast.get_docstring(node) or "")
    raise KeyError(f"{path} has no function {function}")


@functools.cache
def _loaded(name: str) -> Any:
    module, _, function = COMMANDS[name].rpartition(".")
    found = getattr(importlib.import_module(f"kafkasim.scenarios.commands.{module}"), function)
    return _single(name, found, found.__doc__ or "")


def _single(name: str, function: Any, text: str) -> Any:
    one = typer.Typer(add_completion=False, context_settings=CONTEXT)
    one.command(name, help=_flowing(text))(function)
    return typer.main.get_command(one)


OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""Imports leave no garbage worth looking for: with Python's 700 this takes 70 ms of each start."""

CONTEXT = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="kafkasim", help=_flowing(HELP), add_completion=False, pretty_exceptions_enable=False,
    context_settings=CONTEXT, cls=_Commands,
)  # fmt: skip

_CLICK_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
"""Newer versions of typer bring their own click; the exception is the same in all."""


def _tell_version(wanted: bool) -> None:
    if wanted:
        from kafkasim.scenarios.commands.common import say
        from kafkasim.scenarios.language.vocabulary import VERSIONS
        from kafkasim.sim.trace.store import code_version

        say(f"kafkasim, code {code_version()[:12]}, models Kafka {', '.join(VERSIONS)}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True,
            help="Print the code's version, and the releases of Kafka that it models.",
        ),
    ] = False,
) -> None:  # fmt: skip
    pass


def main() -> None:
    """Run the command line and exit."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        code = invoke(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output went away, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    sys.exit(code)


def invoke(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; error messages go to stderr."""
    command = _command()
    try:
        code = command.main(
            args=list(arguments) or ["--help"], prog_name="kafkasim", standalone_mode=False
        )
        return code if isinstance(code, int) else OK
    except _CLICK_ERROR as error:
        return _complain(_usage(error))
    except (KeyboardInterrupt, typer.Abort):
        return STOPPED
    except BrokenPipeError:
        raise
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> int:
    """Tell of bad input in one line, or of a crash with its traceback; return the exit code."""
    from kafkasim.scenarios.commands.common import one_line
    from kafkasim.scenarios.commands.errors import INPUT_ERRORS, Crashed
    from kafkasim.sim.trace.store import TRACE_FILE

    if isinstance(error, INPUT_ERRORS):
        return _complain(one_line(error))
    if not isinstance(error, Crashed):
        traceback.print_exception(error)
        sys.stderr.write("crash: kafkasim itself failed\n")
        return CRASH
    traceback.print_exception(error.__cause__)
    sys.stderr.write(f"crash: {error.told}\n  replay: {error.replay}\n")
    if error.directory is not None:
        sys.stderr.write(f"  trace:  until the crash, {error.directory / TRACE_FILE}\n")
    return CRASH


def _usage(error: Any) -> str:
    """Return what is wrong with a command line, and whose help says what is right."""
    context = getattr(error, "ctx", None)
    command = "kafkasim" if context is None else context.command_path
    told = " ".join(error.format_message().split()).replace("Value error, ", "")
    return f"{told} (see {command} --help)"


@functools.cache
def _command() -> Any:
    """Return the commands as click has them; typer needs 70 ms to work them out."""
    return typer.main.get_command(app)


def _complain(message: str) -> int:
    sys.stderr.write(f"kafkasim: error: {message}\n")
    return USAGE


if __name__ == "__main__":
    main()
