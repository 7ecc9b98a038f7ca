"""Finding the group coordinator: AbstractCoordinator.lookupCoordinator and its neighbours.

Any broker answers FindCoordinator. The connection to the coordinator is separate from the one on
which records are fetched from the same broker (AbstractCoordinator uses the node id MAX_INT − id).
It is on the lane ``heartbeat``, so that heartbeats go on while the application works.

A look-up that failed is repeated after a backoff. A member of a classic group waits for new
metadata, too (AbstractCoordinator.ensureCoordinatorReady). It waits within one poll(): the next one
looks the coordinator up at once, and counts the attempts anew.

A part that has to know adds a callback: ``found(now)`` runs when the coordinator is known,
``lost(now)`` when it is unknown again, before its connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.errors import RETRIABLE
from kafkasim.model.messages import FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from kafkasim.model.channel import Channel
    from kafkasim.model.client.consumer.poll import Poll
    from kafkasim.model.client.net.connections import Connections
    from kafkasim.model.client.net.metadata import Metadata

LANE = "heartbeat"


class CoordinatorLookup:
    """The coordinator of one group, as far as a client knows it, and the connections to it."""

    def __init__(
        self,
        connections: Connections,
        group_id: str,
        poll: Poll,
        classic_metadata: Metadata | None = None,
    ) -> None:
        """``classic_metadata`` is what a member of a classic group waits for; else None."""
        self._metadata = classic_metadata
        if classic_metadata is not None:
            classic_metadata.listeners.append(self._on_metadata)
        self._awaits_metadata = False
        self._poll_number = 0  # of the poll() in which the last look-up failed
        self._connections = connections
        self.backoff = connections.backoff
        self._group_id = group_id
        self._poll = poll
        self._process = connections.process
        self.channel: Channel | None = None  # to the coordinator; None while it is unknown
        self.found: list[Callable[[int], None]] = []
        self.lost: list[Callable[[int], None]] = []
        self._channels: dict[int, Channel] = {}  # to nodes that are or were the coordinator
        self._finding = False
        self._attempts = 0
        self._closed = False
        self._key = ("find-coordinator", connections.name)

    def find(self, now: int) -> None:
        """Look the coordinator up; at most one request is in flight."""
        if self._finding or self._closed or self._is_waiting():
            return
        self._awaits_metadata = False
        node = self._connections.least_loaded(now)
        if node is None:
            self._poll_number = self._poll.number
            at = max(now + 1, self._connections.next_attempt())
            self._process.timers.arm(self._key, at, LANE, self.find)
            return
        self._process.timers.cancel(self._key)
        self._finding = True
        node.send(FindCoordinatorRequest(self._group_id), now, self._on_response)

    def mark_unknown(self, now: int) -> None:
        """Drop the coordinator that moved or is gone (markCoordinatorUnknown).

        Its connection is closed, so that every request in flight to it fails.
        """
        channel, self.channel = self.channel, None
        if channel is not None:
            for callback in self.lost:
                callback(now)
            channel.close(now)
            self._poll.wake(now)

    def close(self) -> None:
        """Close the connections; no callback runs."""
        self._closed = True
        self._process.timers.cancel(self._key)
        for channel in self._channels.values():
            channel.dispose()

    def _is_waiting(self) -> bool:
        """Return whether the wait after a failed look-up goes on."""
        waiting = self._awaits_metadata or self._process.timers.armed(self._key)
        if not waiting or self._metadata is None:
            return waiting
        return self._poll.outstanding and self._poll.number == self._poll_number

    def _on_response(self, response: Any, now: int) -> None:
        self._finding = False
        if self._closed:
            return
        if isinstance(response, FindCoordinatorResponse) and not response.error:
            channel = self._channel(response.node_id, response.address)
            if not channel.ready(now):  # in its reconnect backoff (ensureCoordinatorReady)
                self._look_again(self.find, now)
                return
            self._attempts = 0
            self.channel = channel
            for callback in self.found:
                callback(now)
            self._poll.wake(now)
        elif isinstance(response, FindCoordinatorResponse) and response.error not in RETRIABLE:
            self._poll.fail(KafkaError(response.error.name, self._group_id))
            self._poll.wake(now)
        else:
            self._look_again(self._await_metadata, now)

    def _look_again(self, then: Callable[[int], None], now: int) -> None:
        if self._metadata is not None and self._poll.number != self._poll_number:
            self._attempts = 0
        self._poll_number = self._poll.number
        self._attempts += 1
        at = now + self.backoff.after_us(self._attempts)
        self._process.timers.arm(self._key, at, LANE, then)

    def _await_metadata(self, now: int) -> None:
        """Look the coordinator up with the next metadata (ConsumerNetworkClient)."""
        if self._metadata is None or not self._poll.outstanding:
            self.find(now)
            return
        self._awaits_metadata = True
        self._metadata.request_update(now)

    def _on_metadata(self, now: int) -> None:
        if self._awaits_metadata and not self._process.timers.armed(self._key):
            self._awaits_metadata = False
            self.find(now)

    def _channel(self, node_id: int, address: str) -> Channel:
        channel = self._channels.get(node_id)
        if channel is None or channel.address != address:
            channel = self._connections.open_channel(node_id, address, "coordinator", LANE)
            self._channels[node_id] = channel
        return channel
