"""The console script ``kafkasim``: its commands, its exit codes, and errors on one line of stderr.

This module and ``scenarios/commands`` are the only ones of scenarios that import analysis. The
commands and exit codes are described in ``scenarios/commands/README.md``.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from kafkasim.scenarios.commands import catalogue, prepare, runs, searching, shrinking, views
from kafkasim.scenarios.commands.common import (
    CRASH,
    INPUT_ERRORS,
    OK,
    STOPPED,
    USAGE,
    Crashed,
    one_line,
    say,
)
from kafkasim.scenarios.commands.spark import demo, fleets, reports, sweeps
from kafkasim.scenarios.language.vocabulary import VERSIONS
from kafkasim.sim.trace.store import TRACE_FILE, code_version

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


app = typer.Typer(
    name="kafkasim", help=_flowing(HELP), add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
COMMANDS: dict[str, Callable[..., int | None]] = {
    "list": catalogue.listing,
    "run": runs.run,
    "replay": runs.replay,
    "search": searching.search,
    "shrink": shrinking.shrink,
    "explain": views.explain,
    "describe": views.describe,
    "metrics": fleets.metrics,
    "fleet": fleets.fleet,
    "sweep": sweeps.sweep,
    "compare": sweeps.compare,
    "check": fleets.check,
    "plot": fleets.plot,
    "report": reports.report,
    "demo": demo.demo,
    "prepare": prepare.prepare,
}

for _name, _function in COMMANDS.items():
    app.command(_name, help=_flowing(_function.__doc__ or ""))(_function)

_CLICK_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
"""Newer versions of typer bring their own click; the exception is the same in all."""


def _tell_version(wanted: bool) -> None:
    if wanted:
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
    except INPUT_ERRORS as error:
        return _complain(one_line(error))
    except (KeyboardInterrupt, typer.Abort):
        return STOPPED
    except BrokenPipeError:
        raise
    except Crashed as crash:
        traceback.print_exception(crash.__cause__)
        sys.stderr.write(f"crash: {crash.told}\n  replay: {crash.replay}\n")
        if crash.directory is not None:
            sys.stderr.write(f"  trace:  until the crash, {crash.directory / TRACE_FILE}\n")
        return CRASH
    except Exception:
        traceback.print_exc()
        sys.stderr.write("crash: kafkasim itself failed\n")
        return CRASH


def _usage(error: Any) -> str:
    """Return what is wrong with a command line, and whose help says what is right."""
    context = getattr(error, "ctx", None)
    command = "kafkasim" if context is None else context.command_path
    told = one_line(error.format_message()).replace("Value error, ", "")
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
