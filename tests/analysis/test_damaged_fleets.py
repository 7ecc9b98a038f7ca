"""A fleet with a damaged place gives one line that names it, whatever command reads it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.analysis.analysis_rows import (
    Case,
    acked,
    add_runs,
    appended,
    end,
    topic,
    write_fleet,
    write_run,
)
from tests.fuzz.harness import answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.fuzz.fleets import DamagedFleet

READ = 10
"""Mutants that are opened and read; ``tests/soak/test_mutants.py`` tries more."""

CASE: Case = [topic(), appended(0, 2), acked(0, 1, 2), end()]
COMMANDS = {
    "check": ("cut", "directory", "gone", "file"),
    "metrics": ("cut", "directory"),
    "plot fleet": ("cut", "directory"),
}
"""Commands, and the damages with which each is run."""


def fleet_of_three(folder: Path) -> Path:
    """Write a fleet of two batches, with two runs and one."""
    whole = folder / "whole"
    write_fleet(whole, {"by-hand/seed-000000": CASE, "by-hand/seed-000001": CASE})
    add_runs(whole, {"by-hand/seed-000002": write_run(folder / "run", CASE)})
    return whole


@pytest.fixture
def fleet(spark: SparkSession, tmp_path: Path) -> DamagedFleet:
    from tests.fuzz.fleets import DamagedFleet

    return DamagedFleet(spark, fleet_of_three(tmp_path), tmp_path / "mutant")


@pytest.mark.slow
@pytest.mark.spark
def test_a_mutated_fleet_is_read_or_refused(fleet: DamagedFleet) -> None:
    fleet.copy()
    assert fleet.refusal() == ("", "")
    tried = {number: fleet.try_mutant(number) for number in range(READ)}
    assert {number: wrong for number, wrong in tried.items() if wrong} == {}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("run", ["by-hand/seed-000002", None], ids=["another batch's", "none"])
def test_facts_of_a_run_that_the_batch_has_not_are_refused(
    fleet: DamagedFleet, run: str | None
) -> None:
    """Their number is right, and the run whose facts they are would be judged without them."""
    (file,) = (fleet.copy() / "facts" / "batch=000001" / "kind=Acked").iterdir()
    table = pq.read_table(file, partitioning=None)
    at = table.column_names.index("run")
    names = pa.array([run] * table.num_rows, pa.string())
    pq.write_table(table.set_column(at, "run", names), file)
    assert fleet.refusal() == (f"{file}: has facts of a run that is not in the table runs", "")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("command", COMMANDS)
def test_a_damage_in_a_fleet_is_one_line_and_exit_code_2(
    fleet: DamagedFleet, tmp_path: Path, command: str
) -> None:
    place = fleet.copy()
    options = ["--out", str(tmp_path / "picture.png")] if command == "plot fleet" else []
    wrong = {}
    for kind in COMMANDS[command]:
        what = fleet.damage(random.Random(3), kind)
        wrong[what] = answer([*command.split(), str(place), *options], place, (2,))
    assert {what: told for what, told in wrong.items() if told} == {}
