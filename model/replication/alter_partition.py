"""AlterPartitionManager: sends proposed ISR changes to the controller (KIP-497).

A broker has one request in flight, a partition at most one proposal queued. All queued proposals go
into the next request. The link to the controller retries without limit; after a top-level error
they are sent again after 50 ms, or with the next proposal. It runs on lane ``alter-partition``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
)

if TYPE_CHECKING:
    from kafkasim.model.channel import Done
    from kafkasim.model.replication.partitions.isr import IsrState
    from kafkasim.model.replication.partitions.ports import IsrProposer
    from kafkasim.model.timers import Timers

LANE = "alter-partition"
RETRY_US = 50_000


class ControllerChannel(Protocol):
    """A channel to the active controller (NodeToControllerChannelManager)."""

    def send(self, message: Any, now: int, done: Done) -> None:
        """Send a request; ``done(response, now)`` gets the response, after retries."""
        ...


class BrokerIdentity(Protocol):
    """The broker that sends the requests."""

    timers: Timers
    broker_id: int
    broker_epoch: int


class AlterPartitionManager:
    """Queues proposals and sends them; an :class:`IsrChannel`."""

    def __init__(self, process: BrokerIdentity, link: ControllerChannel) -> None:
        self.process = process
        self.link = link
        self.in_flight = False
        self.unsent: dict[tuple[str, int], tuple[AlterPartitionData, IsrProposer, IsrState]] = {}

    def submit(
        self, data: AlterPartitionData, leader: IsrProposer, pending: IsrState, now: int
    ) -> bool:
        """Queue a proposal; return False if one of the partition is queued or in flight."""
        key = (data.topic_id, data.partition)
        if key in self.unsent:
            return False
        self.unsent[key] = (data, leader, pending)
        self._propagate(now)
        return True

    def _propagate(self, now: int) -> None:
        if self.in_flight or not self.unsent:
            return
        self.in_flight = True
        process = self.process
        items = tuple([data for data, _, _ in self.unsent.values()])
        request = AlterPartitionRequest(process.broker_id, process.broker_epoch, items)
        self.link.send(request, now, self._on_response)

    def _on_response(self, response: AlterPartitionResponse, now: int) -> None:
        self.in_flight = False
        if response.error is not Errors.NONE:
            if not self.process.timers.armed(LANE):
                self.process.timers.arm(LANE, now + RETRY_US, LANE, self._propagate)
            return
        for result in response.partitions:
            queued = self.unsent.pop((result.topic_id, result.partition), None)
            if queued is not None:
                _, leader, pending = queued
                leader.on_alter_result(pending, result, now)
        self._propagate(now)
