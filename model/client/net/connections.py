"""A client's connections, one per node: Kafka's NetworkClient with ClusterConnectionStates.

Requests go to a known node, or to the least loaded one. Nodes with a negative id are the bootstrap
servers, used until the first metadata response names brokers. A disconnect asks for new metadata,
as NetworkClient.processDisconnection does.

Not modelled: rebootstrap (KIP-899), connections.max.idle.ms.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.channel import Channel
from kafkasim.model.effects import Close, Send

if TYPE_CHECKING:
    from kafkasim.model.client.net.metadata import Metadata
    from kafkasim.model.config import ClientConfig
    from kafkasim.model.effects import Process


def backoff_us(config: ClientConfig, attempts: int, rng: random.Random) -> int:
    """Return retry.backoff.ms doubled per attempt after the first, up to the maximum, ±20 %."""
    doubled = config.retry_backoff_ms << min(max(attempts - 1, 0), 20)
    limit = max(config.retry_backoff_ms, config.retry_backoff_max_ms)
    return int(min(doubled, limit) * 1000 * (0.8 + 0.4 * rng.random()))


class ConnectionListener(Protocol):
    """Who wants to know that a connection came up or broke."""

    def on_connected(self, node_id: int, now: int) -> None: ...
    def on_disconnected(self, node_id: int, now: int) -> None: ...


class NodeChannel(Channel):
    """The connection to one node, which tells its client when it comes and goes."""

    __slots__ = ("connections", "node_id")

    def __init__(
        self, connections: Connections, node_id: int, address: str, purpose: str, lane: str
    ) -> None:
        super().__init__(
            connections.process,
            address,
            purpose,
            lane,
            connections.config.request_timeout_ms,
        )
        self._key = ("channel", f"{connections.name}:{purpose}", address, lane)
        self.connections = connections
        self.node_id = node_id

    @property
    def not_before(self) -> int:
        """The end of the reconnect backoff."""
        return self._not_before

    def connect(self, now: int) -> bool:
        """Begin to connect unless that is done; False during the reconnect backoff."""
        if self.connection is None:
            if now < self._not_before:
                return False
            self._connect(now)
        return True

    def send_unanswered(self, message: Any) -> None:
        """Send what the node never answers (Produce with acks=0). The connection must be open."""
        assert self.open, self.address
        assert self.connection is not None, self.address
        self._next_correlation += 1
        self.process.out.append(Send(self.connection, self._next_correlation, message))

    def dispose(self) -> None:
        """Close without telling anybody: the client is closing."""
        if self.connection is not None:
            self.process.out.append(Close(self.connection))
            self.process.channels.pop(self.connection, None)
            self.connection = None
        self.open = False
        self.in_flight.clear()
        self._pending.clear()
        self._armed = False
        self.process.timers.cancel(self._key)

    def on_opened(self, now: int) -> None:
        """The connection is up."""
        super().on_opened(now)
        self.connections.on_opened(self, now)

    def _drop(self, reason: str, now: int) -> None:
        super()._drop(reason, now)
        self.connections.on_dropped(self, now)


class Connections:
    """The channels of one client, by node id."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: ClientConfig,
        bootstrap: tuple[str, ...],
        purpose: str,
    ) -> None:
        assert bootstrap, f"{name} has no bootstrap servers"
        self.process = process
        self.name = name
        self.config = config
        self.bootstrap = {-1 - i: address for i, address in enumerate(bootstrap)}
        self.purpose = purpose
        self.channels: dict[int, NodeChannel] = {}
        self.listener: ConnectionListener | None = None
        self.metadata: Metadata | None = None

    def channel(self, node_id: int, address: str) -> NodeChannel:
        """Return the channel to a node, new if the node moved."""
        channel = self.channels.get(node_id)
        if channel is None or channel.address != address:
            if channel is not None:
                channel.dispose()
            channel = NodeChannel(self, node_id, address, self.purpose, "main")
            self.channels[node_id] = channel
        return channel

    def least_loaded(self, now: int) -> NodeChannel | None:
        """Return an open channel with the fewest requests, else one connecting, else one that may.

        None while every node is in its reconnect backoff. The search starts at a random node.
        """
        assert self.metadata is not None
        nodes = list((self.metadata.brokers or self.bootstrap).items())
        start = self.process.rng.randrange(len(nodes))
        best: NodeChannel | None = None
        best_rank = (3, 0)
        for node_id, address in nodes[start:] + nodes[:start]:
            channel = self.channel(node_id, address)
            if channel.open:
                rank = (0, len(channel.in_flight))
            elif channel.connection is not None:
                rank = (1, 0)
            elif now >= channel.not_before:
                rank = (2, 0)
            else:
                continue
            if rank < best_rank:
                best, best_rank = channel, rank
        return best

    def next_attempt(self) -> int:
        """Return when the first reconnect backoff ends."""
        assert self.metadata is not None
        nodes = self.metadata.brokers or self.bootstrap
        return min(self.channel(n, address).not_before for n, address in nodes.items())

    def close(self) -> None:
        """Close all connections."""
        for channel in self.channels.values():
            channel.dispose()

    def on_opened(self, channel: NodeChannel, now: int) -> None:
        """A channel is up."""
        if self.listener is not None:
            self.listener.on_connected(channel.node_id, now)

    def on_dropped(self, channel: NodeChannel, now: int) -> None:
        """A channel is gone: its node may be, too."""
        assert self.metadata is not None
        self.metadata.request_update(now)
        if self.listener is not None:
            self.listener.on_disconnected(channel.node_id, now)
