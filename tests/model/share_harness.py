"""A share coordinator in a process of its own on an in-memory log: requests in, answers out."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from kafkasim.model import facts
from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.effects import Post, Process, Read, Request, Respond
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
from kafkasim.model.share.coordinator import ShareCoordinator
from kafkasim.model.storage.files import MemoryFiles

SECOND = 1_000_000
GROUP, TOPIC = "workers", "topic-id"
STATE = TopicPartition(SHARE_GROUP_STATE_TOPIC, 0)
FACTS = tuple(facts.FACTS.values())


class ShareBench(Process):
    """One broker with nothing but a share coordinator of one state partition."""

    def __init__(
        self, log: MemoryCoordinatorLog | None = None, partitions: int = 2, **config: Any
    ) -> None:
        super().__init__("broker-1", MemoryFiles(), random.Random(1), 0)
        self.now = 0
        self.log = log or MemoryCoordinatorLog()
        settings = {
            "share_coordinator_state_topic_num_partitions": 1,
            "share_coordinator_append_linger_ms": 0,
            **config,
        }
        topic = SimpleNamespace(partitions=dict.fromkeys(range(partitions)))
        self.image = SimpleNamespace(topics={TOPIC: topic})
        self.pruned: list[int] = []
        self.prune_error = Errors.NONE
        self.share = ShareCoordinator(
            self, BrokerConfig(**settings), self.log, self.image, self._prune
        )
        self.answers: dict[int, Any] = {}
        self.facts: list[Any] = []
        self.posts: list[Post] = []
        self.auto_replicate = True
        self.last = 0

    def _prune(self, tp: TopicPartition, offset: int, done: Any, now: int) -> None:
        assert tp == STATE
        self.pruned.append(offset)
        done(self.prune_error, now)

    def elect(self, epoch: int = 1) -> ShareBench:
        self.share.on_elected(0, epoch, self.now)
        self.settle()
        return self

    def ask(self, message: Any) -> int:
        """Send a request; its number finds the answer in ``answers``, once there is one."""
        self.last += 1
        self.share.on_request(Request(7, self.last, message, self.now), self.now)
        self.settle()
        return self.last

    def get(self, message: Any) -> Any:
        """Send a request that must be answered at once."""
        return self.answers[self.ask(message)]

    def result(self, message: Any) -> Any:
        """Return the result of the only share partition of a request."""
        (((_, (result,)),)) = self.get(message).results
        return result

    def replicate(self) -> None:
        self.log.high_watermarks[STATE] = self.log.end(STATE)
        self.share.on_high_watermark(0, self.log.end(STATE), self.now)
        self.drain()

    def settle(self) -> None:
        self.drain()
        while self.posts:
            post = self.posts.pop(0)
            post.handler(post.message, self.now)
            self.drain()
        while self.auto_replicate and self.log.end(STATE) > self.log.high_watermark(STATE):
            self.replicate()

    def drain(self) -> None:
        for effect in self.out:
            if isinstance(effect, Respond):
                assert effect.correlation not in self.answers, effect
                self.answers[effect.correlation] = effect.message
            elif isinstance(effect, Post):
                assert effect.lane in ("share/0", "share-loader"), effect
                self.posts.append(effect)
            elif isinstance(effect, Read):
                self.posts.append(Post("share-loader", effect.handler, None))
            else:
                assert isinstance(effect, FACTS), effect
                self.facts.append(effect)
        self.out.clear()

    def wait(self, seconds: float) -> None:
        """Let time pass; timers fire at their deadlines."""
        until = self.now + int(seconds * SECOND)
        while (deadline := self.timers.next_deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            due = self.timers.pop_due(self.now)
            assert due is not None
            self.timers.fire(due[0], due[1], self.now)
            self.settle()
        self.now = until

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
