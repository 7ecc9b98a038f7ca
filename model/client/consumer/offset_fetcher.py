"""Finding and checking positions: Kafka's OffsetFetcher and OffsetsForLeaderEpochClient.

A partition in AWAIT_RESET asks its leader for the first or last offset (ListOffsets). A partition
in AWAIT_VALIDATION asks its leader whether the log still holds what was consumed
(OffsetsForLeaderEpoch, KIP-320). A response is used only if the partition still waits for it at the
same position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.subscription import FetchState
from kafkasim.model.client.exceptions import LogTruncationError
from kafkasim.model.client.net.connections import backoff_us
from kafkasim.model.client.net.metadata import NO_LEADER
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
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ConsumerConfig
    from kafkasim.model.records import TopicPartition


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

    def positioned(self, state: TopicPartitionState, reason: str) -> None:
        """Tell the trace that a position was set, or given up (``reason`` none)."""
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
            if state.request_in_flight or not (resetting or validating):
                continue
            if now < state.retry_at:
                self._poll.wake_at(state.retry_at)
                continue
            leader = self._metadata.leaders.get(state.tp)
            if leader is None or leader.leader not in self._metadata.brokers:
                if resetting:  # validatePositionsAsync leaves it out: the epoch's news has asked
                    self._metadata.request_update(now)
                continue
            (resets if resetting else checks).setdefault(leader.leader, []).append(state)
        for node_id, states in resets.items():
            self._list_offsets(node_id, states, now)
        for node_id, states in checks.items():
            self._validate(node_id, states, now)

    def on_metadata(self) -> None:
        """Have positions validated whose leader epoch has become higher.

        Models SubscriptionState.maybeValidatePositionForCurrentLeader.
        """
        positioned = (FetchState.FETCHING, FetchState.AWAIT_VALIDATION)
        for tp, state in self._subscription.assignment.items():
            epoch = self._metadata.leaders.get(tp, NO_LEADER).epoch
            if epoch <= state.leader_epoch or state.state not in positioned:
                continue
            state.leader_epoch = epoch
            state.clear_preferred_replica()
            if state.offset_epoch >= 0 and self._rules.validates_position():
                self._subscription.request_validation(state)

    def _channel(self, node_id: int) -> Channel:
        return self._metadata.connections.channel(node_id, self._metadata.brokers[node_id])

    def _list_offsets(self, node_id: int, states: list[TopicPartitionState], now: int) -> None:
        channel = self._channel(node_id)
        parts = []
        for state in states:
            state.request_in_flight = True
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
        for state, _ in asked.values():
            state.request_in_flight = False
        if not isinstance(response, ListOffsetsResponse):
            self._retry([state for state, _ in asked.values()], now)
            return
        for part in response.partitions:
            state, strategy = asked[part.tp]
            if state.state is not FetchState.AWAIT_RESET or state.reset_strategy != strategy:
                continue  # a seek came first
            if part.error or part.offset < 0:
                self._metadata.request_update(now)
                self._retry([state], now)
                continue
            if self._subscription.assignment.get(part.tp) is not state:
                continue
            # The position has no epoch (resetPositionIfNeeded): there is nothing to validate before
            # a record was read. The leader may have become unknown meanwhile.
            leader_epoch = self._metadata.leaders.get(part.tp, NO_LEADER).epoch
            state.seek(part.offset, -1, leader_epoch, False)
            self._metadata.epoch_seen(part.tp, part.leader_epoch, now)
            self.positioned(state, strategy)
        self._poll.wake(now)

    def _validate(self, node_id: int, states: list[TopicPartitionState], now: int) -> None:
        channel = self._channel(node_id)
        parts = []
        asked: dict[TopicPartition, tuple[TopicPartitionState, int, int]] = {}
        for state in states:
            state.request_in_flight = True
            epoch = self._metadata.leaders[state.tp].epoch
            asked[state.tp] = (state, state.position, epoch)
            parts.append(OffsetForLeaderEpochPartition(state.tp, epoch, state.offset_epoch))
        channel.send(
            OffsetsForLeaderEpochRequest(-1, tuple(parts)),
            now,
            lambda response, at: self._on_epochs(asked, response, at),
        )

    def _on_epochs(
        self,
        asked: dict[TopicPartition, tuple[TopicPartitionState, int, int]],
        response: Any,
        now: int,
    ) -> None:
        for state, _, _ in asked.values():
            state.request_in_flight = False
        if not isinstance(response, OffsetsForLeaderEpochResponse):
            self._retry([state for state, _, _ in asked.values()], now)
            return
        for part in response.partitions:
            state, position, epoch = asked[part.tp]
            if (
                state.state is not FetchState.AWAIT_VALIDATION
                or state.position != position
                or state.leader_epoch > epoch
                or self._subscription.assignment.get(part.tp) is not state
            ):
                continue  # it was moved or taken away meanwhile
            if part.error:
                self._metadata.request_update(now)
                self._retry([state], now)
            else:
                self._validated(state, part.leader_epoch, part.end_offset)
        self._poll.wake(now)

    def _validated(self, state: TopicPartitionState, epoch: int, end_offset: int) -> None:
        """Keep a position, or go back to the last offset that the leader's log shares with it.

        ``epoch`` and ``end_offset`` say where the leader's log ends for the position's epoch; −1
        if the log knows no such epoch.
        """
        policy = self._config.auto_offset_reset
        if end_offset >= state.position and epoch >= 0:
            state.state = FetchState.FETCHING
        elif policy == "none":
            detail = f"{state.tp} at {state.position}: log ends at {end_offset} in epoch {epoch}"
            self._poll.fail(LogTruncationError("LOG_TRUNCATION", detail))
            state.state = FetchState.FETCHING
        elif end_offset < 0 or epoch < 0:
            self._subscription.request_reset(state, policy)
        else:
            state.seek(end_offset, epoch, state.leader_epoch, False)
            self.positioned(state, "truncation")

    def _retry(self, states: list[TopicPartitionState], now: int) -> None:
        at = now + backoff_us(self._config, 1, self._process.rng)
        for state in states:
            state.retry_at = at
        self._poll.wake_at(at)
