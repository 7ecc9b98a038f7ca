"""A fleet: two tables, batch by batch, resumed where it stopped; crashes are rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkasim.analysis.runs import BadInput
from kafkasim.analysis.source.jobs import Configuration, prepare
from kafkasim.analysis.source.work import SeedRun
from kafkasim.scenarios.cli import invoke
from tests.analysis.test_source import TINY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkasim.analysis.fleet import Summary

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Configuration:
    path = tmp_path_factory.mktemp("scenario") / "tiny.toml"
    path.write_text(TINY)
    return Configuration(str(path))


Told = list[tuple[int, int]]


@pytest.fixture(scope="module")
def fleet(
    spark: SparkSession, tiny: Configuration, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Summary, Told]:
    """A fleet of the seeds 1 to 3, what it did, and the progress that it reported."""
    from kafkasim.analysis.fleet import run_fleet

    told: Told = []
    place = tmp_path_factory.mktemp("fleet")
    done = run_fleet(
        spark, [tiny], [1, 2, 3], str(place), lambda done, total, _: told.append((done, total))
    )
    return place, done, told


@pytest.fixture
def copied(fleet: tuple[Path, Summary, Told], tmp_path: Path) -> Path:
    """A copy of the fleet, to be damaged."""
    place = tmp_path / "copied"
    shutil.copytree(fleet[0], place, ignore=shutil.ignore_patterns("*.crc"))
    return place


def tables(spark: SparkSession, place: Path) -> tuple[list[Any], list[Any]]:
    """Return the rows of both tables, without their batches."""
    from kafkasim.analysis.stored import open_stored

    stored = open_stored(spark, str(place))
    runs = stored.runs_table().drop("batch").orderBy("run").collect()
    acked = stored.facts("Acked").orderBy("run", "seq").collect()
    return runs, acked


@pytest.mark.early
def test_a_killed_fleet_continues_to_the_same_rows(
    spark: SparkSession, tiny: Configuration, fleet: tuple[Path, Summary, Told], tmp_path: Path
) -> None:
    from kafkasim.analysis.fleet import run_fleet

    whole, first, told = fleet
    killed = tmp_path / "killed"
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
    spark: SparkSession, tiny: Configuration, copied: Path
) -> None:
    from kafkasim.analysis.fleet import run_fleet

    faster = Configuration(tiny.name, ("workload.0.rate=9/s",))
    first = [row for row in tables(spark, copied)[1] if row.run == "tiny/seed-000002"]
    run_fleet(spark, [faster], [2], str(copied))
    runs, acked = tables(spark, copied)
    assert [run.settings for run in runs] == [[], ["workload.0.rate=9/s"], []]
    with SeedRun(prepare([faster])[0], 2) as alone:
        rows = [row for batch in alone.facts() for row in batch.to_pylist()]
    mine = [row.seq for row in acked if row.run == "tiny/seed-000002"]
    assert mine == [row["seq"] for row in rows if row["kind"] == "Acked"]
    assert mine != [row.seq for row in first]


def test_a_crash_is_a_row(spark: SparkSession, tiny: Configuration, tmp_path: Path) -> None:
    from kafkasim.analysis.fleet import run_fleet
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge

    broken = Configuration(tiny.name, variants=("no-such-variant",))
    summary = run_fleet(spark, [broken], [3], str(tmp_path / "out"))
    assert (summary.exit_code, summary.crashes) == (1, ["tiny/seed-000003"])
    verdicts = judge(open_stored(spark, str(tmp_path / "out")), "")
    assert [run.verdict for run in verdicts.runs] == ["crash"]
    assert [(one.name, one.failed) for one in verdicts.found] == [("crash", True)]


def test_runs_of_another_version_are_refused(
    spark: SparkSession, fleet: tuple[Path, Summary, Told], monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkasim.analysis import extract, runs, stored

    monkeypatch.setattr(runs, "SCHEMA_VERSION", "newer")
    with pytest.raises(BadInput, match=r": tiny/seed-000001 was written with trace schema"):
        stored.open_stored(spark, str(fleet[0]))
    with (
        pytest.raises(BadInput, match=r"was written with trace schema"),
        extract.extracted(fleet[0]),
    ):
        pass


FACTS = "facts/batch=000001/kind=Acked"


def cut(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])


def foreign(path: Path) -> None:
    pq.write_table(pa.table({"run": ["tiny/seed-000001"], "seq": ["x"]}), path)


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        (FACTS, lambda path: cut(path, 0.7), "parquet: not a whole Parquet file"),
        (FACTS, lambda path: cut(path, 0), "parquet: not a whole Parquet file"),
        (FACTS, foreign, "parquet: no facts of kafkasim"),
        (FACTS, Path.unlink, "batch=000001: holds"),
        ("runs", lambda path: cut(path, 0.5), "parquet: not a whole Parquet file"),
        ("runs", lambda path: cut(path, 0), "parquet: not a whole Parquet file (it is empty)"),
        ("runs", foreign, "its table runs is not one of kafkasim"),
    ],
)
def test_one_line_names_a_damaged_file(
    name: str, damage: Any, said: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(next((copied / name).glob("*.parquet")))
    assert invoke(["check", str(copied)]) == 2
    errors = capsys.readouterr().err
    assert said in errors
    assert errors.count("\n") == 1


def test_a_fleet_with_an_empty_file_of_runs_keeps_its_facts(
    spark: SparkSession, tiny: Configuration, copied: Path
) -> None:
    from kafkasim.analysis.fleet import run_fleet

    cut(next((copied / "runs").glob("*.parquet")), 0)
    with pytest.raises(BadInput, match=r"not a whole Parquet file \(it is empty\)"):
        run_fleet(spark, [tiny], [1, 2, 3], str(copied))
    assert list((copied / FACTS).glob("*.parquet"))


def test_a_run_of_a_fleet_is_replayed_described_and_explained(
    fleet: tuple[Path, Summary, Told], capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(fleet[0])
    assert invoke(["replay", place, "--run", "tiny/seed-000002"]) == 0
    assert capsys.readouterr().out.startswith("identical: tiny  seed 2  ")
    assert invoke(["describe", place, "topics", "--run", "3"]) == 0
    assert "Topic: orders\tPartition: 0\tLeader: 1" in capsys.readouterr().out
    assert invoke(["explain", place]) == 0
    said = capsys.readouterr()
    assert said.out == "nothing to explain: the run shows no anomaly\n"
    assert said.err == f"tiny/seed-000001 of {place}\n"
    assert invoke(["explain", place, "--run", "4"]) == 2
    assert capsys.readouterr().err == f"kafkasim: error: {place}: holds no run 4 with facts\n"
