"""Where hosts are: a graph of hosts, racks and data centres, and the routes between them.

A rack stands for an availability zone (Kafka's broker.rack) and a data centre for a region. By
default the graph is a tree: host, rack, data centre, wide area. Two hosts of one rack are 0.25 ms
apart, of different racks 1 ms, of different data centres 60 ms, one way. Links may be added and
removed. A route is the path of least latency; its bandwidth is the least on the path. Routes are
cached until the graph changes.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

LOOPBACK_US = 20
HOST_US = 125  # host to rack: 2 x 125 is the LAN's 0.25 ms
RACK_US = 375  # rack to data centre: zones are 1 ms apart
DC_US = 29_500  # data centre to the wide area: regions are 60 ms apart
LAN_BYTES_PER_US = 1250  # 10 Gbit/s
WAN_BYTES_PER_US = 125  # 1 Gbit/s
WIDE_AREA = "wide-area"


class Route(NamedTuple):
    """The way from one host to another: latency, the span of the jitter above it, bandwidth."""

    latency_us: int
    jitter_us: int
    bytes_per_us: int


class Topology:
    """The graph of one world; ``on_change`` is called after every change of it.

    ``jitter_percent`` is the span of the jitter, as a percentage of the latency of a route.
    """

    def __init__(self, jitter_percent: int = 10) -> None:
        self._links: dict[str, dict[str, tuple[int, int]]] = {}  # both ways: latency, bandwidth
        self.jitter_percent = jitter_percent
        self.on_change: list[Callable[[], None]] = []
        self._routes: dict[tuple[str, str], Route] = {}
        self._place: dict[str, tuple[str, str]] = {}  # host -> (rack, data centre)

    def add_host(self, host: str, rack: str = "rack-0", dc: str = "dc-0") -> None:
        """Place a host in a rack of a data centre, creating both as needed."""
        assert host not in self._place, host
        rack_node = f"{dc}/{rack}"
        self._place[host] = (rack, dc)
        if dc not in self._links:
            self.link(dc, WIDE_AREA, DC_US, WAN_BYTES_PER_US)
        if rack_node not in self._links:
            self.link(rack_node, dc, RACK_US, LAN_BYTES_PER_US)
        self.link(host, rack_node, HOST_US, LAN_BYTES_PER_US)

    def link(self, a: str, b: str, latency_us: int, bytes_per_us: int) -> None:
        """Add or change an edge. Nodes are hosts, ``dc/rack``, data centres, ``wide-area``."""
        assert latency_us > 0, latency_us
        assert bytes_per_us > 0, bytes_per_us
        for one, other in ((a, b), (b, a)):
            self._links.setdefault(one, {})[other] = latency_us, bytes_per_us
        self._changed()

    def unlink(self, a: str, b: str) -> None:
        """Remove an edge."""
        del self._links[a][b], self._links[b][a]
        self._changed()

    def hosts(self, name: str) -> tuple[str, ...]:
        """Return the hosts that a name stands for: a host, a rack, or a data centre.

        Raises:
            LookupError: the name is none of these.
        """
        if name in self._place:
            return (name,)
        found = tuple([host for host, place in self._place.items() if name in place])
        if not found:
            raise LookupError(f"{name!r} is no host, rack or data centre")
        return found

    def route(self, source: str, target: str) -> Route | None:
        """Return the route between two hosts, None if there is none."""
        key = (source, target)
        route = self._routes.get(key)
        if route is None and (found := self._search(source, target)) is not None:
            self._routes[key] = route = found
        return route

    def _search(self, source: str, target: str) -> Route | None:
        if source == target:
            return Route(LOOPBACK_US, 1, 10_000)
        # Dijkstra's algorithm; of two paths with equal latency it takes the one of more bandwidth.
        reached: set[str] = set()
        ahead = [(0, -(1 << 62), source)]
        while ahead:
            latency, bandwidth, place = heappop(ahead)
            if place == target:
                span = latency * self.jitter_percent // 100 + 1
                return Route(latency, span, -bandwidth)
            if place not in reached:
                reached.add(place)
                for other, (more, width) in self._links[place].items():
                    heappush(ahead, (latency + more, max(bandwidth, -width), other))
        return None

    def _changed(self) -> None:
        self._routes.clear()
        for callback in self.on_change:
            callback()
