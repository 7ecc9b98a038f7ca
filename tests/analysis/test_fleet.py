"""A fleet: two tables, batch by batch, resumed where it stopped; crashes are rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkasim.analysis.runs import BadInput
from kafkasim.analysis.source.jobs import Configuration
from tests.analysis.test_source import TINY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def tiny(tmp_path: Path) -> Configuration:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return Configuration(str(path))


def tables(spark: SparkSession, place: Path) -> tuple[list[Any], list[Any]]:
    """Return the rows of both tables, without their batches."""
    from kafkasim.analysis.stored import open_stored

    stored = open_stored(spark, str(place))
    runs = stored.runs_table().drop("batch").orderBy("run").collect()
    acked = stored.facts("Acked").orderBy("run", "seq").collect()
    return runs, acked


def test_a_killed_fleet_continues_to_the_same_rows(
    spark: SparkSession, tiny: Configuration, tmp_path: Path
) -> None:
    from kafkasim.analysis.fleet import run_fleet

    told: list[tuple[int, int]] = []
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    first = run_fleet(
        spark, [tiny], [1, 2, 3], str(whole), lambda done, total, _: told.append((done, total))
    )
    assert (first.ran, first.skipped, first.replayed, first.mismatches) == (3, 0, 1, [])
    assert (first.exit_code, first.verdicts, told[-1]) == (0, {"pass": 3}, (3, 3))
    # As if killed after one batch: the facts of another one are there, not its runs.
    run_fleet(spark, [tiny], [1], str(killed))
    orphan = killed / "facts" / "batch=000002"
    shutil.copytree(whole / "facts" / "batch=000001", orphan)
    assert [row.seed for row in tables(spark, killed)[0]] == [1]
    assert {row.run for row in tables(spark, killed)[1]} == {"tiny/seed-000001"}
    second = run_fleet(spark, [tiny], [1, 2, 3], str(killed), batch_runs=1)
    assert (second.ran, second.skipped) == (2, 1)
    assert tables(spark, killed) == tables(spark, whole)
    assert run_fleet(spark, [tiny], [1, 2, 3], str(killed)).ran == 0


def test_of_two_rows_of_a_run_the_later_counts(
    spark: SparkSession, tiny: Configuration, tmp_path: Path
) -> None:
    from kafkasim.analysis.fleet import run_fleet

    faster = Configuration(tiny.name, ("workload.0.rate=9/s",))
    run_fleet(spark, [tiny], [1, 2], str(tmp_path / "both"))
    run_fleet(spark, [faster], [2], str(tmp_path / "both"))
    run_fleet(spark, [faster], [2], str(tmp_path / "alone"))
    runs, acked = tables(spark, tmp_path / "both")
    assert [run.settings for run in runs] == [[], ["workload.0.rate=9/s"]]
    mine = [row for row in acked if row.run == "tiny/seed-000002"]
    assert mine == tables(spark, tmp_path / "alone")[1]


def test_a_crash_is_a_row(spark: SparkSession, tiny: Configuration, tmp_path: Path) -> None:
    from kafkasim.analysis.fleet import run_fleet
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge

    broken = Configuration(tiny.name, variants=("no-such-variant",))
    summary = run_fleet(spark, [broken], [3], str(tmp_path / "out"))
    assert (summary.exit_code, summary.crashes) == (1, ["tiny/seed-000003"])
    verdicts = judge(open_stored(spark, str(tmp_path / "out")))
    assert [run.verdict for run in verdicts.runs] == ["crash"]


def test_runs_of_another_version_are_refused(
    spark: SparkSession, tiny: Configuration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkasim.analysis import stored
    from kafkasim.analysis.fleet import run_fleet

    run_fleet(spark, [tiny], [1], str(tmp_path / "out"))
    monkeypatch.setattr(stored, "SCHEMA_VERSION", "newer")
    with pytest.raises(BadInput, match=r"out: tiny/seed-000001 was written with trace schema"):
        stored.open_stored(spark, str(tmp_path / "out"))
