"""An ensemble and clients in a little world: connections that stall and break, crashes, pauses."""

from __future__ import annotations

from collections import deque
from functools import partial

from kafkasim.model.effects import (
    Close,
    Closed,
    Open,
    Opened,
    OpenFailed,
    Process,
    Push,
    Request,
    Response,
)
from kafkasim.model.facts import ZooKeeperConnection, ZooKeeperRole, ZooKeeperSession
from kafkasim.model.zookeeper.client import SessionState, ZooKeeperClient
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.model.zookeeper.ops import ZkError
from kafkasim.model.zookeeper.rules import ZooKeeperRules
from kafkasim.model.zookeeper.server.quorum_peer import QuorumPeer
from tests.model.little_world import Wire, World


class ClientProcess(Process):
    """A process that owns a session and writes down all that it hears."""

    def __init__(self, name, servers, timeout_ms, files, rng, now):
        super().__init__(name, files, rng, now)
        self.log = []  # ("state", state) | ("watch", type, path) | ("result", tag, ZkResult)
        self.zk = ZooKeeperClient(self, servers, timeout_ms, self)

    def start(self, now):
        self.zk.start(now)

    def on_state(self, state, now):
        self.log.append(("state", state.value))

    def on_watch(self, event, now):
        self.log.append(("watch", event.type, event.path))

    def ask(self, op, tag, asked):
        def answered(result, now):
            assert now >= asked
            self.log.append(("result", tag, result))

        self.zk.request(op, answered, asked)


class Ensemble(World):
    """Servers ``zookeeper-1..n`` and clients; ``cut`` pairs let nothing through until healed."""

    def __init__(self, servers=3, seed=1, rules=None, config=None):
        super().__init__(seed)
        self.config = config or ZooKeeperConfig()
        self.rules = rules or ZooKeeperRules()
        self.addresses = {i: f"zookeeper-{i}" for i in range(1, servers + 1)}
        self.cuts = set()
        self.wires = []
        self.tags = 0
        for i in self.addresses:
            self.add(self.addresses[i], self.server_factory(i))

    def server_factory(self, i):
        return lambda files, rng, now: QuorumPeer(
            self.addresses[i], i, self.addresses, self.config, self.rules, files, rng, now
        )

    def client(self, name, timeout_ms=6000, servers=None):
        addresses = tuple(self.addresses.values()) if servers is None else servers
        self.add(
            name,
            lambda files, rng, now: ClientProcess(name, addresses, timeout_ms, files, rng, now),
        )
        return self.processes[name]

    # Verbs.

    def leader(self):
        leading = [p for n, p in self.processes.items() if n in self.servers() and p.leader]
        return max(leading, key=lambda p: p.leader.epoch).name if leading else None

    def servers(self):
        return list(self.addresses.values())

    def ready(self, wait_us=30_000_000):
        """Run until a majority of the servers serves."""
        self.until(
            lambda: (
                self.leader()
                and sum(self.processes[n].serving for n in self.servers() if n in self.processes)
                == sum(n in self.processes for n in self.servers())
            ),
            wait_us,
        )

    def until(self, condition, wait_us=30_000_000):
        end = self.now + wait_us
        while not condition():
            assert self.now < end, "the condition did not come true"
            self.run(min(self.now + 5_000, end))

    def ask_client(self, name, op):
        """Send an operation now; return the tag of its result."""
        self.tags += 1
        client = self.processes[name]
        client.ask(op, self.tags, self.now)
        self.drain(name)
        return self.tags

    def result(self, name, tag, wait_us=20_000_000):
        """Run until the operation is answered, and return the result."""
        log = self.processes[name].log

        def found():
            return [e for e in log if e[0] == "result" and e[1] == tag]

        self.until(found, wait_us)
        return found()[0][2]

    def do(self, name, op):
        """Send an operation and return its result."""
        return self.result(name, self.ask_client(name, op))

    def ok(self, name, op):
        result = self.do(name, op)
        assert result.error is ZkError.OK, (op, result)
        return result

    def call(self, name, method, *arguments):
        """Call a method of a client's library."""
        getattr(self.processes[name].zk, method)(*arguments, self.now)
        self.drain(name)

    def connected(self, name):
        self.until(lambda: self.processes[name].zk.state is SessionState.CONNECTED)

    def attach(self, name, server, timeout_ms=6000):
        """Add a client and have its session at one server; later it may go to any."""
        client = self.client(name, timeout_ms, (server,))
        self.connected(name)
        client.zk._servers = self.servers()
        return client

    def others(self, *names):
        return [n for n in self.servers() if n not in names]

    def prefer(self, name, server):
        """Let a client's next attempt go to this server."""
        zk = self.processes[name].zk
        zk._next = zk._servers.index(server)

    def server_of(self, name):
        connection = self.processes[name].zk.connection
        return None if connection is None else connection.server

    def cut(self, one, other):
        self.cuts.add(frozenset((one, other)))

    def isolate(self, name):
        for other in self.processes:
            if other != name:
                self.cut(name, other)

    def heal(self):
        self.cuts.clear()
        for wire in self.wires:
            for forward in (True, False):
                waiting, wire.stalled[forward] = wire.stalled[forward], deque()
                for effect in waiting:
                    self.travel(wire, forward, effect)

    def reset(self, name):
        """Break the client's connection; both ends may have sent what never arrives."""
        zk = self.processes[name].zk
        if zk.connection is not None:
            number = zk.connection.number
            self.break_wire(self.outgoing.get((name, number)))

    def session_events(self):
        return [
            (f.session_id, f.event, f.client)
            for _, _, f in self.facts
            if type(f) is ZooKeeperSession
        ]

    def told(self, name):
        return [f.state for _, n, f in self.facts if n == name and type(f) is ZooKeeperConnection]

    def roles(self, name):
        return [f.role for _, n, f in self.facts if n == name and type(f) is ZooKeeperRole]

    # The inside.

    def crash(self, name):
        for wire in list(self.wires):
            if name in (wire.client, wire.server):
                self.break_wire(wire)
        del self.processes[name]

    def break_wire(self, wire):
        if wire is None or wire not in self.wires:
            return
        self.wires.remove(wire)
        self.outgoing.pop((wire.client, wire.client_number), None)
        self.incoming.pop((wire.server, wire.server_number), None)
        client, number = wire.client, wire.client_number
        self.later(50, lambda: self.give_alive(client, Closed(number, "reset")))

    def give_alive(self, name, item):
        process = self.processes.get(name)
        if process is not None and item.connection in process.channels:
            self.give(name, item)

    def perform(self, name, effect):
        kind = type(effect)
        if kind is Open:
            self.open(name, effect)
        elif kind is Push:
            wire = self.incoming.get((name, effect.connection))
            if wire is not None:
                self.travel(wire, False, effect)
        elif kind is Close:
            outgoing = self.outgoing.pop((name, effect.connection), None)
            wire = self.incoming.get((name, effect.connection))
            if outgoing is not None:
                self.travel(outgoing, True, effect)
            elif wire is not None:
                self.travel(wire, False, effect)
            else:
                super().perform(name, effect)
        else:
            super().perform(name, effect)

    def open(self, name, effect, gaps_s=(1, 2, 4)):
        """Connect now; across a cut after 1, 3 and 7 s again (TCP's SYN), and give up after 10."""
        number = effect.connection
        if frozenset((name, effect.address)) in self.cuts:
            if not gaps_s:
                self.later(3_000_000, lambda: self.give_alive(name, OpenFailed(number, "timeout")))
                return
            again = partial(self.open, name, effect, gaps_s[1:])
            self.later(gaps_s[0] * 1_000_000, again)
            return
        if effect.address not in self.processes:
            self.later(200, lambda: self.give_alive(name, OpenFailed(number, "refused")))
            return
        self.next_number += 1
        wire = Wire(name, number, effect.address, self.next_number)
        wire.stalled = {True: deque(), False: deque()}
        self.wires.append(wire)
        self.outgoing[name, number] = wire
        self.incoming[effect.address, self.next_number] = wire
        self.later(100, lambda: self.give_alive(name, Opened(number)))

    def arrive(self, wire, forward, effect):
        if wire not in self.wires:
            return
        if frozenset((wire.client, wire.server)) in self.cuts or wire.stalled[forward]:
            wire.stalled[forward].append(effect)
        elif type(effect) is Close:
            self.wires.remove(wire)
            self.incoming.pop((wire.server, wire.server_number), None)
            if not forward:
                self.outgoing.pop((wire.client, wire.client_number), None)
                self.give_alive(wire.client, Closed(wire.client_number, "closed"))
        elif forward:
            self.delivered(wire, forward, effect.message)
            item = Request(wire.server_number, effect.correlation, effect.message, self.now)
            self.give(wire.server, item)
        elif (wire.client, wire.client_number) in self.outgoing:
            self.delivered(wire, forward, effect.message)
            item = Response(wire.client_number, effect.correlation, effect.message)
            self.give(wire.client, item)
