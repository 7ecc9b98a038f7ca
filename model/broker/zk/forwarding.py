"""Clients' requests travel to the controller in an envelope (ForwardingManager, KIP-590)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.messages import AllocateProducerIdsRequest, EnvelopeRequest

if TYPE_CHECKING:
    from kafkasim.model.broker.common.controller_link import ControllerChannel
    from kafkasim.model.channel import Done


class EnvelopeForwarding:
    """Wraps what clients asked; the broker's own requests go unwrapped."""

    def __init__(self, link: ControllerChannel) -> None:
        self.link = link

    def send(self, message: Any, now: int, done: Done) -> None:
        """Send a request; ``done`` gets the controller's response, or Failed on a retry timeout."""
        own = isinstance(message, AllocateProducerIdsRequest)
        self.link.send(message if own else EnvelopeRequest(message), now, done)
