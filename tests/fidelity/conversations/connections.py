"""What clients see of a broker's limits on connections, and of a muted one (KIP-219, 402, 612).

A line has what became of each connection in turn: ``answered``, ``closed`` after the handshake of
TCP, or ``waits`` (accepted by the host, but not by the broker).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.records import Record, batch_of
from tests.fidelity.batches import encoded
from tests.fidelity.dialing import CLOSED, SILENT, Caller, Dialer

SOON_S, LATER_S = 3.0, 20.0
"""In which an answer comes from a broker that serves, and at last from one that is slow."""


class Doors:
    """A conversation with one broker; its lines say what was seen."""

    def __init__(self, dialer: Dialer, name: str) -> None:
        self.dialer = dialer
        self.name = name
        self.lines: list[str] = []
        self._callers: list[Caller] = []  # whose connections stay open until they are closed

    def tell(self, what: str, *seen: str) -> None:
        """Write down what was seen."""
        self.lines.append(f"{self.name} / {what}: {', '.join(seen)}")

    def dial(self, what: str, *addresses: str, second: bool = False) -> list[Caller]:
        """Open a connection from each address, ask a request on it, and write down the fates."""
        callers = [self.dialer.dial(each, second=second) for each in addresses]
        self._callers += callers
        self.ask(what, *callers)
        return callers

    def ask(self, what: str, *callers: Caller) -> None:
        """Ask a request on each connection."""
        self.tell(what, *(_fate(each.ask(SOON_S)) for each in callers))


def _fate(answer: dict[str, Any] | str) -> str:
    if isinstance(answer, str):
        return {CLOSED: "closed", SILENT: "waits"}[answer]
    return "answered"


def _at(last: int) -> str:
    return f"127.0.0.{last}"


def per_ip(doors: Doors) -> None:
    """max.connections.per.ip: one connection too many is closed, and a closed one makes room."""
    first, *_ = doors.dial("three from one address", _at(2), _at(2), _at(2))
    doors.dial("one from another", _at(3))
    doors.dial("a fourth", _at(2))
    first.close()
    doors.dialer.settle(1)
    doors.dial("a fifth, when the first is closed", _at(2))
    doors.dial("a sixth", _at(2))


def overrides(doors: Doors) -> None:
    """max.connections.per.ip.overrides: an address may have more, fewer or none."""
    doors.dial("three from an address that may have three", _at(2), _at(2), _at(2))
    doors.dial("a fourth", _at(2))
    doors.dial("two from one that may have one", _at(4), _at(4))
    doors.dial("one from one that may have none", _at(3))


def in_all(doors: Doors) -> None:
    """max.connections of the only listener: the acceptor waits until one is closed."""
    first, second = doors.dial("two of two", _at(2), _at(3))
    third = doors.dialer.dial(_at(2))
    doors.ask("a third one", third)
    doors.ask("the first ones", first, second)
    first.close()
    doors.tell("the third one, when the first is closed", _fate(third.wait(LATER_S)))
    fourth = doors.dialer.dial(_at(4))
    doors.ask("a fourth one", fourth)
    third.close()
    second.close()
    doors.tell("the fourth one, when the others are closed", _fate(fourth.wait(LATER_S)))


def two_listeners(doors: Doors) -> None:
    """max.connections of a listener, and of a broker that has another one for brokers.

    The listener for brokers is protected: the connection of another listener is closed for it that
    was used least recently (closeExcessConnections).
    """
    first, second = doors.dial("two of two on the second listener", _at(2), _at(3), second=True)
    (third,) = doors.dial("a third one", _at(2), second=True)
    doors.ask("the second one again", second)
    doors.dial("one on the listener for brokers, which is one of three", _at(2))
    doors.dial("another one there", _at(2))
    doors.ask("the first two", first, second)
    second.close()
    doors.tell("the third one, when the second is closed", _fate(third.wait(LATER_S)))


def idle(doors: Doors) -> None:
    """connections.max.idle.ms: the broker closes a connection on which nobody asks."""
    (busy,) = doors.dial("one that goes on", _at(2))
    (silent,) = doors.dial("one that stops", _at(2))
    for _ in range(4):
        doors.dialer.settle(1)
        doors.ask(f"the first, {len(doors.lines) - 1} s later", busy)
    doors.ask("the second after four seconds", silent)


def creation_rate(doors: Doors) -> None:
    """max.connection.creation.rate: the acceptor waits, and all are served at last."""
    before = doors.dialer.now()
    callers = [doors.dialer.dial(_at(2)) for _ in range(25)]
    fates = [_fate(each.ask(LATER_S)) for each in callers]
    late = doors.dialer.now() - before > SOON_S
    doors.tell("25 at once", *sorted(set(fates)), "the last one late" if late else "all soon")


def _set_quota(operator: Caller, kind: str, name: str | None, key: str, rate: float) -> None:
    ops = [{"Key": key, "Value": rate, "Remove": False}]
    entries = [{"Entity": [{"EntityType": kind, "EntityName": name}], "Ops": ops}]
    body = {"Entries": entries, "ValidateOnly": False}
    altered = operator.ask(LATER_S, "AlterClientQuotas", body)
    assert isinstance(altered, dict), altered
    assert altered["Entries"][0]["ErrorCode"] == 0, altered


def creation_rate_of_ip(doors: Doors) -> None:
    """connection_creation_rate of an address: what is above it is closed, after a while."""
    operator = doors.dialer.dial(_at(9))
    _set_quota(operator, "ip", _at(2), "connection_creation_rate", 1.0)
    doors.dialer.settle(1)
    callers = [doors.dialer.dial(_at(2)) for _ in range(25)]
    fates = [_fate(each.ask(LATER_S)) for each in callers]
    doors.tell("25 at once", f"the first {fates[0]}", f"the last {fates[-1]}",
               *(sorted(set(fates))))  # fmt: skip
    doors.dial("one from another address", _at(3))


def muted(doors: Doors) -> None:
    """A producer above its rate is answered at once, and its connection is muted (KIP-219).

    At 1,000 bytes a second 15,000 bytes ask for a wait of five seconds.
    """
    operator = doors.dialer.dial(_at(9))
    topic = {"Name": "muted", "NumPartitions": 1, "ReplicationFactor": 1}
    body: dict[str, Any] = {"Topics": [{**topic, "Assignments": [], "Configs": []}]}
    assert isinstance(operator.ask(LATER_S, "CreateTopics", {**body, "TimeoutMs": 10_000}), dict)
    _set_quota(operator, "client-id", None, "producer_byte_rate", 1000.0)
    doors.dialer.settle(1)
    producer = doors.dialer.dial(_at(2))
    doors.ask("metadata", producer)
    part = {"Index": 0, "Records": encoded(batch_of((Record("k" * 15_000, 1, 15_000, 0),)))}
    rows = [{"Name": "muted", "PartitionData": [part]}]
    sent = {"TransactionalId": None, "Acks": 1, "TimeoutMs": 5000, "TopicData": rows}
    answer = producer.ask(SOON_S, "Produce", sent)
    throttled = isinstance(answer, dict) and SOON_S * 1000 < answer["ThrottleTimeMs"] < 6000
    doors.tell("produce above the rate", _fate(answer), "throttled" if throttled else "not so")
    doors.ask("metadata on the same connection", producer)
    doors.dial("metadata on another connection of the client", _at(2))
    doors.tell("metadata on the same connection, at last", _fate(producer.wait(LATER_S)))
    doors.ask("metadata again", producer)


CASES: dict[str, tuple[Callable[[Doors], None], dict[str, str]]] = {
    "per ip": (per_ip, {"max.connections.per.ip": "2"}),
    "overrides": (
        overrides,
        {
            "max.connections.per.ip": "1",
            "max.connections.per.ip.overrides": "127.0.0.2:3,127.0.0.3:0",
        },
    ),
    "in all": (in_all, {"max.connections": "2"}),
    "two listeners": (
        two_listeners,
        {"max.connections": "3", "listener.name.second.max.connections": "2"},
    ),
    "idle": (idle, {"connections.max.idle.ms": "2500"}),
    "creation rate": (creation_rate, {"max.connection.creation.rate": "1"}),
    "creation rate of an address": (creation_rate_of_ip, {}),
    "muted": (muted, {}),
}
"""What is said to a broker with these settings."""
