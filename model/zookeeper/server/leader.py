"""The duties of the ensemble's leader in one epoch (Leader, LearnerHandler, LeaderZooKeeperServer).

The leader appends the records that its own clients and its followers ask for, and it alone decides
that a session has expired. Of each follower it serves the newest connection only: a request that
arrives on an older one is refused. A write is dropped if its session has moved to another server
since (ZOOKEEPER-417).
"""

from __future__ import annotations

from typing import Any, Protocol

from kafkasim.model.effects import Request
from kafkasim.model.messages import (
    ZkForwardRequest,
    ZkLearnerInfoRequest,
    ZkLearnerResponse,
    ZkRevalidateRequest,
    ZkSyncRequest,
    ZkTouchRequest,
)
from kafkasim.model.timers import Timers
from kafkasim.model.zookeeper.database.transactions import (
    EXPIRED,
    CloseSession,
    CreateSession,
    Database,
)
from kafkasim.model.zookeeper.rules import ZooKeeperRules
from kafkasim.model.zookeeper.server.sessions import SessionTrace, SessionTracker
from kafkasim.model.zookeeper.server.upstream import Done

EXPIRY_TIMER = ("zookeeper", "expiry")
REFUSED = ZkLearnerResponse(False, -1)


class ProposalLog(Protocol):
    """The ensemble's log, for the server that leads it."""

    def schedule_append(self, epoch: int, records: list[object], now: int) -> int | None:
        """Append records; return the last one's offset, or None: this server does not lead."""


class LeaderEvents(Protocol):
    """What a leader notifies its server of."""

    def on_append_refused(self, now: int) -> None:
        """The log refused a record of this server's own client: the epoch is over."""


class EnsembleLeader:
    """The leader's side of one epoch. Lane ``zookeeper``; an :class:`Upstream`."""

    def __init__(
        self,
        server_id: int,
        epoch: int,
        tick_us: int,
        rules: ZooKeeperRules,
        database: Database,
        log: ProposalLog,
        timers: Timers,
        trace: SessionTrace,
        events: LeaderEvents,
        now: int,
    ) -> None:
        self.server_id = server_id
        self.epoch = epoch
        self.tick_us = tick_us
        self.rules = rules
        self.database = database
        self.log = log
        self.timers = timers
        self.trace = trace
        self.events = events
        self.tracker = SessionTracker(rules, tick_us)
        for session_id, session in database.sessions.items():
            self.tracker.add(session_id, session.timeout_ms, now)
        self.last_proposed = database.last_zxid
        self.learners: dict[int, int] = {}  # server -> the connection on which it joined last
        self._arm_expiry(now)

    # ----------------------------------------------------------- for this server's own clients

    def propose(self, record: Any, now: int) -> None:
        """Append a record for a client of this server."""
        if not self._propose(self.server_id, record, now):
            self.events.on_append_refused(now)

    def revalidate(self, session_id: int, now: int, done: Done) -> None:
        """Attach a session to this server; ``done(timeout_ms, now)``, with 0 if it is not open."""
        done(self._revalidate(self.server_id, session_id, now), now)

    def sync(self, now: int, done: Done) -> None:
        """Return the last zxid that is proposed through ``done(zxid, now)``."""
        done(self.last_proposed, now)

    def heard_from(self, session_id: int, now: int) -> None:
        """Let a session's timeout start anew."""
        self._touch(session_id, now)

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
            for session_id in request.sessions:
                self._touch(session_id, now)
        else:
            assert kind is ZkSyncRequest, request
        return ZkLearnerResponse(True, self.last_proposed)

    # --------------------------------------------------------------------------- for the server

    def on_applied(self, record: Any, zxid: int, now: int) -> None:
        """Track the session that an applied record opens; forget the one that it ends."""
        kind = type(record)
        if kind is CreateSession:
            self.tracker.add(zxid, record.timeout_ms, now)
            self.tracker.sessions[zxid].owner = record.server_id
        elif kind is CloseSession:
            self.tracker.remove(record.session_id)

    def owner(self, session_id: int) -> int | None:
        """Return the server where this leader last saw a session attached; None: not seen."""
        session = self.tracker.sessions.get(session_id)
        return None if session is None else session.owner

    def stop(self) -> None:
        """End the epoch: no session expires any more."""
        self.timers.cancel(EXPIRY_TIMER)

    # ------------------------------------------------------------------------------- the inside

    def _propose(self, server_id: int, record: Any, now: int) -> bool:
        """Append a record of a server's client; return False if the log refuses it.

        A write whose session has moved to another server is dropped without an answer, and counts
        as taken.
        """
        kind = type(record)
        if kind is not CreateSession:
            session = self.tracker.sessions.get(record.session_id)
            if session is not None:
                if not self.rules.accepts_forward(session.owner, server_id):
                    return True
                session.owner = server_id
        if not self._append(record, now):
            return False
        if kind is CloseSession:
            self.tracker.close(record.session_id)
        return True

    def _append(self, record: Any, now: int) -> bool:
        zxid = self.log.schedule_append(self.epoch, [record], now)
        if zxid is None:
            return False
        self.last_proposed = zxid
        return True

    def _touch(self, session_id: int, now: int) -> bool:
        """Let a session's timeout start anew; return whether the session is open.

        The trace tells the first touch of each tick: the others move no deadline.
        """
        session = self.tracker.sessions.get(session_id)
        before = None if session is None else session.deadline
        open_ = self.tracker.touch(session_id, now)
        if session is not None and session.deadline != before:
            self._record(session_id, "touched", session.owner)
        return open_

    def _record(self, session_id: int, event: str, server_id: int | None) -> None:
        client = self.database.sessions[session_id].client
        self.trace.record(session_id, event, client, server_id, -1)

    def _revalidate(self, server_id: int, session_id: int, now: int) -> int:
        """Attach an open session to a server; return its timeout in ms, 0 if it is not open."""
        if not self._touch(session_id, now):
            return 0
        session = self.tracker.sessions[session_id]
        if session.owner != server_id:
            session.owner = server_id
            self._record(session_id, "moved", server_id)
        return session.timeout_us // 1000

    def _arm_expiry(self, now: int) -> None:
        deadline = (now // self.tick_us + 1) * self.tick_us
        self.timers.arm(EXPIRY_TIMER, deadline, "zookeeper", self._on_expiry)

    def _on_expiry(self, now: int) -> None:
        for session_id in self.tracker.expired(now):
            if not self._append(CloseSession(session_id, EXPIRED), now):
                return  # the next leader decides when these sessions expire
            client = self.database.sessions[session_id].client
            self.trace.record_expiring(session_id, client, self.tracker.sessions[session_id], now)
        self._arm_expiry(now)
