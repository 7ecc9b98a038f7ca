"""Applications may end by an error that Kafka answers although nobody has broken a promise."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.applications import ApplicationFailures
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row, T
from tests.scenarios.histories import history_of

STARTED: Row = ("consumer-1", facts.HostStarted(1))


def group(state: str, protocol: str = "", reason: str = "") -> Row:
    return "broker-1", facts.GroupState("billing", state, 1, ("m1",), protocol, reason)


def created(partitions: int, topic_id: str = T) -> Row:
    return "controller-1", facts.TopicCreated(1, topic_id, "orders", partitions, 1, 1)


def failed(error: str, of: str = "billing", exception: str = "KafkaError") -> Row:
    reason = f"{error}: group {of}"
    return "consumer-1", facts.ApplicationFailed("consumer-1-task-1", True, exception, reason, ())


def joins(instance: str | None) -> Row:
    request = facts.MemberRequest("billing", "", instance, "JoinGroup", -1, (), ("range",), 1, 1)
    return "broker-1", request


CASES: dict[str, tuple[list[Row], bool]] = {
    "no reason": ([STARTED, failed("GROUP_ID_NOT_FOUND")], True),
    "the group is dead": ([STARTED, group("Dead"), failed("GROUP_ID_NOT_FOUND")], False),
    "it died before the host started": (
        [group("Dead"), STARTED, failed("GROUP_ID_NOT_FOUND")], True),
    "another group is dead": (
        [STARTED, group("Dead"), failed("GROUP_ID_NOT_FOUND", "other")], True),
    "two processes have one instance id": (
        [STARTED, joins("i"), joins("i"), failed("FENCED_INSTANCE_ID")], False),
    "one process joins": ([STARTED, joins("i"), failed("FENCED_INSTANCE_ID")], True),
    "a coordinator loaded the group": (
        [STARTED, group("Stable", reason="loaded"), failed("FENCED_INSTANCE_ID")], False),
    "a classic group without an assignor": (
        [STARTED, group("PreparingRebalance"), failed("UNKNOWN_SERVER_ERROR")], False),
    "a classic group with an assignor": (
        [STARTED, group("PreparingRebalance", "range"), failed("UNKNOWN_SERVER_ERROR")], True),
    "a SyncGroup met a coordinator that loads": (
        [STARTED, ("broker-1", facts.LoadInProgress("billing", "SyncGroup")),
         failed("COORDINATOR_LOAD_IN_PROGRESS")], False),
    "a JoinGroup met one": (
        [STARTED, ("broker-1", facts.LoadInProgress("billing", "JoinGroup")),
         failed("COORDINATOR_LOAD_IN_PROGRESS")], True),
    "a topic was created again with more partitions": (
        [created(1), created(2, "other-id"), STARTED,
         failed("IllegalStateException", exception="AssignorError")], False),
    "topics stay as they are": (
        [created(1), STARTED, failed("IllegalStateException", exception="AssignorError")], True),
}  # fmt: skip
"""What happened, and whether the failure is a finding"""


@pytest.mark.parametrize("name", CASES)
def test_an_error_is_a_finding_unless_the_group_had_a_reason(name: str) -> None:
    rows, expected = CASES[name]
    trace = FakeTrace()
    judge = ApplicationFailures(trace, history_of(trace, lambda _key: []))
    trace.record(rows)
    names = [each.name for each in judge.finish() if not each.expected_by]
    assert names == ["application-failed"] * expected
