"""How many connections a broker has, and how fast new ones may come (ConnectionQuotas, KIP-612).

Limits, in the order in which the acceptor asks for them:

- max.connection.creation.rate: above it the acceptor waits, a window at most;
- max.connections: without a free slot the acceptor waits for one (KIP-402);
- connection_creation_rate, a quota of the entity type ``ip``: above it the connection is closed,
  and only after the throttle time, so that its client does not come back at once;
- max.connections.per.ip and its overrides: above it the connection is closed at once.

An IP address is a host's name here, or the address that hosts share behind a NAT (``Peer.host``).

Left out: limits of one listener (``listener.name.….max.connections``), because a broker has only
one; so no listener is protected, and no connection is closed to make room (closeExcessConnections).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.config.base import MAX_INT
from kafkasim.model.controller.common.client_quotas import connection_rate_of, limits_ips
from kafkasim.model.replication.quotas.rate import Rate, Windows, throttle_time_ms

if TYPE_CHECKING:
    from kafkasim.model.broker.common.client_quotas import QuotaMetadata
    from kafkasim.model.config.servers import BrokerConfig


class ConnectionRules:
    """The rules of Kafka 4.0."""

    def connection_queue(self) -> int:
        """Return how many new connections a network thread sets up before it polls (KIP-402)."""
        return 20

    def releases_reset(self) -> bool:
        """Return whether the slot of a connection is given back that its client has reset before
        the acceptor could set its options (KAFKA-13457)."""
        return True


class ConnectionQuotas:
    """The connections of a broker: how many each address has, and the rates of new ones."""

    def __init__(self, config: BrokerConfig, metadata: QuotaMetadata) -> None:
        self.total = 0
        self._metadata = metadata
        self._max = config.max_connections
        self._max_rate = config.max_connection_creation_rate
        self._max_per_ip = config.max_connections_per_ip
        self._overrides = config.max_connections_of_ips
        self._counts: dict[str, int] = {}
        size_ms = config.quota_window_size_seconds * 1000
        self._windows = Windows(config.quota_window_num, size_ms)
        self._rate = Rate(self._windows)
        self._rates: dict[str, Rate] = {}  # by address

    @property
    def limiting(self) -> bool:
        """Whether there is any limit."""
        least = min(self._max, self._max_rate, self._max_per_ip)
        return least < MAX_INT or bool(self._overrides) or limits_ips(self._metadata.client_quotas)

    @property
    def slot_available(self) -> bool:
        """Whether the broker may have one more connection (connectionSlotAvailable)."""
        return self.total < self._max

    def record(self, now_ms: int) -> int:
        """Count a new connection; return how long the acceptor must wait, in ms."""
        if self._max_rate == MAX_INT:
            return 0
        self._rate.record(1, now_ms)
        return self._throttle_ms(self._rate, self._max_rate, now_ms)

    def record_ip(self, ip: str, now_ms: int) -> int:
        """Count a new connection of an address; return in how many ms it is to be closed, 0: never.

        A connection that is to be closed counts in no rate (recordIpConnectionMaybeThrottle).
        """
        limit = connection_rate_of(self._metadata.client_quotas, ip)
        if limit is None:
            return 0
        rate = self._rates.setdefault(ip, Rate(self._windows))
        rate.record(1, now_ms)
        throttle_ms = self._throttle_ms(rate, limit, now_ms)
        if throttle_ms:
            rate.record(-1, now_ms)
            if self._max_rate < MAX_INT:
                self._rate.record(-1, now_ms)
        return throttle_ms

    def inc(self, ip: str) -> bool:
        """Take a slot for a connection of an address; return False if it has too many."""
        count = self._counts.get(ip, 0)
        self._counts[ip] = count + 1
        self.total += 1
        if count < self._overrides.get(ip, self._max_per_ip):
            return True
        self.dec(ip)
        return False

    def dec(self, ip: str) -> None:
        """Give the slot of a connection back."""
        assert self._counts[ip] > 0, (ip, self._counts)
        assert self.total > 0, self.total
        self._counts[ip] -= 1
        self.total -= 1

    def _throttle_ms(self, rate: Rate, limit: float, now_ms: int) -> int:
        """Return after how long a rate is within its limit, a window at most
        (boundedThrottleTime)."""
        size_ms = self._windows.size_ms
        return min(throttle_time_ms(rate, limit, now_ms), size_ms) if limit else size_ms
