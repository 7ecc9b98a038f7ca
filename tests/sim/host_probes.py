"""Small processes to drive hosts with: they log what happens to them as (simulated µs, what)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.effects import Close, Open, Posted, Process, Request, Respond, Send
from kafkasim.model.values import value
from kafkasim.sim.world import World


@value
class PingRequest:
    number: int
    size: int = 100

    def wire_size(self) -> int:
        return self.size


@value
class PingResponse:
    number: int
    size: int = 100

    def wire_size(self) -> int:
        return self.size


class ListTrace:
    def __init__(self) -> None:
        self.rows: list[tuple[int, str, Any]] = []

    def record(self, t_us: int, node: str, fact: Any) -> None:
        self.rows.append((t_us, node, fact))

    def kinds(self) -> list[str]:
        return [type(fact).__name__ for _, _, fact in self.rows]


class Probe(Process):
    """Logs its inputs; a test gives it its behaviour by ``script`` functions."""

    lane_threads = {"requests": 8}

    def __init__(self, name, files, rng, now, world, log, on_request=None, on_start=None):
        super().__init__(name, files, rng, now)
        self.world = world
        self.log = log
        self.script = on_request
        self.on_start = on_start

    def note(self, what: Any) -> None:
        self.log.append((self.world.now, self.name, what))

    def start(self, now: int) -> None:
        if self.on_start is not None:
            self.on_start(self, now)

    def on_request(self, item: Request, now: int) -> None:
        self.note(("request", item.message.number))
        if self.script is not None:
            self.script(self, item, now)
        else:
            self.answer(item)

    def answer(self, item: Request) -> None:
        message = PingResponse(item.message.number)
        self.out.append(Respond(item.connection, item.correlation, message))

    # As its own channel.

    def dial(self, address: str, lane: str = "main", purpose: str = "test") -> int:
        connection = self.new_connection(self)
        self.out.append(Open(connection, address, purpose, lane))
        return connection

    def send(self, connection: int, number: int, size: int = 100) -> None:
        self.out.append(Send(connection, number, PingRequest(number, size)))

    def hang_up(self, connection: int) -> None:
        self.out.append(Close(connection))

    def on_opened(self, now: int) -> None:
        self.note("opened")

    def on_open_failed(self, reason: str, now: int) -> None:
        self.note(("open-failed", reason))

    def on_response(self, correlation: int, message: Any, now: int) -> None:
        self.note(("response", correlation))

    def on_closed(self, reason: str, now: int) -> None:
        self.note(("closed", reason))


class Bench:
    """A world with two hosts, ``a`` (client) and ``b`` (server), and one log."""

    def __init__(self, seed: int = 1, names: tuple[str, ...] = ("a", "b"), **spec: Any) -> None:
        self.trace = ListTrace()
        self.world = World(seed, self.trace)
        self.log: list[tuple[int, str, Any]] = []
        self.hosts = {n: self.world.add_host(n, clock_offset_us=0, **spec) for n in names}
        self.network = self.world.network
        self.link_faults = self.world.link_faults

    def start(self, name: str, on_request=None, on_start=None, kind: type = Probe) -> Probe:
        def factory(files, rng, now):
            return kind(name, files, rng, now, self.world, self.log, on_request, on_start)

        process = self.hosts[name].start(factory)
        assert isinstance(process, Probe)
        return process

    def act(self, name: str, action) -> None:
        """Run ``action(process, now)`` on lane main of a process, as an input would."""
        lanes = self.hosts[name].lanes
        posted = Posted(lambda _, now: action(lanes.process, now), None)
        lanes.deliver(lanes.lane("main"), posted)

    def connect(self, purpose: str = "test") -> int:
        """Open a connection from ``a`` to ``b`` and run until it is up."""
        numbers: list[int] = []
        self.act("a", lambda p, _now: numbers.append(p.dial("b", purpose=purpose)))
        self.world.run(self.world.now + 2_000)
        return numbers[0]

    def send(self, connection: int, *numbers: int, size: int = 100) -> None:
        def action(process, _now):
            for number in numbers:
                process.send(connection, number, size)

        self.act("a", action)

    def run(self, us: int) -> None:
        self.world.run(self.world.now + us)

    def whats(self, name: str) -> list[Any]:
        return [what for _, who, what in self.log if who == name]

    def times(self, name: str, what: Any) -> list[int]:
        return [t for t, who, w in self.log if who == name and w == what]
