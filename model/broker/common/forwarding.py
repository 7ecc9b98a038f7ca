"""What a broker asks the controller for on behalf of clients, over the ``forwarding`` link.

Models ForwardingManager (CreateTopics, ElectLeaders), AutoTopicCreationManager and
RPCProducerIdManager (blocks of producer ids, the next one prefetched at 90 %).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.group.runtime.ports import OFFSETS_TOPIC
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kafkasim.model.broker.common.base import BrokerBase


LOW = 100  # ids left when the next block is asked for: 90 % of 1000 are used


class AutoTopicCreation:
    """Creates topics that clients asked for, one request in flight per topic."""

    def __init__(self, broker: BrokerBase) -> None:
        self.broker = broker
        self.in_flight: dict[str, None] = {}

    def create(self, topic: str, now: int) -> None:
        """Ask the controller for ``topic`` unless that is under way."""
        if topic in self.in_flight:
            return
        self.in_flight[topic] = None
        config = self.broker.config
        if topic == OFFSETS_TOPIC:
            wanted = CreatableTopic(
                topic,
                config.offsets_topic_num_partitions,
                config.offsets_topic_replication_factor,
                (),
                (
                    ("cleanup.policy", "compact"),
                    ("segment.bytes", str(config.offsets_topic_segment_bytes)),
                ),
            )
        else:
            wanted = CreatableTopic(topic, config.num_partitions, config.default_replication_factor)
        request = CreateTopicsRequest((wanted,), config.request_timeout_ms)

        def done(_: CreateTopicsResponse | Failed, __: int) -> None:
            del self.in_flight[topic]

        self.broker.forwarding_link.send(request, now, done)


class ProducerIds:
    """Producer ids from blocks that the controller hands out."""

    def __init__(self, broker: BrokerBase) -> None:
        self.broker = broker
        self.next_id = 0
        self.end = 0  # exclusive
        self.prefetched: tuple[int, int] | None = None  # (start, length)
        self.in_flight = False

    def generate(self, now: int) -> int | None:
        """Return a fresh producer id; None while the next block is on its way."""
        if self.next_id == self.end and self.prefetched is not None:
            start, length = self.prefetched
            self.prefetched = None
            self.next_id, self.end = start, start + length
        if self.next_id == self.end:
            self._allocate(now)
            return None
        producer_id = self.next_id
        self.next_id += 1
        if self.end - self.next_id <= LOW and self.prefetched is None:
            self._allocate(now)
        return producer_id

    def _allocate(self, now: int) -> None:
        if self.in_flight:
            return
        self.in_flight = True
        broker = self.broker
        request = AllocateProducerIdsRequest(broker.broker_id, broker.broker_epoch)
        broker.forwarding_link.send(request, now, self._on_block)

    def _on_block(self, answer: AllocateProducerIdsResponse | Failed, now: int) -> None:
        self.in_flight = False
        if not isinstance(answer, Failed) and answer.error is Errors.NONE:
            self.prefetched = (answer.producer_id_start, answer.producer_id_len)
