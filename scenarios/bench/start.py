"""What a command costs before it has done anything: CPU seconds of new processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

SCENARIO = "az-loss"

INVOKE = "from kafkasim.scenarios.cli import invoke; invoke({arguments})"
UNTIL_FIRST_EVENT = (
    "import os; from kafkasim.sim.kernel import Kernel; Kernel.run_until = lambda *_: os._exit(0); "
)
"""The kernel ends the process where it would handle the first event."""


def seconds(program: str) -> float:
    """Return the CPU seconds of a Python process that runs a program.

    Raises:
        CalledProcessError: the program failed.
    """
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, program)
    return used.ru_utime + used.ru_stime


def table(rounds: int = 3) -> Iterator[str]:
    """Yield a line a command, with the least of some rounds; other work only adds to it."""
    programs = {
        "kafkasim --help": INVOKE.format(arguments=["--help"]),
        "kafkasim list": INVOKE.format(arguments=["list"]),
        f"kafkasim run {SCENARIO}, to its first event": UNTIL_FIRST_EVENT
        + INVOKE.format(arguments=["run", SCENARIO]),
    }
    for title, program in programs.items():
        yield f"{title}: {min(seconds(program) for _ in range(rounds)):.2f} CPU s"
