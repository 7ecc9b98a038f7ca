"""The two ends of a TCP connection, the packets between them, and network cards.

The network calls a process through :class:`Receiver` and :class:`Listener`, and a host through its
:class:`NetworkCard`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from kafkasim.model.effects import ANONYMOUS
from kafkasim.sim.host.lanes import Lane

NO_LANES: dict[type, Lane] = {}
END = -1  # the correlation of a packet that ends a connection; its message is the reason

Arrives: TypeAlias = "tuple[Callable[[Packet], None]]"
"""The callbacks of a packet, one function: see :mod:`kafkasim.sim.kernel`."""


class Receiver(Protocol):
    """The process at an end of a connection, until it dies."""

    @property
    def running(self) -> bool:
        """False while the process is paused."""
        ...

    @property
    def arrives_at_server(self) -> Arrives:
        """What takes a request over a healthy network, ahead of ``Network.arrive``."""
        ...

    @property
    def arrives_at_client(self) -> Arrives:
        """What takes a response over a healthy network."""
        ...

    def postpone(self, callback: Callable[[Any], None], event: Any) -> None:
        """Call ``callback(event)`` when the pause ends."""
        ...

    def receive_request(self, socket: Socket, packet: Packet) -> None:
        """Read a request from an unmuted connection, or leave it if its queue is full."""
        ...

    def receive_response(self, socket: Socket, packet: Packet) -> None:
        """Read a response."""
        ...

    def opened(self, socket: Socket) -> None:
        """Hear that an outbound connection is established."""
        ...

    def open_failed(self, socket: Socket, reason: str) -> None:
        """Hear that an outbound connection was refused, or timed out."""
        ...

    def ended(self, socket: Socket, reason: str) -> None:
        """Hear that a connection is gone."""
        ...


class Listener(Protocol):
    """The process that accepts connections at a network card."""

    def accept(self, client: Socket, address: str) -> Socket | None:
        """Return the server's end of a new connection; None: the address has a full backlog."""
        ...


class NetworkCard:
    """A host as the network sees it: ``domain`` and the host's name in it, ``a.broker-1``.

    Of a world without parts the domain is "". An address that the host opens a connection to is one
    of its domain if there is such a one, as with the search list of a resolver.
    """

    __slots__ = (
        "connection_us",
        "domain",
        "free_us",
        "ip",
        "last_inbound",
        "listener",
        "name",
        "powered",
        "principal",
        "sockets",
    )

    def __init__(self, name: str, domain: str = "") -> None:
        self.name = domain + name
        self.domain = domain  # with its dot
        self.ip = self.name  # as servers see it: its own, or that of the NAT in front of it
        self.connection_us = 0  # how long a new inbound connection takes its network thread
        self.principal = ANONYMOUS  # whom its connections authenticate
        self.powered = True
        self.free_us = 0  # when it has sent what it was given
        self.listener: Listener | None = None  # None: connections are refused
        self.sockets: dict[int, Socket] = {}  # live ends, by connection
        self.last_inbound = 0  # inbound connections are numbered downwards from −1


class Socket:
    """One end of a connection. ``peer`` is None until the handshake reached the server.

    ``queue`` holds what was sent and could not leave: the peer's buffer is full, the packet in
    front was lost and waits for its retransmit, or a rule holds it.
    """

    __slots__ = (
        "acceptor",
        "arrives",
        "bytes_per_us",
        "card",
        "client_id",
        "connection",
        "cut_off",
        "dead",
        "half_open",
        "held",
        "inbound",
        "inbox",
        "jitter_us",
        "lane",
        "lane_of_request",
        "last_arrival_us",
        "latency_us",
        "muted",
        "peer",
        "processor",
        "purpose",
        "queue",
        "random",
        "receiver",
        "retransmit_us",
        "served",
        "stalled_since_us",
        "unread",
    )

    def __init__(
        self,
        card: NetworkCard,
        receiver: Receiver,
        connection: int,
        lane: Lane | None,
        purpose: str,
        inbound: bool,
    ) -> None:
        self.card = card
        self.receiver = receiver
        self.connection = connection
        self.lane = lane  # where responses run; None at the server
        self.lane_of_request: dict[type, Lane] = NO_LANES  # at the server: one table an endpoint
        self.purpose = purpose
        self.client_id = ""  # of the requests of who opened it
        self.inbound = inbound
        # What takes a message that arrives here over a healthy network.
        self.arrives = receiver.arrives_at_server if inbound else receiver.arrives_at_client
        self.peer: Socket | None = None
        self.dead = False  # this end is gone: nobody reads
        self.half_open = False  # what leaves here is lost for ever
        self.cut_off = False  # half open, or without a route
        # Receiving: muted while a request of it is being served; the inbox is the kernel's buffer.
        self.muted = False
        self.inbox: deque[Packet] = deque()
        # At the server: the network thread that reads it.
        self.processor: Any = None
        self.acceptor: Any = None  # if that was asked for it
        self.served: Any = None  # the request while it is muted
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

    The process of a server is given the packet as its
    :class:`kafkasim.model.effects.Request`: it has the same four attributes. It also is the
    :class:`kafkasim.model.effects.Served` of its answer.
    """

    __slots__ = (
        "callbacks",
        "connection",
        "correlation",
        "departs_us",
        "dequeued_us",
        "handled_us",
        "lane",
        "message",
        "pauses_us",
        "received_us",
        "size",
        "socket",
    )

    _ok = True
    connection: int  # at the server that has read it
    departs_us: int  # when it may leave, while it waits to
    received_us: int  # host time at which a server read it
    dequeued_us: int  # when a request handler took it
    handled_us: int  # when that was done with it; 0: it is not
    lane: Lane  # the lane that serves it
    pauses_us: int  # how long the process had been paused in all when the service began

    def __init__(self, socket: Socket, correlation: int, message: Any, size: int) -> None:
        self.callbacks: Any = socket.arrives  # unless the network finds something in its way
        self.socket = socket
        self.correlation = correlation
        self.message = message
        self.size = size

    def dequeue(self, now: int) -> None:
        """Let a request handler take the request; to a pool it only hands it on."""
        self.dequeued_us = now
        self.handled_us = 0 if self.lane.front is self.lane else now
