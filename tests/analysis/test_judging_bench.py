"""The fleets that `make bench` judges: runs repeated under new names, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkasim.analysis import runs
from tests.analysis.analysis_rows import acked, write_fleet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES = {"one": [acked(0, 1), acked(1, 2)], "other": [acked(0, 1), acked(1, 2), acked(2, 3)]}


def test_a_repeated_fleet_has_each_run_once_in_each_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    from kafkasim.analysis.bench.made import repeated
    from kafkasim.analysis.stored import open_stored

    write_fleet(tmp_path / "base", CASES)
    repeated(spark, tmp_path / "base", tmp_path / "target", 11)
    stored = open_stored(spark, str(tmp_path / "target"))
    rows = stored.facts("Acked").groupBy("run").count().collect()
    assert sorted((row["run"], row["count"]) for row in rows) == [
        (f"{run}-copy-{copy:06d}", len(case)) for run, case in CASES.items() for copy in (1, 2, 3)
    ]
    assert sorted(run.name for run in stored.runs) == sorted(row["run"] for row in rows)


@pytest.mark.usefixtures("spark")
def test_a_fleet_of_another_version_is_refused_in_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from kafkasim.analysis.bench.__main__ import main

    write_fleet(tmp_path / "rows-1000000", CASES)
    monkeypatch.setattr(runs, "SCHEMA_VERSION", "newer")
    asked = ["bench", "--measure", "make", "--millions", "1", "--directory", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", asked)
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (2, 1)
    assert "rows-1000000: one was written with trace schema" in said
