"""The queries: rows by hand that violate each of them, and rows that do not; and the judges."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkasim.analysis.queries import FINDINGS, QUERIES, VIEWS
from kafkasim.analysis.source.jobs import Configuration
from kafkasim.model import facts
from tests.analysis.analysis_rows import (
    Case,
    T,
    acked,
    changed,
    committed,
    end,
    final,
    led,
    mark,
    polled,
    positioned,
    registered,
    tombstone,
    topic,
    write_fleet,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def sent(base: int, sequence: int, *ids: int, producer: int = 7) -> tuple[str, Any]:
    return "producer-1", facts.Acked(T, 0, base, ids, -1, producer, 0, sequence, 1000, 1)


READY = ("world", facts.Phase("ready", ""))

CASES: dict[str, tuple[Case, Case]] = {
    "lost-write": (
        [acked(0, 100, 101), final(1, 100, leading=True), final(2, 100, 101)],
        [acked(0, 100, 101), acked(2, 102), final(1, 101, 102, leading=True, start=1)],
    ),
    "stored-twice": ([final(1, 5, 5, leading=True)], [final(1, 5, 6, leading=True), final(2, 5)]),
    "redelivered": (
        [polled([0, 1], [5, 6]), polled([1], [6])],
        [polled([0, 1], [5, 6]), polled([2], [7])],
    ),
    "inconsistent-offsets": (
        [polled([0], [5]), polled([0], [6])],
        [polled([0], [5]), polled([0], [5])],
    ),
    "nonmonotonic-poll": (
        [polled([3], [5]), polled([1], [4])],
        [polled([3], [5]), positioned(1), polled([1], [4]), polled([5], [9])],
    ),
    "nonmonotonic-send": (
        [sent(4, 0, 100), sent(3, 1, 101)],
        [sent(4, 1, 101), sent(3, 0, 100), sent(9, 0, 5, producer=-1), sent(8, 1, 6, producer=-1)],
    ),
    "offset-regression": ([committed(5), committed(4)], [committed(5), tombstone(), committed(4)]),
    "one-leader-per-epoch": ([led(1, 1, 0), led(2, 1, 0)], [led(1, 1, 0), led(2, 2, 0)]),
    "high-watermark-monotonic": ([mark(5), mark(4)], [mark(5), mark(4, epoch=2, broker=2)]),
    "high-watermark-min-isr": ([mark(5, by=(1,))], [mark(5, by=(1, 2))]),
    "clean-leader-holds-exposed": (
        [led(1, 1, 0), mark(5), led(2, 2, 4)],
        [led(1, 1, 0), mark(5), led(2, 2, 5), changed((3,), 2, 3, "unclean", True, 3),
         led(3, 3, 2)],
    ),
    "isr-members-eligible": (
        [registered(1), registered(2), registered(3, fenced=True), changed((1, 2), 0),
         changed((1, 2, 3), 1, reason="caught-up")],
        [registered(1), registered(2), changed((1, 2), 0), registered(2, fenced=True),
         changed((1,), 1, reason="fenced"), registered(2),
         changed((1, 2), 2, reason="caught-up")],
    ),
    "logs-agree": (
        [final(1, 5, leading=True), final(2, 5, producer=8)],
        [final(1, 5, leading=True), final(2, 5), final(3)],
    ),
    "isr-changes": (
        [topic(), changed((1, 2, 3), 0), changed((1, 2), 1), changed((1, 2), 1)],
        [topic(), changed((1, 2, 3), 0), changed((3, 2, 1), 1)],
    ),
    "without-service": (
        [topic(), READY, changed((1, 2, 3), 0), changed((1,), 1), changed((1,), 2, -1), end()],
        [topic(), READY, end()],
    ),
}  # fmt: skip
"""For each query rows of which it returns something, and rows of which it returns nothing."""

FIGURES = {
    "isr-changes": [{"topic": "orders", "reason": "lag", "have_left": 1, "have_joined": 0}],
    "without-service": [{"topic": "orders", "leaderless_s": 1.0, "under_min_isr_s": 1.0}],
}
"""What the queries that are about no guarantee return."""


def test_each_query_finds_what_violates_it_and_nothing_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    from kafkasim.analysis.load import views
    from kafkasim.analysis.stored import open_stored

    cases = {f"{name}/{word}": rows for name, both in CASES.items()
             for word, rows in zip(("violates", "keeps"), both)}  # fmt: skip
    write_fleet(tmp_path, cases)
    found: dict[str, list[str]] = {}
    figures = {}
    with views(open_stored(spark, str(tmp_path)), VIEWS, QUERIES.values()):
        for name, text in QUERIES.items():
            rows = [row.asDict() for row in spark.sql(text).collect()]
            mine = [row for row in rows if row["run"].startswith(f"{name}/")]
            found[name] = sorted({row["run"].partition("/")[2] for row in mine})
            if name in FIGURES:
                figures[name] = [{key: row[key] for key in row if key != "run"} for row in mine]
    assert found == {name: ["violates"] for name in QUERIES}
    assert figures == FIGURES
    assert found.keys() == CASES.keys() == {*FINDINGS, *FIGURES}


RUN = ("split-brain", "gc-pause-leader", "consumer-crash-rebalance", "zk-gc-pause-leader")


def test_queries_and_judges_agree_on_runs_without_losses(
    spark: SparkSession, tmp_path: Path
) -> None:
    from kafkasim.analysis.fleet import run_fleet
    from kafkasim.analysis.load import views
    from kafkasim.analysis.stored import open_stored

    run_fleet(spark, [Configuration(name) for name in RUN], [1], str(tmp_path))
    found: dict[str, set[str]] = {name: set() for name in FINDINGS.values()}
    with views(open_stored(spark, str(tmp_path)), VIEWS, QUERIES.values()):
        asked = "SELECT DISTINCT run, name FROM findings"
        judged = {(row["run"], row["name"]) for row in spark.sql(asked).collect()}
        for query, name in FINDINGS.items():
            found[name] |= {row["run"] for row in spark.sql(QUERIES[query]).collect()}
    told = {(run, name) for name, runs in found.items() for run in runs}
    assert told == {(run, name) for run, name in judged if name in found}
