"""Connections that an acceptor must admit: open and unread until then."""

from __future__ import annotations

from typing import Any

from kafkasim.model.effects import Admit, Close
from tests.sim.host_probes import Bench, Probe


class Gate:
    """Keeps new connections until the test admits them; with ``most`` of them it is full."""

    lane = "acceptor"
    limiting = True

    def __init__(self, most: int) -> None:
        self.most = most
        self.kept: list[int] = []
        self.ended: list[int] = []

    @property
    def full(self) -> bool:
        return len(self.kept) >= self.most

    def on_connection(self, connection: int, _: int) -> None:
        self.kept.append(connection)

    def on_disconnected(self, connection: int, _: int) -> None:
        self.ended.append(connection)


def gated(most: int = 10) -> tuple[Bench, Gate]:
    """Return two hosts; the server asks its gate about connections."""
    bench, gate = Bench(), Gate(most)
    bench.start("b").acceptors["b"] = gate
    bench.start("a")
    return bench, gate


def let(bench: Bench, effect: Any) -> None:
    """Have the server perform an effect."""
    bench.act("b", lambda process, _: process.out.append(effect))


def test_what_is_sent_before_the_admission_is_read_after_it() -> None:
    bench, gate = gated()
    connection = bench.connect()
    bench.send(connection, 1)
    bench.run(50_000)
    assert bench.whats("a") == ["opened"]
    let(bench, Admit(gate.kept.pop()))
    bench.run(50_000)
    assert bench.whats("a") == ["opened", ("response", 1)]


def test_a_refused_connection_was_open() -> None:
    bench, gate = gated()
    bench.connect()
    [refused] = gate.kept
    let(bench, Close(refused))
    bench.run(50_000)
    assert bench.whats("a") == ["opened", ("closed", "closed")]
    assert gate.ended == [refused]


def test_the_end_of_an_admitted_connection_is_told() -> None:
    bench, gate = gated()
    connection = bench.connect()
    [admitted] = gate.kept
    let(bench, Admit(admitted))
    bench.act("a", lambda process, _: process.hang_up(connection))
    bench.run(50_000)
    assert gate.ended == [admitted]


def test_a_connection_that_ended_meanwhile_ends_when_it_is_admitted() -> None:
    bench, gate = gated()
    connection = bench.connect()
    [kept] = gate.kept
    bench.act("a", lambda process, _: process.hang_up(connection))
    bench.run(50_000)
    assert gate.ended == []
    let(bench, Admit(kept))
    bench.run(50_000)
    assert gate.ended == [kept]


def test_with_a_full_backlog_a_syn_is_sent_again() -> None:
    bench, gate = gated(most=1)
    bench.connect()

    def dial(process: Probe, _: int) -> None:
        process.dial("b")

    bench.act("a", dial)
    bench.run(900_000)
    assert len(gate.kept) == 1
    gate.kept.clear()
    bench.run(200_000)
    assert len(gate.kept) == 1  # after a second


class Login(Probe):
    """A server with one network thread, which sets up two new connections before it polls."""

    network_threads = 1
    connection_queue = 2


def logins(count: int) -> tuple[list[int], list[int]]:
    """Let clients connect at once and send a request; return when they were answered, in ms, and
    when a client was that had been connected before."""
    bench = Bench()
    bench.hosts["b"].card.connection_us = 10_000
    bench.start("b", kind=Login)
    bench.start("a")
    early = bench.connect()
    bench.run(50_000)
    began = bench.world.now
    numbers: list[int] = []
    for _ in range(count):
        bench.act("a", lambda process, _: numbers.append(process.dial("b")))
    bench.run(2_000)
    for number in numbers:
        bench.send(number, 1)
    bench.send(early, 2)
    bench.run(100_000)
    return tuple(  # type: ignore[return-value]
        [(t - began) // 1000 for t in bench.times("a", ("response", number))] for number in (1, 2)
    )


def test_a_new_connection_is_read_when_it_is_set_up() -> None:
    assert logins(1) == ([10], [10])


def test_who_is_connected_is_read_between_two_rounds_of_new_connections() -> None:
    new, early = logins(5)
    assert early == [30]  # read behind the first one, which came alone, and answered a round later
    assert sorted(new) == [30, 50, 50, 50, 50]  # so are these, but the last two at once
