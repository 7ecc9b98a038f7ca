"""The heartbeat thread of a group member: Kafka's Heartbeat and AbstractCoordinator.HeartbeatThread.

One timer serves the heartbeat interval, the session timeout as seen by the client and
max.poll.interval.ms. It sleeps while the member is not in the group or joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.net.connections import backoff_us
from kafkasim.model.errors import Errors
from kafkasim.model.messages import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.coordinator import ConsumerCoordinator

LANE = "heartbeat"


class Heartbeat:
    """Keeps a member's session alive."""

    def __init__(self, coordinator: ConsumerCoordinator) -> None:
        self.coordinator = coordinator
        self.process = coordinator.process
        config = coordinator.config
        self.config = config
        self.interval_us = config.heartbeat_interval_ms * 1000
        self.session_us = config.session_timeout_ms * 1000
        self.max_poll_us = config.max_poll_interval_ms * 1000
        self.last_poll_us = 0  # set by every poll()
        self._next_us = 0
        self._session_deadline = 0
        self._in_flight = False
        self._enabled = False
        self._attempts = 0
        self._key = ("heartbeat", coordinator.consumer.name)

    def enable(self, now: int) -> None:
        """A member has joined: timeouts start afresh (resetTimeouts)."""
        self._enabled = True
        self._attempts = 0
        self._next_us = now + self.interval_us
        self._session_deadline = now + self.session_us
        self._arm(now)

    def disable(self) -> None:
        """The member is out of the group, or closes."""
        self._enabled = False
        self.process.timers.cancel(self._key)

    def on_coordinator(self, now: int) -> None:
        """The coordinator is known again."""
        if self._enabled:
            self._session_deadline = now + self.session_us
            self._next_us = min(self._next_us, now)
            self._arm(now)

    def on_coordinator_lost(self, now: int) -> None:
        """The coordinator is unknown: the thread looks for it, even if nobody polls."""
        self._in_flight = False
        if self._enabled:
            self._next_us = now + backoff_us(self.config, 1, self.process.rng)
            self._arm(now)

    def _arm(self, now: int) -> None:
        poll_deadline = self.last_poll_us + self.max_poll_us
        deadline = min(self._next_us, self._session_deadline, poll_deadline)
        self.process.timers.arm(self._key, max(deadline, now), LANE, self._run)

    def _run(self, now: int) -> None:
        coordinator = self.coordinator
        if coordinator.state in ("UNJOINED", "PREPARING_REBALANCE"):
            self._enabled = False  # until the next JoinGroup answer
            return
        if coordinator.channel is None:
            coordinator.find(now)
            self._next_us = now + backoff_us(self.config, 1, self.process.rng)
            self._session_deadline = now + self.session_us
        elif now >= self._session_deadline:
            coordinator.forget_coordinator(now)
            return
        if now >= self.last_poll_us + self.max_poll_us:
            coordinator.leave("consumer poll timeout has expired.", now)
            self._enabled = False
            return
        if now >= self._next_us:
            if self._in_flight:
                self._next_us = now + backoff_us(self.config, 1, self.process.rng)
            else:
                self._send(now)
        self._arm(now)

    def _send(self, now: int) -> None:
        coordinator = self.coordinator
        assert coordinator.channel is not None
        self._next_us = now + self.interval_us
        self._in_flight = True
        generation = coordinator.generation_id
        request = HeartbeatRequest(
            self.config.group_id,
            generation,
            coordinator.member_id,
            self.config.group_instance_id,
        )
        coordinator.channel.send(
            request, now, lambda answer, at: self._on_answer(generation, answer, at)
        )

    def _on_answer(self, generation: int, answer: Any, now: int) -> None:
        self._in_flight = False
        coordinator = self.coordinator
        if not isinstance(answer, HeartbeatResponse):
            coordinator.forget_coordinator(now)
            return
        error = answer.error
        if not error or error is Errors.REBALANCE_IN_PROGRESS:
            self._attempts = 0
            self._session_deadline = now + self.session_us
            if error and coordinator.state == "STABLE":
                coordinator.rejoin_needed = True
                coordinator.consumer.wake(now)
            return
        if error in (Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR):
            coordinator.forget_coordinator(now)
        elif error in (Errors.ILLEGAL_GENERATION, Errors.UNKNOWN_MEMBER_ID):
            if (
                generation == coordinator.generation_id
                and coordinator.state != "PREPARING_REBALANCE"
            ):
                coordinator.reset_generation(error is Errors.ILLEGAL_GENERATION)
                coordinator.consumer.wake(now)
        elif error is Errors.FENCED_INSTANCE_ID:
            coordinator.fenced(now)
        else:
            self._attempts += 1
            self._next_us = now + backoff_us(self.config, self._attempts, self.process.rng)
            if self._enabled:
                self._arm(now)
