"""The broker that is the controller, as an admin client of a ZooKeeper cluster finds it.

Models KafkaAdminClient.ControllerNodeProvider and handleNotControllerError. Metadata names the
controller. While it names none, the calls that need one wait, and the metadata is asked for again
after retry.backoff.ms. After NOT_CONTROLLER the client forgets the controller, asks for metadata
and sends the call again after its backoff. A broker's cache may still name the old controller.

With KRaft any broker forwards a request, and Metadata names one of them at random. There a call
goes to the least loaded node, and no metadata is asked for before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    ListPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
    errors_in,
)

if TYPE_CHECKING:
    from kafkasim.model.channel import Channel
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.effects import Handler

FOR_CONTROLLER = (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
    UpdateFeaturesRequest,
)
"""The requests whose calls have a ControllerNodeProvider."""


class ControllerNode:
    """Knows the controller, or the calls that wait until it is known."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._waiting: list[Handler] = []
        metadata.listeners.append(self._on_metadata)

    def channel(self, attempt: Handler, now: int) -> Channel | None:
        """Return the channel to the controller.

        While it is unknown, return None and call ``attempt(now)`` when there is newer metadata.
        """
        metadata = self._metadata
        address = metadata.brokers.get(metadata.controller_id)
        if address is not None:
            return metadata.connections.channel(metadata.controller_id, address)
        self._waiting.append(attempt)
        metadata.request_update(now)
        return None

    def moved(self, now: int) -> None:
        """Forget the controller: it said that another one is."""
        self._metadata.controller_id = -1
        self._metadata.request_update(now)

    def _on_metadata(self, now: int) -> None:
        waiting, self._waiting = self._waiting, []
        for attempt in waiting:
            attempt(now)


def is_not_controller(response: Any) -> bool:
    """Return whether a response asks the client to find the controller.

    ElectLeaders never does: there NOT_CONTROLLER is the result of a partition.
    """
    if isinstance(response, ElectLeadersResponse):
        return False
    return Errors.NOT_CONTROLLER in errors_in(response)
