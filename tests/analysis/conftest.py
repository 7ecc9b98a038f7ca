"""One Spark session for all tests: one shuffle partition, no UI, no generated code to compile.

What all checks are tested on is one fleet, too: Spark takes longer to plan them than to judge it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.analysis.analysis_rows import add_runs, write_fleet
from tests.analysis.real_runs import Found, simulate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkasim.analysis.verdict import CheckFinding

SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.memory": "1g",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from kafkasim.analysis.spark.session import session

    running = session("local[2]", "kafkasim tests", tmp_path_factory.mktemp("spark"), SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def real_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found]:
    """Where the real runs lie, and what they found of themselves."""
    place = tmp_path_factory.mktemp("real-runs")
    return place, simulate(place)


@pytest.fixture(scope="session")
def found_by_runs(real_runs: tuple[Path, Found]) -> Found:
    return real_runs[1]


@pytest.fixture(scope="session")
def found_by_checks(
    spark: SparkSession, real_runs: tuple[Path, Found], tmp_path_factory: pytest.TempPathFactory
) -> list[CheckFinding]:
    """What all checks find in all hand-written cases and in the real runs, judged as one fleet."""
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge
    from tests.analysis.test_checks import CASES, LOSSES, SPEC, STALLS

    place, by_run = real_runs
    assert not CASES.keys() & by_run.keys()
    target = tmp_path_factory.mktemp("judged")
    write_fleet(target, {name: case for name, (case, _) in CASES.items()}, LOSSES, SPEC, STALLS)
    add_runs(target, {name: place / name for name in by_run})
    return judge(open_stored(spark, str(target))).found
