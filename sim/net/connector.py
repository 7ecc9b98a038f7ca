"""Connection setup: SYN, SYN-ACK, their retransmits, refusal and timeout.

A client's end exists from the Open effect on, the server's end from the arrival of the SYN. The
kernel of a paused host accepts connections, too. Without an answer the SYN is sent again after 1 s,
doubling, and the attempt fails after 10 s.

Not modelled: a client's later attempts have longer timeouts, up to
socket.connection.setup.timeout.max.ms, with some jitter (KIP-601).
"""

from __future__ import annotations

from typing import Any

from kafkasim.sim.kernel import Kernel
from kafkasim.sim.net.link_rules import DROP, PASS
from kafkasim.sim.net.paths import Paths
from kafkasim.sim.net.sockets import NetworkCard, Socket
from kafkasim.sim.net.topology import Route

SYN_RETRANSMIT_US = 1_000_000
CONNECT_TIMEOUT_US = 10_000_000  # socket.connection.setup.timeout.ms


class Handshake:
    """A connection being set up: an event that is scheduled for each of its steps."""

    __slots__ = ("address", "callbacks", "deadline_us", "retransmit_us", "server", "socket")

    _ok = True

    def __init__(self, socket: Socket, address: str, server: NetworkCard, now_us: int) -> None:
        self.callbacks: Any = None
        self.socket = socket
        self.address = address  # in the server's domain
        self.server = server
        self.deadline_us = now_us + CONNECT_TIMEOUT_US
        self.retransmit_us = SYN_RETRANSMIT_US


class Connector:
    """Sets up the connections of a network. ``endpoints`` are the cards by address."""

    def __init__(self, kernel: Kernel, paths: Paths, endpoints: dict[str, NetworkCard]) -> None:
        self._kernel = kernel
        self._paths = paths
        self._endpoints = endpoints
        self._syn_arrives = (self._on_syn,)
        self._syn_retries = (self._try_connect,)
        self._accepted = (self._on_accepted,)
        self._refused = (self._on_refused,)

    def connect(self, socket: Socket, address: str) -> None:
        """Begin a handshake; the socket's receiver hears of its end.

        Raises:
            LookupError: no host has the address.
        """
        domain = socket.card.domain
        server = self._endpoints.get(domain + address) or self._endpoints.get(address)
        if server is None:
            raise LookupError(f"no host has the endpoint {address!r}")
        own = address.removeprefix(server.domain)
        self._try_connect(Handshake(socket, own, server, self._kernel._now))

    def _try_connect(self, handshake: Handshake) -> None:
        socket, server = handshake.socket, handshake.server
        if socket.dead:
            return
        now = self._kernel._now
        if now >= handshake.deadline_us:
            socket.receiver.open_failed(socket, "timeout")
            return
        source, target = socket.card.name, server.name
        route, delay = self._way(source, target, socket.purpose, True)
        if route is None or delay <= DROP or not server.powered:
            self._syn_again(handshake, now)
        else:
            handshake.callbacks = self._syn_arrives
            arrival = now + self._paths.flight_us(source, target, route, delay)
            self._kernel.push(arrival, handshake)

    def _way(
        self, source: str, target: str, purpose: str, is_request: bool
    ) -> tuple[Route | None, int]:
        """Return the route of a handshake's packet and the verdict of the rules on it."""
        rules = self._paths.rules
        verdict = self._paths.judge(source, target, purpose, None, is_request) if rules else PASS
        return self._paths.topology.route(source, target), verdict

    def _syn_again(self, handshake: Handshake, now: int) -> None:
        handshake.callbacks = self._syn_retries
        again = min(now + handshake.retransmit_us, handshake.deadline_us)
        self._kernel.push(again, handshake)
        handshake.retransmit_us *= 2

    def _on_syn(self, handshake: Handshake) -> None:
        client, server = handshake.socket, handshake.server
        now = self._kernel._now
        source, target = server.name, client.card.name
        route, delay = self._way(source, target, client.purpose, False)
        if client.dead:
            return
        if route is None or delay <= DROP or not server.powered:
            self._syn_again(handshake, now)
            return
        if server.listener is not None:
            accepted = server.listener.accept(client, handshake.address)
            if accepted is None:
                self._syn_again(handshake, now)
                return
            self._paths.set_route(accepted)
            self._paths.set_route(client)
            handshake.callbacks = self._accepted
        else:
            handshake.callbacks = self._refused
        arrival = now + self._paths.flight_us(source, target, route, delay)
        if client.peer is not None:
            client.peer.last_arrival_us = arrival
        self._kernel.push(arrival, handshake)

    def _on_accepted(self, handshake: Handshake) -> None:
        socket = handshake.socket
        if not socket.dead:
            socket.receiver.opened(socket)

    def _on_refused(self, handshake: Handshake) -> None:
        socket = handshake.socket
        if not socket.dead:
            socket.receiver.open_failed(socket, "refused")
