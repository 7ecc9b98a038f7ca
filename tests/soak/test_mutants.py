"""The fuzz of tests/fuzz with other seeds and many of them; ``make soak`` runs it.

KAFKASIM_SOAK_MUTANTS says how many (100 000), KAFKASIM_SOAK_FIRST_MUTANT from which on; of fleets,
which Spark opens, there is one for each hundred of them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.analysis.test_damaged_fleets import fleet_of_three
from tests.fuzz.harness import properties_mutant, scenario_mutant, short_runs, stored_run
from tests.fuzz.readers import ReadRun

FIRST = int(os.environ.get("KAFKASIM_SOAK_FIRST_MUTANT", "100000"))
COUNT = int(os.environ.get("KAFKASIM_SOAK_MUTANTS", "100000"))
CHUNK = 1000


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_mutants_are_judged_or_refused(first: int, tmp_path: Path) -> None:
    wrong: dict[str, str] = {}
    with short_runs(10), stored_run(tmp_path) as stored:
        reading = ReadRun(stored)
        for number in range(first, min(first + CHUNK, FIRST + COUNT)):
            kind = number % 6
            if kind < 3:
                found = scenario_mutant(number, tmp_path)
            elif kind == 3:
                found = properties_mutant(number, tmp_path)
            elif kind == 4:
                found = stored.try_mutant(number)
            else:
                found = reading.try_mutant(number)
            if found:
                wrong[f"{number} of kind {kind}"] = found
    assert wrong == {}


@pytest.mark.soak
@pytest.mark.spark
def test_mutants_of_fleets_are_read_or_refused(tmp_path: Path) -> None:
    from kafkasim.analysis.spark.session import session
    from tests.fuzz.fleets import DamagedFleet

    spark = session("local[2]", "kafkasim soak", tmp_path / "spark", {})
    fleet = DamagedFleet(spark, fleet_of_three(tmp_path), tmp_path / "mutant")
    tried = {number: fleet.try_mutant(number) for number in range(FIRST, FIRST + COUNT // 100)}
    assert {number: wrong for number, wrong in tried.items() if wrong} == {}
