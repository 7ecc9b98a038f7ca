"""The notebook's cells run from top to bottom, and its tables say what its text claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOTEBOOK = Path(__file__).parents[2] / "analysis" / "three_questions.ipynb"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def names(spark: SparkSession) -> dict[str, Any]:
    """Run all cells, in order, and return what they define; with Spark as it runs already."""
    defined: dict[str, Any] = {"__name__": "notebook"}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), cell["id"], "exec"), defined)
    assert defined["spark"] is spark
    return defined


def rows(frame: DataFrame, key: str) -> dict[Any, dict[str, Any]]:
    return {row[key]: row.asDict() for row in frame.collect()}


def test_acks_one_loses_records_in_every_run_and_acks_all_none(names: dict[str, Any]) -> None:
    found = rows(names["losses"], "topic")
    assert [*found] == ["safe", "weak"]
    assert (found["safe"]["lost"], found["safe"]["runs_with_a_loss"]) == (0, 0)
    assert found["weak"]["runs_with_a_loss"] == 3
    assert 0 < found["weak"]["lost"] < found["weak"]["acknowledged"]


def test_acks_all_waits_for_the_new_leader_and_acks_one_does_not(names: dict[str, Any]) -> None:
    waited = rows(names["waits"], "topic")
    assert waited["weak"]["max_ms"] < 1000 < waited["safe"]["p99_ms"] <= waited["safe"]["max_ms"]


def test_the_isr_flaps_below_the_length_of_the_pauses_only(names: dict[str, Any]) -> None:
    found = rows(names["changes"], "lag_ms")
    assert {lag: row["runs"] for lag, row in found.items()} == {3000: 3, 5000: 3, 30000: 3}
    assert found[3000]["left_the_isr"] == found[3000]["came_back"] > 0
    assert (found[30000]["left_the_isr"], found[30000]["came_back"]) == (0, 0)
