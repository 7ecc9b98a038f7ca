"""The network threads of a listener: SocketServer.Acceptor's processors.

An accepted connection belongs to one processor for its life; they are assigned in turn. A processor
puts what it has read into the request queue. While that is full the processor waits in ``put``
(RequestChannel.sendRequest), and none of its connections is read and none of its responses is sent.
When there is room it puts the rest of what it had read, sends the responses that were queued for
it, and polls again (Processor.run).

If setting up a connection takes time (a TLS handshake, a login), the processor sets up 20 of its
new connections at most, and neither reads nor sends meanwhile; then it answers and reads, and goes
on with the next ones (KIP-402). Otherwise a processor whose queue is not full takes no time.

Left out: the time that a processor takes to read and send, queued.max.request.bytes; an acceptor
that waits because the queues of new connections of all processors are full.
"""

from __future__ import annotations

from collections import deque
from itertools import cycle
from typing import Any

from kafkasim.sim.net.sockets import Socket


class Processor:
    """One network thread; ``stalled`` while it does not read and send.

    It waits for room in a request queue, sets up connections, or answers.
    """

    __slots__ = ("fresh", "readable", "receives", "responses", "stalled")

    def __init__(self) -> None:
        self.stalled = False
        self.fresh: deque[Socket] = deque()  # new connections
        # Connections whose request is read and not put; while it is stalled the first one blocks.
        self.receives: deque[Socket] = deque()
        self.readable: deque[Socket] = deque()  # what the next poll finds
        # Socket, correlation, message (None: send nothing), throttle time in ms, when it was ready.
        self.responses: deque[tuple[Socket, int, Any, int, int]] = deque()

    def stall(self, socket: Socket) -> None:
        """Wait for room to put the request of a connection."""
        self.stalled = True
        self.receives.appendleft(socket)

    def hold(
        self, socket: Socket, correlation: int, message: Any, throttle_ms: int, ready_us: int
    ) -> None:
        """Keep a response in the response queue."""
        self.responses.append((socket, correlation, message, throttle_ms, ready_us))

    def poll(self) -> None:
        """Read what has become readable; all that was read before is put."""
        assert not self.receives, self.receives
        self.receives, self.readable = self.readable, self.receives


class Acceptor:
    """Assigns the connections of one listener to its processors in turn."""

    __slots__ = ("_in_turn",)

    def __init__(self, threads: int) -> None:
        assert threads > 0, threads
        self._in_turn = cycle([Processor() for _ in range(threads)])

    def assign(self) -> Processor:
        """Return the processor of the next connection."""
        return next(self._in_turn)
