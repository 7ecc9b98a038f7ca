"""The console script ``kafkasim``: its commands, its exit codes, and errors on one line of stderr.

This module and ``scenarios/commands`` are the only ones of scenarios that import analysis. The
commands and exit codes are described in ``scenarios/commands/README.md``.
"""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from kafkasim.scenarios.commands import catalogue, prepare, runs, searching, shrinking, views
from kafkasim.scenarios.commands.common import CRASH, INPUT_ERRORS, OK, USAGE, Crashed, one_line
from kafkasim.scenarios.commands.spark import demo, fleets, reports, sweeps
from kafkasim.sim.trace.store import TRACE_FILE

HELP = """Simulate a whole Apache Kafka cluster, break it on purpose, and see what survives.

One seed is one run, bit for bit. Start with:

  kafkasim list                                     what can be shown

  kafkasim run gc-pause-isr-flapping --explain      one run and its story

  kafkasim demo                                     two questions, answered by runs on Spark

Exit codes: 0 as expected, 1 crash of the simulator, 2 bad usage or input, 10 a safety failure
(something was lost, doubled or contradicted), 11 a liveness failure (no progress after the faults
healed), 12 nondeterminism (a replay differs).
"""

app = typer.Typer(
    name="kafkasim", help=HELP, add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip
app.command("list")(catalogue.listing)
app.command("run")(runs.run)
app.command("replay")(runs.replay)
app.command("search")(searching.search)
app.command("shrink")(shrinking.shrink)
app.command("explain")(views.explain)
app.command("describe")(views.describe)
app.command("metrics")(fleets.metrics)
app.command("fleet")(fleets.fleet)
app.command("sweep")(sweeps.sweep)
app.command("compare")(sweeps.compare)
app.command("check")(fleets.check)
app.command("plot")(fleets.plot)
app.command("report")(reports.report)
app.command("demo")(demo.demo)
app.command("prepare")(prepare.prepare)

_CLICK_ERROR: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
"""Newer versions of typer bring their own click; the exception is the same in all."""


@app.callback()
def _root() -> None:
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
        return _complain(f"{one_line(error.format_message())} (see kafkasim --help)")
    except INPUT_ERRORS as error:
        return _complain(one_line(error))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        raise
    except Crashed as crash:
        traceback.print_exception(crash.__cause__)
        sys.stderr.write(f"crash: the simulator itself failed\n  replay: {crash.replay}\n")
        if crash.directory is not None:
            sys.stderr.write(f"  trace:  until the crash, {crash.directory / TRACE_FILE}\n")
        return CRASH
    except Exception:
        traceback.print_exc()
        sys.stderr.write("crash: kafkasim itself failed\n")
        return CRASH


@functools.cache
def _command() -> Any:
    """Return the commands as click has them; typer needs 70 ms to work them out."""
    return typer.main.get_command(app)


def _complain(message: str) -> int:
    sys.stderr.write(f"kafkasim: error: {message}\n")
    return USAGE


if __name__ == "__main__":
    main()
