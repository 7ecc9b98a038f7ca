"""The two ends of a TCP connection, and what travels between them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafkasim.sim.host.host import Host
    from kafkasim.sim.host.lanes import Lane

NO_LANES: dict[type, Lane] = {}
END = -1  # the correlation of a packet that ends a connection; its message is the reason


class Socket:
    """One end of a connection. ``peer`` is None until the handshake reached the server.

    ``queue`` holds what was sent and could not leave: the peer's buffer is full, the packet in
    front was lost and waits for its retransmit, or a rule holds it.
    """

    __slots__ = (
        "arrives",
        "bytes_per_us",
        "connection",
        "cut_off",
        "dead",
        "half_open",
        "held",
        "host",
        "inbound",
        "inbox",
        "jitter_us",
        "lane",
        "lane_of_request",
        "last_arrival_us",
        "latency_us",
        "muted",
        "peer",
        "purpose",
        "queue",
        "random",
        "retransmit_us",
        "stalled_since_us",
        "unread",
    )

    def __init__(
        self, host: Host, connection: int, lane: Lane | None, purpose: str, inbound: bool
    ) -> None:
        self.host = host
        self.connection = connection
        self.lane = lane  # where answers run; None at the server
        self.lane_of_request: dict[type, Lane] = NO_LANES  # at the server: one table an endpoint
        self.purpose = purpose
        self.inbound = inbound
        # What hears of a message that arrives here over a healthy network.
        self.arrives = host.arrives_at_server if inbound else host.arrives_at_client
        self.peer: Socket | None = None
        self.dead = False  # this end is gone: nobody reads
        self.half_open = False  # what leaves here is lost for ever
        self.cut_off = False  # half open, or without a route
        # Receiving: muted while a request of it is being served; the inbox is the kernel's buffer.
        self.muted = False
        self.inbox: deque[Packet] = deque()
        # Sending.
        self.unread = 0  # bytes sent that the peer's process has not read
        self.last_arrival_us = 0
        self.queue: deque[Packet] = deque()
        self.held = False
        self.retransmit_us = 0  # the present timeout while a retransmit is scheduled, else 0
        self.stalled_since_us = 0
        self.latency_us = 0
        self.jitter_us = 1
        self.bytes_per_us = 1
        self.random: Any = None


class Packet:
    """A request, a response or an end on its way to ``socket``; also the request in service.

    A server's process is given the packet as its :class:`kafkasim.model.effects.Request`: it has the same
    four attributes.
    """

    __slots__ = (
        "callbacks",
        "connection",
        "correlation",
        "departs_us",
        "lane",
        "message",
        "pauses_us",
        "process",
        "received_us",
        "size",
        "socket",
    )

    _ok = True
    connection: int  # at the server that has read it
    departs_us: int  # when it may leave, while it waits to
    received_us: int  # host time at which a server read it
    process: Any  # the process that read it
    lane: Any  # the lane that serves it
    pauses_us: int  # the host's total of pauses when its service began

    def __init__(self, socket: Socket, correlation: int, message: Any, size: int) -> None:
        self.callbacks: Any = None
        self.socket = socket
        self.correlation = correlation
        self.message = message
        self.size = size
