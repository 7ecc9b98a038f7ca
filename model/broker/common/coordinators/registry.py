"""Which coordinator keeps its state in which internal topic.

A broker has one coordinator for each of these topics. It serves the keys (groups, transactional
ids) whose partition the broker leads. What the broker has to do for any of them goes by this table:
say who is elected and who resigns (BrokerMetadataPublisher.updateCoordinator), what is committed,
where clients find it (FindCoordinator), and with which settings the topic is created
(AutoTopicCreationManager.creatableTopic). A further coordinator is one more entry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.config import LEAST_SEGMENT_BYTES
from kafkasim.model.effects import Post, Then
from kafkasim.model.errors import Errors
from kafkasim.model.messages import CreatableTopic
from kafkasim.model.records import (
    GROUP_METADATA_TOPIC,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
    TopicPartition,
)
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig

GROUP, TRANSACTION, SHARE = 0, 1, 2  # key types of FindCoordinator (CoordinatorType)


class Coordinator(Protocol):
    """What a broker tells each of its coordinators."""

    def partition_for(self, key: str) -> int:
        """Return the partition of the topic that holds a key."""
        ...

    def on_elected(self, partition: int, leader_epoch: int, now: int) -> None:
        """Serve a partition: this broker leads it. Callable on any lane."""
        ...

    def on_resigned(self, partition: int, leader_epoch: int | None, now: int) -> None:
        """Give a partition up, because of an epoch or for good (None). Callable on any lane."""
        ...

    def on_high_watermark(self, partition: int, offset: int, now: int) -> None:
        """Take note that a partition is committed up to ``offset``."""
        ...


@value
class CoordinatorTopic:
    """An internal topic and the coordinator whose state it holds."""

    key_type: int  # of FindCoordinator
    topic: CreatableTopic  # as it is created when the first client asks
    coordinator: Coordinator
    # The lane that hears of a partition's high watermark. None: whichever lane has raised it, as
    # soon as it is through with that (the action queue of Kafka's request handlers).
    lane_of: Callable[[int], str] | None


class CoordinatorTopics:
    """The table, by topic; ``without_share`` is the error of FindCoordinator if SHARE has none."""

    def __init__(
        self,
        out: list[Any],
        entries: tuple[CoordinatorTopic, ...],
        without_share: Errors = Errors.INVALID_REQUEST,
    ) -> None:
        self._out = out
        self._without_share = without_share
        self.by_name = {entry.topic.topic: entry for entry in entries}
        self.by_key_type = {entry.key_type: entry for entry in entries}

    def coordinator_of(self, topic: str) -> Coordinator | None:
        """Return the coordinator whose state a topic holds, None for an ordinary topic."""
        entry = self.by_name.get(topic)
        return None if entry is None else entry.coordinator

    def not_served(self, key_type: int) -> Errors:
        """Return the error of FindCoordinator for a key type that no coordinator serves."""
        return self._without_share if key_type == SHARE else Errors.INVALID_REQUEST

    def committed(self, tp: TopicPartition, high_watermark: int) -> None:
        """Tell the coordinator of a partition its new high watermark."""
        entry = self.by_name.get(tp.topic)
        if entry is None:
            return
        hear = entry.coordinator.on_high_watermark
        if entry.lane_of is None:
            self._out.append(Then(partial(hear, tp.partition, high_watermark)))
        else:
            lane = entry.lane_of(tp.partition)
            self._out.append(Post(lane, _heard, (hear, tp.partition, high_watermark), first=True))


def _heard(message: tuple[Callable[[int, int, int], None], int, int], now: int) -> None:
    message[0](message[1], message[2], now)


def _segments(size: int, internal: bool) -> tuple[str, str]:
    """Return the setting that rolls segments at a size.

    ``internal``: the release has internal.segment.bytes. Kafka would ask for a segment.bytes that
    its controller refuses.
    """
    small = internal and size < LEAST_SEGMENT_BYTES
    return ("internal.segment.bytes" if small else "segment.bytes", str(size))


def group_metadata_topic(config: BrokerConfig, internal: bool) -> CreatableTopic:
    """Return ``__consumer_offsets`` as brokers create it (groupMetadataTopicConfigs)."""
    segments = _segments(config.offsets_topic_segment_bytes, internal)
    return CreatableTopic(
        GROUP_METADATA_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        (),
        (("cleanup.policy", "compact"), segments),
    )


def transaction_state_topic(config: BrokerConfig, internal: bool) -> CreatableTopic:
    """Return ``__transaction_state`` as brokers create it (transactionTopicConfigs)."""
    return CreatableTopic(
        TRANSACTION_STATE_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        (),
        (
            ("unclean.leader.election.enable", "false"),
            ("cleanup.policy", "compact"),
            ("min.insync.replicas", str(config.transaction_state_log_min_isr)),
            _segments(config.transaction_state_log_segment_bytes, internal),
        ),
    )


def share_group_state_topic(config: BrokerConfig, internal: bool) -> CreatableTopic:
    """Return ``__share_group_state`` as brokers create it (shareGroupStateTopicConfigs).

    Its log is not compacted: the share coordinator deletes what is redundant.
    """
    return CreatableTopic(
        SHARE_GROUP_STATE_TOPIC,
        config.share_coordinator_state_topic_num_partitions,
        config.share_coordinator_state_topic_replication_factor,
        (),
        (
            ("cleanup.policy", "delete"),
            _segments(config.share_coordinator_state_topic_segment_bytes, internal),
            ("min.insync.replicas", str(config.share_coordinator_state_topic_min_isr)),
            ("retention.ms", "-1"),
        ),
    )
