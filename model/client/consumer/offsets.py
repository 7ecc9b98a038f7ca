"""Finding positions: Kafka's OffsetFetcher and OffsetsForLeaderEpochClient.

Partitions in AWAIT_RESET ask their leader by ListOffsets, partitions in AWAIT_VALIDATION by
OffsetsForLeaderEpoch whether the log still holds what they consumed (KIP-320). An answer is used
only if the partition still waits for it at the same position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.consumer.subscription import (
    AWAIT_RESET,
    AWAIT_VALIDATION,
    FETCHING,
    PartitionState,
)
from kafkasim.model.client.exceptions import LogTruncationError
from kafkasim.model.client.net.connections import backoff_us
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
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.consumer import KafkaConsumer


class OffsetFetcher:
    """Resets and validates the positions of one consumer."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer
        self.process = consumer.process
        self.config = consumer.config
        self.metadata = consumer.metadata
        self.subscription = consumer.subscription

    def positioned(self, state: PartitionState, reason: str) -> None:
        """Record that a position was set."""
        tp = state.tp
        self.process.out.append(
            Positioned(
                self.config.group_id,
                self.consumer.member_id,
                self.metadata.last_topic_ids.get(tp.topic, ""),
                tp.partition,
                state.position,
                reason,
            )
        )

    def update(self, now: int) -> None:
        """Send what resets and validations are due."""
        resets: dict[int, list[PartitionState]] = {}
        checks: dict[int, list[PartitionState]] = {}
        for state in self.subscription.assignment.values():
            if state.asking or state.state not in (AWAIT_RESET, AWAIT_VALIDATION):
                continue
            if now < state.retry_at:
                self.consumer.wake_at(state.retry_at)
                continue
            leader = self.metadata.leaders.get(state.tp)
            if leader is None or leader[0] not in self.metadata.brokers:
                self.metadata.request_update(now)
                continue
            kind = resets if state.state is AWAIT_RESET else checks
            kind.setdefault(leader[0], []).append(state)
        for node_id, states in resets.items():
            self._list_offsets(node_id, states, now)
        for node_id, states in checks.items():
            self._validate(node_id, states, now)

    def on_metadata(self) -> None:
        """A new leader epoch sends positions to validation."""
        for tp, state in self.subscription.assignment.items():
            epoch = self.metadata.leaders.get(tp, (-1, -1))[1]
            if epoch <= state.leader_epoch or state.state not in (FETCHING, AWAIT_VALIDATION):
                continue
            state.leader_epoch = epoch
            state.clear_preferred_replica()
            if state.offset_epoch >= 0 and self.consumer.rules.validates_position():
                state.state = AWAIT_VALIDATION
                self.consumer.positions_changed()

    def _list_offsets(self, node_id: int, states: list[PartitionState], now: int) -> None:
        channel = self.consumer.connections.channel(node_id, self.metadata.brokers[node_id])
        parts = []
        for state in states:
            state.asking = True
            earliest = state.strategy == "earliest"
            timestamp = EARLIEST_TIMESTAMP if earliest else LATEST_TIMESTAMP
            epoch = self.metadata.leaders[state.tp][1]
            parts.append(ListOffsetsPartition(state.tp, epoch, timestamp))
        level = self.consumer.fetcher.isolation_level
        strategies = {state.tp: (state, state.strategy) for state in states}
        channel.send(
            ListOffsetsRequest(-1, level, tuple(parts)),
            now,
            lambda answer, at: self._on_offsets(strategies, answer, at),
        )

    def _on_offsets(
        self, asked: dict[TopicPartition, tuple[PartitionState, str]], answer: Any, now: int
    ) -> None:
        for state, _ in asked.values():
            state.asking = False
        if not isinstance(answer, ListOffsetsResponse):
            self._retry([state for state, _ in asked.values()], now)
            return
        for part in answer.partitions:
            state, strategy = asked[part.tp]
            if state.state is not AWAIT_RESET or state.strategy != strategy:
                continue  # a seek came first
            if part.error or part.offset < 0:
                self.metadata.request_update(now)
                self._retry([state], now)
                continue
            if self.subscription.assignment.get(part.tp) is not state:
                continue
            # Without an epoch (resetPositionIfNeeded): there is nothing to validate before a record
            # has been read. The topic may have been forgotten meanwhile (currentLeader: no leader).
            _, leader_epoch = self.metadata.leaders.get(part.tp, (-1, -1))
            state.seek(part.offset, -1, leader_epoch, False)
            self.metadata.epoch_seen(part.tp, part.leader_epoch, now)
            self.positioned(state, strategy)
        self.consumer.positions_changed()
        self.consumer.wake(now)

    def _validate(self, node_id: int, states: list[PartitionState], now: int) -> None:
        channel = self.consumer.connections.channel(node_id, self.metadata.brokers[node_id])
        parts = []
        asked: dict[TopicPartition, tuple[PartitionState, int, int]] = {}
        for state in states:
            state.asking = True
            epoch = self.metadata.leaders[state.tp][1]
            asked[state.tp] = (state, state.position, epoch)
            parts.append(OffsetForLeaderEpochPartition(state.tp, epoch, state.offset_epoch))
        channel.send(
            OffsetsForLeaderEpochRequest(-1, tuple(parts)),
            now,
            lambda answer, at: self._on_epochs(asked, answer, at),
        )

    def _on_epochs(
        self, asked: dict[TopicPartition, tuple[PartitionState, int, int]], answer: Any, now: int
    ) -> None:
        for state, _, _ in asked.values():
            state.asking = False
        if not isinstance(answer, OffsetsForLeaderEpochResponse):
            self._retry([state for state, _, _ in asked.values()], now)
            return
        for part in answer.partitions:
            state, position, epoch = asked[part.tp]
            if (
                state.state is not AWAIT_VALIDATION
                or state.position != position
                or state.leader_epoch > epoch
                or self.subscription.assignment.get(part.tp) is not state
            ):
                continue  # moved meanwhile: asked again, or not ours any more
            if part.error:
                self.metadata.request_update(now)
                self._retry([state], now)
            else:
                self._validated(state, part.leader_epoch, part.end_offset)
        self.consumer.positions_changed()
        self.consumer.wake(now)

    def _validated(self, state: PartitionState, epoch: int, end_offset: int) -> None:
        """Keep the position, or go back to where the leader's log still agrees."""
        policy = self.config.auto_offset_reset
        if end_offset >= state.position and epoch >= 0:
            state.state = FETCHING
        elif policy == "none":
            detail = f"{state.tp} at {state.position}: log ends at {end_offset} in epoch {epoch}"
            self.consumer.failed = LogTruncationError("LOG_TRUNCATION", detail)
            state.state = FETCHING
        elif end_offset < 0 or epoch < 0:
            state.await_reset(policy)
        else:
            state.seek(end_offset, epoch, state.leader_epoch, False)
            self.positioned(state, "truncation")

    def _retry(self, states: list[PartitionState], now: int) -> None:
        at = now + backoff_us(self.config, 1, self.process.rng)
        for state in states:
            state.retry_at = at
        self.consumer.wake_at(at)
