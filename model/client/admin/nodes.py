"""The node to which an admin client sends a call: the least loaded one, or the controller.

Models KafkaAdminClient.LeastLoadedNodeProvider, ControllerNodeProvider, and
handleNotControllerError. No call is sent before Metadata has named the brokers
(AdminMetadataManager.isReady): the bootstrap servers are asked for nothing else.

Metadata names the controller, too. While it names none, the calls that need one wait, and the
metadata is asked for again after retry.backoff.ms. After NOT_CONTROLLER the client forgets the
controller, asks for metadata and sends the call again after its backoff. A broker's cache may still
name the old controller. With KRaft Metadata names a live broker, and any broker forwards.
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


class Nodes:
    """Knows the brokers and the controller, and the calls that wait until they are known."""

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._waiting: list[Handler] = []
        metadata.listeners.append(self._on_metadata)

    @property
    def ready(self) -> bool:
        """Whether Metadata has named the brokers."""
        return not self._metadata.connections.bootstrapping

    def when_ready(self, attempt: Handler, now: int) -> None:
        """Ask for metadata; call ``attempt(now)`` when there is newer one."""
        self._waiting.append(attempt)
        self._metadata.request_update(now)

    def controller(self, attempt: Handler, now: int) -> Channel | None:
        """Return the channel to the controller.

        While it is unknown, return None and call ``attempt(now)`` when there is newer metadata.
        """
        metadata = self._metadata
        address = metadata.brokers.get(metadata.controller_id)
        if address is not None:
            return metadata.connections.channel(metadata.controller_id, address)
        self.when_ready(attempt, now)
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
