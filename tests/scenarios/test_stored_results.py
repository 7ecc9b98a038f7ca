"""Results in a SQLite database on a simulated disk: what survives, and what each record has."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import kafkasim
from kafkasim.analysis.judging.results import StoredResults
from kafkasim.analysis.judging.source import Loss, PartitionKey
from kafkasim.model.storage.files import Corrupt
from kafkasim.scenarios.applications.database.database import _difference, image, rows
from kafkasim.scenarios.language.spec import ScenarioError
from tests.analysis.reader_cases import RESULT_CASES, RESULT_EXCUSES
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.histories import history_of

LEDGER = Path(__file__).parents[1] / "example_project" / "ledger.py"
SCENARIO = "store-offsets-with-results"
SHORT = {"duration": "12s", "expect.must-see": []}


def test_a_database_is_what_its_whole_commits_give() -> None:
    database = sqlite3.connect(":memory:")
    log, before = [], b""
    for sql in ("CREATE TABLE t (a)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"):
        database.execute(sql)
        database.commit()
        after = database.serialize()
        log.append(_difference(before, after))
        before = after
    assert _difference(before, before) is None
    assert image(log) == before
    assert rows(image(log), "a", "t") == [(1,), (2,)]
    assert rows(image([*log[:2], Corrupt(log[2])]), "a", "t") == [(1,)]  # torn by a power loss
    assert rows(image([]), "a", "t") is None


@pytest.mark.parametrize("name", RESULT_CASES)
def test_results(name: str) -> None:
    found, expected = RESULT_CASES[name]
    trace = FakeTrace()
    judge = StoredResults(trace, history_of(trace))
    trace.record(list(found))
    assert {anomaly.name: 1 for anomaly in judge.finish()} == expected


@pytest.mark.parametrize("name", RESULT_EXCUSES)
def test_a_legal_loss_explains_the_results_that_rested_on_it_alone(name: str) -> None:
    rows, good, bad = RESULT_EXCUSES[name]

    def excuses(key: PartitionKey, loss: Loss) -> list[str]:
        trace = FakeTrace()
        judge = StoredResults(trace, history_of(trace, lambda of: [loss] if of == key else []))
        trace.record(list(rows))
        return [anomaly.expected_by for anomaly in judge.finish()]

    assert [excuses(*each) for each in good] == [["last-replica-standing"]] * len(good)
    assert [excuses(*each) for each in bad] == [[""]] * len(bad)


def test_a_ledger_that_keeps_its_offsets_books_each_order_once() -> None:
    outcome = kafkasim.run(SCENARIO, seed=1, settings={"workload.1.app": str(LEDGER), **SHORT})
    assert outcome.verdict == "pass", outcome.anomalies
    assert sum(len(row) for row in outcome.facts("FinalResults")["offsets"].to_pylist()) > 300


def test_a_ledger_that_commits_to_kafka_books_orders_twice() -> None:
    app = f"{LEDGER}:commit_to_kafka"
    outcome = kafkasim.run(SCENARIO, seed=1, settings={"workload.1.app": app, **SHORT})
    assert outcome.anomalies == ["duplicate-result"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workload.1.count": 2}, "store: needs count = 1"),
        ({"workload.1.poison-record": 2}, "store: does not go with poison-record"),
        ({"workload.1.store": "nowhere"}, "workload.1.store"),
    ],
)
def test_a_mistake_is_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        kafkasim.run(SCENARIO, settings=settings)
