"""LeaderEndpoint: the connection of one fetcher to one leader (RemoteLeaderEndPoint).

A fetcher is synchronous in Kafka: its thread does nothing else while an answer is awaited. So one
request is in flight at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import NO_BACKOFF_MS, Channel

if TYPE_CHECKING:
    from kafkasim.model.effects import Process


class LeaderEndpoint:
    """Asks one leader, one request at a time."""

    __slots__ = ("channel", "stopped", "waiting")

    def __init__(self, process: Process, address: str, lane: str, timeout_ms: int) -> None:
        self.channel = Channel(
            process,
            address,
            "replica-fetch",
            lane,
            timeout_ms,
            patient=True,
            reconnect_backoff_ms=NO_BACKOFF_MS,
        )
        self.waiting = False  # for a response
        self.stopped = False

    def ask(self, message: Any, now: int, done: Callable[[Any, int], None]) -> None:
        """Send a request; ``done(response, now)`` gets the response, or a Failed without one.

        After :meth:`stop` it is not called any more.
        """
        assert not self.waiting, message
        self.waiting = True

        def answered(response: Any, at: int) -> None:
            self.waiting = False
            if not self.stopped:
                done(response, at)

        self.channel.send(message, now, answered)

    def stop(self, now: int) -> None:
        """Close the connection for good."""
        self.stopped = True
        self.channel.close(now)
