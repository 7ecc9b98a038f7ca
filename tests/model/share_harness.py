"""A share coordinator in a process of its own on an in-memory log: requests in, answers out."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadStatePartition,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStatePartition,
)
from kafkasim.model.records import SHARE_GROUP_STATE_TOPIC, TopicPartition
from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.model.share.coordinator import ShareCoordinator
from tests.model.coordinator_bench import CoordinatorBench

GROUP, TOPIC = "workers", "topic-id"
STATE = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)
RULES = ShareRules()


class ShareBench(CoordinatorBench):
    """One broker with nothing but a share coordinator of one state partition."""

    lane = "share"
    tp = STATE

    def __init__(
        self,
        log: MemoryCoordinatorLog | None = None,
        partitions: int = 2,
        rules: ShareRules = RULES,
        **config: Any,
    ) -> None:
        super().__init__(log)
        settings = {
            "share_coordinator_state_topic_num_partitions": 1,
            "share_coordinator_append_linger_ms": 0,
            **config,
        }
        topic = SimpleNamespace(partitions=dict.fromkeys(range(partitions)))
        self.image = SimpleNamespace(topics={TOPIC: topic})
        self.pruned: list[int] = []
        self.prune_error = Errors.NONE
        self.share = self.coordinator = ShareCoordinator(
            self, BrokerConfig(**settings), self.log, self.image, rules, self._prune
        )

    def _prune(self, tp: TopicPartition, offset: int, done: Any, now: int) -> None:
        assert tp == STATE
        self.pruned.append(offset)
        done(self.prune_error, now)

    def result(self, message: Any) -> Any:
        """Return the result of the only share partition of a request."""
        (((_, (result,)),)) = self.get(message).results
        return result

    def values(self) -> list[Any]:
        """Return the values of all records in the log."""
        batches = self.log.batches.get(STATE, [])
        return [record.value for batch in batches for record in batch.records]


def batch(first: int, last: int, state: int = 2, count: int = 1) -> StateBatch:
    return StateBatch(first, last, state, count)


def initialize(
    state_epoch: int = 0, start_offset: int = 0, partition: int = 0, topic: str = TOPIC
) -> InitializeShareGroupStateRequest:
    asked = InitializeStatePartition(partition, state_epoch, start_offset)
    return InitializeShareGroupStateRequest(GROUP, ((topic, (asked,)),))


def write(
    *batches: StateBatch,
    state_epoch: int = 0,
    leader_epoch: int = 0,
    start_offset: int = -1,
    partition: int = 0,
    topic: str = TOPIC,
) -> WriteShareGroupStateRequest:
    asked = WriteStatePartition(partition, state_epoch, leader_epoch, start_offset, batches)
    return WriteShareGroupStateRequest(GROUP, ((topic, (asked,)),))


def read(leader_epoch: int = 0, partition: int = 0, topic: str = TOPIC) -> Any:
    asked = ReadStatePartition(partition, leader_epoch)
    return ReadShareGroupStateRequest(GROUP, ((topic, (asked,)),))


def summary(partition: int = 0, topic: str = TOPIC) -> ReadShareGroupStateSummaryRequest:
    asked = ReadStatePartition(partition, 0)
    return ReadShareGroupStateSummaryRequest(GROUP, ((topic, (asked,)),))


def delete(partition: int = 0, topic: str = TOPIC) -> DeleteShareGroupStateRequest:
    return DeleteShareGroupStateRequest(GROUP, ((topic, (partition,)),))
