"""ZooKeeper's client library: one session that outlives its connections (ZooKeeper, ClientCnxn).

The client runs on one lane, ``zookeeper`` by default; ZooKeeper has a send thread and an
event thread. It tries the servers in an order that it draws once. An attempt may take the session
timeout divided by the number of servers; before each attempt but the first the client waits up to
a second. A connected server may be silent for two thirds of the session timeout. A client that has
sent nothing for a third of it sends a ping. Only a server can say that a session has expired, so a
client that is cut off learns of the expiry when it reaches a server again.

Requests are answered in order. When the connection ends, every unanswered request fails with
CONNECTIONLOSS, whether the servers executed it or not. The client remembers the watches that its
reads left. On a new connection it sends them first, with the last zxid that it has seen, and the
server pushes the events that it missed; so a watch event comes before the data that it is about.

Not modelled: default watchers, chroot, authentication, read-only mode, and a queue for requests
made while there is no connection: they fail with CONNECTIONLOSS.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from kafkasim.model.effects import Close, Open, Process, Send
from kafkasim.model.facts import ZooKeeperConnection
from kafkasim.model.messages import (
    ZkCloseSessionRequest,
    ZkCloseSessionResponse,
    ZkConnectRequest,
    ZkConnectResponse,
    ZkOperationRequest,
    ZkOperationResponse,
    ZkPingRequest,
    ZkPingResponse,
    ZkSetWatchesRequest,
    ZkSetWatchesResponse,
    ZkWatchEvent,
)
from kafkasim.model.zookeeper.ops import (
    NODE_CHILDREN_CHANGED,
    NODE_DELETED,
    Exists,
    GetChildren,
    GetData,
    Op,
    WatchEvent,
    ZkError,
    ZkResult,
)

LANE = "zookeeper"
RECONNECT_WAIT_US = 1_000_000
Callback = Callable[[ZkResult, int], None]  # (result, now)


class SessionState(Enum):
    """What a client knows of its session (ZooKeeper.States, Watcher.Event.KeeperState).

    CLOSED becomes CONNECTING by ``start``, CONNECTING becomes CONNECTED or EXPIRED by a server's
    answer, CONNECTED becomes CONNECTING when the connection ends, EXPIRED becomes CONNECTING by
    ``reinitialise``, and ``close`` leads to CLOSED. No client is DISCONNECTED: the listener is
    notified of it when the client leaves CONNECTED. The values stand in the trace.
    """

    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    DISCONNECTED = "DISCONNECTED"
    EXPIRED = "EXPIRED"
    CLOSED = "CLOSED"


class ZkListener(Protocol):
    """The owner of a session (Watcher); called on the client's lane."""

    def on_state(self, state: SessionState, now: int) -> None:
        """The session is CONNECTED, DISCONNECTED, or EXPIRED until ``reinitialise``."""

    def on_watch(self, event: WatchEvent, now: int) -> None:
        """A watch fired; it is gone."""


class ClientWatches:
    """The watches that the client's reads left, by the events that fire them (ZKWatchManager)."""

    def __init__(self) -> None:
        self.data: dict[str, None] = {}
        self.exist: dict[str, None] = {}
        self.child: dict[str, None] = {}

    def register(self, op: Any, result: ZkResult) -> None:
        """Remember the watch of a read, now that its answer is here."""
        if type(op) is GetChildren:
            table = self.child
        else:
            table = self.data if result.error is ZkError.OK else self.exist
        if result.error is ZkError.OK or (type(op) is Exists and result.error is ZkError.NONODE):
            table[op.path] = None

    def take(self, event: WatchEvent) -> bool:
        """Remove the watches that an event fires; return False if there was none."""
        found = False
        if event.type != NODE_CHILDREN_CHANGED:
            tables = [self.data, self.exist]
        else:
            tables = [self.child]
        if event.type == NODE_DELETED:
            tables = [self.data, self.exist, self.child]
        for table in tables:
            if event.path in table:
                del table[event.path]
                found = True
        return found

    def any(self) -> bool:
        """Return whether any watch is left."""
        return bool(self.data or self.exist or self.child)


class SessionConnection:
    """One attempt at one server; the client ignores what arrives for an earlier attempt."""

    __slots__ = ("client", "number", "server")

    def __init__(self, client: ZooKeeperClient, server: str) -> None:
        self.client = client
        self.server = server
        self.number = client.process.new_connection(self)

    def on_opened(self, now: int) -> None:
        """The TCP connection is established."""
        if self.client.connection is self:
            self.client.on_opened(now)

    def on_open_failed(self, reason: str, now: int) -> None:
        """The connection could not be established."""
        if self.client.connection is self:
            self.client.on_lost(now)

    def on_response(self, correlation: int, message: Any, now: int) -> None:
        """An answer or a watch event arrived."""
        if self.client.connection is self:
            self.client.on_message(correlation, message, now)

    def on_closed(self, reason: str, now: int) -> None:
        """The server or the network ended the connection."""
        if self.client.connection is self:
            self.client.on_lost(now)


class ZooKeeperClient:
    """A session with the ensemble. Call it from its lane only."""

    def __init__(
        self,
        process: Process,
        servers: tuple[str, ...],
        session_timeout_ms: int,
        listener: ZkListener,
        lane: str = LANE,
    ) -> None:
        self.process = process
        self.listener = listener
        self.lane = lane
        self.requested_timeout_ms = session_timeout_ms
        self.state = SessionState.CLOSED
        self.session_id = 0  # 0: no session
        self.last_zxid = -1  # the newest transaction in any answer
        self.connection: SessionConnection | None = None
        self.watches = ClientWatches()
        self._timeout_us = session_timeout_ms * 1000
        self._servers = list(servers)
        self._next = 0
        self._xid = 0
        self._sent_us = 0
        # (xid, operation or None, callback), in the order sent
        self._outstanding: deque[tuple[int, Any, Callback | None]] = deque()
        self._refused: deque[tuple[ZkError, Callback]] = deque()
        self._closing: Callable[[int], None] | None = None
        self._key = ("zookeeper-client", lane)
        self._handlers: dict[type, Callable[[int, Any, int], None]] = {
            ZkConnectResponse: self._on_connect_response,
            ZkOperationResponse: self._on_result,
            ZkPingResponse: self._on_zxid,
            ZkSetWatchesResponse: self._on_zxid,
            ZkCloseSessionResponse: self._on_session_closed,
            ZkWatchEvent: self._on_watch_event,
        }

    # ------------------------------------------------------------------- called by the owner

    def start(self, now: int) -> None:
        """Open a session; the listener is notified once a server has created it."""
        assert self.state is SessionState.CLOSED, self.state
        rng = self.process.rng
        servers = self._servers
        for last in range(len(servers) - 1, 0, -1):
            other = int(rng.random() * (last + 1))
            servers[last], servers[other] = servers[other], servers[last]
        self._begin(now)

    def request(self, op: Op, callback: Callback, now: int) -> None:
        """Send an operation; ``callback(result, now)`` runs in the order of the requests."""
        if self.state is not SessionState.CONNECTED or self._closing is not None:
            lost = self.state not in (SessionState.EXPIRED, SessionState.CLOSED)
            error = ZkError.CONNECTIONLOSS if lost else ZkError.SESSIONEXPIRED
            if not self._refused:
                self.process.timers.arm((*self._key, "refuse"), now, self.lane, self._refuse)
            self._refused.append((error, callback))
            return
        self._send(ZkOperationRequest(op), op, callback, now)

    def close(self, now: int, done: Callable[[int], None] | None = None) -> None:
        """End the session: its ephemeral znodes are deleted. The listener gets no more calls.

        ``done(now)`` runs when the server has confirmed it, or when the connection is lost.
        """
        if self._closing is not None:
            return
        self._closing = done or _nothing
        if self.state is SessionState.CONNECTED:
            self._send(ZkCloseSessionRequest(), None, None, now)
        else:
            self._end(now)

    def reinitialise(self, now: int) -> None:
        """Open a new session after the old one has expired."""
        assert self.state is SessionState.EXPIRED, self.state
        self.session_id = 0
        self.last_zxid = -1
        self._begin(now)

    # -------------------------------------------------------------------------- the connection

    def on_opened(self, now: int) -> None:
        """Ask for the session on the new connection."""
        assert self.connection is not None
        request = ZkConnectRequest(
            self.session_id, self.requested_timeout_ms, self.last_zxid, self.process.name
        )
        self._transmit(0, request, now)

    def on_lost(self, now: int) -> None:
        """Fail what is unanswered and connect to the next server: this connection is lost."""
        self._drop()
        was_connected = self.state is SessionState.CONNECTED
        if self._closing is not None:
            self._end(now)
            return
        self.state = SessionState.CONNECTING
        self._arm(
            "connect", now + int(self.process.rng.random() * RECONNECT_WAIT_US), self._connect
        )
        self._fail_outstanding(now)
        if was_connected and self.state is SessionState.CONNECTING:
            self._notify(SessionState.DISCONNECTED, "", now)

    def on_message(self, correlation: int, message: Any, now: int) -> None:
        """Handle an answer or a watch event."""
        if self.state is SessionState.CONNECTED:
            self._arm("read", now + self._timeout_us * 2 // 3, self._on_silence)
        self._handlers[type(message)](correlation, message, now)

    def _begin(self, now: int) -> None:
        self.state = SessionState.CONNECTING
        self._timeout_us = self.requested_timeout_ms * 1000
        self._connect(now)

    def _connect(self, now: int) -> None:
        server = self._servers[self._next % len(self._servers)]
        self._next += 1
        self.connection = connection = SessionConnection(self, server)
        self.process.out.append(Open(connection.number, server, "zookeeper", self.lane))
        self._arm("read", now + self._timeout_us // len(self._servers), self._on_silence)

    def _on_silence(self, now: int) -> None:
        self.on_lost(now)

    def _drop(self) -> None:
        connection, self.connection = self.connection, None
        for name in ("read", "ping", "connect"):
            self.process.timers.cancel((*self._key, name))
        if connection is not None and connection.number in self.process.channels:
            del self.process.channels[connection.number]
            self.process.out.append(Close(connection.number))

    def _send(self, message: Any, op: Any, callback: Callback | None, now: int) -> None:
        self._xid += 1
        self._outstanding.append((self._xid, op, callback))
        self._transmit(self._xid, message, now)

    def _transmit(self, xid: int, message: Any, now: int) -> None:
        assert self.connection is not None
        self.process.out.append(Send(self.connection.number, xid, message))
        self._sent_us = now

    def _on_ping_due(self, now: int) -> None:
        interval_us = self._timeout_us // 3
        if now - self._sent_us >= interval_us:
            self._send(ZkPingRequest(), None, None, now)
        self._arm("ping", self._sent_us + interval_us, self._on_ping_due)

    # ------------------------------------------------------------------------------- messages

    def _on_connect_response(self, xid: int, message: ZkConnectResponse, now: int) -> None:
        assert self.connection is not None
        server = self.connection.server
        if message.session_id == 0:
            self._drop()
            self.state = SessionState.EXPIRED
            self.watches = ClientWatches()
            self._notify(SessionState.EXPIRED, server, now)
            return
        self.state = SessionState.CONNECTED
        self.session_id = message.session_id
        self._timeout_us = message.timeout_ms * 1000
        self._arm("read", now + self._timeout_us * 2 // 3, self._on_silence)
        self._arm("ping", now + self._timeout_us // 3, self._on_ping_due)
        watches = self.watches
        if watches.any():
            request = ZkSetWatchesRequest(
                self.last_zxid, tuple(watches.data), tuple(watches.exist), tuple(watches.child)
            )
            self._send(request, None, None, now)
        self._notify(SessionState.CONNECTED, server, now)

    def _on_result(self, xid: int, message: ZkOperationResponse, now: int) -> None:
        expected, op, callback = self._outstanding.popleft()
        assert xid == expected, (xid, expected)
        assert callback is not None
        result = message.result
        self._saw(result.zxid)
        if type(op) in (GetData, Exists, GetChildren) and op.watch:
            self.watches.register(op, result)
        callback(result, now)

    def _on_zxid(self, xid: int, message: ZkPingResponse | ZkSetWatchesResponse, now: int) -> None:
        expected, _, _ = self._outstanding.popleft()
        assert xid == expected, (xid, expected)
        self._saw(message.zxid)

    def _on_watch_event(self, xid: int, message: ZkWatchEvent, now: int) -> None:
        if self.watches.take(message.event):
            self.listener.on_watch(message.event, now)

    def _on_session_closed(self, xid: int, message: ZkCloseSessionResponse, now: int) -> None:
        self._outstanding.clear()
        self._drop()
        self._end(now)

    def _saw(self, zxid: int) -> None:
        if zxid > self.last_zxid:
            self.last_zxid = zxid

    # ----------------------------------------------------------------------------- the inside

    def _end(self, now: int) -> None:
        self._drop()
        self.state = SessionState.CLOSED
        self._fail_outstanding(now)
        closed = SessionState.CLOSED.value
        self.process.out.append(ZooKeeperConnection(self.session_id, closed, ""))
        done, self._closing = self._closing, None
        assert done is not None
        done(now)

    def _fail_outstanding(self, now: int) -> None:
        lost, self._outstanding = self._outstanding, deque()
        result = ZkResult(ZkError.CONNECTIONLOSS)
        for _, _, callback in lost:
            if callback is not None:
                callback(result, now)

    def _refuse(self, now: int) -> None:
        refused, self._refused = self._refused, deque()
        for error, callback in refused:
            callback(ZkResult(error), now)

    def _notify(self, state: SessionState, server: str, now: int) -> None:
        self.process.out.append(ZooKeeperConnection(self.session_id, state.value, server))
        if self._closing is None:
            self.listener.on_state(state, now)

    def _arm(self, name: str, deadline: int, handler: Callable[[int], None]) -> None:
        self.process.timers.arm((*self._key, name), deadline, self.lane, handler)


def _nothing(now: int) -> None:
    pass
