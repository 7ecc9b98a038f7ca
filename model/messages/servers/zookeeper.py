"""The messages of ZooKeeper: client and server, follower and leader.

Names are ZooKeeper's (ConnectRequest, SetWatches, LearnerInfo, REVALIDATE…) with ``Zk`` before
them. Operations and results are those of model/zookeeper/ops.py. A server pushes its answers and
its watch events, so that a client may send the next request before it has the answer to the last.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.messages.base import HEADER, Message
from kafkasim.model.values import value

# ------------------------------------------------------------------------- client and server


@value
class ZkConnectRequest(Message):
    session_id: int  # 0: a new session
    timeout_ms: int  # that the client asks for
    last_zxid_seen: int
    client: str  # the process that asks


@value
class ZkConnectResponse(Message):
    session_id: int  # 0: the session has expired
    timeout_ms: int  # that the session got


@value
class ZkOperationRequest(Message):
    op: Any

    def wire_size(self) -> int:
        return HEADER + 100 * len(getattr(self.op, "ops", (1,)))


@value
class ZkOperationResponse(Message):
    result: Any

    def wire_size(self) -> int:
        result = self.result
        return HEADER + 80 + 80 * len(result.results) + 12 * len(result.children)


@value
class ZkPingRequest(Message):
    pass


@value
class ZkPingResponse(Message):
    zxid: int


@value
class ZkSetWatchesRequest(Message):
    """Leaves a client's watches at the server to which it reconnected."""

    relative_zxid: int  # the newest that the client has seen
    data: tuple[str, ...]
    exist: tuple[str, ...]
    child: tuple[str, ...]

    def wire_size(self) -> int:
        return HEADER + 30 * (len(self.data) + len(self.exist) + len(self.child))


@value
class ZkSetWatchesResponse(Message):
    zxid: int


@value
class ZkCloseSessionRequest(Message):
    pass


@value
class ZkCloseSessionResponse(Message):
    pass


@value
class ZkWatchEvent(Message):
    event: Any


# ------------------------------------------------------------------------ follower and leader


@value
class ZkLearnerInfoRequest(Message):
    """A follower joins the leader of ``epoch`` (FOLLOWERINFO)."""

    server_id: int
    epoch: int


@value
class ZkForwardRequest(Message):
    """A follower asks for a record in the log, for one of its clients (REQUEST)."""

    server_id: int
    record: Any

    def wire_size(self) -> int:
        op = getattr(self.record, "op", None)
        return HEADER + 100 * len(getattr(op, "ops", (1,)))


@value
class ZkRevalidateRequest(Message):
    """A client came to a follower with a session: is it open? (REVALIDATE)"""

    server_id: int
    session_id: int


@value
class ZkTouchRequest(Message):
    """A follower reports the sessions whose clients are alive (its answer to PING)."""

    server_id: int
    sessions: tuple[int, ...]

    def wire_size(self) -> int:
        return HEADER + 12 * len(self.sessions)


@value
class ZkSyncRequest(Message):
    """A follower asks for the last zxid that the leader has proposed (SYNC)."""

    server_id: int


@value
class ZkLearnerResponse(Message):
    """The leader's answer to each of these requests."""

    accepted: bool  # False: this server does not lead, or the follower has joined anew since
    zxid: int  # the last one that is proposed
    timeout_ms: int = 0  # of a revalidated session, 0 if it is not open
