"""AlterPartitionManager: a leader's ISR changes on their way to the controller (KIP-497).

One request is in flight per broker, one item waits per partition; everything that waits goes into
the next request. Requests are retried without limit by the controller channel; a top-level error
pauses for 50 ms. Lane ``alter-partition``.
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


class ControllerLink(Protocol):
    """A channel to whoever is the active controller (NodeToControllerChannelManager)."""

    def send(self, message: Any, now: int, done: Done) -> None:
        """Send; ``done`` gets the response, after retries."""
        ...


class BrokerIdentity(Protocol):
    """What the manager needs of its broker."""

    timers: Timers
    broker_id: int
    broker_epoch: int


class AlterPartitionManager:
    """Queue and sender of AlterPartition."""

    def __init__(self, process: BrokerIdentity, link: ControllerLink) -> None:
        self.process = process
        self.link = link
        self.in_flight = False
        self.unsent: dict[tuple[str, int], tuple[AlterPartitionData, IsrProposer, IsrState]] = {}

    def submit(
        self, data: AlterPartitionData, leader: IsrProposer, pending: IsrState, now: int
    ) -> bool:
        """Queue a change; False when one of this partition is queued or in flight already."""
        key = (data.topic_id, data.partition)
        if key in self.unsent:
            return False
        self.unsent[key] = (data, leader, pending)
        self._propagate(now)
        return True

    def _propagate(self, now: int) -> None:
        if self.in_flight or not self.unsent or self.process.timers.armed(LANE):
            return
        self.in_flight = True
        process = self.process
        items = tuple([data for data, _, _ in self.unsent.values()])
        request = AlterPartitionRequest(process.broker_id, process.broker_epoch, items)
        self.link.send(request, now, self._on_response)

    def _on_response(self, response: AlterPartitionResponse, now: int) -> None:
        self.in_flight = False
        if response.error is not Errors.NONE:
            self.process.timers.arm(LANE, now + RETRY_US, LANE, self._propagate)
            return
        for result in response.partitions:
            queued = self.unsent.pop((result.topic_id, result.partition), None)
            if queued is not None:
                _, leader, pending = queued
                leader.on_alter_result(pending, result, now)
        self._propagate(now)
