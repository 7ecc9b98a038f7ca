"""Java for Spark: its options, without those that it would warn of or die at."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kafkasim.analysis.spark import session
from kafkasim.analysis.spark.files import stored_bytes
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


def test_java_optimises_what_it_compiles_for_large_fleets_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = tmp_path / "facts" / "batch=000001" / "kind=Acked"
    facts.mkdir(parents=True)
    (facts / "part.parquet").write_bytes(bytes(1_000))
    (tmp_path / "sweep.csv").write_bytes(bytes(1_000))
    found = stored_bytes(tmp_path.as_uri()), stored_bytes(str(tmp_path)), stored_bytes("s3a://a/b")
    assert found == (1_000, 1_000, 0)
    for large, optimises in ((1_000, True), (1_001, False)):
        monkeypatch.setattr(session, "LARGE_BYTES", large)
        options = session.local_settings(tmp_path, "-Xshare:auto", stored_bytes(tmp_path))
        java = options["spark.driver.extraJavaOptions"].split()
        assert ("-XX:TieredStopAtLevel=1" not in java, "-Xshare:auto" in java) == (optimises, True)


@pytest.mark.slow
def test_a_master_that_spark_does_not_know_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkasim.scenarios.cli", "check", str(tmp_path)]
    done = subprocess.run([*command, "--master", "nonsense"], capture_output=True, text=True)
    assert done.returncode == 2, done
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("kafkasim: error: Spark did not start with master 'nonsense': ")
