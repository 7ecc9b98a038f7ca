"""Applications may end by an error that Kafka answers although nobody has broken a promise."""

from __future__ import annotations

import pytest

from tests.analysis.application_cases import FAILURES
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.histories import Delivery, history_of


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_is_excused_by_what_the_group_was(name: str) -> None:
    rows, expected = FAILURES[name]
    trace = FakeTrace()
    delivery = Delivery(trace, history_of(trace, lambda _key: []))
    trace.record(rows)
    found = [each for each in delivery.finish() if not each.expected_by]
    assert {each.name: each.count for each in found} == expected
