"""A server's clients: connecting, requests in order, watch events (ZooKeeperServer, ServerCnxn).

A client that has seen a later transaction than this server is sent away, so that its reads never go
back. A new session is a record of the log, and answered once that is applied; an old one is
attached once the leader says that it is open. Requests of a session are answered in the order in
which they came (CommitProcessor): a write travels to the leader as it arrives, a read waits for the
session's writes before it. Applying a transaction sends the watch events it fires before its
answer, and before any read that could show it; connections are FIFO, so clients see them so.

Nobody tells a server that a client's connection is gone. It lets go one that is silent for its
session's timeout, and one whose session comes again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

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
from kafkasim.model.zookeeper.database.transactions import (
    CLOSED,
    CloseSession,
    CreateSession,
    Transaction,
)
from kafkasim.model.zookeeper.database.tree import Change
from kafkasim.model.zookeeper.database.watches import WatchManager
from kafkasim.model.zookeeper.ops import WRITES, Exists, GetChildren, Sync, ZkError, ZkResult
from kafkasim.model.zookeeper.server.connections import Pending, ServerConnection

if TYPE_CHECKING:
    from kafkasim.model.zookeeper.server.server import ZooKeeperServer

WATCH_EVENT = 0  # the correlation of a watch event; clients number their requests from 1


class ClientPort:
    """The connections of a server's clients, on lane ``zookeeper``."""

    request_lanes: dict[type, str] = dict.fromkeys(
        (ZkConnectRequest, ZkOperationRequest, ZkPingRequest, ZkSetWatchesRequest), "zookeeper"
    ) | {ZkCloseSessionRequest: "zookeeper"}

    def __init__(self, server: ZooKeeperServer) -> None:
        self.server = server
        self.out = server.out
        self.database = server.database
        self.watches = WatchManager(server.rules)
        self.connections: dict[int, ServerConnection] = {}
        self.attached: dict[int, ServerConnection] = {}  # by session
        self._connecting: dict[int, int] = {}  # connection -> correlation of its ConnectRequest
        self._syncing: dict[int, ServerConnection] = {}
        self._heard: dict[int, None] = {}  # sessions, since the last report to the leader
        self._answer: dict[type, Callable[[ServerConnection, Any], Any]] = {
            ZkOperationRequest: self._read,
            ZkPingRequest: self._ping,
            ZkSetWatchesRequest: self._set_watches,
        }

    # --------------------------------------------------------------------------------- requests

    def on_request(self, item: Request, now: int) -> None:
        """Take a client's request and read on; the answer is pushed."""
        number = item.connection
        self.out.append(Respond(number, item.correlation, None))
        message = item.message
        connection = self.connections.get(number)
        if not self.server.serving or number in self._connecting:
            self._connecting.pop(number, None)
            self.out.append(Close(number))
        elif type(message) is ZkConnectRequest:
            self._on_connect(item, message, now)
        elif connection is None:  # it was let go
            self.out.append(Close(number))
        else:
            self._hear(connection, now)
            self._accept(connection, Pending(item.correlation, message), now)

    def _accept(self, connection: ServerConnection, pending: Pending, now: int) -> None:
        connection.pending.append(pending)
        message = pending.message
        session_id = connection.session_id
        if type(message) is ZkCloseSessionRequest:
            pending.logged = True
            self._propose(CloseSession(session_id, CLOSED), now)
        elif type(message) is ZkOperationRequest:
            kind = type(message.op)
            if kind in WRITES:
                pending.logged = True
                self._propose(Transaction(session_id, pending.xid, message.op), now)
            elif kind is Sync:
                pending.waits_for = None
                self._syncing[connection.number] = connection
                self.server.upstream.sync(now, partial(self._on_synced, connection, pending))
        if connection.number in self.connections:
            self._pump(connection)

    def _propose(self, record: Any, now: int) -> None:
        if not self.server.upstream.propose(record, now):
            self.server.on_not_leading(now)

    def _on_synced(
        self, connection: ServerConnection, pending: Pending, zxid: int, now: int
    ) -> None:
        pending.waits_for = zxid
        if connection.number in self.connections:
            self._pump(connection)

    def _pump(self, connection: ServerConnection) -> None:
        """Answer what can be answered, in order."""
        pending = connection.pending
        number = connection.number
        while pending:
            head = pending[0]
            if head.logged:
                answer = head.answer
                if answer is None:
                    return
            elif head.waits_for is None or head.waits_for > self.database.last_zxid:
                return
            else:
                answer = self._answer[type(head.message)](connection, head.message)
            pending.popleft()
            self.out.append(Push(number, head.xid, answer))
        self._syncing.pop(number, None)

    def _read(self, connection: ServerConnection, message: ZkOperationRequest) -> Any:
        op = message.op
        zxid = self.database.last_zxid
        if type(op) is Sync:
            return ZkOperationResponse(ZkResult(ZkError.OK, op.path, zxid=zxid))
        result = self.database.tree.read(op, zxid)
        if op.watch and (result.error is ZkError.OK or type(op) is Exists):
            self.watches.add(op.path, connection.number, type(op) is GetChildren)
        return ZkOperationResponse(result)

    def _ping(self, connection: ServerConnection, message: ZkPingRequest) -> Any:
        return ZkPingResponse(self.database.last_zxid)

    def _set_watches(self, connection: ServerConnection, message: ZkSetWatchesRequest) -> Any:
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

    def _on_connect(self, item: Request, request: ZkConnectRequest, now: int) -> None:
        server = self.server
        number = item.connection
        if not server.rules.may_attach(request.last_zxid_seen, self.database.last_zxid):
            self.out.append(Close(number))
            return
        self._connecting[number] = item.correlation
        session_id = request.session_id
        if session_id:
            old = self.attached.get(session_id)
            if old is not None:
                self.drop(old)
            server.upstream.revalidate(session_id, now, partial(self._attach, number, session_id))
            return
        timeout_ms = server.rules.session_timeout_ms(request.timeout_ms, server.config)
        token = f"{server.started_us}/{number}"
        self._propose(CreateSession(server.server_id, token, timeout_ms, request.client), now)

    def _attach(self, number: int, session_id: int, timeout_ms: int, now: int) -> None:
        """Begin to serve a session here; without a timeout it has expired."""
        correlation = self._connecting.pop(number, None)
        if correlation is None:
            return
        if not timeout_ms or self.database.surely_closed(session_id):
            self.out.append(Push(number, correlation, ZkConnectResponse(0, 0)))
            self.out.append(Close(number))
            return
        old = self.attached.get(session_id)
        if old is not None:
            self.drop(old)
        connection = ServerConnection(number, session_id, timeout_ms, now)
        self.connections[number] = connection
        self.attached[session_id] = connection
        self.out.append(Push(number, correlation, ZkConnectResponse(session_id, timeout_ms)))
        self._hear(connection, now)

    def _hear(self, connection: ServerConnection, now: int) -> None:
        connection.heard_us = now
        if self.server.leader is not None:
            self.server.leader.touch((connection.session_id,), now)
        else:
            self._heard[connection.session_id] = None

    def take_heard(self) -> tuple[int, ...]:
        """Return the sessions heard from since the last call."""
        heard, self._heard = self._heard, {}
        return tuple(heard)

    def drop_silent(self, now: int) -> None:
        """Let go the connections that are silent for their sessions' timeout."""
        for connection in list(self.connections.values()):
            if now - connection.heard_us > connection.timeout_us:
                self.drop(connection)

    def drop(self, connection: ServerConnection) -> None:
        """Close a connection; its session may live."""
        number = connection.number
        del self.connections[number]
        del self.attached[connection.session_id]
        self._syncing.pop(number, None)
        self.watches.drop(number)
        self.out.append(Close(number))

    def close_all(self) -> None:
        """Send all clients away."""
        for number in [*self.connections, *self._connecting]:
            self.out.append(Close(number))
        self.connections.clear()
        self.attached.clear()
        self._connecting.clear()
        self._syncing.clear()
        self._heard.clear()
        self.watches = WatchManager(self.server.rules)

    # -------------------------------------------------------------------------------- the log

    def applied(self, record: Any, result: ZkResult, changes: list[Change], now: int) -> None:
        """Tell the clients here of an applied record: watchers first, then who asked for it."""
        for number, event in self.watches.trigger(changes):
            self.out.append(Push(number, WATCH_EVENT, ZkWatchEvent(event)))
        kind = type(record)
        if kind is CreateSession:
            started, _, number = record.token.partition("/")
            mine = record.server_id == self.server.server_id
            if mine and started == str(self.server.started_us):
                self._attach(int(number), result.zxid, record.timeout_ms, now)
            return
        connection = self.attached.get(record.session_id)
        if connection is None:
            return
        if kind is Transaction:
            if connection.answer(record.xid, ZkOperationResponse(result)):
                self._pump(connection)
            return
        if record.reason == CLOSED and connection.answer_close(ZkCloseSessionResponse()):
            self._pump(connection)
        self.drop(connection)

    def caught_up(self, now: int) -> None:
        """More is applied: go on with the connections that wait for it."""
        for connection in list(self._syncing.values()):
            self._pump(connection)
