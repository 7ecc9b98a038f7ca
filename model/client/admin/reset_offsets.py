"""kafka-consumer-groups.sh --reset-offsets: choose where a group without members will start.

The tool looks up the topics' leaders, asks each leader for its earliest or latest offset, and
commits the offsets at the group coordinator as no member (generation −1). The coordinator refuses
this while the group has members.

Where nothing is as new as the time of a reset by time, the tool falls back to the latest offset.

Not modelled: --shift-by, --to-datetime, --from-file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.admin.calls import AdminCall, AdminCalls
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    LATEST_TIMESTAMP,
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
    from kafkasim.model.channel import Channel

Node = tuple[int, str]  # node id, address


class ResetOffsets:
    """One reset; ``to`` is EARLIEST_TIMESTAMP, LATEST_TIMESTAMP or an offset.

    ``since_ms``, unless it is −1, is a time in ms since 1970 that replaces it (--by-duration).
    Requests are sent one at a time. After a retriable error everything is looked up again.
    """

    def __init__(
        self,
        calls: AdminCalls,
        call: int,
        group: str,
        topics: tuple[str, ...],
        to: int,
        now: int,
        since_ms: int = -1,
    ) -> None:
        self._connections = calls.connections
        self._call = AdminCall(calls, call, f"reset offsets of {group}", now)
        self._group = group
        self._topics = topics
        self._to = to
        self._since_ms = since_ms
        self._too_old: dict[TopicPartition, None] = {}  # nothing in them is as new as since_ms
        self._leaders: dict[TopicPartition, Node] = {}
        self._offsets: dict[TopicPartition, int] = {}
        self._coordinator: Node | None = None

    def attempt(self, now: int) -> None:
        """Send the request that is needed next."""
        connections = self._connections
        missing = [tp for tp in self._leaders if tp not in self._offsets]
        channel: Channel | None
        request = self._lookup()
        if request is not None:
            channel = self._call.least_loaded(self.attempt, now)
        elif missing:
            node = self._leaders[missing[0]]
            asked = [tp for tp in missing if self._leaders[tp] == node]
            listed = tuple([ListOffsetsPartition(tp, -1, self._asked(tp)) for tp in asked])
            channel, request = connections.channel(*node), ListOffsetsRequest(-1, 0, listed)
        else:
            assert self._coordinator is not None
            commit = tuple([(tp, offset, -1, "") for tp, offset in self._offsets.items()])
            channel = connections.channel(*self._coordinator)
            request = OffsetCommitRequest(self._group, -1, "", None, commit)
        if channel is not None:
            channel.send(request, now, self._on_response)

    def _asked(self, tp: TopicPartition) -> int:
        """Return the timestamp for which a leader is asked."""
        by_time = self._since_ms >= 0
        return LATEST_TIMESTAMP if tp in self._too_old else self._since_ms if by_time else self._to

    def _lookup(self) -> Any:
        """Return the request that finds leaders or the coordinator, None if both are known."""
        if not self._leaders:
            return MetadataRequest(self._topics, allow_auto_topic_creation=False)
        return None if self._coordinator is not None else FindCoordinatorRequest(self._group)

    def _on_response(self, response: Any, now: int) -> None:
        failed = isinstance(response, Failed)
        error = Errors.NETWORK_EXCEPTION if failed else self._learn(response)
        if error in RETRIABLE:
            self._leaders, self._offsets, self._coordinator = {}, {}, None
            self._call.retry(self.attempt, now)
        elif error is Errors.NONE and not isinstance(response, OffsetCommitResponse):
            self.attempt(now)
        else:
            self._call.reply(tuple([(tp, offset, error) for tp, offset in self._offsets.items()]))

    def _learn(self, response: Any) -> Errors:
        """Note the leaders, offsets or coordinator in a response; return its first error."""
        if isinstance(response, FindCoordinatorResponse):
            self._coordinator = (response.node_id, response.address)
            return response.error
        if isinstance(response, OffsetCommitResponse):
            return next((error for _, error in response.results if error), Errors.NONE)
        if isinstance(response, ListOffsetsResponse):
            for part in response.partitions:
                if part.error:
                    return part.error
                if part.offset < 0:  # UNKNOWN_OFFSET
                    self._too_old[part.tp] = None
                else:
                    self._offsets[part.tp] = part.offset
            return Errors.NONE
        assert isinstance(response, MetadataResponse), response
        addresses = {broker.id: broker.address for broker in response.brokers}
        for topic in response.topics:
            if topic.error:
                return topic.error
            for entry in topic.partitions:
                if entry.leader not in addresses:
                    return Errors.LEADER_NOT_AVAILABLE
                tp = TopicPartition(topic.topic, entry.partition)
                self._leaders[tp] = (entry.leader, addresses[entry.leader])
                if self._to >= 0 and self._since_ms < 0:
                    self._offsets[tp] = self._to
        return Errors.NONE
