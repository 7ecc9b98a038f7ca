"""Admin.deleteRecords: ask the leader of each partition to raise its log start offset (KIP-107).

The leaders are looked up first. A partition that its leader refuses with a retriable error is
looked up and sent again.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.admin.calls import AdminCall, AdminCalls
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkasim.model.records import TopicPartition


class DeleteRecords:
    """One call; ``offsets`` by partition, −1 for the high watermark.

    The result is ((partition, low watermark, error), …).
    """

    def __init__(
        self, calls: AdminCalls, call: int, offsets: dict[TopicPartition, int], now: int
    ) -> None:
        self._connections = calls.connections
        self._call = AdminCall(calls, call, "delete records", now)
        self._offsets = offsets
        self._outstanding = 0  # requests in flight to leaders
        self._results: dict[TopicPartition, tuple[int, Errors]] = {}

    def attempt(self, now: int) -> None:
        """Look up the leaders of the partitions that have no result yet."""
        channel = self._call.least_loaded(self.attempt, now)
        if channel is None:
            return
        topics = dict.fromkeys([tp.topic for tp in self._offsets if tp not in self._results])
        request = MetadataRequest(tuple(topics), allow_auto_topic_creation=False)
        channel.send(request, now, self._on_metadata)

    def _on_metadata(self, response: MetadataResponse | Failed, now: int) -> None:
        if isinstance(response, Failed):
            self._call.retry(self.attempt, now)
            return
        addresses = {broker.id: broker.address for broker in response.brokers}
        by_leader: dict[int, list[tuple[TopicPartition, int]]] = {}
        for topic in response.topics:
            for entry in topic.partitions:
                tp = TopicPartition(topic.topic, entry.partition)
                if entry.leader in addresses and tp in self._offsets and tp not in self._results:
                    by_leader.setdefault(entry.leader, []).append((tp, self._offsets[tp]))
        self._outstanding = len(by_leader)
        if not by_leader:
            self._call.retry(self.attempt, now)
        for leader, asked in by_leader.items():
            channel = self._connections.channel(leader, addresses[leader])
            timeout_ms = self._connections.config.request_timeout_ms
            channel.send(DeleteRecordsRequest(tuple(asked), timeout_ms), now, self._on_response)

    def _on_response(self, response: DeleteRecordsResponse | Failed, now: int) -> None:
        self._outstanding -= 1
        if not isinstance(response, Failed):
            for result in response.partitions:
                if result.error not in RETRIABLE:
                    self._results[result.tp] = (result.low_watermark, result.error)
        if self._outstanding:
            return
        if len(self._results) < len(self._offsets):
            self._call.retry(self.attempt, now)
            return
        found: Any = tuple([(tp, *self._results[tp]) for tp in self._offsets])
        self._call.reply(found)
