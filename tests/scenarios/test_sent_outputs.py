"""What users' applications sent for their inputs is in the log, as far as it is asked for."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.inputs import Inputs
from kafkasim.analysis.judging.sent_outputs import SentOutputs
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.histories import history_of
from tests.scenarios.transaction_cases import (
    OUT,
    READER,
    TOPICS,
    Rows,
    T,
    appended,
    begun,
    committed,
    final,
    polled,
    sent,
    sought,
)

INPUT = [*TOPICS, *READER, *appended(0, 100, 101, pid=-1), *polled(0, 100)]
LOG = final((0, (100, 101), -1))
STOPPED: Rows = [("consumer-1", facts.HostStopped("crash"))]


def handled(record_id: int, offset: int = 0, topic: str = "out") -> Rows:
    """The application sends a record while it handles an input."""
    return [("consumer-1", facts.OutputSent("g", T, 0, offset, topic, record_id))]


def written(*ids: int) -> Rows:
    """The outputs are in the log when the run ends, and acknowledged."""
    rows = appended(0, *ids, pid=-1, topic=OUT)
    acks = facts.Acked(OUT, 0, 0, ids, -1, -1, -1, -1, 0, 1)
    return [*rows, ("consumer-1", acks), *final((0, ids, -1), topic=OUT)]


def failed(record_id: int) -> Rows:
    fact = facts.SendFailed(OUT, 0, (record_id,), "REQUEST_TIMED_OUT", True, 0, 1)
    return [("consumer-1", fact)]


def aborted(record_id: int) -> Rows:
    """The output belongs to a transaction that is not committed."""
    return [*begun(node="consumer-1"), *sent(record_id, topic=OUT, node="consumer-1")]


CASES: dict[str, tuple[Rows, dict[str, int], dict[str, int]]] = {
    "written": ([*INPUT, *handled(900), *written(900), *committed(1)], {}, {}),
    "not committed": ([*INPUT, *handled(900), *STOPPED, *committed(0)], {}, {}),
    "lost with the process": (
        [*INPUT, *handled(900), *committed(1), *STOPPED], {"lost-output": 1}, {"lost-output": 1}),
    "still with the producer": ([*INPUT, *handled(900), *committed(1)], {}, {}),
    "one of two is lost": (
        [*INPUT, *handled(900), *handled(901), *written(900), *committed(1), *STOPPED],
        {"lost-output": 1}, {"lost-output": 1}),
    "handled again": (
        [*INPUT, *handled(900), *STOPPED, *polled(0, 100), *handled(901), *written(901),
         *committed(1)], {}, {}),
    "handled again, and nothing sent": (
        [*INPUT, *handled(900), *STOPPED, *polled(0, 100), *committed(1)], {}, {}),
    "failed, and sent again": (
        [*INPUT, *handled(900), *failed(900), *handled(901), *written(901), *committed(1)], {}, {}),
    "failed, and the error was swallowed": (
        [*INPUT, *handled(900), *failed(900), *committed(1)],
        {"lost-output": 1}, {"lost-output": 1}),
    "aborted, and sent again": (
        [*INPUT, *handled(900), *aborted(900), *handled(901),
         *written(901), *committed(1)], {}, {}),
    "aborted for good": (
        [*INPUT, *handled(900), *aborted(900), *committed(1), *STOPPED],
        {"lost-output": 1}, {"lost-output": 1}),
    "nothing sent": ([*INPUT, *committed(1)], {}, {"lost-output": 1}),
    "sent to another topic": (
        [*INPUT, *handled(900, topic="orders"), *appended(2, 900, pid=-1), *committed(1),
         *final((0, (100, 101, 900), -1))], {}, {"lost-output": 1}),
    "sent twice": (
        [*INPUT, *handled(900), *polled(0, 100), *handled(901), *written(900, 901), *committed(1)],
        {}, {"duplicate-output": 1}),
    "sent twice, as the application went back": (
        [*INPUT, *handled(900), *sought(0), *polled(0, 100), *handled(901), *written(900, 901),
         *committed(1)], {}, {}),
    "lost by the log": (
        [*INPUT, *handled(900), *written(900)[:-1], *final((0, (7,), -1), topic=OUT),
         *committed(1)], {"lost-output": 1}, {"lost-output": 1}),
}  # fmt: skip
"""Facts, and what is found: without ``output``, and with ``output = "out"``"""


@pytest.mark.parametrize("name", CASES)
def test_an_output_is_asked_for_once_its_input_is_committed(name: str) -> None:
    rows, plain, declared = CASES[name]
    for outputs, expected in (({}, plain), ({"g": "out"}, declared)):
        trace = FakeTrace()
        history = history_of(trace, lambda _: [])
        judge = SentOutputs(trace, history, Inputs(trace, history), outputs)
        trace.record(rows if "another" in name else [*rows, *LOG])
        found: dict[str, int] = {}
        for each in judge.finish():
            if not each.expected_by:
                found[each.name] = found.get(each.name, 0) + each.count
        assert found == expected, (outputs, judge.finish())
