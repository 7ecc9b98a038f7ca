"""The judges of what exists twice although Kafka promises it once."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.commits import Handovers
from kafkasim.analysis.judging.history.readers import Readers
from kafkasim.analysis.judging.sends import StoredOnce
from tests.analysis.copies_cases import HANDOVER_CASES, IDEMPOTENCE_CASES, TWICE, rewritten
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.histories import counted, history_of


@pytest.mark.parametrize("name", IDEMPOTENCE_CASES)
def test_an_idempotent_producer_stores_a_record_once(name: str) -> None:
    rows, expected = IDEMPOTENCE_CASES[name]
    trace = FakeTrace()
    judge = StoredOnce(trace, history_of(trace))
    trace.record(list(rows))
    found = {each.name: each.count for each in counted(judge.finish()) if not each.expected_by}
    assert found == {name: 1 for name in expected if name == "idempotent-duplicate"}


def test_a_gap_excuses_the_records_that_were_numbered_anew() -> None:
    trace = FakeTrace()
    judge = StoredOnce(trace, history_of(trace))
    trace.record([rewritten(100), TWICE])
    assert [each.expected_by for each in judge.finish()] == ["rewritten-sequences"]


@pytest.mark.parametrize("name", HANDOVER_CASES)
def test_a_graceful_rebalance_delivers_nothing_again(name: str) -> None:
    rows, expected = HANDOVER_CASES[name]
    trace = FakeTrace()
    judge = Handovers(trace, history_of(trace), Readers(trace))
    trace.record(list(rows))
    assert {anomaly.name: anomaly.count for anomaly in counted(judge.finish())} == expected
