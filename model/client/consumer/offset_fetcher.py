"""Finding and checking positions: Kafka's OffsetFetcher and OffsetsForLeaderEpochClient.

A partition in AWAIT_RESET asks its leader for the first or last offset (ListOffsets). A partition
in AWAIT_VALIDATION asks its position's leader whether the log still holds what was consumed
(OffsetsForLeaderEpoch, KIP-320). A response is used only if the partition still waits for it at the
same position. Without a response the next request is sent after request.timeout.ms, or at once to a
newer leader. A node that has asked to wait (KIP-219) is sent none before: the request would stay
unsent in Kafka's ConsumerNetworkClient, here it is made when its time has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.subscription import FetchState
from kafkasim.model.client.exceptions import KafkaError, LogTruncationError
from kafkasim.model.errors import Errors
from kafkasim.model.facts import Positioned
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochPartition,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)

if TYPE_CHECKING:
    from kafkasim.model.channel import Channel
    from kafkasim.model.client.consumer.group.membership import Membership
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.consumer.subscription import SubscriptionState, TopicPartitionState
    from kafkasim.model.client.net.metadata import LeaderAndEpoch, Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.messages import EpochEndOffset, ListOffsetsPartitionResponse
    from kafkasim.model.records import TopicPartition

    Asked = dict[TopicPartition, tuple[TopicPartitionState, tuple[int, int, LeaderAndEpoch]]]
    """A partition's state, and its position as of the request."""


def isolation_level(config: ConsumerConfig) -> int:
    """Return isolation.level as requests carry it: 0 read_uncommitted, 1 read_committed."""
    return int(config.isolation_level == "read_committed")


class OffsetFetcher:
    """Resets and validates the positions of one consumer."""

    def __init__(
        self,
        config: ConsumerConfig,
        rules: ClientRules,
        metadata: Metadata,
        subscription: SubscriptionState,
        membership: Membership,
        poll: Poll,
    ) -> None:
        self._config = config
        self._rules = rules
        self._metadata = metadata
        self._subscription = subscription
        self._membership = membership
        self._poll = poll
        self._process = poll.process
        self.tells = True  # the trace of positions

    def positioned(self, state: TopicPartitionState, reason: str) -> None:
        """Tell the trace that a position was set, or given up (``reason`` none)."""
        if not self.tells:
            return
        tp = state.tp
        self._process.out.append(
            Positioned(
                self._config.group_id,
                self._membership.member_id,
                self._metadata.last_topic_ids.get(tp.topic, ""),
                tp.partition,
                state.position,
                reason,
            )
        )

    def update(self, now: int) -> None:
        """Send the resets and validations that are due."""
        resets: dict[int, list[TopicPartitionState]] = {}
        checks: dict[int, list[TopicPartitionState]] = {}
        for state in self._subscription.assignment.values():
            resetting = state.state is FetchState.AWAIT_RESET
            validating = state.state is FetchState.AWAIT_VALIDATION
            if not (resetting or validating):
                continue
            if now < state.retry_at:
                self._poll.wake_at(state.retry_at)
                continue
            leader = self._metadata.current_leader(state.tp) if resetting else state.leader
            if leader.leader < 0:
                if resetting:  # validatePositionsAsync leaves it out: the epoch's news has asked
                    self._metadata.request_update(now, fresh=True)
                continue
            (resets if resetting else checks).setdefault(leader.leader, []).append(state)
        for node_id, states in resets.items():
            channel = self._channel(node_id)
            if self._may_send(channel, now):
                self._list_offsets(channel, states, now)
        for node_id, states in checks.items():
            channel = self._channel(node_id)
            if self._may_send(channel, now):
                self._validate(channel, states, now)

    def on_metadata(self) -> None:
        """Have positions validated that metadata names another leader or leader epoch for.

        Models SubscriptionState.maybeValidatePositionForCurrentLeader: while metadata names no
        leader, the position keeps the one it has and is fetched from there.
        """
        positioned = (FetchState.FETCHING, FetchState.AWAIT_VALIDATION)
        for tp, state in self._subscription.assignment.items():
            leader = self._metadata.current_leader(tp)
            if leader.leader < 0 or leader == state.leader or state.state not in positioned:
                continue
            state.clear_preferred_replica()
            self._subscription.use_leader(state, leader, self._rules.validates_position())

    def _channel(self, node_id: int) -> Channel:
        connections = self._metadata.connections
        address = self._metadata.brokers.get(node_id) or connections.known_address(node_id)
        assert address is not None, node_id
        return connections.channel(node_id, address)

    def _may_send(self, channel: Channel, now: int) -> bool:
        """Return whether a node takes requests; poll again when it does (NetworkClient.isReady)."""
        if channel.throttled_until <= now:
            return True
        channel.connect(now)
        self._poll.wake_at(channel.throttled_until)
        return False

    def _list_offsets(self, channel: Channel, states: list[TopicPartitionState], now: int) -> None:
        parts = []
        for state in states:
            state.retry_at = now + channel.request_timeout_us
            earliest = state.reset_strategy == "earliest"
            timestamp = EARLIEST_TIMESTAMP if earliest else LATEST_TIMESTAMP
            epoch = self._metadata.leaders[state.tp].epoch
            parts.append(ListOffsetsPartition(state.tp, epoch, timestamp))
        level = isolation_level(self._config)
        strategies = {state.tp: (state, state.reset_strategy) for state in states}
        channel.send(
            ListOffsetsRequest(-1, level, tuple(parts)),
            now,
            lambda response, at: self._on_offsets(strategies, response, at),
        )

    def _on_offsets(
        self, asked: dict[TopicPartition, tuple[TopicPartitionState, str]], response: Any, now: int
    ) -> None:
        if not isinstance(response, ListOffsetsResponse):
            self._retry([state for state, _ in asked.values()], now)
            return
        for part in response.partitions:
            state, strategy = asked[part.tp]
            if state.state is not FetchState.AWAIT_RESET or state.reset_strategy != strategy:
                continue  # a seek came first
            if part.error or part.offset < 0:
                self._refuse(part)
                self._metadata.request_update(now)
                self._retry([state], now)
                continue
            if self._subscription.assignment.get(part.tp) is not state:
                continue
            # The position has no epoch (resetPositionIfNeeded): there is nothing to validate before
            # a record was read. The leader may have become unknown meanwhile.
            leader = self._metadata.current_leader(part.tp)
            self._subscription.seek(state, part.offset, -1, leader, False)
            self._metadata.epoch_seen(part.tp, part.leader_epoch, now)
            self.positioned(state, strategy)
        self._poll.wake(now)

    def _validate(self, channel: Channel, states: list[TopicPartitionState], now: int) -> None:
        parts = []
        asked: Asked = {}
        for state in states:
            state.retry_at = now + channel.request_timeout_us
            position = (state.position, state.offset_epoch, state.leader)
            asked[state.tp] = (state, position)
            epoch = state.leader.epoch
            parts.append(OffsetForLeaderEpochPartition(state.tp, epoch, state.offset_epoch))
        channel.send(
            OffsetsForLeaderEpochRequest(-1, tuple(parts)),
            now,
            lambda response, at: self._on_epochs(asked, response, at),
        )

    def _on_epochs(self, asked: Asked, response: Any, now: int) -> None:
        if not isinstance(response, OffsetsForLeaderEpochResponse):
            self._retry([state for state, _ in asked.values()], now)
            return
        for part in response.partitions:
            state, position = asked[part.tp]
            if part.error:
                self._refuse(part)
                self._metadata.request_update(now)
                self._retry([state], now)
            elif (
                state.state is FetchState.AWAIT_VALIDATION
                and position == (state.position, state.offset_epoch, state.leader)
                and self._subscription.assignment.get(part.tp) is state
            ):  # it was neither moved nor taken away meanwhile, and has no newer leader
                self._validated(state, part.leader_epoch, part.end_offset)
        self._poll.wake(now)

    def _refuse(self, part: ListOffsetsPartitionResponse | EpochEndOffset) -> None:
        """Fail the poll() if the consumer may not read the topic; it asks again all the same
        (OffsetFetcherUtils.onFailedResponseForResettingPositions)."""
        if part.error is Errors.TOPIC_AUTHORIZATION_FAILED:
            self._poll.fail(KafkaError(part.error.name, part.tp.topic))

    def _validated(self, state: TopicPartitionState, epoch: int, end_offset: int) -> None:
        """Keep a position, or go back to the last offset that the leader's log shares with it.

        ``epoch`` and ``end_offset`` say where the leader's log ends for the position's epoch; −1
        if the log knows no such epoch. Without a reset policy the position waits for the
        application to seek, and is validated again after request.timeout.ms.
        """
        policy = self._config.auto_offset_reset
        if end_offset >= state.position and epoch >= 0:
            self._subscription.validated(state)
        elif policy == "none":
            detail = f"{state.tp} at {state.position}: log ends at {end_offset} in epoch {epoch}"
            self._poll.fail(LogTruncationError("LOG_TRUNCATION", detail))
        elif end_offset < 0 or epoch < 0:
            self._subscription.request_reset(state, policy)
        else:
            self._subscription.seek(state, end_offset, epoch, state.leader, False)
            self.positioned(state, "truncation")

    def _retry(self, states: list[TopicPartitionState], now: int) -> None:
        at = now + self._config.retry_backoff_ms * 1000
        for state in states:
            state.retry_at = at
        self._poll.wake_at(at)
