"""The records of the ensemble's log, and the state that follows from them (ZKDatabase).

The zxid of a record is its offset in the log; ZooKeeper's has the leader's epoch in its upper half
and is no denser. The record that opens a leader's epoch counts as a zxid too. A session's id is the
zxid of the record that created it (ZooKeeper: the server's number and a counter).
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.values import value
from kafkasim.model.zookeeper.database.tree import Change, DataTree
from kafkasim.model.zookeeper.ops import ZkError, ZkResult
from kafkasim.model.zookeeper.rules import ZooKeeperRules

CLOSED = "closed"
EXPIRED = "expired"


@value
class CreateSession:
    """A client connected to ``server_id``, which knows it as ``token``, and wants a session."""

    server_id: int
    token: str
    timeout_ms: int
    client: str


@value
class CloseSession:
    """A session ended: by its client or because it expired."""

    session_id: int
    reason: str


@value
class Transaction:
    """A client's write; ``xid`` is the client's number for it."""

    session_id: int
    xid: int
    op: Any


class Database:
    """The tree and the sessions as of ``last_zxid``."""

    def __init__(self, rules: ZooKeeperRules) -> None:
        self.rules = rules
        self.tree = DataTree()
        self.sessions: dict[int, CreateSession] = {}
        self.last_zxid = -1

    def apply(self, record: Any, zxid: int) -> tuple[ZkResult, list[Change]]:
        """Apply one committed record."""
        assert zxid > self.last_zxid, (record, zxid, self.last_zxid)
        self.last_zxid = zxid
        kind = type(record)
        if kind is Transaction:
            if not self.rules.accepts_write(record.session_id in self.sessions):
                return ZkResult(ZkError.SESSIONEXPIRED, zxid=zxid), []
            return self.tree.apply(record.op, record.session_id, zxid)
        if kind is CreateSession:
            self.sessions[zxid] = record
            return ZkResult(ZkError.OK, zxid=zxid), []
        assert kind is CloseSession, record
        self.sessions.pop(record.session_id, None)
        return ZkResult(ZkError.OK, zxid=zxid), self.tree.close_session(record.session_id, zxid)

    def skip(self, zxid: int) -> None:
        """Move past a record of the log that is not ours: a leader opened its epoch."""
        self.last_zxid = zxid

    def has_ended(self, session_id: int) -> bool:
        """Return whether a session was open once and is no longer."""
        return session_id <= self.last_zxid and session_id not in self.sessions
