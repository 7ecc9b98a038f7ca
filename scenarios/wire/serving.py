"""``kafkasim serve``: one listener a broker, simulated time paced by the wall clock.

The loop runs the simulation up to the present moment, then waits for bytes until the next event is
due. If the simulation falls behind by more than LAG_MAX_US, simulated time is stretched: it goes on
from where it is, later than the wall clock says. A broker whose process is down has no listener, so
that connections to it are refused. A paused one accepts connections and is silent, as TCP is.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.journal import Journal
from kafkasim.scenarios.wire.session import Session
from kafkasim.sim.apps.loop import generator_hooks

SLICE_US = 20_000
"""How much is simulated between two looks at the sockets."""

LAG_MAX_US = 1_000_000
CONNECTIONS_MAX = 1000
UNSENT_MAX = 64 * 1024 * 1024
"""Bytes of responses that wait for a client; above it the client's requests wait, too."""

CLIENT_ID_MAX = 249
_READ = 262_144
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends RST
_HEAD = 14  # length, api key, version, correlation id, length of the client id


class _Connection:
    """A TCP connection of a client to a broker (Client)."""

    def __init__(self, server: Server, sock: socket.socket, node: str) -> None:
        self.server, self.sock, self.node = server, sock, node
        self.number = 0  # 0 until the first request has named the client
        self._first = bytearray()
        self._unsent = bytearray()
        self._dead = False

    def send(self, data: bytes | bytearray) -> None:
        """Take bytes of responses."""
        if not self._dead:
            self._unsent += data
            self.flush()

    def flush(self) -> None:
        """Send what waits, as far as the kernel takes it."""
        try:
            del self._unsent[: self.sock.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self._gone()
            return
        events = selectors.EVENT_WRITE if self._unsent else 0
        if len(self._unsent) < UNSENT_MAX:
            events |= selectors.EVENT_READ
        self.server.watch(self.sock, events, self)

    def ended(self, reason: str) -> None:
        """End the TCP connection: with FIN if the broker closed it, else with RST."""
        if self._dead:
            return
        if reason not in ("closed", "reset", "refused", "timeout"):
            self.server.log(f"connection {self.number} to {self.node} refused: {reason}")
        if reason != "closed":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.server.session.links.pop(self.number, None)
        self.drop()

    def readable(self) -> None:
        """Read once, and hand on what was read."""
        try:
            data = self.sock.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._gone()
        elif self.number:
            self.server.take(self.number, data)
        else:
            self._first += data
            self._introduce()

    def _introduce(self) -> None:
        """Open the simulated connection once the client id of the first request is here."""
        first = self._first
        if len(first) < _HEAD:
            return
        size = int.from_bytes(first[12:14], "big", signed=True)
        if size > CLIENT_ID_MAX:
            size = 0
        if len(first) < _HEAD + max(size, 0):
            return
        client_id = bytes(first[_HEAD : _HEAD + max(size, 0)]).decode(errors="replace")
        try:
            self.number = self.server.introduce(self, client_id)
        except SessionError as error:
            self.ended(str(error))
            return
        data, self._first = bytes(first), bytearray()
        self.server.take(self.number, data)

    def _gone(self) -> None:
        if self.number:
            self.server.leave(self.number)
        self.drop()

    def drop(self) -> None:
        """Close the socket."""
        if not self._dead:
            self._dead = True
            self.server.forget(self)


class Server:
    """The listeners of a session.

    Args:
        session: the cluster, which has booted.
        listeners: a bound socket for each broker's node.
        journal: takes every input; None keeps none.
        log: prints a line.
    """

    def __init__(
        self,
        session: Session,
        listeners: dict[str, socket.socket],
        journal: Journal | None,
        log: Callable[[str], None],
    ) -> None:
        self.session, self.journal, self.log = session, journal, log
        self.selector = selectors.DefaultSelector()
        self.connections: dict[_Connection, None] = {}
        self.stretched_us = 0  # by how much simulated time is behind the wall clock
        self._listeners: dict[str, socket.socket | None] = {}
        self._opened = 0
        self._kernel = session.run.world.kernel
        self._commands: list[Callable[[], None]] = []
        self._stop = False
        for node, listener in listeners.items():
            self._listen(node, listener)

    # Inputs, each with its moment in the journal.

    def introduce(self, connection: _Connection, client_id: str) -> int:
        """Open the simulated connection of a new client; return its number."""
        self._opened += 1
        self._note("open", self._opened, connection.node, client_id)
        self.session.open(self._opened, connection.node, client_id, connection)
        return self._opened

    def take(self, number: int, data: bytes) -> None:
        """Take bytes of a client."""
        self._note("data", number, data)
        self.session.data(number, data)

    def leave(self, number: int) -> None:
        """Take the end of a client's connection."""
        self._note("close", number)
        self.session.close(number)

    def inject(self, table: dict[str, Any]) -> str:
        """Arm a fault; return what it is.

        Raises:
            SessionError: the table is wrong.
        """
        told = self.session.inject(table)
        self._note("fault", table)
        return told

    def answer(self, table: dict[str, Any]) -> str:
        """Answer the next requests of an API otherwise; return what it is.

        Raises:
            SessionError: the table is wrong.
        """
        told = self.session.answer(table)
        self._note("answer", table)
        return told

    def heal(self) -> None:
        """End all faults."""
        self._note("heal")
        self.session.heal()

    def _note(self, *what: Any) -> None:
        if self.journal is not None:
            self.journal.write(self._kernel._now, *what)

    # Sockets.

    def watch(self, sock: socket.socket, events: int, connection: _Connection) -> None:
        """Watch a connection for these events."""
        if not events:
            events = selectors.EVENT_WRITE
        if self.selector.get_key(sock).events != events:
            self.selector.modify(sock, events, connection)

    def forget(self, connection: _Connection) -> None:
        """Close a connection's socket."""
        self.selector.unregister(connection.sock)
        connection.sock.close()
        self.connections.pop(connection, None)

    def wake_by(self, sock: socket.socket, command: Callable[[], None]) -> None:
        """Call a command when a socket is readable: the control port's."""
        self.selector.register(sock, selectors.EVENT_READ, command)

    def _listen(self, node: str, listener: socket.socket) -> None:
        listener.listen(128)
        listener.setblocking(False)
        self._listeners[node] = listener
        self.selector.register(listener, selectors.EVENT_READ, node)

    def _match_listeners(self) -> None:
        """Close the listeners of brokers that are down, and open those of brokers that are up."""
        for node, listener in self._listeners.items():
            alive = self.session.run.world.hosts[node].alive
            if alive and listener is None:
                try:
                    self._listen(node, bound(*self.session.ports[node]))
                except OSError:
                    continue  # somebody has the port; it is tried again
            elif not alive and listener is not None:
                self.selector.unregister(listener)
                listener.close()
                self._listeners[node] = None

    def _accept(self, listener: socket.socket, node: str) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        if len(self.connections) >= CONNECTIONS_MAX:
            sock.close()
            self.log(f"a connection to {node} was closed: there are {CONNECTIONS_MAX}")
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(self, sock, node)
        self.connections[connection] = None
        self.selector.register(sock, selectors.EVENT_READ, connection)

    # Time.

    def stop(self) -> None:
        """End :meth:`serve` at its next turn."""
        self._stop = True

    def serve(self, until_wall: float | None = None) -> None:
        """Serve until a moment of ``time.perf_counter``, or until it is stopped."""
        wall_0, now_0 = time.perf_counter(), self._kernel._now
        told = 0
        with generator_hooks():
            while not self._stop:
                wall = time.perf_counter()
                if until_wall is not None and wall >= until_wall:
                    return
                target = now_0 + int((wall - wall_0) * 1e6)
                behind = target - self._kernel._now
                if behind > LAG_MAX_US:
                    self.stretched_us += behind
                    wall_0, now_0 = wall, self._kernel._now
                    target = now_0 + SLICE_US
                    if self.stretched_us > 2 * told:
                        told = self.stretched_us
                        self.log(f"simulated time is stretched: {told / 1e6:.1f} s behind so far")
                if target > self._kernel._now:
                    self._kernel.run_until(min(target, self._kernel._now + SLICE_US))
                self._match_listeners()
                self._attend(0.0 if target > self._kernel._now else self._idle())
                if self.journal is not None:
                    self.journal.flush()

    def _idle(self) -> float:
        """Return for how many seconds nothing is due, at most a slice."""
        due = self._kernel._queue[0][0] - self._kernel._now if self._kernel._queue else SLICE_US
        return max(0, min(due, SLICE_US)) / 1e6

    def _attend(self, timeout: float) -> None:
        for key, events in self.selector.select(timeout):
            what = key.data
            if isinstance(what, str):
                self._accept(key.fileobj, what)  # type: ignore[arg-type]
            elif isinstance(what, _Connection):
                if events & selectors.EVENT_WRITE:
                    what.flush()
                if events & selectors.EVENT_READ and what in self.connections:
                    what.readable()
            else:
                what()

    def close(self) -> str:
        """Close all sockets, end the journal; return the digest of the trace."""
        for connection in list(self.connections):
            connection.drop()
        for listener in self._listeners.values():
            if listener is not None:
                listener.close()
        self.selector.close()
        trace = self.session.run.trace
        if self.journal is not None:
            self._note("end", trace.digest, trace.rows)
            self.journal.close()
        return trace.digest


def bound(host: str, port: int) -> socket.socket:
    """Return a socket bound to an address; port 0 chooses one.

    Raises:
        OSError: the address is in use, or not this machine's.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
