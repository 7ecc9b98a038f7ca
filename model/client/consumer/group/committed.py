"""Reading a group's committed offsets: OffsetFetch, for positions and for the application.

Models ConsumerCoordinator.initWithCommittedOffsetsIfNeeded and fetchCommittedOffsets.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.consumer.group.commits import UNKNOWN_COORDINATOR
from kafkasim.model.client.consumer.subscription import FetchState
from kafkasim.model.client.exceptions import (
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
)
from kafkasim.model.effects import Reply
from kafkasim.model.errors import Errors
from kafkasim.model.facts import HoleEntered
from kafkasim.model.messages import OffsetFetchRequest, OffsetFetchResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.group.lookup import CoordinatorLookup
    from kafkasim.model.client.consumer.group.membership import Membership
    from kafkasim.model.client.consumer.offset_fetcher import OffsetFetcher
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.messages import OffsetFetchPartitionResponse
    from kafkasim.model.records import TopicPartition


class CommittedOffsets:
    """Asks the coordinator of one group for committed offsets."""

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        lookup: CoordinatorLookup,
        subscription: SubscriptionState,
        membership: Membership,
        metadata: Metadata,
        offset_fetcher: OffsetFetcher,
        poll: Poll,
    ) -> None:
        self._config = config
        self._rules = rules
        self._lookup = lookup
        self._subscription = subscription
        self._membership = membership
        self._metadata = metadata
        self._offset_fetcher = offset_fetcher
        self._poll = poll
        self._process = poll.process
        self._in_flight = False
        self._not_before = 0
        self._attempts = 0

    def initialize_positions(self, now: int) -> None:
        """Ask for the committed offsets of the partitions that have no position yet."""
        waiting = tuple([state.tp for state in self._subscription.initializing()])
        if not waiting or self._in_flight:
            return
        if now < self._not_before:
            self._poll.wake_at(self._not_before)
            return
        self._in_flight = True
        self._fetch(waiting, now, partial(self._on_positions, self._subscription.version))

    def reply(
        self, call: int, partitions: tuple[TopicPartition, ...], now: int, with_metadata: bool
    ) -> None:
        """Reply {partition: committed offset or None} to a call, or a timeout.

        ``with_metadata`` replies (offset, metadata) in place of an offset.
        """
        deadline = now + self._config.default_api_timeout_ms * 1000
        attempts = 0

        def ask(at: int) -> None:
            self._fetch(partitions, at, on_response)

        def on_response(response: Any, at: int) -> None:
            nonlocal attempts
            process = self._process
            if (refusal := _refusal(response)) is not None:
                process.out.append(Reply(call, None, refusal))
                return
            if not self._must_ask_again(response, at):
                offsets: dict[TopicPartition, Any] = {}
                for p in response.partitions:
                    self._metadata.epoch_seen(p.tp, p.leader_epoch, at)
                    value = (p.offset, p.metadata) if with_metadata else p.offset
                    offsets[p.tp] = value if p.offset >= 0 else None
                process.out.append(Reply(call, offsets, None))
                return
            attempts += 1
            again = at + self._lookup.backoff.after_us(attempts)
            if again >= deadline:
                error = KafkaTimeoutError(Errors.REQUEST_TIMED_OUT.name, "committed")
                process.out.append(Reply(call, None, error))
            else:
                process.timers.arm(("committed", self._poll.name, call), again, "main", ask)

        ask(now)

    def _fetch(
        self, partitions: tuple[TopicPartition, ...], now: int, done: Callable[[Any, int], None]
    ) -> None:
        """Send an OffsetFetch; ``done(response or Failed, now)`` takes the outcome."""
        channel = self._lookup.channel
        if channel is None:
            self._lookup.find(now)
            done(Failed("backoff"), now)
            return
        member_id, epoch = self._membership.offset_fetcher()
        request = OffsetFetchRequest(self._config.group_id, partitions, True, member_id, epoch)
        channel.send(request, now, done)

    def _must_ask_again(self, response: Any, now: int) -> bool:
        """Return whether an OffsetFetch failed; drop the coordinator if it was the wrong one."""
        if not isinstance(response, OffsetFetchResponse):
            self._lookup.mark_unknown(now)
            return True
        if response.error in UNKNOWN_COORDINATOR:
            self._lookup.mark_unknown(now)
        return bool(response.error) or any(part.error for part in response.partitions)

    def _on_positions(self, version: int, response: Any, now: int) -> None:
        self._in_flight = False
        if (refusal := _refusal(response)) is not None:
            self._poll.fail(refusal)
        elif self._must_ask_again(response, now):
            self._attempts += 1
            self._not_before = now + self._lookup.backoff.after_us(self._attempts)
        elif version == self._subscription.version:  # else asked for an older assignment
            self._attempts = 0
            for part in response.partitions:
                self._initialize(part, now)
        self._poll.wake(now)

    def _initialize(self, part: OffsetFetchPartitionResponse, now: int) -> None:
        """Take a committed offset as the position; reset the position if there is none."""
        state = self._subscription.assignment.get(part.tp)
        if state is None or state.state is not FetchState.INITIALIZING:
            return
        policy = self._config.auto_offset_reset
        if part.offset >= 0:
            self._tell_future_epoch(part)
            self._metadata.epoch_seen(part.tp, part.leader_epoch, now)
            leader = self._metadata.current_leader(part.tp)
            validate = self._rules.validates_position()
            self._subscription.seek(state, part.offset, part.leader_epoch, leader, validate)
            self._offset_fetcher.positioned(state, "committed")
        elif policy == "none":
            self._poll.fail(NoOffsetForPartitionError("NO_OFFSET", f"{part.tp}"))
        else:
            self._subscription.request_reset(state, policy)

    def _tell_future_epoch(self, part: OffsetFetchPartitionResponse) -> None:
        """Tell of a committed leader epoch that metadata has not reached.

        Until metadata of that epoch comes, the client knows no leader. If the offset is that of a
        deleted topic, whose name was given again, that takes as many elections.
        """
        known = self._metadata.leaders.get(part.tp)
        if known is not None and part.leader_epoch > known.epoch:
            topic_id = self._metadata.last_topic_ids.get(part.tp.topic, "")
            place = topic_id, part.tp.partition, self._config.group_id
            self._process.out.append(HoleEntered("epoch-of-a-deleted-topic", *place))


def _refusal(response: Any) -> KafkaError | None:
    """Return the exception over what the consumer may not have, which no retry helps against
    (OffsetFetchResponseHandler)."""
    if not isinstance(response, OffsetFetchResponse):
        return None
    if response.error is Errors.GROUP_AUTHORIZATION_FAILED:
        return KafkaError(response.error.name, "committed offsets")
    error = Errors.TOPIC_AUTHORIZATION_FAILED
    topics = dict.fromkeys([each.tp.topic for each in response.partitions if each.error is error])
    return KafkaError(error.name, ", ".join(topics)) if topics else None
