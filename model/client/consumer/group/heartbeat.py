"""A group member's heartbeat thread: Kafka's Heartbeat and AbstractCoordinator.HeartbeatThread.

One timer serves the heartbeat interval, the session timeout as the client sees it, and
max.poll.interval.ms. It rests while the member is not in the group or waits for its JoinGroup
response. A heartbeat goes out each interval, whether or not the one before is answered. While the
coordinator is unknown the thread only looks for it: neither timeout is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.group.lookup import LANE
from kafkasim.model.client.consumer.group.membership import MemberState
from kafkasim.model.errors import Errors
from kafkasim.model.messages import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
    from kafkasim.model.client.consumer.group.membership import (
        MemberEvents,
        Membership,
        RebalanceConfig,
    )
    from kafkasim.model.client.consumer.poll import Poll

MEMBER_ERRORS = (Errors.ILLEGAL_GENERATION, Errors.UNKNOWN_MEMBER_ID, Errors.FENCED_INSTANCE_ID)
"""The coordinator does not have this member in this generation."""


class Heartbeat:
    """Keeps a member's session alive, and notices when the application stops polling."""

    def __init__(
        self,
        config: RebalanceConfig,
        lookup: CoordinatorLookup,
        membership: Membership,
        member: MemberEvents,
        poll: Poll,
    ) -> None:
        self._config = config
        self._lookup = lookup
        self._membership = membership
        self._member = member
        self._poll = poll
        self._process = poll.process
        self._interval_us = config.heartbeat_interval_ms * 1000
        self._session_us = config.session_timeout_ms * 1000
        self._max_poll_us = config.rebalance_timeout_ms * 1000
        self._last_poll_us = 0
        self._next_us = 0
        self._look_us = 0  # when to look for the coordinator next, while it is unknown
        self._session_deadline = 0
        self._enabled = False
        self._attempts = 0
        self._key = ("heartbeat", poll.name)
        lookup.found.append(self._on_coordinator_found)
        lookup.lost.append(self._on_coordinator_lost)

    def enable(self, now: int) -> None:
        """Begin to send heartbeats; all timeouts start afresh (resetTimeouts)."""
        self._enabled = True
        self._next_us = now + self._interval_us
        self._session_deadline = now + self._session_us
        self._last_poll_us = now
        self._arm(now)

    def on_poll(self, now: int) -> None:
        """Note a turn of poll(): max.poll.interval.ms starts afresh (pollHeartbeat)."""
        self._last_poll_us = now

    def disable(self) -> None:
        """Send no more heartbeats: the consumer closes."""
        self._enabled = False
        self._process.timers.cancel(self._key)

    def _on_coordinator_found(self, now: int) -> None:
        if self._enabled:
            self._session_deadline = now + self._session_us
            self._arm(now)

    def _on_coordinator_lost(self, now: int) -> None:
        """Go on in a moment: the thread looks for the coordinator even if nobody polls."""
        if self._enabled:
            self._look_us = now + self._config.retry_backoff_ms * 1000
            self._arm(now)

    def _arm(self, now: int) -> None:
        if self._lookup.channel is None:
            deadline = self._look_us
        else:
            poll_deadline = self._last_poll_us + self._max_poll_us
            deadline = min(self._next_us, self._session_deadline, poll_deadline)
        self._process.timers.arm(self._key, max(deadline, now), LANE, self._run)

    def _run(self, now: int) -> None:
        lookup = self._lookup
        if self._membership.state in (MemberState.UNJOINED, MemberState.PREPARING_REBALANCE):
            self._enabled = False  # until the next JoinGroup response
            return
        if lookup.channel is None:
            lookup.find(now)
            self._look_us = now + self._config.retry_backoff_ms * 1000
            self._arm(now)
            return
        if now >= self._session_deadline:
            lookup.mark_unknown(now)
            return
        due = now >= self._next_us
        if due and self._poll.outstanding:
            self.on_poll(now)  # poll() takes a turn when a heartbeat is due (timeToNextPoll)
        if now >= self._last_poll_us + self._max_poll_us:
            self._member.on_poll_timeout(now)
            self._enabled = False
            return
        if due:
            self._send(now)
        self._arm(now)

    def _send(self, now: int) -> None:
        channel = self._lookup.channel
        assert channel is not None, self._config.group_id
        self._next_us = now + self._interval_us
        generation = self._membership.generation_id
        request = HeartbeatRequest(
            self._config.group_id,
            generation,
            self._membership.member_id,
            self._config.group_instance_id,
        )
        channel.send(request, now, lambda response, at: self._on_response(generation, response, at))

    def _on_response(self, generation: int, response: Any, now: int) -> None:
        membership = self._membership
        if not isinstance(response, HeartbeatResponse):
            self._lookup.mark_unknown(now)
            self._fail(now)
            return
        error = response.error
        if not error or error is Errors.REBALANCE_IN_PROGRESS:
            self._succeed(now)
            if error and membership.stable:
                self._member.request_rejoin("group is already rebalancing")
                self._poll.wake(now)
        elif error in (Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR):
            self._lookup.mark_unknown(now)
            self._fail(now)
        elif error in MEMBER_ERRORS:
            joining = membership.state is MemberState.PREPARING_REBALANCE
            if generation != membership.generation_id or joining:
                self._succeed(now)  # of an older generation: it means nothing
            elif error is Errors.FENCED_INSTANCE_ID:
                self._member.on_fenced(now)
            else:
                reason = f"encountered {error.name} from HEARTBEAT response"
                self._member.reset_generation(reason, error is Errors.ILLEGAL_GENERATION)
                self._poll.wake(now)
        else:
            self._fail(now)

    def _succeed(self, now: int) -> None:
        """Begin the session afresh (Heartbeat.receiveHeartbeat)."""
        self._attempts = 0
        self._session_deadline = now + self._session_us

    def _fail(self, now: int) -> None:
        """Send the next heartbeat after the backoff (Heartbeat.failHeartbeat)."""
        self._attempts += 1
        self._next_us = now + self._lookup.backoff.after_us(self._attempts)
        if self._enabled:
            self._arm(now)
