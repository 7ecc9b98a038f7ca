"""The paths between hosts: routes, the jitter of each link, and the rules that disturb them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.sim.net.link_rules import PASS, Rule
from kafkasim.sim.net.sockets import Socket
from kafkasim.sim.net.topology import Route, Topology
from kafkasim.sim.streams import Streams


class Paths:
    """What lies between two hosts. A later rule is asked after an earlier one."""

    def __init__(self, topology: Topology, streams: Streams) -> None:
        self.topology = topology
        self.rules: list[Rule] = []
        self._streams = streams
        self._draws: dict[tuple[str, str], Callable[[], float]] = {}

    def judge(self, source: str, target: str, purpose: str, message: Any, is_request: bool) -> int:
        """Return the first verdict of the rules on a packet, or PASS."""
        for rule in self.rules:
            verdict = rule.judge(source, target, purpose, message, is_request)
            if verdict != PASS:
                return verdict
        return PASS

    def flight_us(self, source: str, target: str, route: Route, extra_us: int) -> int:
        """Return how long a handshake's packet travels, with its jitter."""
        jitter = int(self._draw(source, target)() * route.jitter_us)
        return route.latency_us + jitter + max(extra_us, 0)

    def set_route(self, socket: Socket) -> None:
        """Give a socket the route to its peer, as it is now."""
        assert socket.peer is not None
        source, target = socket.card.name, socket.peer.card.name
        route = self.topology.route(source, target)
        socket.cut_off = socket.half_open or route is None
        if route is not None:
            socket.latency_us, socket.jitter_us, socket.bytes_per_us = route
        socket.random = self._draw(source, target)

    def _draw(self, source: str, target: str) -> Callable[[], float]:
        """Return the random stream of a link in one direction."""
        key = (source, target)
        draw = self._draws.get(key)
        if draw is None:
            link: random.Random = self._streams.stream("link", source, target)
            draw = self._draws[key] = link.random
        return draw
