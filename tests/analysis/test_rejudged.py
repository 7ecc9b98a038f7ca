"""Runs that other judges judged are judged again from their facts, with equal findings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkasim.analysis.source.jobs import Configuration
from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

VARIANT = "M08-no-sequence-check"


@pytest.fixture(params=["fleet", "directory"])
def place(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Path:
    """A fleet of two batches, or a directory, with runs in which records are doubled."""
    from kafkasim.analysis.fleet import run_fleet

    if request.param == "fleet":
        wanted = Configuration("split-brain", variants=(VARIANT,))
        run_fleet(spark, [wanted], [1, 2], str(tmp_path), batch_runs=1)
    else:
        run(library.scenario("split-brain")[0], 1, tmp_path / "seed-1", [VARIANT])
    return tmp_path


def test_findings_of_other_judges_are_made_again(spark: SparkSession, place: Path) -> None:
    from kafkasim.analysis.rejudged import findings_of
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge
    from kafkasim.sim.trace.store import judges_version

    stored = open_stored(spark, str(place))
    known = judge(stored, judges_version())
    again = judge(stored, "judges of another version")
    assert known.notes == []
    [note] = again.notes
    assert note.endswith("judged by another version of the judges, and were judged again")
    assert (again.runs, again.found, again.rates) == (known.runs, known.found, known.rates)
    assert {one.run for one in again.found} == {one.name for one in stored.runs}
    rows = findings_of(stored, {one.name for one in stored.runs}).collect()
    assert sorted(map(repr, rows)) == sorted(map(repr, stored.findings_table().collect()))
