"""The records of the ensemble's log, and the state that follows from them (ZKDatabase).

A record's zxid is its offset in the log, so the record that opens a leader's epoch has a zxid too.
ZooKeeper's zxid has the leader's epoch in its upper half and a counter below. A session's id is the
zxid of the record that created it; ZooKeeper makes it of the server's number and a counter.
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
    """A client wants a session."""

    server_id: int  # where it is connected
    token: str  # by which that server recognises the connection
    timeout_ms: int
    client: str


@value
class CloseSession:
    """A session ends."""

    session_id: int
    reason: str  # CLOSED by its client, or EXPIRED


@value
class Transaction:
    """A client's write."""

    session_id: int
    xid: int  # the client's number for it
    op: Any


class Database:
    """The znodes and the open sessions after the record ``last_zxid``."""

    def __init__(self, rules: ZooKeeperRules) -> None:
        self.rules = rules
        self.tree = DataTree()
        self.sessions: dict[int, CreateSession] = {}
        self.last_zxid = -1

    def apply(self, record: Any, zxid: int) -> tuple[ZkResult, list[Change]]:
        """Apply one committed record; return its result and the changes of znodes, in order."""
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
        """Move past a record that is none of the above: a leader opened its epoch."""
        self.last_zxid = zxid

    def has_ended(self, session_id: int) -> bool:
        """Return whether a session was open once and is no longer."""
        return session_id <= self.last_zxid and session_id not in self.sessions
