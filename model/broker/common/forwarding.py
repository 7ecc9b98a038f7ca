"""What a broker asks the controller for on behalf of clients.

Models AutoTopicCreationManager and RPCProducerIdManager (blocks of producer ids; the next block is
prefetched at 90 %). Requests that are passed on unchanged (ForwardingManager) are in
:mod:`kafkasim.model.broker.common.apis`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kafkasim.model.broker.common.controller_link import ControllerChannel
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.config import BrokerConfig


PREFETCH_BELOW = 100  # ids left when the next block is asked for: 90 % of 1000 are used


class AutoTopicCreation:
    """Creates topics that clients asked for, with one request in flight per topic.

    ``internal`` are the coordinators' topics, which have settings of their own.
    """

    def __init__(
        self,
        config: BrokerConfig,
        link: ControllerChannel,
        internal: Mapping[str, CreatableTopic],
    ) -> None:
        self.config = config
        self.internal = internal
        self.link = link
        self.in_flight: dict[str, None] = {}

    def create(self, topic: str, now: int) -> None:
        """Ask the controller to create ``topic``, unless a request for it is in flight."""
        if topic in self.in_flight:
            return
        self.in_flight[topic] = None
        request = CreateTopicsRequest((self._wanted(topic),), self.config.request_timeout_ms)

        def done(_: CreateTopicsResponse | Failed, __: int) -> None:
            del self.in_flight[topic]

        self.link.send(request, now, done)

    def _wanted(self, topic: str) -> CreatableTopic:
        config = self.config
        wanted = self.internal.get(topic)
        if wanted is None:
            wanted = CreatableTopic(topic, config.num_partitions, config.default_replication_factor)
        return wanted


class ProducerIds:
    """Hands out producer ids from blocks that the controller allocates."""

    def __init__(self, incarnation: Incarnation, link: ControllerChannel) -> None:
        self.incarnation = incarnation
        self.link = link
        self.next_id = 0
        self.end = 0  # of the current block, exclusive
        self.prefetched: tuple[int, int] | None = None  # the next block: (first id, length)
        self.in_flight = False

    def generate(self, now: int) -> int | None:
        """Return a fresh producer id, None while the controller's next block is awaited."""
        if self.next_id == self.end and self.prefetched is not None:
            start, length = self.prefetched
            self.prefetched = None
            self.next_id, self.end = start, start + length
        if self.next_id == self.end:
            self._allocate(now)
            return None
        producer_id = self.next_id
        self.next_id += 1
        if self.end - self.next_id <= PREFETCH_BELOW and self.prefetched is None:
            self._allocate(now)
        return producer_id

    def _allocate(self, now: int) -> None:
        if self.in_flight:
            return
        self.in_flight = True
        request = AllocateProducerIdsRequest(self.incarnation.broker_id, self.incarnation.epoch)
        self.link.send(request, now, self._on_block)

    def _on_block(self, answer: AllocateProducerIdsResponse | Failed, now: int) -> None:
        self.in_flight = False
        if not isinstance(answer, Failed) and answer.error is Errors.NONE:
            self.prefetched = (answer.producer_id_start, answer.producer_id_len)
