"""``kafkasim prepare``: once after an installation, so that Spark starts faster from then on."""

from __future__ import annotations

import sys
import tempfile

from kafkasim.scenarios.commands.common import InputError, one_line, say, status
from kafkasim.scenarios.commands.exits import OK
from kafkasim.scenarios.commands.spark.fleets import input_errors

FLEET = ("fleet", "acks-one-loses", "--runs", "1")
"""A command for which Spark's JVM loads what a fleet needs: to simulate, write, read and judge."""


def prepare() -> int:
    """Make Spark start faster: store, once, the classes that its JVM loads for a small fleet.

    `make` does this after the installation. Without it Spark works, but starts more slowly.
    """
    with input_errors():
        from kafkasim.analysis.spark import archive
        from kafkasim.analysis.spark.java import java_home

        home = java_home()
    with tempfile.TemporaryDirectory(prefix="kafkasim-") as out, status("preparing Spark …"):
        fleet = [sys.executable, "-m", "kafkasim.scenarios.cli", *FLEET, "--out", out]
        try:
            say(f"class archive for Spark: {archive.make(home, fleet)}")
        except (archive.NotArchived, OSError) as error:
            raise InputError(f"no class archive was written: {one_line(error)}") from None
    return OK
