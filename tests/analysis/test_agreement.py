"""Two judges of real runs agree: judging/delivery.py in memory, the checks from the trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.analysis.real_runs import (
    FAULTS,
    OF_READERS,
    OF_SHARES,
    READERS,
    SCRIPTS,
    SHARES,
    Found,
    judged_in,
)

if TYPE_CHECKING:
    from kafkasim.analysis.verdict import CheckFinding

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def judged(found_by_runs: Found, found_by_checks: list[CheckFinding]) -> tuple[Found, Found]:
    """What the runs found of themselves, and what the checks found in their traces."""
    by_check: Found = {name: [] for name in found_by_runs}
    for one in found_by_checks:
        if one.run in by_check and one.check != "run" and one.anomaly in judged_in(one.run):
            partition = -1 if one.partition is None else one.partition
            by_check[one.run].append((one.anomaly, partition, one.count))
    return found_by_runs, {name: sorted(rows) for name, rows in by_check.items()}


def test_judges_of_readers_agree(judged: tuple[Found, Found]) -> None:
    by_run, by_check = ({name: found[name] for name in READERS} for found in judged)
    assert {anomaly for found in by_run.values() for anomaly, _, _ in found} == set(OF_READERS)
    assert by_check == by_run


def test_judges_of_share_groups_agree(judged: tuple[Found, Found]) -> None:
    by_run, by_check = ({name: found[name] for name in SHARES} for found in judged)
    assert {anomaly for found in by_run.values() for anomaly, _, _ in found} == set(OF_SHARES)
    assert by_run["share-reject"] == []
    assert by_check == by_run


def test_judges_of_transactions_agree(judged: tuple[Found, Found]) -> None:
    by_run, by_check = ({name: found[name] for name in SCRIPTS} for found in judged)
    named = {anomaly for found in by_run.values() for anomaly, _, _ in found}
    assert named >= {
        "torn-transaction", "hanging-transaction", "needless-epoch", "lost-output",
        "duplicate-output",
    }  # fmt: skip
    assert by_check == by_run


def test_delivery_and_checks_agree(judged: tuple[Found, Found]) -> None:
    by_run, by_check = ({name: found[name] for name in FAULTS} for found in judged)
    assert by_run["application"] == [("application-failed", -1, 2)]
    assert by_check == by_run
