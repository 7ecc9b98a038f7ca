"""Outside clients in the simulation: hosts without a process, and their connections.

A client that connects to a broker's listener becomes a host of the simulated network, named
``outside/CLIENT-ID``, so that a fault can cut it off. Its requests cross that network as the
model's messages, and meet the broker's queues, threads and quotas.

    bytes of a client ──▶ Link.feed ──▶ adapter ──▶ OutsideHost ── simulated network ──▶ broker
    bytes to a client ◀── Link.send ◀── adapter ◀── OutsideHost ◀────────────────────────┘
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.effects import ThrottledResponse
from kafkasim.model.errors import Errors
from kafkasim.model.facts import Acked
from kafkasim.model.messages import ProduceRequest, ProduceResponse
from kafkasim.scenarios.wire.adapters.base import Body, Call, Served
from kafkasim.scenarios.wire.adapters.table import ADAPTERS, serves, unsupported_versions
from kafkasim.scenarios.wire.answers import Answer, Answers
from kafkasim.scenarios.wire.schemas import API_VERSIONS, Header, Malformed, Schemas
from kafkasim.sim.net.sockets import NetworkCard, Packet, Socket
from kafkasim.sim.world import World

FRAME_MAX = 104_857_600
"""socket.request.max.bytes: a longer frame closes the connection."""

FRAME_MIN = 8
PRODUCE, METADATA = 0, 3
IN_FLIGHT_MAX = 1000
"""How many requests of one connection may be on their way; a client that sends more is refused."""


class Client(Protocol):
    """The end of a connection that is outside: a TCP connection, or a journal."""

    def send(self, data: bytes | bytearray) -> None:
        """Take bytes of responses."""

    def ended(self, reason: str) -> None:
        """Hear that the connection is gone: ``closed``, ``reset``, or why it was refused."""


class OutsideHost:
    """A machine of the simulated network whose clients are not simulated (a Receiver)."""

    running = True

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.card = NetworkCard(name)
        self.card.ip = "127.0.0.1"  # of all clients: limits of connections take them together
        world.topology.add_host(name, "rack-0", "dc-0")
        world.network.attach(self.card, (name,))
        self.arrives_at_client = self.arrives_at_server = (world.network.arrive,)
        self.asked: dict[int, int] = {}  # requests of the client so far, by api key
        self._links: dict[int, Link] = {}
        self._connections = 0

    def connect(self, link: Link, address: str) -> Socket:
        """Open a connection to a broker's endpoint; the link hears of its end."""
        self._connections += 1
        socket = Socket(self.card, self, self._connections, None, "client", inbound=False)
        socket.client_id = self.name.partition("/")[2]
        self.card.sockets[self._connections] = socket
        self._links[self._connections] = link
        self.world.network.connector.connect(socket, address)
        return socket

    def close(self, socket: Socket) -> None:
        """Close a connection from the client's side."""
        if self.card.sockets.pop(socket.connection, None) is not None:
            self._links.pop(socket.connection, None)
            self.world.network.finish(socket, "closed", 0)

    def opened(self, socket: Socket) -> None:
        """Tell the link that its connection is established."""
        self._links[socket.connection].opened()

    def open_failed(self, socket: Socket, reason: str) -> None:
        """Tell the link that its connection was refused, or timed out."""
        socket.dead = True
        self.ended(socket, reason)

    def ended(self, socket: Socket, reason: str) -> None:
        """Tell the link that its connection is gone."""
        self.card.sockets.pop(socket.connection, None)
        link = self._links.pop(socket.connection, None)
        if link is not None:
            link.ended(reason)

    def receive_response(self, socket: Socket, packet: Packet) -> None:
        """Give a response to its link."""
        link = self._links.get(socket.connection)
        if link is not None:
            link.answered(packet.correlation, packet.message)

    def postpone(self, callback: Callable[[Any], None], event: Any) -> None:
        """Never called: the host is never paused."""
        raise AssertionError(self.name)

    def receive_request(self, socket: Socket, packet: Packet) -> None:
        """Never called: the host serves nothing."""
        raise AssertionError(self.name)


class _Exchange:
    """A request of a client: the call it has become, and the responses so far.

    ``response`` is what the client gets, None before it may be sent.
    """

    __slots__ = ("answer", "answers", "call", "header", "response", "sent_us", "throttle_ms")

    def __init__(self, header: Header, call: Call, sent_us: int, answer: Answer | None) -> None:
        self.header, self.call, self.sent_us, self.answer = header, call, sent_us, answer
        self.answers: list[Any] = []
        self.throttle_ms = 0
        self.response: bytearray | None = None


class Link:
    """One connection of an outside client to one broker, from its bytes to messages and back."""

    def __init__(
        self,
        schemas: Schemas,
        host: OutsideHost,
        address: str,
        broker: Served,
        client: Client,
        answers: Answers,
    ) -> None:
        self._schemas, self._host, self._broker, self._client = schemas, host, broker, client
        self._address, self._answers = address, answers
        self._buffer = bytearray()
        self._exchanges: dict[int, _Exchange] = {}  # by the correlation of a message
        self._order: deque[_Exchange] = deque()  # those that get a response, as they were sent
        self._silent = False  # a response was lost: no other one follows it
        self._waiting: deque[tuple[int, Any]] = deque()  # before the connection is open
        self._next = 0
        self._open = False
        self._dead = False
        self._socket = host.connect(self, address)

    def feed(self, data: bytes) -> None:
        """Take bytes of the client; a wrong frame ends the connection."""
        buffer = self._buffer
        buffer += data
        at = 0
        while not self._dead and len(buffer) - at >= 4:
            size = int.from_bytes(buffer[at : at + 4], "big", signed=True)
            if not FRAME_MIN <= size <= FRAME_MAX:
                self._refuse(f"a frame of {size} bytes; allowed are {FRAME_MIN} to {FRAME_MAX}")
                return
            if len(buffer) - at - 4 < size:
                break
            try:
                self._frame(bytes(buffer[at + 4 : at + 4 + size]))
            except Malformed as error:
                self._refuse(str(error))
                return
            at += 4 + size
        del buffer[:at]

    def close(self) -> None:
        """Close the connection: the client has."""
        self._dead = True
        self._host.close(self._socket)

    def opened(self) -> None:
        """Send what has waited for the connection."""
        self._open = True
        for correlation, message in self._waiting:
            self._host.world.network.transmit(self._socket, correlation, message, 0)
        self._waiting.clear()

    def ended(self, reason: str) -> None:
        """End the client's connection, since the simulated one has ended."""
        self._open = False
        if not self._dead:
            self._dead = True
            self._client.ended(reason)

    def answered(self, correlation: int, message: Any) -> None:
        """Take a response; when a request has all of its, send them as one."""
        exchange = self._exchanges.pop(correlation, None)
        if exchange is None:
            return
        if type(message) is ThrottledResponse:
            exchange.throttle_ms = max(exchange.throttle_ms, message.throttle_time_ms)
            message = message.message
        exchange.answers.append(message)
        if len(exchange.answers) == len(exchange.call.messages):
            answer = exchange.answer
            body = ADAPTERS[exchange.header.key].response(exchange.call, exchange.answers)
            if exchange.throttle_ms:
                body["ThrottleTimeMs"] = exchange.throttle_ms
            if answer is None:
                self._finish(exchange, body)
            elif answer.table.delay is not None:
                late = self._host.world.now + answer.table.delay
                self._host.world.kernel.at(late, self._finish, exchange, body)
            elif answer.error is not None:  # of Metadata: its brokers are needed
                rows = [
                    {**row, "ErrorCode": answer.error, "Partitions": []} for row in body["Topics"]
                ]
                self._finish(exchange, {**body, "Topics": rows})
            elif answer.table.lose:
                self._silent = True
            else:
                self._host.close(self._socket)
                self.ended("reset")

    def _finish(self, exchange: _Exchange, body: Body) -> None:
        """Send a response, and those that have waited behind it."""
        header, order = exchange.header, self._order
        exchange.response = self._schemas.encode_response(
            header.key, header.version, header.correlation, body
        )
        while order and order[0].response is not None and not self._dead and not self._silent:
            first = order.popleft()
            if first.answers and isinstance(first.answers[0], ProduceResponse):
                self._record_acks(first.call.messages[0], first.answers[0], first.sent_us)
            assert first.response is not None
            self._client.send(first.response)

    def _refuse(self, reason: str) -> None:
        self.close()
        self._client.ended(reason)

    def _frame(self, frame: bytes) -> None:
        header, at = self._schemas.decode_header(frame)
        if not serves(header.key, header.version):
            if header.key != API_VERSIONS:
                raise Malformed(f"api key {header.key} version {header.version} is not served")
            body = unsupported_versions()
            self._client.send(
                self._schemas.encode_response(API_VERSIONS, 0, header.correlation, body)
            )
            return
        if len(self._order) >= IN_FLIGHT_MAX:
            raise Malformed(f"more than {IN_FLIGHT_MAX} requests without a response")
        body = self._schemas.decode_request(header, frame, at)
        call = Call(header.version, body, header.client_id or "", self._broker)
        asked = self._host.asked
        asked[header.key] = asked.get(header.key, 0) + 1
        answer = None
        if self._answers.waiting:
            answer = self._answers.take(header.key, self._address, call)
        exchange = _Exchange(header, call, self._host.world.now, answer)
        silent = header.key == PRODUCE and body["Acks"] == 0
        if answer is not None and silent and (answer.table.reset or answer.error is not None):
            self.close()  # what a broker does that cannot answer with an error
            self._client.ended("closed")
            return
        if not silent:
            self._order.append(exchange)
        if answer is not None and answer.error is not None and header.key != METADATA:
            self._finish(
                exchange, self._answers.error_body(header.key, header.version, body, answer.error)
            )
            return
        call.messages = ADAPTERS[header.key].request(call)
        for message in call.messages:
            self._next += 1
            if not silent:
                self._exchanges[self._next] = exchange
            if self._open:
                self._host.world.network.transmit(self._socket, self._next, message, 0)
            else:
                self._waiting.append((self._next, message))

    def _record_acks(self, request: ProduceRequest, answer: ProduceResponse, sent_us: int) -> None:
        """Record what the client is told is written, as a simulated producer does."""
        world = self._host.world
        batches = {each.tp: each.batch for each in request.partitions}
        for each in answer.partitions:
            if each.error is not Errors.NONE:
                continue
            batch = batches[each.tp]
            ids = tuple([int(record.value) for record in batch.records])
            producer = batch.producer_id, batch.producer_epoch, batch.base_sequence
            acked = Acked(
                each.topic_id, each.tp.partition, each.base_offset, ids, request.acks, *producer,
                world.now - sent_us, 1,
            )  # fmt: skip
            world.trace.record(world.now, self._host.name, acked)
