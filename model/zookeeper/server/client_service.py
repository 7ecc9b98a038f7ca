"""What one server does for its clients: sessions, ordered answers, watches (ZooKeeperServer).

A client's request takes this way; the leader may be this server or another (:class:`Upstream`):

    connect          ──▶ CreateSession ──▶ leader ──▶ log ──▶ on_applied ──▶ attach, answer
    reconnect        ──▶ revalidate    ──▶ leader ──────────────────────▶ attach, answer
    write, close     ──▶ record        ──▶ leader ──▶ log ──▶ on_applied ──▶ answer
    read, set watches, ping ──▶ answer from this server's database

The server answers a session's requests in the order in which they came (CommitProcessor): it sends
a write to the leader at once, and a read waits for the session's own writes before it. A client
that has seen a later transaction than this server is sent away, so that its reads never go back.

When the server applies a transaction it first pushes the watch events, then answers the client that
asked for it. Connections are FIFO, so a client gets the event before it can read the change.

No event tells a server that a client's connection has broken. The server closes a connection that
was silent for its session's timeout, and one whose session arrives on another connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.effects import Close, Push, Request, Respond
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
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.model.zookeeper.database.transactions import (
    CLOSED,
    CloseSession,
    CreateSession,
    Database,
    Transaction,
)
from kafkasim.model.zookeeper.database.tree import Change
from kafkasim.model.zookeeper.database.watches import WatchManager
from kafkasim.model.zookeeper.ops import WRITES, Exists, GetChildren, Sync, ZkError, ZkResult
from kafkasim.model.zookeeper.rules import ZooKeeperRules
from kafkasim.model.zookeeper.server.client_connection import ClientConnection, PendingRequest
from kafkasim.model.zookeeper.server.upstream import Upstream

WATCH_EVENT = 0  # the correlation of a watch event; clients number their requests from 1

CLIENT_REQUESTS: tuple[type, ...] = (
    ZkConnectRequest,
    ZkOperationRequest,
    ZkPingRequest,
    ZkSetWatchesRequest,
    ZkCloseSessionRequest,
)
"""What :meth:`ClientService.on_request` serves."""


class ClientService:
    """The connections of one server's clients. Lane ``zookeeper``.

    It serves between :meth:`serve` and :meth:`stop`, while the server has a leader; in between it
    closes every connection on which a client asks something.
    """

    def __init__(
        self,
        out: list[Any],
        server_id: int,
        started_us: int,
        config: ZooKeeperConfig,
        rules: ZooKeeperRules,
        database: Database,
    ) -> None:
        self.out = out
        self.server_id = server_id
        self.started_us = started_us
        self.config = config
        self.rules = rules
        self.database = database
        self.upstream: Upstream | None = None  # None: this server does not serve
        self.watches = WatchManager(rules)
        self.connections: dict[int, ClientConnection] = {}  # by connection number
        self.attached: dict[int, ClientConnection] = {}  # by session id
        self._connecting: dict[int, int] = {}  # connection -> correlation of its ConnectRequest
        # Connections that wait for this server to apply what the leader had proposed (Sync).
        self._syncing: dict[int, ClientConnection] = {}
        self._read_handlers: dict[type, Callable[[ClientConnection, Any], Any]] = {
            ZkOperationRequest: self._read,
            ZkPingRequest: self._ping,
            ZkSetWatchesRequest: self._set_watches,
        }

    @property
    def serving(self) -> bool:
        """Whether clients are served."""
        return self.upstream is not None

    def serve(self, upstream: Upstream) -> None:
        """Begin to serve clients, with this way to the leader."""
        self.upstream = upstream

    def stop(self) -> None:
        """Close all connections, and serve nobody until the next :meth:`serve`."""
        self.upstream = None
        for number in [*self.connections, *self._connecting]:
            self.out.append(Close(number))
        self.connections.clear()
        self.attached.clear()
        self._connecting.clear()
        self._syncing.clear()
        self.watches = WatchManager(self.rules)

    # --------------------------------------------------------------------------------- requests

    def on_request(self, item: Request, now: int) -> None:
        """Take a client's request; the connection stays unmuted and the answer is pushed."""
        number = item.connection
        self.out.append(Respond(number, item.correlation, None))
        message = item.message
        connection = self.connections.get(number)
        upstream = self.upstream
        if upstream is None or number in self._connecting:
            self._connecting.pop(number, None)
            self.out.append(Close(number))
        elif type(message) is ZkConnectRequest:
            self._on_connect(item, message, upstream, now)
        elif connection is None:  # this server has closed it already
            self.out.append(Close(number))
        else:
            connection.last_heard_us = now
            upstream.heard_from(connection.session_id, now)
            self._accept(connection, PendingRequest(item.correlation, message), upstream, now)

    def _accept(
        self, connection: ClientConnection, pending: PendingRequest, upstream: Upstream, now: int
    ) -> None:
        connection.pending.append(pending)
        message = pending.message
        session_id = connection.session_id
        if type(message) is ZkCloseSessionRequest:
            pending.is_logged = True
            upstream.propose(CloseSession(session_id, CLOSED), now)
        elif type(message) is ZkOperationRequest:
            kind = type(message.op)
            if kind in WRITES:
                pending.is_logged = True
                upstream.propose(Transaction(session_id, pending.xid, message.op), now)
            elif kind is Sync:
                pending.waits_for_zxid = None
                self._syncing[connection.number] = connection
                upstream.sync(now, partial(self._on_synced, connection, pending))
        if connection.number in self.connections:
            self._answer_in_order(connection)

    def _on_synced(
        self, connection: ClientConnection, pending: PendingRequest, zxid: int, now: int
    ) -> None:
        pending.waits_for_zxid = zxid
        if connection.number in self.connections:
            self._answer_in_order(connection)

    def _answer_in_order(self, connection: ClientConnection) -> None:
        """Answer the oldest requests, up to the first that still waits for something."""
        pending = connection.pending
        number = connection.number
        while pending:
            head = pending[0]
            if head.is_logged:
                answer = head.answer
                if answer is None:
                    return
            elif head.waits_for_zxid is None or head.waits_for_zxid > self.database.last_zxid:
                return
            else:
                answer = self._read_handlers[type(head.message)](connection, head.message)
            pending.popleft()
            self.out.append(Push(number, head.xid, answer))
        self._syncing.pop(number, None)

    def _read(self, connection: ClientConnection, message: ZkOperationRequest) -> Any:
        op = message.op
        zxid = self.database.last_zxid
        if type(op) is Sync:
            return ZkOperationResponse(ZkResult(ZkError.OK, op.path, zxid=zxid))
        result = self.database.tree.read(op, zxid)
        if op.watch and (result.error is ZkError.OK or type(op) is Exists):
            self.watches.add(op.path, connection.number, type(op) is GetChildren)
        return ZkOperationResponse(result)

    def _ping(self, connection: ClientConnection, message: ZkPingRequest) -> Any:
        return ZkPingResponse(self.database.last_zxid)

    def _set_watches(self, connection: ClientConnection, message: ZkSetWatchesRequest) -> Any:
        missed = self.watches.set_watches(
            connection.number,
            self.database.tree,
            message.relative_zxid,
            message.data,
            message.exist,
            message.child,
        )
        for event in missed:
            self.out.append(Push(connection.number, WATCH_EVENT, ZkWatchEvent(event)))
        return ZkSetWatchesResponse(self.database.last_zxid)

    # --------------------------------------------------------------------------------- sessions

    def _on_connect(
        self, item: Request, request: ZkConnectRequest, upstream: Upstream, now: int
    ) -> None:
        number = item.connection
        if not self.rules.may_attach(request.last_zxid_seen, self.database.last_zxid):
            self.out.append(Close(number))
            return
        self._connecting[number] = item.correlation
        session_id = request.session_id
        if session_id:
            old = self.attached.get(session_id)
            if old is not None:
                self._close(old)
            upstream.revalidate(session_id, now, partial(self._attach, number, session_id))
            return
        timeout_ms = self.rules.session_timeout_ms(request.timeout_ms, self.config)
        token = f"{self.started_us}/{number}"
        upstream.propose(CreateSession(self.server_id, token, timeout_ms, request.client), now)

    def _attach(self, number: int, session_id: int, timeout_ms: int, now: int) -> None:
        """Serve a session on this connection; ``timeout_ms`` 0 says that it has expired."""
        correlation = self._connecting.pop(number, None)
        if correlation is None or self.upstream is None:
            return
        if not timeout_ms or self.database.has_ended(session_id):
            self.out.append(Push(number, correlation, ZkConnectResponse(0, 0)))
            self.out.append(Close(number))
            return
        old = self.attached.get(session_id)
        if old is not None:
            self._close(old)
        connection = ClientConnection(number, session_id, timeout_ms, now)
        self.connections[number] = connection
        self.attached[session_id] = connection
        self.out.append(Push(number, correlation, ZkConnectResponse(session_id, timeout_ms)))
        self.upstream.heard_from(session_id, now)

    def close_silent(self, now: int) -> None:
        """Close the connections on which nothing came for their sessions' timeout."""
        for connection in list(self.connections.values()):
            if now - connection.last_heard_us > connection.timeout_us:
                self._close(connection)

    def _close(self, connection: ClientConnection) -> None:
        """Close a connection; its session lives on."""
        number = connection.number
        del self.connections[number]
        del self.attached[connection.session_id]
        self._syncing.pop(number, None)
        self.watches.drop(number)
        self.out.append(Close(number))

    # -------------------------------------------------------------------------- the applied log

    def on_applied(self, record: Any, result: ZkResult, changes: list[Change], now: int) -> None:
        """Push the watch events of an applied record, then answer the client that asked for it."""
        for number, event in self.watches.trigger(changes):
            self.out.append(Push(number, WATCH_EVENT, ZkWatchEvent(event)))
        kind = type(record)
        if kind is CreateSession:
            started, _, number = record.token.partition("/")
            mine = record.server_id == self.server_id
            if mine and started == str(self.started_us):
                self._attach(int(number), result.zxid, record.timeout_ms, now)
            return
        connection = self.attached.get(record.session_id)
        if connection is None:
            return
        if kind is Transaction:
            if connection.set_answer(record.xid, ZkOperationResponse(result)):
                self._answer_in_order(connection)
            return
        if record.reason == CLOSED and connection.set_close_answer(ZkCloseSessionResponse()):
            self._answer_in_order(connection)
        self._close(connection)

    def on_caught_up(self, now: int) -> None:
        """Answer the connections whose Sync waited for what this server has now applied."""
        for connection in list(self._syncing.values()):
            self._answer_in_order(connection)
