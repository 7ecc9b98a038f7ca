"""A member's way into a generation: JoinGroup and SyncGroup, as AbstractCoordinator sends them.

A JoinGroup response is handled inside poll() only. A leader that has to assign topics which it does
not read itself waits for their metadata first. After an error the member joins again: at once if
the coordinator asked for that, else after a backoff.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.channel import Failed
from kafkasim.model.client.consumer.group.membership import MemberState
from kafkasim.model.client.exceptions import AssignorError, KafkaError
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.group.heartbeat import Heartbeat
    from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
    from kafkasim.model.client.consumer.group.membership import (
        MemberEvents,
        Membership,
        RebalanceConfig,
    )
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.messages import Subscription

JOIN_TIMEOUT_EXTRA_US = 5_000_000  # AbstractCoordinator.JOIN_GROUP_TIMEOUT_LAPSE
UNKNOWN_COORDINATOR = (Errors.COORDINATOR_NOT_AVAILABLE, Errors.NOT_COORDINATOR)

Partitions = tuple[TopicPartition, ...]


class Assignors(Protocol):
    """What a member says when it joins, and what it does as the leader.

    The half of AbstractCoordinator that ConsumerCoordinator and WorkerCoordinator fill in.
    """

    def subscriptions(self) -> tuple[tuple[str, Subscription], ...]:
        """Return (protocol, subscription) by preference, for JoinGroup (metadata())."""
        ...

    def watch(self, response: JoinGroupResponse, now: int) -> bool:
        """Return whether the leader waits for metadata before it assigns."""
        return False

    def blocks(self, response: JoinGroupResponse) -> bool:
        """Return whether the application runs the assignor, with :meth:`topics_to_assign`."""
        return False

    def topics_to_assign(self, response: JoinGroupResponse) -> Any:
        """Return what an assignor that blocks is given with the members."""
        return {}

    def assign(self, response: JoinGroupResponse, now: int) -> tuple[tuple[str, Partitions], ...]:
        """Return what each member is assigned, for SyncGroup (onLeaderElected)."""
        ...

    def checked(
        self, response: JoinGroupResponse, assignment: Any
    ) -> tuple[tuple[str, Partitions], ...]:
        """Return an assignment that the application has made, as SyncGroup takes it."""
        return tuple(assignment.items())


class GroupJoin:
    """The JoinGroup and SyncGroup of one member."""

    def __init__(
        self,
        config: RebalanceConfig,
        lookup: CoordinatorLookup,
        membership: Membership,
        heartbeat: Heartbeat,
        member: MemberEvents,
        assignors: Assignors,
        poll: Poll,
    ) -> None:
        self._config = config
        self._lookup = lookup
        self._membership = membership
        self._heartbeat = heartbeat
        self._member = member
        self._assignors = assignors
        self._poll = poll
        self._process = poll.process
        self.assignment: Partitions | None = None  # synced and not yet taken
        self.protocol_name = ""  # the assignor of the last generation that was synced
        self._in_flight = False  # JoinGroup or SyncGroup
        self._response: Any = None  # of a JoinGroup, arrived while no poll() was outstanding
        self._leading: JoinGroupResponse | None = None  # whose topics' metadata is awaited
        self._metadata_late = False  # it came while no poll() was outstanding
        self._not_before = 0
        self._started_us: int | None = None  # when the first JoinGroup of the rebalance was sent

    @property
    def under_way(self) -> bool:
        """Whether a response is expected, or waits for the next poll()."""
        return self._in_flight or self._response is not None or self._leading is not None

    def take_assignment(self) -> Partitions | None:
        """Return the assignment that has arrived, once."""
        assignment, self.assignment = self.assignment, None
        return assignment

    def handle_late_response(self, now: int) -> None:
        """Handle the response that has waited for a poll(), if there is one."""
        if self._response is not None:
            response, self._response = self._response, None
            self._handle_join(response, now)
            self._poll.wake(now)  # joinGroupIfNeeded goes on at once
        elif self._leading is not None and self._metadata_late:
            self.on_metadata(now)

    def backoff_is_over(self, now: int) -> bool:
        """Return whether a JoinGroup may be sent; wake the poll() later if not."""
        if now < self._not_before:
            self._poll.wake_at(self._not_before)
            return False
        return True

    def send(self, reason: str, now: int) -> None:
        """Join with the present subscription. The coordinator must be known."""
        channel, membership, config = self._lookup.channel, self._membership, self._config
        assert channel is not None, config.group_id
        try:
            subscriptions = self._assignors.subscriptions()
        except AssignorError as error:
            self._fail(error.error, error)
            self._poll.wake(now)
            return
        if self._started_us is None:
            self._started_us = now
        membership.begin_join()
        self._in_flight = True
        request = JoinGroupRequest(
            config.group_id,
            config.session_timeout_ms,
            config.rebalance_timeout_ms,
            membership.member_id,
            config.group_instance_id,
            config.protocol_type,
            subscriptions,
            config.client_id,
            reason,
        )
        # The response waits for the slowest member, for max.poll.interval.ms at most.
        slowest_us = config.rebalance_timeout_ms * 1000 + JOIN_TIMEOUT_EXTRA_US
        timeout_us = max(channel.request_timeout_us, slowest_us)
        channel.send(request, now, self._on_join, timeout_us)

    def end(self, now: int) -> int:
        """End the rebalance; return how many microseconds it took from its first JoinGroup."""
        assert self._started_us is not None, self._config.group_id
        took_us, self._started_us = now - self._started_us, None
        return took_us

    def _on_join(self, response: Any, now: int) -> None:
        self._in_flight = False
        if self._poll.outstanding:
            self._handle_join(response, now)
            self._poll.wake(now)
        else:
            self._response = response

    def _handle_join(self, response: Any, now: int) -> None:
        membership = self._membership
        if not isinstance(response, JoinGroupResponse) or response.error:
            self._on_error(response, now)
            return
        if membership.state is not MemberState.PREPARING_REBALANCE:  # left the group meanwhile
            self._retry("UnjoinedGroupException", now, at_once=True)
            return
        membership.joined(response.generation_id, response.member_id)
        self._heartbeat.enable(now)
        if response.leader != response.member_id:
            self._sync(response, (), now)
        elif self._assignors.watch(response, now):
            self._leading = response
        else:
            self._assign(response, now)

    def on_metadata(self, now: int) -> None:
        """Assign, if that waited for metadata; by an application's assignor in the next poll()."""
        response, self._metadata_late = self._leading, False
        if response is not None and self._assignors.blocks(response):
            self._metadata_late = not self._poll.outstanding
        if self._metadata_late:
            return
        self._leading = None
        if response is not None:
            if self._membership.generation_id == response.generation_id:
                self._assign(response, now)
            self._poll.wake(now)

    def _assign(self, response: JoinGroupResponse, now: int) -> None:
        if self._assignors.blocks(response):
            topics = self._assignors.topics_to_assign(response)
            what = (topics, response.members)
            self._poll.end_with_event("assign", what, partial(self._assigned, response))
            return
        try:
            self._sync(response, self._assignors.assign(response, now), now)
        except AssignorError as error:
            self._fail(error.error, error)

    def _assigned(self, response: JoinGroupResponse, now: int) -> None:
        """Send the assignment with which the application continues, or fail the poll().

        The heartbeat may have found meanwhile that the generation is over.
        """
        answer = self._poll.answer
        if self._membership.generation_id != response.generation_id:
            self._retry("IllegalGenerationException", now, at_once=True)
            return
        try:
            if isinstance(answer, AssignorError):
                raise answer
            self._sync(response, self._assignors.checked(response, answer), now)
        except AssignorError as error:
            self._fail(error.error, error)

    def _sync(
        self, response: JoinGroupResponse, assignments: tuple[tuple[str, Partitions], ...], now: int
    ) -> None:
        if self._lookup.channel is None:
            self._retry("CoordinatorNotAvailableException", now)
            return
        self._in_flight = True
        request = SyncGroupRequest(
            self._config.group_id,
            response.generation_id,
            response.member_id,
            self._config.group_instance_id,
            self._config.protocol_type,
            response.protocol_name,
            assignments,
        )
        self._lookup.channel.send(request, now, self._on_sync)

    def _on_sync(self, response: Any, now: int) -> None:
        self._in_flight = False
        if not isinstance(response, SyncGroupResponse) or response.error:
            self._on_sync_error(response, now)
        elif self._membership.state is MemberState.COMPLETING_REBALANCE:
            self._membership.synced()
            self.protocol_name = response.protocol_name or ""
            self.assignment = response.assignment
        else:
            self._retry("IllegalGenerationException", now, at_once=True)
        self._poll.wake(now)

    def _on_sync_error(self, response: Any, now: int) -> None:
        """Join again, or fail the poll() over an error that Kafka does not expect here.

        That is one of a coordinator that loads the group, too (SyncGroupResponseHandler).
        """
        error = None if isinstance(response, Failed) else response.error
        if error in RETRIABLE and error not in UNKNOWN_COORDINATOR:
            error_ = KafkaError(error.name, f"group {self._config.group_id}")
            self._fail("KafkaException", error_)
        else:
            self._on_error(response, now)

    def _on_error(self, response: Any, now: int) -> None:
        """Join again after a request that failed, or fail the poll()."""
        if isinstance(response, Failed):
            self._lookup.mark_unknown(now)
            self._retry("DisconnectException", now)
            return
        error: Errors = response.error
        name = _exception(error)
        if error is Errors.MEMBER_ID_REQUIRED:
            member_id = self._membership.member_id = response.member_id
            self._member.request_rejoin(f"need to re-join with the given member-id: {member_id}")
        elif error in (Errors.UNKNOWN_MEMBER_ID, Errors.ILLEGAL_GENERATION):
            self._member.reset_generation(name, keep_member_id=error is Errors.ILLEGAL_GENERATION)
            self._retry(name, now, at_once=True)
        elif error is Errors.REBALANCE_IN_PROGRESS:
            self._retry(name, now, at_once=True)
        elif error in RETRIABLE:
            if error in UNKNOWN_COORDINATOR:
                self._lookup.mark_unknown(now)
            self._retry(name, now)
        else:
            self._fail(name, KafkaError(error.name, f"group {self._config.group_id}"))

    def _fail(self, exception: str, error: KafkaError) -> None:
        """Give this rebalance up and fail the poll(); the next one joins again."""
        self._member.request_rejoin(f"rebalance failed due to {exception}")
        self._poll.fail(error)

    def _retry(self, exception: str, now: int, at_once: bool = False) -> None:
        self._member.request_rejoin(f"rebalance failed due to {exception}")
        if not at_once:
            self._not_before = now + self._config.retry_backoff_ms * 1000


def _exception(error: Errors) -> str:
    """Return the class name of an error's exception in Kafka's clients."""
    return "".join([word.capitalize() for word in error.name.split("_")]) + "Exception"
