"""ZooKeeper: between a client and a server, and between a follower and the ensemble's leader.

Names follow ZooKeeper's records (ConnectRequest, SetWatches, LearnerInfo, REVALIDATE…) behind
``Zk``; operations and results are those of model/zookeeper/ops.py. A server pushes its answers and
watch events, so that a client can send on without waiting.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.messages.base import HEADER, Message
from kafkasim.model.values import value

# ------------------------------------------------------------------------- client and server


@value
class ZkConnectRequest(Message):
    session_id: int  # 0 for a new session
    timeout_ms: int
    last_zxid_seen: int
    client: str  # who asks, as the server's log shows its address


@value
class ZkConnectResponse(Message):
    session_id: int  # 0: the session has expired
    timeout_ms: int


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
    relative_zxid: int
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
    """A follower joins the leader of an epoch."""

    server_id: int
    epoch: int


@value
class ZkForwardRequest(Message):
    """A record that a follower's client wants in the log (REQUEST)."""

    server_id: int
    record: Any

    def wire_size(self) -> int:
        op = getattr(self.record, "op", None)
        return HEADER + 100 * len(getattr(op, "ops", (1,)))


@value
class ZkRevalidateRequest(Message):
    """A client came to a follower with a session."""

    server_id: int
    session_id: int


@value
class ZkTouchRequest(Message):
    """The sessions that a follower heard from (the answer to the leader's PING)."""

    server_id: int
    sessions: tuple[int, ...]

    def wire_size(self) -> int:
        return HEADER + 12 * len(self.sessions)


@value
class ZkSyncRequest(Message):
    """Up to which zxid must a follower apply to have all that is proposed?"""

    server_id: int


@value
class ZkLearnerResponse(Message):
    """The answer to each of them: not ``accepted`` by who does not lead, or does not know it.

    ``zxid``: the last one proposed. ``timeout_ms``: of a revalidated session, 0 if it is not open.
    """

    accepted: bool
    zxid: int
    timeout_ms: int = 0
