"""A queue of requests to whoever is the active controller (NodeToControllerChannelManager).

One link per purpose, one request in flight per link. The active controller is the Raft leader that
the broker's own observer knows, and stays the one that is asked whoever leads by then, until it says
NOT_CONTROLLER or the connection is lost: the head of the queue then waits RETRY_US and goes to whom
the observer believes in, as it does while no leader is known. A request with a
``retry_timeout_ms`` gives up at a retry after that long; the others never do.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.channel import Channel, Done, Failed
from kafkasim.model.errors import Errors
from kafkasim.model.messages import CreateTopicsResponse

if TYPE_CHECKING:
    from kafkasim.model.effects import Process

RETRY_US = 50_000


class LeaderView(Protocol):
    """Who leads the quorum, as far as is known here."""

    leader_id: int


class ControllerLink:
    """Sends one request after the other to the active controller."""

    def __init__(
        self,
        process: Process,
        raft: LeaderView,
        voters: dict[int, str],
        purpose: str,
        request_timeout_ms: int,
        retry_timeout_ms: int | None = None,
    ) -> None:
        self.process = process
        self.raft = raft
        self.lane = purpose
        self.retry_timeout_us = None if retry_timeout_ms is None else retry_timeout_ms * 1000
        self.queue: deque[tuple[Any, int, Done]] = deque()
        self.in_flight = False
        self._timer = ("controller-link", purpose)
        self._active = -1  # whom this link takes for the active controller
        self._voters = voters  # changes with the metadata log (KIP-853)
        self._request_timeout_ms = request_timeout_ms
        self._channels: dict[int, Channel] = {}

    def send(self, message: Any, now: int, done: Done) -> None:
        """Queue a request; ``done`` gets the controller's answer, or Failed on a retry timeout."""
        self.queue.append((message, now, done))
        self._pump(now)

    def _pump(self, now: int) -> None:
        timers = self.process.timers
        if self.in_flight or not self.queue or timers.armed(self._timer):
            return
        if self._active not in self._channels:
            self._active = self.raft.leader_id
        channel = self._channel(self._active)
        if channel is None:
            timers.arm(self._timer, now + RETRY_US, self.lane, self._retry)
            return
        self.in_flight = True
        channel.send(self.queue[0][0], now, self._on_answer)

    def _channel(self, leader: int) -> Channel | None:
        """Return the channel to a leader, None where nobody is known to lead."""
        channel, address = self._channels.get(leader), self._voters.get(leader)
        if channel is None and address is not None:
            timeout_ms, purpose = self._request_timeout_ms, self.lane
            channel = Channel(self.process, address, purpose, purpose, timeout_ms, patient=True)
            self._channels[leader] = channel
        return channel

    def _on_answer(self, answer: Any, now: int) -> None:
        self.in_flight = False
        if isinstance(answer, Failed) or _is_not_controller(answer):
            self._active = -1
            self.process.timers.arm(self._timer, now + RETRY_US, self.lane, self._retry)
            return
        _, _, done = self.queue.popleft()
        done(answer, now)
        self._pump(now)

    def _retry(self, now: int) -> None:
        timeout_us = self.retry_timeout_us
        while timeout_us is not None and self.queue and now - self.queue[0][1] >= timeout_us:
            _, _, done = self.queue.popleft()
            done(Failed("timeout"), now)
        self._pump(now)


def _is_not_controller(answer: Any) -> bool:
    error = getattr(answer, "error", None)
    if isinstance(answer, CreateTopicsResponse) and answer.results:  # an error per topic
        error = answer.results[0][1]
    return error is Errors.NOT_CONTROLLER
