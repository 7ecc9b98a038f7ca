"""``kafkasim prepare``: once after an installation, so that Spark starts faster from then on."""

from __future__ import annotations

import sys
import tempfile

from kafkasim.scenarios.commands.common import OK, InputError, one_line, say, status
from kafkasim.scenarios.commands.spark.fleets import input_errors


def prepare() -> int:
    """Let Spark start faster: write down, once, the classes that its JVM loads for a small demo.

    `make` does this after it has installed. Nothing but time is lost without it.
    """
    with input_errors():
        from kafkasim.analysis.spark import archive
        from kafkasim.analysis.spark.java import java_home

        home = java_home()
    with tempfile.TemporaryDirectory(prefix="kafkasim-") as out, status("preparing Spark …"):
        demo = [sys.executable, "-m", "kafkasim.scenarios.cli", "demo", "--runs", "2", "--out", out]
        try:
            say(f"class archive for Spark: {archive.make(home, demo)}")
        except (archive.NotArchived, OSError) as error:
            raise InputError(f"no class archive was written: {one_line(error)}") from None
    return OK
