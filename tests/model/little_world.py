"""A little deterministic world for tests: processes, instant disks, links with a seeded delay.

It knows nothing of the real simulator. Effects are performed in order, flushes and barriers succeed
at once, connections are FIFO, and `cut` silences an endpoint both ways until `heal`.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.effects import (
    ANONYMOUS,
    Barrier,
    Close,
    Closed,
    Exit,
    Flush,
    Flushed,
    Open,
    Opened,
    Peer,
    Post,
    Posted,
    Process,
    Read,
    Reply,
    Request,
    Respond,
    Response,
    Send,
    Then,
)
from kafkasim.model.facts import FACTS
from kafkasim.model.storage.files import MemoryFiles

KINDS = frozenset(FACTS.values())
NOBODY = Peer(ANONYMOUS, "")
"""Who has not authenticated."""


class Wire:
    """Both ends of a connection."""

    def __init__(self, client: str, client_number: int, server: str, server_number: int) -> None:
        self.client, self.client_number = client, client_number
        self.server, self.server_number = server, server_number
        self.last = {True: 0, False: 0}  # FIFO per direction


class World:
    """Runs processes until a time."""

    def __init__(self, seed: int = 1) -> None:
        self.rng = random.Random(seed)
        self.now = 0
        self.heap: list[tuple[int, int, Callable[[], None]]] = []
        self.sequence = 0
        self.processes: dict[str, Process] = {}
        self.files: dict[str, MemoryFiles] = {}
        self.factories: dict[str, Callable[..., Process]] = {}
        self.outgoing: dict[tuple[str, int], Wire] = {}
        self.incoming: dict[tuple[str, int], Wire] = {}
        self.next_number = 1_000_000
        self.facts: list[tuple[int, str, Any]] = []
        self.answers: dict[tuple[str, int, int], Any] = {}
        self.peers: dict[int, Peer] = {}  # who asks from outside, by connection
        self.throttle_ms = 0  # of the last answer to whoever asked from outside
        self.kinds: Counter[str] = Counter()
        self.held: list[str] = []
        self.exits: list[tuple[str, Exit]] = []

    def add(self, name: str, factory: Callable[..., Process]) -> None:
        self.files.setdefault(name, MemoryFiles())
        self.factories[name] = factory
        process = factory(self.files[name], random.Random(self.rng.getrandbits(64)), self.now)
        self.processes[name] = process
        process.peer_of = lambda connection: self.peers.get(connection, NOBODY)
        process.start(self.now)
        self.drain(name)

    def crash(self, name: str) -> None:
        del self.processes[name]
        for (owner, number), wire in list(self.outgoing.items()):
            if owner == name or wire.server == name:
                del self.outgoing[(owner, number)]
                self.incoming.pop((wire.server, wire.server_number), None)
                if owner != name:
                    self.later(1, lambda o=owner, n=number: self.give(o, Closed(n, "reset")))

    def restart(self, name: str) -> None:
        self.add(name, self.factories[name])

    def later(self, delay: int, action: Callable[[], None]) -> None:
        self.sequence += 1
        heapq.heappush(self.heap, (self.now + delay, self.sequence, action))

    def give(self, name: str, item: Any) -> None:
        process = self.processes.get(name)
        if process is not None:
            process.handle(item, self.now)
            self.drain(name)

    def drain(self, name: str) -> None:
        process = self.processes[name]
        while process.out:
            effects, process.out[:] = list(process.out), []
            for effect in effects:
                self.perform(name, effect)
                if name not in self.processes:
                    return

    def perform(self, name: str, effect: Any) -> None:
        kind = type(effect)
        if kind in KINDS:
            self.facts.append((self.now, name, effect))
            self.kinds[kind.__name__] += 1
        elif kind is Open:
            self.next_number += 1
            wire = Wire(name, effect.connection, effect.address, self.next_number)
            self.outgoing[(name, effect.connection)] = wire
            self.incoming[(effect.address, self.next_number)] = wire
            self.later(100, lambda: self.give(name, Opened(effect.connection)))
        elif kind is Send:
            wire = self.outgoing.get((name, effect.connection))
            if wire is not None:
                self.travel(wire, True, effect)
        elif kind is Respond:
            self.respond(name, effect)
        elif kind is Post:
            self.later(
                self.rng.randrange(2, 20),
                lambda: self.give(name, Posted(effect.handler, effect.message)),
            )
        elif kind is Then:
            effect.handler(self.now)
        elif kind is Flush:
            self.later(2000, lambda: self.give(name, Flushed(effect.handler, None)))
        elif kind is Read:
            self.later(200, lambda: self.give(name, Posted(effect.handler, None)))
        elif kind is Exit:
            self.exits.append((name, effect))
            self.crash(name)
        elif kind is Close:
            if self.outgoing.pop((name, effect.connection), None) is None:
                self.answers[(name, effect.connection, 1)] = effect  # whoever asks from outside
        else:
            assert kind in (Barrier, Reply), effect

    def respond(self, name: str, effect: Respond) -> None:
        key = effect.connection, effect.correlation
        process = self.processes[name]
        merge, of_time = process.merges.pop(key, None), process.throttles.pop(key, None)
        if merge is not None:
            effect = replace(effect, message=merge(effect.message))
        wire = self.incoming.get((name, effect.connection))
        if wire is None:
            waits_ms = 0 if of_time is None else of_time(self.now)
            self.throttle_ms = max(effect.throttle_ms, waits_ms)
            self.answers[(name, *key)] = effect.message
        elif effect.message is not None:
            self.travel(wire, False, effect)

    def travel(self, wire: Wire, forward: bool, effect: Any) -> None:
        at = max(self.now + 200 + self.rng.randrange(50), wire.last[forward] + 1)
        wire.last[forward] = at
        self.later(at - self.now, lambda: self.arrive(wire, forward, effect))

    def arrive(self, wire: Wire, forward: bool, effect: Any) -> None:
        if wire.client in self.held or wire.server in self.held:
            self.later(10_000, lambda: self.arrive(wire, forward, effect))
            return
        message = effect.message
        if forward:
            if (wire.server, wire.server_number) in self.incoming:
                self.delivered(wire, forward, message)
                item = Request(wire.server_number, effect.correlation, message, self.now)
                self.give(wire.server, item)
        elif (wire.client, wire.client_number) in self.outgoing:
            self.delivered(wire, forward, message)
            self.give(wire.client, Response(wire.client_number, effect.correlation, message))

    def run(self, until: int) -> None:
        while True:
            due = [
                (deadline, name)
                for name, process in self.processes.items()
                if (deadline := process.timers.next_deadline()) is not None
            ]
            timer = min(due, default=(until + 1, ""))
            event = self.heap[0][0] if self.heap else until + 1
            if min(timer[0], event) > until:
                self.now = until
                return
            if event <= timer[0]:
                self.now, _, action = heapq.heappop(self.heap)
                action()
            else:
                self.now = max(self.now, timer[0])
                process = self.processes[timer[1]]
                popped = process.timers.pop_due(self.now)
                assert popped is not None
                process.timers.fire(popped[0], popped[1], self.now)
                self.drain(timer[1])

    def step(self, duration_us: int) -> None:
        self.run(self.now + duration_us)

    def seen(self, kind: type, since: int = 0) -> list[Any]:
        """Return the facts of one kind, of all processes, in the order in which they happened."""
        return [fact for at, _, fact in self.facts if type(fact) is kind and at >= since]

    def delivered(self, wire: Wire, forward: bool, message: Any) -> None:
        """Take note of a message that reaches a live process; transcripts override this."""

    def ask(
        self, name: str, message: Any, wait_us: int = 1_000_000, peer: Peer | None = None
    ) -> Any:
        """Send a request from outside and return its answer (None: none came in time)."""
        self.next_number += 1
        if peer is not None:
            self.peers[self.next_number] = peer
        key = (name, self.next_number, 1)
        self.give(name, Request(self.next_number, 1, message, self.now))
        deadline = self.now + wait_us
        while key not in self.answers and self.now < deadline:
            self.run(min(self.now + 1000, deadline))
        return self.answers.pop(key, None)
