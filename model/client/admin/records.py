"""AdminClient.deleteRecords: each partition's leader is asked to raise the log start (KIP-107).

The leaders are looked up first; what is refused for a retriable reason is looked up and sent again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.exceptions import KafkaTimeoutError
from kafkasim.model.client.net.connections import backoff_us
from kafkasim.model.effects import Reply
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.admin.admin import KafkaAdmin

API_TIMEOUT_US = 60_000_000


class DeleteRecords:
    """One call: ``offsets`` by partition, −1 is the high watermark.

    Replies ((partition, low watermark, error), …).
    """

    def __init__(
        self, admin: KafkaAdmin, call: int, offsets: dict[TopicPartition, int], now: int
    ) -> None:
        self.admin = admin
        self.call = call
        self.offsets = offsets
        self.deadline = now + API_TIMEOUT_US
        self.attempts = 0
        self.outstanding = 0
        self.results: dict[TopicPartition, tuple[int, Errors]] = {}
        self.key = ("admin", admin.name, call)

    def attempt(self, now: int) -> None:
        """Look up the leaders of what has no answer yet."""
        channel = self.admin.connections.least_loaded(now)
        if channel is None:
            self._retry(now)
            return
        topics = dict.fromkeys([tp.topic for tp in self.offsets if tp not in self.results])
        request = MetadataRequest(tuple(topics), allow_auto_topic_creation=False)
        channel.send(request, now, self._on_metadata)

    def _on_metadata(self, answer: MetadataResponse | Failed, now: int) -> None:
        if isinstance(answer, Failed):
            self._retry(now)
            return
        addresses = {broker.id: broker.address for broker in answer.brokers}
        by_leader: dict[int, list[tuple[TopicPartition, int]]] = {}
        for topic in answer.topics:
            for entry in topic.partitions:
                tp = TopicPartition(topic.topic, entry.partition)
                if entry.leader in addresses and tp in self.offsets and tp not in self.results:
                    by_leader.setdefault(entry.leader, []).append((tp, self.offsets[tp]))
        self.outstanding = len(by_leader)
        if not by_leader:
            self._retry(now)
        for leader, asked in by_leader.items():
            channel = self.admin.connections.channel(leader, addresses[leader])
            timeout_ms = self.admin.config.request_timeout_ms
            channel.send(DeleteRecordsRequest(tuple(asked), timeout_ms), now, self._on_answer)

    def _on_answer(self, answer: DeleteRecordsResponse | Failed, now: int) -> None:
        self.outstanding -= 1
        if not isinstance(answer, Failed):
            for result in answer.partitions:
                if result.error not in RETRIABLE:
                    self.results[result.tp] = (result.low_watermark, result.error)
        if self.outstanding:
            return
        if len(self.results) < len(self.offsets):
            self._retry(now)
            return
        found: Any = tuple([(tp, *self.results[tp]) for tp in self.offsets])
        self.admin.process.out.append(Reply(self.call, found, None))

    def _retry(self, now: int) -> None:
        self.attempts += 1
        process = self.admin.process
        at = now + backoff_us(self.admin.config, self.attempts, process.rng)
        if at >= self.deadline:
            error = KafkaTimeoutError("TIMED_OUT", "delete records")
            process.out.append(Reply(self.call, None, error))
        else:
            process.timers.arm(self.key, at, "main", self.attempt)
