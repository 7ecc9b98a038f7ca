"""The judge in memory on the offsets that hold nothing for a reader; Spark has the same cases."""

from __future__ import annotations

import pytest

from tests.analysis.analysis_rows import READ_COMMITTED, appended, marker, polled, positioned
from tests.analysis.gap_cases import GAP_CASES
from tests.scenarios.fact_makers import FakeTrace, Row
from tests.scenarios.histories import Delivery, history_of


@pytest.mark.parametrize("name", GAP_CASES)
def test_gap(name: str) -> None:
    rows, expected = GAP_CASES[name]
    trace = FakeTrace()
    delivery = Delivery(trace, history_of(trace, lambda _key: []))
    trace.record(list(rows))
    found = {anomaly.name: anomaly.count for anomaly in delivery.finish()}
    assert found == {name: n for name, n in expected.items() if name != "idempotent-duplicate"}


def test_story_names_the_first_record_that_was_passed_over() -> None:
    rows: list[Row] = [
        READ_COMMITTED, positioned(0), appended(0, 1), *marker(1, False), appended(2, 4, 8),
        polled([3], [103]),
    ]  # fmt: skip
    trace = FakeTrace()
    delivery = Delivery(trace, history_of(trace, lambda _key: []))
    trace.record(rows)
    (skip,) = delivery.finish()
    assert skip.text == "consumer-1 got offset 3 after -1, without 2"
