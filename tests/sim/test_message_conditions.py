"""Conditions on messages: a fault that begins at a step of a client's protocol."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.effects import Process
from kafkasim.model.errors import Errors
from kafkasim.model.facts import FaultStarted
from kafkasim.model.messages import (
    HeartbeatRequest,
    JoinGroupMember,
    JoinGroupResponse,
    Message,
    Subscription,
)
from kafkasim.sim.faults.injector import Injector
from kafkasim.sim.faults.kinds import Fault, FaultError, When, validate
from kafkasim.sim.trace.recording import Trace
from kafkasim.sim.world import World


class Idle(Process):
    """A process that does nothing."""


class Bench:
    """Two clients of a broker, and what strikes them."""

    def __init__(self, when: When) -> None:
        trace = Trace()
        self.world = World(1, trace)
        self.struck: list[tuple[int, str]] = []
        trace.subscribe(
            FaultStarted, lambda _, t_us, __, fact: self.struck.append((t_us, fact.target))
        )
        for name in ("broker-1", "consumer-1", "consumer-2"):
            host = self.world.add_host(name, rack="", clock_offset_us=0)
            host.start(lambda files, rng, now, name=name: Idle(name, files, rng, now))
        Injector(self.world, trace).arm([Fault("crash", ("@node",), at_us=3, when=when)])

    def send(self, at_us: int, source: str, target: str, message: Message) -> None:
        """Give the network a message at a time; it is a request if a consumer sends it."""
        direction = "request" if target == "broker-1" else "response"

        def record() -> None:
            for wire in self.world.network.wires:
                wire.record(at_us, source, target, "coordinator", direction, 1, 1, 100, message)

        self.world.at(at_us, record)


def answer(error: Errors, *members: str) -> JoinGroupResponse:
    known = tuple([JoinGroupMember(each, None, Subscription(("orders",))) for each in members])
    return JoinGroupResponse(error, 1, "consumer", "range", "a", False, "a", known)


BEAT = HeartbeatRequest("billing", 1, "a", None)


def test_the_nth_request_of_an_api_strikes_its_client() -> None:
    bench = Bench(When(request="Heartbeat", count=2))
    for at_us, client in ((10, "consumer-1"), (20, "consumer-2"), (30, "consumer-1")):
        bench.send(at_us, client, "broker-1", BEAT)
    bench.world.run(100)
    assert bench.struck == [(23, "consumer-2")]
    assert bench.world.network.wires == ()


def test_a_response_strikes_who_waits_for_it_when_its_fields_fit() -> None:
    bench = Bench(When(response="JoinGroup", fields=(("error", "NONE"),), least=(("members", 1),)))
    bench.send(10, "broker-1", "consumer-1", answer(Errors.MEMBER_ID_REQUIRED))
    bench.send(20, "broker-1", "consumer-1", answer(Errors.NONE))
    bench.send(30, "broker-1", "consumer-2", answer(Errors.NONE, "a", "b"))
    bench.world.run(100)
    assert bench.struck == [(33, "consumer-2")]


def test_a_condition_may_name_the_client() -> None:
    bench = Bench(When(request="Heartbeat", node="consumer-2", fields=(("generation_id", 1),)))
    bench.send(10, "consumer-1", "broker-1", BEAT)
    bench.send(20, "consumer-2", "broker-1", BEAT)
    bench.world.run(100)
    assert bench.struck == [(23, "consumer-2")]


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        (When(), "when: give one of fact, request and response"),
        (When("HostStopped", request="Fetch"), "when: give one of fact, request and response"),
    ],
)
def test_a_condition_waits_for_one_thing(when: When, problem: str) -> None:
    fault: Any = Fault("crash", ("@node",), when=when)
    with pytest.raises(FaultError) as refused:
        validate(fault)
    assert str(refused.value) == problem
