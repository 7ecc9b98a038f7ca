"""A stored run can be run again, and the first differing row is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkasim.model import facts
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language.library import scenario
from kafkasim.scenarios.running.replay import Difference, first_difference, replay
from kafkasim.scenarios.running.runner import run
from kafkasim.sim.trace.recording import Trace
from kafkasim.sim.trace.store import ManifestError, read_manifest


def _trace(directory: Path, *leaders: int) -> Any:
    directory.mkdir()
    with Trace(directory) as trace:
        for number, leader in enumerate(leaders):
            trace.record(number * 10, "controller-1", facts.RaftRole("follower", 1, leader))
    return pq.ParquetFile(directory / "trace.parquet")


def test_equal_traces_do_not_differ(tmp_path: Path) -> None:
    assert first_difference(_trace(tmp_path / "a", 1, 2), _trace(tmp_path / "b", 1, 2)) is None


def test_the_first_differing_row_shows_both_sides(tmp_path: Path) -> None:
    found = first_difference(_trace(tmp_path / "a", 1, 2, 3), _trace(tmp_path / "b", 1, 9, 8))
    assert found is not None
    assert found.lines() == [
        "first difference at row 1, t=10 µs: RaftRole of controller-1",
        "  leader: stored 2, replayed 9",
        "  stored:   RaftRole(role='follower', epoch=1, leader=2)",
        "  replayed: RaftRole(role='follower', epoch=1, leader=9)",
    ]


def test_a_trace_that_ends_early_differs(tmp_path: Path) -> None:
    found = first_difference(_trace(tmp_path / "a", 1), _trace(tmp_path / "b", 1, 2))
    assert isinstance(found, Difference)
    assert found.lines()[1].startswith("  the stored trace ended before this row: RaftRole(")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small stored run."""
    from tests.scenarios.test_cli import SMALL

    directory = tmp_path_factory.mktemp("stored")
    source = directory / "small.toml"
    source.write_text(SMALL)
    spec, _ = scenario(str(source))
    run(spec, 5, directory / "run", [])
    return directory / "run"


@pytest.mark.slow
def test_a_stored_run_repeats_itself(stored: Path) -> None:
    again = replay(stored)
    assert again.identical
    assert again.same_code
    assert again.result.digest == read_manifest(stored)["digest"]


@pytest.mark.slow
def test_a_changed_run_is_told_apart(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((stored / "manifest.json").read_text())
    manifest |= {"seed": 6, "code_version": "older"}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "trace.parquet").write_bytes((stored / "trace.parquet").read_bytes())
    code = invoke(["replay", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert code == 12
    assert lines[0].startswith("note: the run was stored by code older, this is code ")
    assert lines[1].startswith("different: small  seed 6")
    assert lines[2].startswith("first difference at row ")


def test_a_damaged_trace_is_named(stored: Path, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes((stored / "manifest.json").read_bytes())
    (tmp_path / "trace.parquet").write_bytes((stored / "trace.parquet").read_bytes()[:-100])
    with pytest.raises(ManifestError, match=r"trace\.parquet: is not a whole Parquet file"):
        replay(tmp_path)


def test_a_manifest_without_its_scenario_is_named(stored: Path, tmp_path: Path) -> None:
    manifest = json.loads((stored / "manifest.json").read_text())
    del manifest["spec"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ManifestError, match=r"manifest\.json: lacks spec"):
        replay(tmp_path)
