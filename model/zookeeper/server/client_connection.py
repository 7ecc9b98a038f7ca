"""One client's connection at a server, with its unanswered requests in order (ServerCnxn).

The order is what CommitProcessor promises a session: the server answers a session's requests in the
order in which they came, and a read waits for the session's own writes before it. Requests of other
sessions wait for neither.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from kafkasim.model.messages import ZkCloseSessionRequest


class PendingRequest:
    """A request that the server has not answered yet."""

    __slots__ = ("answer", "is_logged", "message", "waits_for_zxid", "xid")

    def __init__(self, xid: int, message: Any) -> None:
        self.xid = xid
        self.message = message
        self.is_logged = False  # a record of the log answers it, when the server applies that
        self.answer: Any = None  # of a logged request, once its record is applied
        # Of any other request: the zxid that the server must have applied first; −1: none,
        # None: the leader has not said which (Sync).
        self.waits_for_zxid: int | None = -1


class ClientConnection:
    """One inbound connection whose session is attached to this server."""

    __slots__ = ("last_heard_us", "number", "pending", "session_id", "timeout_us")

    def __init__(self, number: int, session_id: int, timeout_ms: int, now: int) -> None:
        self.number = number
        self.session_id = session_id
        self.timeout_us = timeout_ms * 1000
        self.last_heard_us = now
        self.pending: deque[PendingRequest] = deque()

    def set_answer(self, xid: int, message: Any) -> bool:
        """Set the answer to a write; return False if the client no longer waits for it here."""
        for pending in self.pending:
            if pending.xid == xid:
                pending.answer = message
                return True
        return False

    def set_close_answer(self, message: Any) -> bool:
        """Set the answer to the client's request to close its session; False if there is none."""
        for pending in self.pending:
            if type(pending.message) is ZkCloseSessionRequest:
                pending.answer = message
                return True
        return False
