"""The class archive: mapped where it is, written whole or not at all."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kafkasim.analysis.spark import archive
from kafkasim.analysis.spark.java import java_home

WRITES = """
import os, re
new = re.search(r'-XX:ArchiveClassesAtExit="(.+?)"', os.environ["SPARK_SUBMIT_OPTS"])[1]
open(new, "w").write("classes")
"""
FAILS = WRITES + "raise SystemExit('no room on the disk')"


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A Java, and an environment without an archive for it."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return java_home()


def test_without_an_archive_the_jvm_has_no_option_for_one(home: Path) -> None:
    assert archive.options(home) == ""


def test_what_the_jvm_wrote_as_it_ended_is_what_the_next_one_maps(home: Path) -> None:
    path = archive.make(home, [sys.executable, "-c", WRITES])
    assert path.read_text() == "classes"
    assert archive.options(home).startswith(f'-XX:SharedArchiveFile="{path}" ')


@pytest.mark.parametrize(
    ("command", "said"), [(FAILS, "exit code 1: no room on the disk"), ("pass", "nothing said")]
)
def test_a_command_that_fails_or_starts_no_jvm_leaves_no_archive(
    home: Path, command: str, said: str
) -> None:
    with pytest.raises(archive.NotArchived, match=said):
        archive.make(home, [sys.executable, "-c", command])
    assert archive.options(home) == ""
