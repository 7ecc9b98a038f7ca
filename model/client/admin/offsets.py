"""kafka-consumer-groups.sh --reset-offsets: where a group without members shall go on.

The tool asks for the topics' leaders, then each leader for its earliest or latest offset, then the
group's coordinator to commit them for nobody (generation −1). A group that has members refuses.
Left out: by duration, shift-by, from a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.exceptions import KafkaTimeoutError
from kafkasim.model.client.net.connections import backoff_us
from kafkasim.model.effects import Reply
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.admin.admin import KafkaAdmin

API_TIMEOUT_US = 60_000_000


class ResetOffsets:
    """One reset; ``to`` is EARLIEST_TIMESTAMP, LATEST_TIMESTAMP or an offset."""

    def __init__(
        self, admin: KafkaAdmin, call: int, group: str, topics: tuple[str, ...], to: int, now: int
    ) -> None:
        self.admin = admin
        self.call = call
        self.topics = topics
        self.deadline = now + API_TIMEOUT_US
        self.attempts = 0
        self.leaders: dict[TopicPartition, tuple[int, str]] = {}
        self.key = ("admin", admin.name, call)
        self.group = group
        self.to = to
        self.offsets: dict[TopicPartition, int] = {}
        self.coordinator: tuple[int, str] | None = None

    def attempt(self, now: int) -> None:
        """Ask for what is missing next."""
        connections = self.admin.connections
        missing = [tp for tp in self.leaders if tp not in self.offsets]
        channel, request = connections.least_loaded(now), self._lookup()
        if request is None and missing:
            node = self.leaders[missing[0]]
            asked = [tp for tp in missing if self.leaders[tp] == node]
            listed = tuple([ListOffsetsPartition(tp, -1, self.to) for tp in asked])
            channel, request = connections.channel(*node), ListOffsetsRequest(-1, 0, listed)
        elif request is None:
            assert self.coordinator is not None
            commit = tuple([(tp, offset, -1, "") for tp, offset in self.offsets.items()])
            channel = connections.channel(*self.coordinator)
            request = OffsetCommitRequest(self.group, -1, "", None, commit)
        if channel is None:
            self._retry(now)
        else:
            channel.send(request, now, self._on_answer)

    def _lookup(self) -> Any:
        if not self.leaders:
            return MetadataRequest(self.topics, allow_auto_topic_creation=False)
        return None if self.coordinator is not None else FindCoordinatorRequest(self.group)

    def _on_answer(self, answer: Any, now: int) -> None:
        error = Errors.NETWORK_EXCEPTION if isinstance(answer, Failed) else self._take(answer)
        if error in RETRIABLE:
            self.leaders, self.offsets, self.coordinator = {}, {}, None
            self._retry(now)
        elif error is Errors.NONE and not isinstance(answer, OffsetCommitResponse):
            self.attempt(now)
        else:
            result = tuple([(tp, offset, error) for tp, offset in self.offsets.items()])
            self.admin.process.out.append(Reply(self.call, result, None))

    def _take(self, answer: Any) -> Errors:
        """Take what an answer tells; return its first error."""
        if isinstance(answer, FindCoordinatorResponse):
            self.coordinator = (answer.node_id, answer.address)
            return answer.error
        if isinstance(answer, OffsetCommitResponse):
            return next((error for _, error in answer.results if error), Errors.NONE)
        if isinstance(answer, ListOffsetsResponse):
            for part in answer.partitions:
                if part.error:
                    return part.error
                self.offsets[part.tp] = part.offset
            return Errors.NONE
        assert isinstance(answer, MetadataResponse), answer
        addresses = {broker.id: broker.address for broker in answer.brokers}
        for topic in answer.topics:
            if topic.error:
                return topic.error
            for entry in topic.partitions:
                if entry.leader not in addresses:
                    return Errors.LEADER_NOT_AVAILABLE
                tp = TopicPartition(topic.topic, entry.partition)
                self.leaders[tp] = (entry.leader, addresses[entry.leader])
                if self.to >= 0:
                    self.offsets[tp] = self.to
        return Errors.NONE

    def _retry(self, now: int) -> None:
        self.attempts += 1
        process = self.admin.process
        at = now + backoff_us(self.admin.config, self.attempts, process.rng)
        if at >= self.deadline:
            error = KafkaTimeoutError("TIMED_OUT", f"reset offsets of {self.group}")
            process.out.append(Reply(self.call, None, error))
        else:
            process.timers.arm(self.key, at, "main", self.attempt)
