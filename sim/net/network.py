"""The network: TCP connections between hosts, over a topology, under a list of fault rules.

Each direction of a connection is FIFO. A packet takes the latency of the route, 0 to 10 % of jitter
from the link's own random stream, and its time on the sender's network card. Loss is a stall: the
packet is sent again after 200 ms, doubling up to 120 s, and all behind it waits, in order. A
receiver that does not read lets the socket buffers fill; then the sender's packets wait for room.

An end (FIN or RST) queues behind data. A reset is not retransmitted. Data for an end that is gone
is answered by a reset, or not at all while the machine there has no power. After 924 s without
progress (Linux's tcp_retries2) the sender's end gives up.

A packet takes the slow path only if a rule is active, or if another packet waits in front of it.
Not modelled: lost acknowledgements, congestion windows, segments, queues inside the network.
"""

from __future__ import annotations

from heapq import heappush
from typing import Any, Protocol

from kafkasim.sim.kernel import Kernel
from kafkasim.sim.net.connector import Connector
from kafkasim.sim.net.link_rules import DROP, HOLD, PASS, REQUEST, RESPONSE
from kafkasim.sim.net.paths import Paths
from kafkasim.sim.net.sockets import END, NetworkCard, Packet, Socket

BUFFER_BYTES = 1024 * 1024  # socket buffers of one direction, both ends together
RETRANSMIT_US = 200_000
RETRANSMIT_MAX_US = 120_000_000
GIVE_UP_US = 924_000_000


class Wire(Protocol):
    """Sees the messages that are sent: a condition on one of them does, or a test.

    The condition is :class:`kafkasim.sim.faults.conditions.MessageWatch`.
    """

    def record(
        self,
        t_us: int,
        source: str,
        target: str,
        purpose: str,
        direction: str,
        connection: int,
        correlation: int,
        size: int,
        message: Any,
    ) -> None:
        """Append one message, at the moment it is handed to the socket."""
        ...


class Network:
    """All connections of a world; hosts are known by their cards, by name and by address."""

    def __init__(self, kernel: Kernel, paths: Paths) -> None:
        self.kernel = kernel
        self.paths = paths
        self.buffer_bytes = BUFFER_BYTES
        self.exchanges = 0  # requests answered so far; effect runners count them
        self.cards: dict[str, NetworkCard] = {}
        self.endpoints: dict[str, NetworkCard] = {}
        self.connector = Connector(kernel, paths, self.endpoints)
        self.wires: tuple[Wire, ...] = ()
        self._rules = paths.rules
        self._held: dict[Socket, None] = {}
        self._queue = kernel._queue
        self._eid = kernel._eid
        self._arrives = (self.arrive,)
        self._retransmits = (self._on_retransmit,)
        paths.topology.on_change.append(self._reroute)

    def attach(self, card: NetworkCard, addresses: tuple[str, ...]) -> None:
        """Plug in a host's card, to be found under its addresses in its domain."""
        self.cards[card.name] = card
        for address in addresses:
            assert card.domain + address not in self.endpoints, address
            self.endpoints[card.domain + address] = card

    # --------------------------------------------------------------------------------- sending

    def transmit(self, socket: Socket, correlation: int, message: Any, delay_us: int) -> None:
        """Send a message from a socket, leaving ``delay_us`` from now."""
        size = message.wire_size()
        peer = socket.peer
        assert peer is not None, f"send on a connection that is not open: {message}"
        if self.wires:
            self._record(socket, peer, correlation, size, message)
        packet = Packet(peer, correlation, message, size)
        departs = self.kernel._now + delay_us
        unread = socket.unread + size
        if self._rules or socket.queue or socket.cut_off or unread > self.buffer_bytes:
            packet.departs_us = departs
            self._enqueue(socket, packet)
            return
        socket.unread = unread
        if size > 1024:
            departs = self._serialise(socket, size, departs)
        arrival = departs + socket.latency_us + int(socket.random() * socket.jitter_us)
        if arrival < socket.last_arrival_us:
            arrival = socket.last_arrival_us
        socket.last_arrival_us = arrival
        heappush(self._queue, (arrival, 1, next(self._eid), packet))

    def _record(
        self, socket: Socket, peer: Socket, correlation: int, size: int, message: Any
    ) -> None:
        client = peer if socket.inbound else socket  # connections are numbered by their client
        direction = RESPONSE if socket.inbound else REQUEST
        names = (socket.card.name, peer.card.name, socket.purpose, direction)
        now = self.kernel._now
        for wire in self.wires:
            wire.record(now, *names, client.connection, correlation, size, message)

    def finish(self, socket: Socket, reason: str, delay_us: int) -> None:
        """End a connection from one side, ``delay_us`` from now; the end queues behind data sent.

        Of data that still waits, ``closed`` lets a drawn prefix arrive, ``reset`` nothing.
        """
        socket.dead = True
        self._forget_unread(socket)
        peer = socket.peer
        if peer is None or peer.dead:
            socket.queue.clear()
            return
        if reason == "reset":
            socket.queue.clear()
        elif socket.queue:
            keep = int(socket.random() * (len(socket.queue) + 1))
            while len(socket.queue) > keep:
                socket.queue.pop()
        packet = Packet(peer, END, reason, 0)
        packet.departs_us = self.kernel._now + delay_us
        self._enqueue(socket, packet)

    def vanish(self, socket: Socket) -> None:
        """Let one end disappear in silence: its machine lost power."""
        socket.dead = True
        socket.queue.clear()
        socket.inbox.clear()

    def room_made(self, sender: Socket) -> None:
        """Let a sender go on whose peer has read."""
        if sender.queue and not sender.retransmit_us and not sender.held:
            self._pump(sender)

    def _enqueue(self, socket: Socket, packet: Packet) -> None:
        socket.queue.append(packet)
        if len(socket.queue) == 1:
            self._pump(socket)

    def _pump(self, socket: Socket) -> None:
        """Send the packets that may leave, in order."""
        now = self.kernel._now
        queue = socket.queue
        while queue:
            packet = queue[0]
            if packet.size and socket.unread and socket.unread + packet.size > self.buffer_bytes:
                return  # room_made continues
            verdict = self._verdict(socket, packet)
            if verdict == DROP:
                if packet.message == "reset" and packet.correlation == END:
                    queue.popleft()  # a reset is sent once
                    continue
                self._stall(socket, now)
                return
            if verdict == HOLD:
                socket.held = True
                self._held[socket] = None
                return
            queue.popleft()
            self._launch(socket, packet, max(now, packet.departs_us), max(verdict, 0))
        socket.stalled_since_us = 0

    def _verdict(self, socket: Socket, packet: Packet) -> int:
        target = packet.socket
        if socket.cut_off or (target.dead and not target.card.powered):
            return DROP
        if not self._rules:
            return PASS
        message = None if packet.correlation == END else packet.message
        names = (socket.card.name, target.card.name)
        return self.paths.judge(*names, socket.purpose, message, not socket.inbound)

    def _launch(self, socket: Socket, packet: Packet, departs: int, extra_us: int) -> None:
        socket.unread += packet.size
        socket.retransmit_us = 0
        departs = self._serialise(socket, packet.size, departs)
        jitter = int(socket.random() * socket.jitter_us)
        arrival = max(departs + socket.latency_us + jitter + extra_us, socket.last_arrival_us)
        socket.last_arrival_us = arrival
        packet.callbacks = self._arrives
        self.kernel.push(arrival, packet)

    def _stall(self, socket: Socket, now: int) -> None:
        if not socket.stalled_since_us:
            socket.stalled_since_us = now
        if now - socket.stalled_since_us >= GIVE_UP_US:
            socket.queue.clear()
            socket.retransmit_us = 0
            self.end(socket, "timeout")
            return
        doubled = socket.retransmit_us * 2 or RETRANSMIT_US
        socket.retransmit_us = min(doubled, RETRANSMIT_MAX_US)
        event = Packet(socket, END, "retransmit", 0)
        event.callbacks = self._retransmits
        self.kernel.push(now + socket.retransmit_us, event)

    def _on_retransmit(self, event: Packet) -> None:
        if event.socket.retransmit_us and event.socket.queue:
            self._pump(event.socket)
        else:
            event.socket.retransmit_us = 0

    def _serialise(self, socket: Socket, size: int, departs: int) -> int:
        """Return when the last byte has left the sender's network card."""
        taken = size // socket.bytes_per_us
        if not taken:
            return departs
        card = socket.card
        start = card.free_us if card.free_us > departs else departs
        card.free_us = start + taken
        return start + taken

    # ------------------------------------------------------------------------------- receiving

    def arrive(self, packet: Packet) -> None:
        """Let a packet arrive, whatever is in its way; a receiver takes it itself if nothing is."""
        socket = packet.socket
        receiver = socket.receiver
        if socket.dead:
            self._arrive_at_nobody(packet)
        elif not receiver.running:
            receiver.postpone(self.arrive, packet)
        elif packet.correlation == END:
            self._arrive_end(socket, packet)
        elif socket.inbound:
            if socket.muted or socket.inbox:
                socket.inbox.append(packet)
            else:
                receiver.receive_request(socket, packet)
        else:
            sender = socket.peer
            assert sender is not None
            sender.unread -= packet.size
            if sender.queue:
                self.room_made(sender)
            receiver.receive_response(socket, packet)

    def _arrive_at_nobody(self, packet: Packet) -> None:
        socket = packet.socket
        sender = socket.peer
        if sender is None or packet.correlation == END:
            return
        sender.unread -= packet.size
        if socket.card.powered:
            if not sender.dead:
                reset = Packet(sender, END, "reset", 0)
                reset.departs_us = self.kernel._now
                socket.queue.clear()
                self._enqueue(socket, reset)
        elif not sender.dead or sender.queue:
            waiting = bool(sender.queue)
            packet.departs_us = self.kernel._now
            sender.queue.append(packet)
            if not waiting:
                self._stall(sender, self.kernel._now)

    def _arrive_end(self, socket: Socket, packet: Packet) -> None:
        if socket.inbound and (socket.muted or socket.inbox):
            socket.inbox.append(packet)  # requests already received still run
        else:
            self.end(socket, packet.message)

    def end(self, socket: Socket, reason: str) -> None:
        """End a connection at one end, and tell its process."""
        if not socket.dead:
            socket.dead = True
            socket.queue.clear()
            self._forget_unread(socket)
            socket.receiver.ended(socket, reason)

    def end_both(self, socket: Socket) -> None:
        """Reset a connection from outside: both ends hear it now, packets on the way are lost."""
        peer = socket.peer
        for end in (socket, peer):
            if end is not None and not end.dead:
                end.inbox.clear()
                self.end(end, "reset")

    def _forget_unread(self, socket: Socket) -> None:
        """Discount the packets in the buffer of this end, which nobody will read."""
        sender = socket.peer
        if sender is not None:
            for packet in socket.inbox:
                sender.unread -= packet.size

    # -------------------------------------------------------------------------- links and rules

    def let_go(self) -> None:
        """Send what a healed rule held; what it dropped waits for its retransmit."""
        held, self._held = self._held, {}
        for socket in held:
            socket.held = False
            self._pump(socket)

    def sockets_between(self, a: tuple[str, ...], b: tuple[str, ...]) -> list[Socket]:
        """Return one end of each live connection between two sets of hosts, in a fixed order."""
        sockets = []
        for name in a:
            for socket in self.cards[name].sockets.values():
                peer = socket.peer
                if (
                    peer is not None
                    and peer.card.name in b
                    and (not socket.inbound or name not in b)
                ):
                    sockets.append(socket)
        return sockets

    def _reroute(self) -> None:
        for card in self.cards.values():
            for socket in card.sockets.values():
                if socket.peer is not None:
                    self.paths.set_route(socket)
