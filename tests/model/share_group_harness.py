"""A group coordinator of Kafka 4.1 with share groups, and a persister that answers when told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.errors import Errors
from kafkasim.model.group.share.log.state import ShareGroup
from kafkasim.model.messages.share import (
    ReadStateSummaryResult,
    ShareGroupHeartbeatRequest,
    StatePartitionResult,
)
from kafkasim.scenarios.variants.releases import Group41
from tests.model.consumer_group_harness import ConsumerBench
from tests.model.group_harness import GROUP

NONE = Errors.NONE
ORDERS = "id-orders"


class FakePersister:
    """Keeps what it is asked; with ``error`` set it answers at once."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.waiting: list[tuple[Any, Any]] = []
        self.error: Errors | None = NONE  # None: answers wait for :meth:`answer`
        self.refused: dict[tuple[str, int], Errors] = {}

    def initialize_state(
        self, group: str, topic: str, partition: int, epoch: int, start: int, done: Any
    ) -> None:
        self.asked.append(("initialize", group, topic, partition, epoch, start))
        self._take(topic, StatePartitionResult(partition), done)

    def delete_state(self, group: str, topic: str, partition: int, done: Any) -> None:
        self.asked.append(("delete", group, topic, partition))
        self._take(topic, StatePartitionResult(partition), done)

    def read_summary(self, group: str, topic: str, partition: int, epoch: int, done: Any) -> None:
        self.asked.append(("summary", group, topic, partition))
        result = ReadStateSummaryResult(partition, start_offset=7, leader_epoch=2)
        self._take(topic, result, done)

    def _take(self, topic: str, result: Any, done: Any) -> None:
        if self.error is None:
            self.waiting.append((result, done))
            return
        error = self.refused.get((topic, result.partition), self.error)
        done(replace(result, error=error), 0)

    def answer(self, error: Errors = NONE) -> None:
        waiting, self.waiting = self.waiting, []
        for result, done in waiting:
            done(replace(result, error=error), 0)


class ShareGroupBench(ConsumerBench):
    """A bench with the topic orders of two partitions; share.version is 1."""

    def __init__(
        self, log: MemoryCoordinatorLog | None = None, orders: int = 2, **options: Any
    ) -> None:
        super().__init__(log, orders, rules=Group41(), **options)
        self.image.features["share.version"] = 1
        self.persister = FakePersister()
        self.group.shares.initialization.persister = self.persister

    def settle(self) -> None:
        """Settle until nothing is posted: a commit may be followed by another write."""
        super().settle()
        while self.posts:
            super().settle()

    def share_group(self) -> ShareGroup:
        return self.group.shards[0].share_groups[GROUP]

    def join(self, member: str = "a", *topics: str) -> Any:
        """Let a member join, and heartbeat once more when its partitions are initialized."""
        answer = self.get(joins(member, *topics))
        return self.get(beats(member, answer.member_epoch))

    def snapshot(self) -> Any:
        """Return all that a group's records determine; times are this coordinator's."""
        group = self.share_group()
        info = group.state_partitions
        rows = None if info is None else (names(info.initializing), names(info.initialized))
        epochs = (group.group_epoch, group.target_epoch, group.metadata_hash)
        return epochs, dict(group.members), dict(group.target), rows


def names(topics: Any) -> dict[str, tuple[int, ...]]:
    return {topic_id: topic.partitions for topic_id, topic in topics.items()}


def joins(member: str = "a", *topics: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(GROUP, member, 0, None, topics or ("orders",), f"c-{member}")


def beats(member: str, epoch: int, *topics: str) -> ShareGroupHeartbeatRequest:
    subscribed = topics or None
    return ShareGroupHeartbeatRequest(GROUP, member, epoch, None, subscribed, f"c-{member}")


def leaves(member: str) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(GROUP, member, -1)
