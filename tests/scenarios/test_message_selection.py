"""Which messages a fault may select: by names of APIs and purposes that runs have."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import messages
from kafkasim.model.messages import request_name
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.checks.messages import PURPOSES, api_names
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.sim.net.link_rules import HOLD, PASS, select


class Wire:
    """Notes what each message was for."""

    def __init__(self) -> None:
        self.purposes: dict[str, None] = {}
        self.requests: dict[str, None] = {}
        self.messages: list[tuple[bool, Any]] = []

    def record(self, *row: Any) -> None:
        purpose, direction, message = row[3], row[4], row[-1]
        self.purposes[purpose] = None
        if direction == "request" and message is not None:
            self.requests[request_name(message)] = None
            if len(self.messages) < 20_000:
                self.messages.append((True, message))
        elif message is not None and len(self.messages) < 20_000:
            self.messages.append((False, message))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exactly-once", "zk-log-dir-failure", "share-leader-failover"])
def test_what_a_run_sends_may_be_selected(name: str) -> None:
    scenario, variants = library.scenario(name)
    run = ScenarioRun(scenario, 0, None, variants)
    wire = Wire()
    run.world.network.wires = (wire,)
    run.execute()
    assert wire.purposes
    assert set(wire.purposes) <= set(PURPOSES)
    assert set(wire.requests) <= set(api_names())
    for is_request, message in wire.messages:
        api = type(message).__name__.removesuffix("Request").removesuffix("Response")
        api = {"OffsetsForLeaderEpoch": "OffsetForLeaderEpoch"}.get(api, api)
        assert select(HOLD, api, None, None)("", message, is_request) == HOLD, api


def test_fetches_are_selected_by_who_asks() -> None:
    follower = object.__new__(messages.FetchRequest)
    object.__setattr__(follower, "replica_id", 2)
    answer = object.__new__(messages.FetchResponse)
    for api, held in (
        ("Fetch", (HOLD, HOLD)), ("FetchFollower", (HOLD, PASS)), ("FetchConsumer", (PASS, PASS))
    ):  # fmt: skip
        rule = select(HOLD, api, None, None)
        assert (rule("", follower, True), rule("", answer, False)) == held


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ({}, "faults.0.when: give one of fact, request and response"),
        ({"fact": "Polled", "request": "Fetch"},
         "faults.0.when: give one of fact, request and response"),
        ({"request": "JoinedGroup"},
         "faults.0.when.request: no API 'JoinedGroup'; allowed: JoinGroup"),
        ({"response": "Heartbeat", "fields": {"member": "a"}},
         "faults.0.when.member: the fields of a response of Heartbeat are: error"),
        ({"request": "Heartbeat", "at-least": {"member_id": 1}},
         "faults.0.when.member_id: only numbers and lists can be bounded"),
    ],
)  # fmt: skip
def test_a_condition_that_no_message_meets_is_refused(when: dict[str, Any], problem: str) -> None:
    data: dict[str, Any] = {"name": "waits", "claim": "Nothing.", "duration": "5s"}
    data["topics"] = [{"name": "orders"}]
    data["workload"] = [{"kind": "consumer-group"}]
    data["faults"] = [{"kind": "crash", "node": "@node", "when": when}]
    with pytest.raises(ScenarioError) as refused:
        parse(data, "test")
    assert str(refused.value) == f"test: {problem}"
