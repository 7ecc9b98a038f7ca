"""A follower's link to the leader in one epoch (Learner, FollowerZooKeeperServer).

The follower joins the leader, and its server serves clients once it has applied everything that the
leader had proposed at that moment (UPTODATE). The clients' writes travel over the one connection in
order. Every half tick the follower reports the sessions whose clients sent something; in ZooKeeper
the leader asks for this report by PING. The link is lost when the connection breaks, when the
leader refuses a request, or when an answer takes longer than syncLimit ticks. Then the server sends
its clients away, and the follower joins again after a pause.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.effects import Process
from kafkasim.model.messages import (
    ZkForwardRequest,
    ZkLearnerInfoRequest,
    ZkLearnerResponse,
    ZkRevalidateRequest,
    ZkSyncRequest,
    ZkTouchRequest,
)
from kafkasim.model.zookeeper.server.upstream import Done

PURPOSE = "zookeeper-learner"
JOIN_TIMER = ("zookeeper", "join")
RETRY_US = 100_000


class LearnerEvents(Protocol):
    """What a learner notifies its server of."""

    def on_joined(self, now: int) -> None:
        """The leader accepted this follower; :attr:`Learner.serve_from` is known."""

    def on_link_lost(self, epoch: int, broken: bool, now: int) -> None:
        """The leader of ``epoch`` cannot be reached, or refused a request.

        ``broken`` is True if the connection ended, False if an answer took too long or refused.
        """


class Learner:
    """The follower's side of one epoch. Lane ``zookeeper``; an :class:`Upstream`."""

    def __init__(
        self,
        process: Process,
        server_id: int,
        leader_id: int,
        leader_address: str,
        epoch: int,
        sync_limit_ms: int,
        events: LearnerEvents,
        now: int,
    ) -> None:
        self.server_id = server_id
        self.leader_id = leader_id
        self.epoch = epoch
        self.timers = process.timers
        self.events = events
        self.is_joined = False
        self.serve_from = -1  # the zxid that the server must have applied before it serves
        self.channel = Channel(
            process, leader_address, PURPOSE, "zookeeper", sync_limit_ms, patient=True
        )
        self._heard: dict[
            int, None
        ] = {}  # sessions whose clients sent something since the last report
        self._attempt = 0  # to join; answers to requests of an earlier attempt are ignored
        self._join(now)

    # ------------------------------------------------------------------- for the server's clients

    def propose(self, record: Any, now: int) -> None:
        """Send a client's record to the leader."""
        self._send(ZkForwardRequest(self.server_id, record), now, _ignore)

    def revalidate(self, session_id: int, now: int, done: Done) -> None:
        """Attach a session to this server; ``done(timeout_ms, now)``, with 0 if it is not open."""
        request = ZkRevalidateRequest(self.server_id, session_id)
        self._send(request, now, lambda answer, at: done(answer.timeout_ms, at))

    def sync(self, now: int, done: Done) -> None:
        """Ask for the last zxid that the leader has proposed; ``done(zxid, now)``."""
        request = ZkSyncRequest(self.server_id)
        self._send(request, now, lambda answer, at: done(answer.zxid, at))

    def heard_from(self, session_id: int, now: int) -> None:
        """Name a session in the next report."""
        self._heard[session_id] = None

    # --------------------------------------------------------------------------- for the server

    def report(self, now: int) -> None:
        """Report the sessions whose clients sent something since the last report."""
        if self.is_joined:
            sessions = tuple(self._heard)
            self._heard.clear()
            self._send(ZkTouchRequest(self.server_id, sessions), now, _ignore)

    def forget_heard(self) -> None:
        """Leave the sessions so far out of the next report: their clients were sent away."""
        self._heard.clear()

    def stop(self, now: int) -> None:
        """End the epoch: close the link for good."""
        self._attempt += 1
        self.is_joined = False
        self.timers.cancel(JOIN_TIMER)
        self.channel.close(now)

    # ------------------------------------------------------------------------------- the inside

    def _join(self, now: int) -> None:
        request = ZkLearnerInfoRequest(self.server_id, self.epoch)
        self._send(request, now, self._on_joined)

    def _on_joined(self, answer: ZkLearnerResponse, now: int) -> None:
        self.is_joined = True
        self.serve_from = answer.zxid
        self.events.on_joined(now)

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
        self.is_joined = False
        self.channel.close(now)
        self.timers.arm(JOIN_TIMER, now + RETRY_US, "zookeeper", self._join)
        broken = type(answer) is Failed and answer.reason != "timeout"
        self.events.on_link_lost(self.epoch, broken, now)


def _ignore(answer: ZkLearnerResponse, now: int) -> None:
    pass
