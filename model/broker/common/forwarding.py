"""What a broker asks the controller for on behalf of clients.

Models AutoTopicCreationManager and RPCProducerIdManager. Requests that are passed on unchanged
(ForwardingManager) are in :mod:`kafkasim.model.broker.common.apis`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.controller.common.responses import envelope
from kafkasim.model.controller.common.topics import name_problem
from kafkasim.model.errors import Errors
from kafkasim.model.facts import CreationRefused
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
    from kafkasim.model.effects import Peer


PREFETCH_THRESHOLD = 0.9  # of a block: the id whose use asks for the next one
RETRY_BACKOFF_US = 50_000  # after an answer with an error


class AutoTopicCreation:
    """Creates topics that clients asked for, with one request in flight per topic.

    ``internal`` are the coordinators' topics, which have settings of their own.
    """

    def __init__(
        self,
        config: BrokerConfig,
        link: ControllerChannel,
        internal: Mapping[str, CreatableTopic],
        out: list[Any],
    ) -> None:
        self.config = config
        self.internal = internal
        self.link = link
        self.in_flight: dict[str, None] = {}
        self._out = out
        self._refused: dict[str, Errors] = {}  # topic -> the last error, as told

    def create(self, topic: str, now: int, peer: Peer | None = None) -> None:
        """Ask the controller to create ``topic``, unless a request for it is in flight.

        ``peer`` is the client that asked for its metadata: its quota has to admit the topic. No
        request is sent for a name that no topic may have (filterCreatableTopics).
        """
        if topic in self.in_flight or name_problem(topic) is not None:
            return
        self.in_flight[topic] = None
        request = CreateTopicsRequest((self._wanted(topic),), self.config.request_timeout_ms)

        def done(answer: CreateTopicsResponse | Failed, __: int) -> None:
            del self.in_flight[topic]
            for name, error, reason in () if isinstance(answer, Failed) else answer.results:
                if error not in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS, self._refused.get(name)):
                    self._refused[name] = error
                    self._out.append(CreationRefused(name, error.name, reason))

        self.link.send(request if peer is None else envelope(request, peer), now, done)

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
        self._prefetch_at = -1  # the id of the current block whose use asks for the next block
        self.prefetched: tuple[int, int] | None = None  # the next block: (first id, length)
        self.in_flight = False
        self._retry_us = 0  # no request before; 0: the last one had no error

    def generate(self, now: int) -> int | None:
        """Return a fresh producer id, None while the controller's next block is awaited."""
        if self.next_id == self.end and self.prefetched is not None:
            start, length = self.prefetched
            self.prefetched = None
            self.next_id, self.end = start, start + length
            self._prefetch_at = start + int(length * PREFETCH_THRESHOLD)
        if self.next_id == self.end:
            self._allocate(now)
            return None
        producer_id = self.next_id
        self.next_id += 1
        if producer_id == self._prefetch_at:
            self._allocate(now)
        return producer_id

    def _allocate(self, now: int) -> None:
        if self.in_flight or now < self._retry_us:
            return
        self.in_flight = True
        self._retry_us = 0
        request = AllocateProducerIdsRequest(self.incarnation.broker_id, self.incarnation.epoch)
        self.link.send(request, now, self._on_block)

    def _on_block(self, answer: AllocateProducerIdsResponse | Failed, now: int) -> None:
        self.in_flight = False
        if isinstance(answer, Failed):
            return
        if answer.error is Errors.NONE:
            self.prefetched = (answer.producer_id_start, answer.producer_id_len)
        else:
            self._retry_us = now + RETRY_BACKOFF_US
