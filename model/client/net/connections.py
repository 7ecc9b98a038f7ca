"""A client's connections, one for each node: Kafka's NetworkClient with ClusterConnectionStates.

A request goes to a given node, or to the least loaded one. Nodes with a negative id are the
bootstrap servers; they are used until the first metadata response names brokers, and again after a
rebootstrap (KIP-899). A part that has to know of new and of lost connections adds a callback to
``connected`` or ``disconnected``:
:class:`~kafkasim.model.client.net.metadata.Metadata` refreshes after a disconnect, as
NetworkClient.processDisconnection asks for it, and the producer's Sender drains.

The bootstrap servers of a client of another cluster have the cluster in their addresses, as in
``a.broker-1``. The addresses in that cluster's metadata are relative to it.

Not modelled: connections.max.idle.ms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from kafkasim.model.channel import Channel
from kafkasim.model.client.net.backoff import RetryBackoff

if TYPE_CHECKING:
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.config import ClientConfig
    from kafkasim.model.effects import Process

NodeCallback = Callable[[int, int], None]
"""Called with (node id, now)."""


class Connections:
    """The channels of one client, by node id."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: ClientConfig,
        bootstrap: tuple[str, ...],
        purpose: str,
        rules: ClientRules,
    ) -> None:
        assert bootstrap, f"{name} has no bootstrap servers"
        self.process = process
        self.name = name
        self.config = config
        self.purpose = purpose
        self.backoff = RetryBackoff(config, rules.backs_off_exponentially(), process.rng)
        self.connected: list[NodeCallback] = []
        self.disconnected: list[NodeCallback] = []
        domain, dot, _ = bootstrap[0].rpartition(".")
        self._domain = domain + dot
        own = [address.removeprefix(self._domain) for address in bootstrap]
        self._bootstrap = {-1 - i: address for i, address in enumerate(own)}
        self._nodes = self._bootstrap  # addresses by id
        self._channels: dict[int, Channel] = {}

    def use_brokers(self, addresses: dict[int, str]) -> None:
        """Take the brokers that metadata names, addresses by node id; none keeps what is known."""
        self._nodes = addresses or self._nodes

    @property
    def bootstrapping(self) -> bool:
        """Whether the bootstrap servers are the known nodes."""
        return self._nodes is self._bootstrap

    def rebootstrap(self) -> list[Channel]:
        """Make the bootstrap servers the known nodes; return the channels to those before."""
        before = [self._channels[node] for node in self._nodes if node in self._channels]
        self._nodes = self._bootstrap
        return before

    def known_address(self, node_id: int) -> str | None:
        """Return the last address of a node, None of one that was never named."""
        channel = self._channels.get(node_id)
        return None if channel is None else channel.address.removeprefix(self._domain)

    def channel(self, node_id: int, address: str) -> Channel:
        """Return the channel to a node, a new one if the node has moved to another address."""
        channel = self._channels.get(node_id)
        if channel is None or channel.address != self._domain + address:
            if channel is not None:
                channel.dispose()
            channel = self._channels[node_id] = self.open_channel(node_id, address, self.purpose)
        return channel

    def open_channel(self, node_id: int, address: str, purpose: str, lane: str = "main") -> Channel:
        """Return a new channel to a node. Its caller keeps it, and disposes of it at the end.

        A consumer's connection to its group coordinator is such a one: it is not shared with the
        fetches from the same broker.
        """
        config = self.config
        return Channel(
            self.process,
            self._domain + address,
            purpose,
            lane,
            config.request_timeout_ms,
            name=f"{self.name} {node_id}",  # a bootstrap server is a node of its own
            on_open=partial(self._tell, self.connected, node_id),
            on_drop=partial(self._tell, self.disconnected, node_id),
            reconnect_backoff_ms=(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            client_id=config.client_id or self.name,
        )

    def least_loaded(self, now: int) -> Channel | None:
        """Return the open channel with the fewest requests in flight (leastLoadedNode).

        Without an open one, return a channel that is connecting, else one that may connect. None
        while every node is in its reconnect backoff, or asks to wait (canSendRequest). The search
        starts at a random node.
        """
        nodes = list(self._nodes.items())
        start = self.process.rng.randrange(len(nodes))
        best: Channel | None = None
        best_rank = (3, 0)
        for node_id, address in nodes[start:] + nodes[:start]:
            channel = self.channel(node_id, address)
            if channel.open:
                if channel.throttled_until > now:
                    continue
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
        """Return when the first known node ends its reconnect backoff, or has no more to wait."""
        channels = [self.channel(node_id, address) for node_id, address in self._nodes.items()]
        return min(each.throttled_until if each.open else each.not_before for each in channels)

    def close(self) -> None:
        """Close all connections; no callback runs."""
        for channel in self._channels.values():
            channel.dispose()

    def _tell(self, callbacks: list[NodeCallback], node_id: int, now: int) -> None:
        for callback in callbacks:
            callback(node_id, now)
