"""A follower's connection to the leader (Learner, FollowerZooKeeperServer).

The follower joins the leader of its epoch and serves clients once it has applied what the leader
had proposed by then (UPTODATE). Their writes travel over the one connection in order; every half
tick it reports whom it has heard from, which also shows whether the leader is there (ZooKeeper's
leader asks: PING). A connection that breaks, a refusal or a silence of syncLimit ticks end it: the
server closes its clients' connections and joins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.messages import (
    ZkForwardRequest,
    ZkLearnerInfoRequest,
    ZkLearnerResponse,
    ZkRevalidateRequest,
    ZkSyncRequest,
    ZkTouchRequest,
)

if TYPE_CHECKING:
    from kafkasim.model.zookeeper.server.server import ZooKeeperServer

PURPOSE = "zookeeper-learner"
Done = Callable[[int, int], None]  # (answer, now)
JOIN_TIMER = ("zookeeper", "join")
RETRY_US = 100_000


class Learner:
    """The follower's side of one epoch, on lane ``zookeeper``."""

    def __init__(self, server: ZooKeeperServer, leader: int, epoch: int, now: int) -> None:
        self.server = server
        self.leader = leader
        self.epoch = epoch
        self.joined = False
        self.serve_from = -1  # the zxid to have applied before clients are served
        timeout_ms = server.config.sync_limit_ms
        address = server.servers[leader]
        self.channel = Channel(server, address, PURPOSE, "zookeeper", timeout_ms, patient=True)
        self._attempt = 0  # an answer to an earlier one counts no more
        self._join(now)

    def propose(self, record: Any, now: int) -> bool:
        """Send a client's record to the leader."""
        self._send(ZkForwardRequest(self.server.server_id, record), now, _nothing)
        return True

    def revalidate(self, session_id: int, now: int, done: Done) -> None:
        """Ask whether a session is open; ``done(timeout_ms or 0, now)``."""
        request = ZkRevalidateRequest(self.server.server_id, session_id)
        self._send(request, now, lambda answer, at: done(answer.timeout_ms, at))

    def sync(self, now: int, done: Done) -> None:
        """Ask what is proposed; ``done(zxid, now)``."""
        request = ZkSyncRequest(self.server.server_id)
        self._send(request, now, lambda answer, at: done(answer.zxid, at))

    def touch(self, sessions: tuple[int, ...], now: int) -> None:
        """Report the sessions heard from since the last time."""
        self._send(ZkTouchRequest(self.server.server_id, sessions), now, _nothing)

    def stop(self, now: int) -> None:
        """The epoch is over."""
        self._attempt += 1
        self.joined = False
        self.server.timers.cancel(JOIN_TIMER)
        self.channel.close(now)

    def _join(self, now: int) -> None:
        request = ZkLearnerInfoRequest(self.server.server_id, self.epoch)
        self._send(request, now, self._on_joined)

    def _on_joined(self, answer: ZkLearnerResponse, now: int) -> None:
        self.joined = True
        self.serve_from = answer.zxid
        self.server.check_serving(now)

    def _send(self, request: Any, now: int, done: Callable[[ZkLearnerResponse, int], None]) -> None:
        self.channel.send(request, now, partial(self._on_answer, self._attempt, done))

    def _on_answer(
        self, attempt: int, done: Callable[[ZkLearnerResponse, int], None], answer: Any, now: int
    ) -> None:
        if attempt != self._attempt:
            return
        if type(answer) is ZkLearnerResponse and answer.accepted:
            done(answer, now)
            return
        self._attempt += 1
        self.joined = False
        self.channel.close(now)
        self.server.timers.arm(JOIN_TIMER, now + RETRY_US, "zookeeper", self._join)
        broken = type(answer) is Failed and answer.reason != "timeout"
        self.server.on_link_lost(self.epoch, broken, now)


def _nothing(answer: ZkLearnerResponse, now: int) -> None:
    pass
