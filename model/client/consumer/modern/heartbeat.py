"""The heartbeats of a member of a consumer group (ConsumerHeartbeatRequestManager, KIP-848).

At most one is in flight. The next one goes out after the interval that the coordinator names, after
a backoff if the last one failed, or at once when the member joins, leaves, or has reconciled an
assignment. Only what has changed is sent; after a failure, and when joining, everything is. When
the application does not poll for max.poll.interval.ms, the member leaves with its last heartbeat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.client.consumer.group.lookup import LANE
from kafkasim.model.client.consumer.modern.member_state import (
    HEARTBEATS_AT_ONCE,
    NOT_IN_GROUP,
    LocalAssignment,
    MemberState,
)
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.errors import Errors
from kafkasim.model.messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
    from kafkasim.model.client.consumer.group.membership import Membership
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.messages.base import Message

FENCED = (Errors.FENCED_MEMBER_EPOCH, Errors.UNKNOWN_MEMBER_ID)
MOVED = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE)


class HeartbeatingMember(Protocol):
    """What heartbeats read of the member, and what they cause."""

    state: MemberState
    current: LocalAssignment

    def on_heartbeat_generated(self, now: int) -> None: ...
    def on_heartbeat_skipped(self, now: int) -> None: ...
    def on_heartbeat_success(self, response: ConsumerGroupHeartbeatResponse, now: int) -> None: ...
    def on_heartbeat_failure(self, now: int) -> None: ...
    def transition_to_fenced(self, now: int) -> None: ...
    def transition_to_fatal(self, error: Errors, now: int) -> None: ...
    def send_leave(self, poll_timer_expired: bool, now: int) -> None: ...
    def rejoin_stale(self, now: int) -> None: ...


class HeartbeatManager:
    """Sends the heartbeats of one member; a share group's has messages of its own."""

    response_type: type = ConsumerGroupHeartbeatResponse

    def __init__(
        self,
        config: ConsumerConfig,
        lookup: CoordinatorLookup,
        subscription: SubscriptionState,
        membership: Membership,
        member: HeartbeatingMember,
        poll: Poll,
    ) -> None:
        self._config = config
        self._lookup = lookup
        self._subscription = subscription
        self._membership = membership
        self._member = member
        self._poll = poll
        self._process = poll.process
        self._sent = _SentFields()
        self._interval_us = 0  # the first response names it
        self._next_us = 0
        self._not_before = 0  # the end of the backoff
        self._attempts = 0
        self._in_flight = 0  # the number of the heartbeat that is awaited, 0 for none
        self._numbers = 0
        self._max_poll_us = config.max_poll_interval_ms * 1000
        self._poll_deadline = self._max_poll_us
        self._key = ("heartbeat", poll.name)
        lookup.found.append(self.advance)
        lookup.lost.append(self.advance)

    def on_poll(self, now: int) -> None:
        """Note a turn of poll(): max.poll.interval.ms starts afresh (resetPollTimer)."""
        if now >= self._poll_deadline:
            self._member.rejoin_stale(now)
        self._poll_deadline = now + self._max_poll_us

    def advance(self, now: int) -> None:
        """Send a heartbeat if one is due, or be woken when it is (AbstractHeartbeat….poll)."""
        member, lookup = self._member, self._lookup
        if self._poll.outstanding and member.state is not MemberState.STALE:
            self._poll_deadline = now + self._max_poll_us  # poll() goes round meanwhile
        if lookup.channel is None or member.state in NOT_IN_GROUP:
            member.on_heartbeat_skipped(now)
            self._process.timers.cancel(self._key)
            if lookup.channel is None:
                lookup.find(now)
            return
        leaving = member.state in (MemberState.PREPARE_LEAVING, MemberState.LEAVING)
        if now >= self._poll_deadline and not leaving:
            member.send_leave(poll_timer_expired=True, now=now)
            self._send(now, awaited=False)
            self._reset()
            return
        at_once = member.state in HEARTBEATS_AT_ONCE and not self._in_flight
        due = not self._in_flight and now >= max(self._next_us, self._not_before)
        if at_once or due or member.state is MemberState.LEAVING:
            self._send(now, awaited=True)
        if member.state in NOT_IN_GROUP:
            return
        next_us = self._poll_deadline if self._in_flight else max(self._next_us, self._not_before)
        wake = max(min(next_us, self._poll_deadline), now + 1)
        self._process.timers.arm(self._key, wake, LANE, self.advance)

    def stop(self) -> None:
        """Send no more: the consumer is closed."""
        self._process.timers.cancel(self._key)

    # Requests.

    def _send(self, now: int, awaited: bool) -> None:
        channel = self._lookup.channel
        assert channel is not None, self._config.group_id
        request = self._request()
        self._numbers += 1
        number = self._numbers
        self._in_flight = number if awaited else 0
        self._next_us = now + self._interval_us
        self._member.on_heartbeat_generated(now)

        def on_response(response: Any, at: int) -> None:
            if self._in_flight == number:
                self._in_flight = 0
                self._on_response(response, at)
                self.advance(at)

        channel.send(request, now, on_response)

    def _request(self) -> Message:
        """Return a heartbeat with what has changed (HeartbeatState.buildRequestData)."""
        config, sent = self._config, self._sent
        everything = self._member.state is MemberState.JOINING
        timeout_ms, topics = config.max_poll_interval_ms, self._subscription.topics
        assignor, current = config.group_remote_assignor, self._member.current
        request = ConsumerGroupHeartbeatRequest(
            config.group_id,
            self._membership.member_id,
            self._membership.generation_id,
            config.group_instance_id,
            None,
            timeout_ms if everything or sent.timeout_ms != timeout_ms else -1,
            topics if everything or sent.topics != topics else None,
            self._regex(everything),
            assignor if everything or sent.assignor != assignor else None,
            tuple(current.partitions.items()) if everything or sent.current != current else None,
            config.client_id,
        )
        sent.timeout_ms, sent.topics = timeout_ms, topics
        sent.assignor, sent.current = assignor, current
        return request

    def _regex(self, everything: bool) -> str | None:
        """Return the expression if it is to be sent, "" to take the last one back."""
        pattern, sent = self._subscription.subscription_pattern, self._sent
        changed, sent.pattern = pattern != sent.pattern, pattern
        if changed or (everything and pattern is not None):
            return pattern or ""
        return None

    def _reset(self) -> None:
        """Forget what was sent, and back off no longer."""
        self._sent = _SentFields()
        self._in_flight = self._attempts = self._not_before = 0

    # Responses.

    def _on_response(self, response: Any, now: int) -> None:
        if not self._is_answer(response):
            self._fail(now)
            self._lookup.mark_unknown(now)
        elif response.error is Errors.NONE:
            self._attempts = self._not_before = 0
            interval_us = response.heartbeat_interval_ms * 1000
            if interval_us != self._interval_us:
                self._interval_us = interval_us
                self._next_us = now + interval_us
            self._member.on_heartbeat_success(response, now)
            return
        else:
            self._fail(now)
            self._on_error(response.error, now)
        self._member.on_heartbeat_failure(now)

    def _is_answer(self, response: Any) -> bool:
        return isinstance(response, self.response_type)

    def _on_error(self, error: Errors, now: int) -> None:
        if error in MOVED:
            self._reset()
            self._next_us = now
            self._lookup.mark_unknown(now)
        elif error in FENCED:
            self._reset()
            self._next_us = now
            self._member.transition_to_fenced(now)
        elif error is Errors.TOPIC_AUTHORIZATION_FAILED:
            # The member stays as it is: its next heartbeats may find the missing entries added.
            self._poll.fail(KafkaError(error.name, f"group {self._config.group_id}"))
            self._poll.wake(now)
        elif error is not Errors.COORDINATOR_LOAD_IN_PROGRESS:
            self._member.transition_to_fatal(error, now)

    def _fail(self, now: int) -> None:
        """Send everything with the next heartbeat, after a backoff."""
        self._sent = _SentFields()
        self._attempts += 1
        self._next_us = now
        self._not_before = now + self._lookup.backoff.after_us(self._attempts)


class _SentFields:
    """What the last heartbeat said (SentFields)."""

    __slots__ = ("assignor", "current", "pattern", "timeout_ms", "topics")

    def __init__(self) -> None:
        self.timeout_ms = -1
        self.topics: tuple[str, ...] | None = None
        self.pattern: str | None = None
        self.assignor: str | None = None
        self.current: LocalAssignment | None = None
