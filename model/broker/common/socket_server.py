"""When a broker serves requests: SocketServer.enableRequestProcessing and its end.

A starting broker accepts connections before it can answer: requests that arrive early wait, and
are handed to the request handlers in their order once processing is enabled. A stopping broker
answers nothing any more. Connections, muting and the request queue are the host's (sim/host).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.effects import Post, Request

if TYPE_CHECKING:
    from kafkasim.model.broker.incarnation import Incarnation


class RequestHandler(Protocol):
    """What serves a request: KafkaApis, or the authorizer before it."""

    def handle(self, item: Request, now: int) -> None: ...


class SocketServer:
    """Passes requests to KafkaApis while the broker serves; ``lane_of(message)`` serves one."""

    def __init__(
        self,
        out: list[Any],
        incarnation: Incarnation,
        apis: RequestHandler,
        lane_of: Callable[[Any], str],
    ) -> None:
        self.out = out
        self.incarnation = incarnation
        self.apis = apis
        self.lane_of = lane_of
        self.enabled = False
        self._early: list[Request] = []  # arrived before processing was enabled

    def enable_request_processing(self) -> None:
        """Serve from now on, the requests that waited first, each in an event of its own."""
        self.enabled = True
        early, self._early = self._early, []
        for item in early:
            self.out.append(Post(self.lane_of(item.message), self.on_request, item))

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request, keep it until processing is enabled, or drop it while stopping."""
        if self.incarnation.stopping:
            return
        if self.enabled:
            self.apis.handle(item, now)
        else:
            self._early.append(item)
