"""Where the suites come from: package indexes and repositories, at pinned versions, once.

Everything lies below ``$KAFKASIM_CACHE/clients``; nothing of a suite is committed. Who has no
network may put a copy of a suite there by hand, under the name that the message says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CACHE = Path(os.environ.get("KAFKASIM_CACHE", Path.home() / ".cache" / "kafkasim")) / "clients"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
GET_WITHIN_S = 600

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kafkasim</groupId><artifactId>clients</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
<version>{version}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
<version>{version}</version></dependency></dependencies></project>
"""


class Missing(Exception):
    """A suite cannot be run here; the message is one line that says what is missing."""


def needed(*programs: str) -> None:
    """Check that programs are on PATH.

    Raises:
        Missing: one is not.
    """
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"{program} is not on PATH")


def python() -> Path:
    """Return the Python of a virtual environment that has the clients and their test tools."""
    place = CACHE / "venv"
    stamp = place / "requirements.txt"
    wanted = REQUIREMENTS.read_text()
    if not stamp.exists() or stamp.read_text() != wanted:
        _done([sys.executable, "-m", "venv", "--clear", str(place)])
        _done([str(place / "bin" / "pip"), "install", "-q", "-r", str(REQUIREMENTS)])
        stamp.write_text(wanted)
    return place / "bin" / "python"


def checkout(name: str, tag: str, repository: str, without: str = "") -> Path:
    """Return a repository at a tag, without one of its directories."""
    place = CACHE / f"{name}-{tag.removeprefix('v')}"
    if not place.exists():
        needed("git")
        with tempfile.TemporaryDirectory(dir=_cache()) as scratch:
            found = Path(scratch) / "repository"
            options = ["-q", "--depth", "1", "--branch", tag]
            _done(
                [
                    "git",
                    "-c",
                    "advice.detachedHead=false",
                    "clone",
                    *options,
                    repository,
                    str(found),
                ],
                f"or put it at {place} yourself",
            )
            if without:
                shutil.rmtree(found / without)
            found.rename(place)
    return place


def go_test(module: str, version: str, package: str) -> tuple[Path, Path]:
    """Return the compiled tests of a package of a Go module, and the package's directory."""
    place = CACHE / f"{module.rpartition('/')[2]}-{version}"
    binary = place / "tests"
    if not binary.exists():
        needed("go")
        place.mkdir(parents=True, exist_ok=True)
        (place / "go.mod").write_text(f"module clients\n\ngo 1.21\n\nrequire {module} v{version}\n")
        _done(["go", "get", "-C", str(place), "-t", f"{module}/{package}@v{version}"])
        _done(["go", "test", "-C", str(place), "-c", "-o", str(binary), f"{module}/{package}"])
    found = _done(["go", "list", "-C", str(place), "-f", "{{.Dir}}", f"{module}/{package}"])
    return binary, Path(found.strip())


def kafka_jars(version: str) -> Path:
    """Return the directory with the jars of Kafka and its command-line tools."""
    needed("java")
    place = CACHE / f"kafka-tools-{version}"
    if not (place / "complete").exists():
        needed("mvn")
        place.mkdir(parents=True, exist_ok=True)
        (place / "pom.xml").write_text(POM.format(version=version))
        copy = ["mvn", "-q", "-B", "-f", str(place / "pom.xml"), "dependency:copy-dependencies"]
        _done([*copy, "-DincludeScope=runtime", f"-DoutputDirectory={place / 'libs'}"])
        (place / "complete").touch()
    return place / "libs"


def _cache() -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE


def _done(command: Sequence[str], hint: str = "") -> str:
    """Run a command that fetches or builds something; return what it prints.

    Raises:
        Missing: it fails, or takes longer than GET_WITHIN_S.
    """
    shown = " ".join(command[:4])
    _cache()
    try:
        environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=GET_WITHIN_S, env=environment
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"{shown} … takes longer than {GET_WITHIN_S} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise Missing("; ".join([f"{shown} … failed: {said[-1]}", *([hint] if hint else [])]))
    return done.stdout
