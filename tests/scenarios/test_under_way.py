"""A run with processors does not end while what they were given is under way."""

from __future__ import annotations

from kafkasim.analysis.judging.transactions.liveness.under_way import UnderWay
from kafkasim.model import facts
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.test_transactional_workloads import PROCESSOR, PRODUCER, scenario
from tests.scenarios.transaction_cases import (
    PROCESSOR as STARTED,
)
from tests.scenarios.transaction_cases import (
    TOPICS,
    Rows,
    T,
    committed,
    polled,
    sought,
)

OFFSETS = [("controller-1", facts.TopicCreated(3, "offsets-id", "__consumer_offsets", 1, 1, 1))]
LOADED = [("broker-2", facts.CoordinatorLoaded(0, 2, True))]
GIVEN = [*TOPICS, *OFFSETS, *STARTED, *polled(0, 100), *polled(1, 101)]
MISSING = ["group g was given records below 2 of orders-0 and has committed {}"]


def uncommitted(rows: Rows) -> list[str]:
    trace = FakeTrace()
    judged = UnderWay(trace)
    trace.record(rows)
    return judged.uncommitted("g", [T])


def test_what_was_given_is_under_way_until_it_is_committed() -> None:
    assert uncommitted(GIVEN) == [MISSING[0].format(-1)]
    assert uncommitted([*GIVEN, *committed(1)]) == [MISSING[0].format(1)]
    assert uncommitted([*GIVEN, *committed(2)]) == []


def test_a_processor_in_a_poll_is_known_by_its_name_and_its_producer_id() -> None:
    trace = FakeTrace()
    judged = UnderWay(trace)
    begun = facts.TransactionBegun("id", 0, 7, 0)
    node = STARTED[0][0]
    trace.record([("producer-1", begun), *STARTED])
    told = "outputs-0 has an open transaction of producer id 7 from offset 3 on"
    assert not judged.in_a_poll(told)
    trace.record([("producer-1", begun)])
    assert not judged.in_a_poll(told)
    trace.record([(node, begun)])
    assert judged.in_a_poll(told)
    assert not judged.in_a_poll(told.replace("id 7", "id 77"))
    assert judged.in_a_poll(f"{node} handles what it was given")
    assert not judged.in_a_poll("other handles what it was given")
    assert not judged.in_a_poll(f"{node} is down")


def test_what_is_behind_a_new_position_is_given_again() -> None:
    assert uncommitted([*GIVEN, *sought(0)]) == []


def test_a_coordinator_may_find_the_commit_in_its_log() -> None:
    assert uncommitted([*GIVEN, *LOADED]) == []
    assert uncommitted([*GIVEN, *LOADED, *polled(2, 102)]) == [
        "group g was given records below 3 of orders-0 and has committed -1"
    ]


def test_a_consumer_that_is_no_processor_may_commit_nothing() -> None:
    assert uncommitted([*TOPICS, *OFFSETS, *polled(0, 100)]) == []


def test_a_run_waits_for_outputs_that_linger() -> None:
    lingering = {"guarantee": "at-most-once", "producer-config": {"linger.ms": 4000}}
    result = run(parse(scenario(PRODUCER, PROCESSOR | lingering), "f.toml"), 1)
    assert (result.verdict, result.anomalies) == ("pass", [])
