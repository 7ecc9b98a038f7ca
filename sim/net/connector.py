"""Connection setup: SYN, SYN-ACK, their retransmits, refusal and timeout.

A client's end exists from the Open effect on, the server's from the SYN's arrival; the kernel of a
paused host accepts too. Silence is retried after 1 s, doubling, and given up after 10 s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Opened, OpenFailed
from kafkasim.sim.net.link_rules import DROP, PASS
from kafkasim.sim.net.sockets import Socket

if TYPE_CHECKING:
    from kafkasim.sim.host.host import Host
    from kafkasim.sim.host.lanes import Lane
    from kafkasim.sim.net.network import Network

SYN_RETRANSMIT_US = 1_000_000
CONNECT_TIMEOUT_US = 10_000_000  # socket.connection.setup.timeout.ms


class Handshake:
    """A connection being set up: an event that is scheduled for each of its steps."""

    __slots__ = ("address", "callbacks", "deadline_us", "retransmit_us", "server", "socket")

    _ok = True

    def __init__(self, socket: Socket, address: str, server: Host, now_us: int) -> None:
        self.callbacks: Any = None
        self.socket = socket
        self.address = address
        self.server = server
        self.deadline_us = now_us + CONNECT_TIMEOUT_US
        self.retransmit_us = SYN_RETRANSMIT_US


class Connector:
    """Sets up the connections of a network."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self._syn_arrives = (self._on_syn,)
        self._syn_retries = (self._try_connect,)
        self._accepted = (self._on_accepted,)
        self._refused = (self._on_refused,)

    def connect(
        self, host: Host, connection: int, address: str, purpose: str, lane: Lane
    ) -> Socket:
        """Begin a handshake; the host hears Opened or OpenFailed on ``lane``."""
        server = self.network.endpoints.get(address)
        if server is None:
            raise LookupError(f"no host has the endpoint {address!r}")
        socket = Socket(host, connection, lane, purpose, inbound=False)
        handshake = Handshake(socket, address, server, self.network.kernel._now)
        self._try_connect(handshake)
        return socket

    def _try_connect(self, handshake: Handshake) -> None:
        socket, server = handshake.socket, handshake.server
        if socket.dead:
            return
        now = self.network.kernel._now
        if now >= handshake.deadline_us:
            socket.host.open_failed(socket, OpenFailed(socket.connection, "timeout"))
            return
        source, target = socket.host.name, server.name
        route = self.network.topology.route(source, target)
        delay = (
            self.network.judge(source, target, socket.purpose, None, True)
            if self.network.rules
            else PASS
        )
        if route is None or delay <= DROP or not server.powered:
            self._syn_again(handshake, now)
        else:
            handshake.callbacks = self._syn_arrives
            self.network.kernel.push(
                now + self.network.flight_us(source, target, route, delay), handshake
            )

    def _syn_again(self, handshake: Handshake, now: int) -> None:
        handshake.callbacks = self._syn_retries
        self.network.kernel.push(
            min(now + handshake.retransmit_us, handshake.deadline_us), handshake
        )
        handshake.retransmit_us *= 2

    def _on_syn(self, handshake: Handshake) -> None:
        client, server = handshake.socket, handshake.server
        now = self.network.kernel._now
        source, target = server.name, client.host.name
        route = self.network.topology.route(source, target)
        delay = (
            self.network.judge(source, target, client.purpose, None, False)
            if self.network.rules
            else PASS
        )
        if client.dead:
            return
        if route is None or delay <= DROP or not server.powered:
            self._syn_again(handshake, now)
            return
        if server.listens(handshake.address):
            accepted = server.accept(client, handshake.address)
            self.network.set_route(accepted)
            self.network.set_route(client)
            handshake.callbacks = self._accepted
        else:
            handshake.callbacks = self._refused
        arrival = now + self.network.flight_us(source, target, route, delay)
        if client.peer is not None:
            client.peer.last_arrival_us = arrival
        self.network.kernel.push(arrival, handshake)

    def _on_accepted(self, handshake: Handshake) -> None:
        socket = handshake.socket
        if not socket.dead:
            socket.host.receive_input(socket, Opened(socket.connection))

    def _on_refused(self, handshake: Handshake) -> None:
        socket = handshake.socket
        if not socket.dead:
            socket.host.open_failed(socket, OpenFailed(socket.connection, "refused"))
