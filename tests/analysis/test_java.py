"""Java for Spark: it starts without the options that it would warn of or die at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafkasim.analysis.spark.java import java_home

VECTOR = "--add-modules=jdk.incubator.vector"
SECURITY = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"

JAVA = """#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; else printf '%s\\n' "$@"; fi
"""


@pytest.mark.parametrize(("version", "kept"), [("17.0.15", [SECURITY]), ("25.0.2", [])])
def test_options_that_a_java_does_not_know_are_dropped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, kept: list[str]
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA.format(version=version))
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    command = [java_home() / "bin" / "java", VECTOR, "-cp", "a b", SECURITY, "Main"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["-cp", "a b", *kept, "Main"]


@pytest.mark.slow
def test_a_master_that_spark_does_not_know_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkasim.scenarios.cli", "check", str(tmp_path)]
    done = subprocess.run([*command, "--master", "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2, done
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("kafkasim: error: Spark did not start with master 'nonsense': ")
