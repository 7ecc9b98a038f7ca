"""Where a group's coordinator is: the lookup half of Kafka's AbstractCoordinator.

Any broker answers FindCoordinator; the connection to the coordinator is one of its own, beside the
fetch connection to the same broker (AbstractCoordinator uses the node id MAX_INT − id).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel
from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.net.connections import backoff_us
from kafkasim.model.errors import RETRIABLE
from kafkasim.model.messages import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.coordinator import ConsumerCoordinator

LANE = "heartbeat"


class CoordinatorLookup:
    """Finds the coordinator of one group and holds the connections to it."""

    def __init__(self, coordinator: ConsumerCoordinator) -> None:
        self.coordinator = coordinator
        self.consumer = coordinator.consumer
        self.process = coordinator.process
        self.config = coordinator.config
        self._channels: dict[int, Channel] = {}
        self._finding = False
        self._attempts = 0
        self._closed = False
        self._key = ("find-coordinator", self.consumer.name)

    def find(self, now: int) -> None:
        """Look the coordinator up, at most one request at a time."""
        if self._finding or self._closed or self.process.timers.armed(self._key):
            return
        node = self.consumer.connections.least_loaded(now)
        if node is None:
            at = max(now + 1, self.consumer.connections.next_attempt())
            self.process.timers.arm(self._key, at, LANE, self.find)
            return
        self._finding = True
        node.send(FindCoordinatorRequest(self.config.group_id), now, self._on_found)

    def close(self) -> None:
        """Close the coordinator connections."""
        self._closed = True
        self.process.timers.cancel(self._key)
        for channel in self._channels.values():
            channel.dispose()

    def _on_found(self, answer: Any, now: int) -> None:
        self._finding = False
        if self._closed:
            return
        if isinstance(answer, FindCoordinatorResponse) and not answer.error:
            self._attempts = 0
            self.coordinator.on_found(self._channel(answer.node_id, answer.address), now)
        elif isinstance(answer, FindCoordinatorResponse) and answer.error not in RETRIABLE:
            self.consumer.failed = KafkaError(answer.error.name, self.config.group_id)
            self.consumer.wake(now)
        else:
            self._attempts += 1
            at = now + backoff_us(self.config, self._attempts, self.process.rng)
            self.process.timers.arm(self._key, at, LANE, self.find)

    def _channel(self, node_id: int, address: str) -> Channel:
        channel = self._channels.get(node_id)
        if channel is None or channel.address != address:
            connections = self.consumer.connections
            channel = connections.open_channel(node_id, address, "coordinator", LANE)
            self._channels[node_id] = channel
        return channel
