"""What only the ensemble's leader does: take records from the servers, and end sessions.

Models Leader, LearnerHandler and LeaderZooKeeperServer. A leader lives as long as its epoch. Of
each follower it serves the newest connection alone: what lingers in an older one is refused, and so
is a write from a server that its session has left (ZOOKEEPER-417).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Request
from kafkasim.model.messages import (
    ZkForwardRequest,
    ZkLearnerInfoRequest,
    ZkLearnerResponse,
    ZkRevalidateRequest,
    ZkSyncRequest,
    ZkTouchRequest,
)
from kafkasim.model.zookeeper.database.transactions import EXPIRED, CloseSession, CreateSession
from kafkasim.model.zookeeper.server.learner import Done
from kafkasim.model.zookeeper.server.sessions import SessionTracker

if TYPE_CHECKING:
    from kafkasim.model.zookeeper.server.server import ZooKeeperServer

EXPIRY_TIMER = ("zookeeper", "expiry")
REFUSED = ZkLearnerResponse(False, -1)


class EnsembleLeader:
    """The leader's side of one epoch, on lane ``zookeeper``."""

    def __init__(self, server: ZooKeeperServer, epoch: int, now: int) -> None:
        self.server = server
        self.epoch = epoch
        self.tick_us = server.config.tick_us
        self.tracker = SessionTracker(server.rules, self.tick_us)
        for session_id, session in server.database.sessions.items():
            self.tracker.add(session_id, session.timeout_ms, now)
        self.last_proposed = server.database.last_zxid
        self.learners: dict[int, int] = {}  # server -> the connection it joined on
        self._await_expiry(now)

    # ----------------------------------------------------------- for this server's own clients

    def propose(self, record: Any, now: int) -> bool:
        """Append a record for this server's client; False: this server leads no longer."""
        return self._propose(self.server.server_id, record, now)

    def revalidate(self, session_id: int, now: int, done: Done) -> None:
        """Attach an open session to this server; ``done(timeout_ms or 0, now)``."""
        done(self._revalidate(self.server.server_id, session_id, now), now)

    def sync(self, now: int, done: Done) -> None:
        """Tell what is proposed; ``done(zxid, now)``."""
        done(self.last_proposed, now)

    def touch(self, sessions: tuple[int, ...], now: int) -> None:
        """Note that clients are alive."""
        for session_id in sessions:
            self.tracker.touch(session_id, now)

    def owner(self, session_id: int) -> int | None:
        """Return where this leader last saw a session attached."""
        session = self.tracker.sessions.get(session_id)
        return None if session is None else session.owner

    # ---------------------------------------------------------------------------- for followers

    def on_request(self, item: Request, now: int) -> ZkLearnerResponse:
        """Serve a follower's request."""
        request = item.message
        kind = type(request)
        if kind is ZkLearnerInfoRequest:
            if request.epoch != self.epoch:
                return REFUSED
            self.learners[request.server_id] = item.connection
        elif self.learners.get(request.server_id) != item.connection:
            return REFUSED
        elif kind is ZkForwardRequest:
            if not self._propose(request.server_id, request.record, now):
                return REFUSED
        elif kind is ZkRevalidateRequest:
            timeout_ms = self._revalidate(request.server_id, request.session_id, now)
            return ZkLearnerResponse(True, self.last_proposed, timeout_ms)
        elif kind is ZkTouchRequest:
            self.touch(request.sessions, now)
        else:
            assert kind is ZkSyncRequest, request
        return ZkLearnerResponse(True, self.last_proposed)

    # ---------------------------------------------------------------------- committed records

    def applied(self, record: Any, zxid: int, now: int) -> None:
        """Follow what the log says of sessions."""
        kind = type(record)
        if kind is CreateSession:
            self.tracker.add(zxid, record.timeout_ms, now)
            self.tracker.sessions[zxid].owner = record.server_id
        elif kind is CloseSession:
            self.tracker.remove(record.session_id)

    def stop(self) -> None:
        """The epoch is over."""
        self.server.timers.cancel(EXPIRY_TIMER)

    def _propose(self, server_id: int, record: Any, now: int) -> bool:
        """Append a record, unless its session has moved to another server (dropped in silence)."""
        kind = type(record)
        if kind is not CreateSession:
            session = self.tracker.sessions.get(record.session_id)
            if session is not None:
                if not self.server.rules.accepts_forward(session.owner, server_id):
                    return True
                session.owner = server_id
        zxid = self.server.raft.schedule_append(self.epoch, [record], now)
        if zxid is None:
            return False
        self.last_proposed = zxid
        if kind is CloseSession:
            self.tracker.close(record.session_id)
        return True

    def _revalidate(self, server_id: int, session_id: int, now: int) -> int:
        """Attach an open session to a server; return its timeout in ms, or 0."""
        if not self.tracker.touch(session_id, now):
            return 0
        session = self.tracker.sessions[session_id]
        if session.owner != server_id:
            session.owner = server_id
            client = self.server.database.sessions[session_id].client
            self.server.tell_session(session_id, "moved", client, server_id, -1)
        return session.timeout_us // 1000

    def _await_expiry(self, now: int) -> None:
        deadline = (now // self.tick_us + 1) * self.tick_us
        self.server.timers.arm(EXPIRY_TIMER, deadline, "zookeeper", self._on_expiry)

    def _on_expiry(self, now: int) -> None:
        for session_id in self.tracker.expired(now):
            record = CloseSession(session_id, EXPIRED)
            zxid = self.server.raft.schedule_append(self.epoch, [record], now)
            if zxid is None:
                return  # the next leader's clock decides
            self.last_proposed = zxid
        self._await_expiry(now)
