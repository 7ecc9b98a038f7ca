"""Which checks are asked, and which views they read."""

from __future__ import annotations

from kafkasim.analysis.checks import CHECKS, NEEDED
from kafkasim.analysis.spark.asking import able, queries, read_by


def test_a_check_whose_kind_nobody_has_is_not_asked() -> None:
    needless = {name for name, kind in NEEDED.items() if kind == "TransactionBegun"}
    assert needless
    assert able(lambda kind: kind != "TransactionBegun").keys() == CHECKS.keys() - needless
    assert able(lambda _kind: True) == CHECKS


def test_views_are_read_by_queries_and_by_each_other() -> None:
    shared = {
        "first": "SELECT run FROM Acked",
        "second": "SELECT run FROM first",
        "third": "SELECT run FROM second",
        "firsts": "SELECT run FROM Polled",
    }
    assert list(read_by(["SELECT run FROM second JOIN Polled USING (run)"], shared)) == [
        "first", "second",
    ]  # fmt: skip
    assert read_by(["SELECT 1"], shared) == {}


def test_places_are_told_of_runs_with_losses_alone() -> None:
    (text,) = queries({"audit": "SELECT 1"}, ["it's"])
    assert "IF(run IN ('it\\'s'), place, NULL)" in text
    (text,) = queries({"audit": "SELECT 1"})
    assert "CAST(NULL AS STRING) AS place" in text
