"""What one fleet shows: of hand-written cases, and of runs that have judged themselves.

Spark takes longer to plan all checks than to judge the fleet, and each process of the suite would
do so again. So this is one test, with a subtest for each thing that is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.analysis.analysis_rows import add_runs, write_fleet
from tests.analysis.gap_cases import CARRIED_OVER, CUT_OFF
from tests.analysis.real_runs import (
    FAULTS,
    OF_READERS,
    OF_SHARES,
    READERS,
    SCRIPTS,
    SHARES,
    Found,
    judged_in,
    simulate,
)
from tests.analysis.story_cases import SPEC
from tests.analysis.test_checks import CASES, LOSSES, STALLS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafkasim.analysis.stored import Stored
    from kafkasim.analysis.verdict import CheckFinding

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@dataclass(frozen=True)
class Judged:
    """A fleet of all cases and of real runs, with what the checks and the runs themselves find."""

    spark: SparkSession
    found: list[CheckFinding]
    by_run: Found  # what the real runs found of themselves

    @property
    def by_check(self) -> Found:
        """What the checks find in the traces of the real runs."""
        found: Found = {name: [] for name in self.by_run}
        for one in self.found:
            if one.run in found and one.check != "run" and one.anomaly in judged_in(one.run):
                partition = -1 if one.partition is None else one.partition
                found[one.run].append((one.anomaly, partition, one.count))
        return {name: sorted(rows) for name, rows in found.items()}

    def of_cases(self) -> list[CheckFinding]:
        """Return what the checks find in the cases."""
        return [one for one in self.found if one.run in CASES]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge

    runs, target = tmp_path_factory.mktemp("real-runs"), tmp_path_factory.mktemp("judged")
    by_run = simulate(runs)
    assert not CASES.keys() & by_run.keys()
    write_fleet(target, {name: case for name, (case, _) in CASES.items()}, LOSSES, SPEC, STALLS)
    add_runs(target, {name: runs / name for name in by_run})
    return Judged(spark, judge(open_stored(spark, str(target))).found, by_run)


def cases_show_what_they_break_and_nothing_else(judged: Judged) -> None:
    shown: dict[str, dict[str, int]] = {name: {} for name in CASES}
    for one in judged.of_cases():
        if not one.expected:
            shown[one.run][one.anomaly] = shown[one.run].get(one.anomaly, 0) + 1
    pairs = {name: (shown[name], expected) for name, (_, expected) in CASES.items()}
    assert {name: pair for name, pair in pairs.items() if pair[0] != pair[1]} == {}


@pytest.mark.soak
def test_duckdb_finds_the_rows_that_spark_finds(judged: Judged, tmp_path: Path) -> None:
    """The bench compares both on the same queries, and DuckDB takes a minute for these cases."""
    from kafkasim.analysis.bench.duck import QUERIES, measure

    cases = {name: case for name, (case, _) in CASES.items() if name not in CUT_OFF | CARRIED_OVER}
    write_fleet(tmp_path, cases, LOSSES, SPEC, STALLS)
    theirs = {name: rows for name, (rows, *_) in measure(tmp_path, threads=1).items()}
    ours = {
        name: sum(one.count for one in judged.found if one.check == name and one.run in cases)
        for name in QUERIES
    }
    assert theirs == ours
    assert all(theirs.values()), "a query that finds nothing compares nothing"


@pytest.mark.soak
def test_slices_show_the_same(
    judged: Judged, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few checks show it: all of them would take minutes once more.

    What is judged in slices is so much that Spark compiles its expressions, so here it does, too.
    """
    from kafkasim.analysis import load
    from kafkasim.analysis.bench.duck import QUERIES
    from kafkasim.analysis.checks import CHECKS
    from kafkasim.analysis.stored import open_stored

    def rows(part: Stored) -> list[tuple[str, str]]:
        return [
            (name, row["run"])
            for name in QUERIES
            for row in part.spark.sql(f"SELECT run FROM ({CHECKS[name]})").collect()
        ]

    write_fleet(tmp_path, {name: case for name, (case, _) in CASES.items()}, LOSSES, SPEC, STALLS)
    stored = open_stored(judged.spark, str(tmp_path))
    monkeypatch.setattr(load, "SMALL_ROWS", stored.rows // 2 + 1)
    monkeypatch.setattr(load, "COMPILED_EXPRESSIONS_ROWS", 0)
    slices = stored.slices(load.SMALL_ROWS)
    assert len(slices) == 2
    assert sorted(run.name for part in slices for run in part.runs) == sorted(CASES)
    parts = load.in_slices(stored, rows, [CHECKS[name] for name in QUERIES])
    assert all(parts)
    whole = [(one.check, one.run) for one in judged.of_cases() for _ in range(one.count)]
    whole = [row for row in whole if row[0] in QUERIES]
    assert sorted([row for part in parts for row in part]) == sorted(whole)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_compiled_checks_find_the_same(
    judged: Judged, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Compiled code may evaluate an expression that the interpreter would not have reached."""
    from kafkasim.analysis import load
    from kafkasim.analysis.stored import open_stored
    from kafkasim.analysis.verdict import judge

    monkeypatch.setattr(load, "COMPILED_EXPRESSIONS_ROWS", 0)
    write_fleet(tmp_path, {name: case for name, (case, _) in CASES.items()}, LOSSES, SPEC, STALLS)
    assert judge(open_stored(judged.spark, str(tmp_path))).found == judged.of_cases()


def judges_of_readers_agree(by_run: Found, by_check: Found) -> None:
    assert {anomaly for found in by_run.values() for anomaly, _, _ in found} == set(OF_READERS)
    assert by_check == by_run


def judges_of_share_groups_agree(by_run: Found, by_check: Found) -> None:
    assert {anomaly for found in by_run.values() for anomaly, _, _ in found} == set(OF_SHARES)
    assert by_run["share-reject"] == []
    assert by_check == by_run


def judges_of_transactions_agree(by_run: Found, by_check: Found) -> None:
    named = {anomaly for found in by_run.values() for anomaly, _, _ in found}
    assert named >= {
        "torn-transaction", "hanging-transaction", "needless-epoch", "lost-output",
        "duplicate-output",
    }  # fmt: skip
    assert by_check == by_run


def delivery_and_checks_agree(by_run: Found, by_check: Found) -> None:
    assert by_run["application"] == [("application-failed", -1, 2)]
    assert by_check == by_run


AGREEMENTS: dict[Callable[[Found, Found], None], Collection[str]] = {
    judges_of_readers_agree: READERS,
    judges_of_share_groups_agree: SHARES,
    judges_of_transactions_agree: SCRIPTS,
    delivery_and_checks_agree: FAULTS,
}
"""What is asked of the judges in memory and in Spark, and of which runs."""


def test_a_fleet_is_judged_as_its_cases_and_its_runs_say(
    judged: Judged, subtests: pytest.Subtests
) -> None:
    with subtests.test("cases show what they break and nothing else"):
        cases_show_what_they_break_and_nothing_else(judged)
    by_check = judged.by_check
    for agree, names in AGREEMENTS.items():
        with subtests.test(agree.__name__.replace("_", " ")):
            agree(*({name: found[name] for name in names} for found in (judged.by_run, by_check)))
