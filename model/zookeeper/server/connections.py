"""A client's connection at a server: requests answered in the order in which they came.

Models ServerCnxn and what CommitProcessor promises a session: a read waits for the writes sent
before it, everything else of other sessions goes on. Writes travel to the leader as they arrive.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from kafkasim.model.messages import ZkCloseSessionRequest


class Pending:
    """A request that is not answered yet."""

    __slots__ = ("answer", "logged", "message", "waits_for", "xid")

    def __init__(self, xid: int, message: Any) -> None:
        self.xid = xid
        self.message = message
        self.logged = False  # its answer comes with the log
        self.answer: Any = None
        self.waits_for: int | None = -1  # the zxid to apply first; None: not known yet


class ServerConnection:
    """One connection whose session is attached here."""

    __slots__ = ("heard_us", "number", "pending", "session_id", "timeout_us")

    def __init__(self, number: int, session_id: int, timeout_ms: int, now: int) -> None:
        self.number = number
        self.session_id = session_id
        self.timeout_us = timeout_ms * 1000
        self.heard_us = now
        self.pending: deque[Pending] = deque()

    def answer(self, xid: int, message: Any) -> bool:
        """Note the outcome of a write; return whether the client still waits for it here."""
        for pending in self.pending:
            if pending.xid == xid:
                pending.answer = message
                return True
        return False

    def answer_close(self, message: Any) -> bool:
        """Note that the client's wish to close the session is fulfilled."""
        for pending in self.pending:
            if type(pending.message) is ZkCloseSessionRequest:
                pending.answer = message
                return True
        return False
