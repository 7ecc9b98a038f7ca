"""The acceptor of a broker's listener, if connections have a limit (SocketServer.Acceptor).

The kernel has accepted a connection before the acceptor sees it: its client takes it for open, and
what it sends stays unread. While the acceptor waits for a slot or for its rate, connections wait
behind the one that it has taken. They wait in the listen backlog, and when that is full a SYN is
dropped, and its client sends it again after a second, or gives up after
socket.connection.setup.timeout.ms.

Without a limit the host assigns each connection to a network thread at once. Left out: the queue
of 20 new connections of each network thread.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafkasim.model.effects import Admit, Close
from kafkasim.model.facts import ConnectionLimited

if TYPE_CHECKING:
    from kafkasim.model.broker.common.connection_quotas import ConnectionQuotas, ConnectionRules
    from kafkasim.model.effects import Process

LANE = "acceptor"


class BrokerAcceptor:
    """Admits, delays or closes new connections."""

    lane = LANE

    def __init__(
        self, process: Process, quotas: ConnectionQuotas, rules: ConnectionRules, backlog: int
    ) -> None:
        self._process = process
        self._quotas = quotas
        self._rules = rules
        self._backlog_size = backlog
        # Each with its address; the first one is what the acceptor has taken.
        self._waiting: deque[tuple[int, str]] = deque()
        self._taken = False  # it has, and counted it in its rate
        self._until_us = 0  # to when it waits, for the rate
        self._open: dict[int, str] = {}  # the address of each connection that has a slot

    @property
    def limiting(self) -> bool:
        """Whether a new connection must ask."""
        return self._quotas.limiting

    @property
    def full(self) -> bool:
        """Whether the listen backlog is full: Linux takes one more than its size."""
        return len(self._waiting) - self._taken > self._backlog_size

    def on_connection(self, connection: int, now: int) -> None:
        """Take a connection that the kernel has accepted."""
        self._waiting.append((connection, self._process.peer_of(connection).host))
        self._accept(now)

    def on_disconnected(self, connection: int, now: int) -> None:
        """Free the slot of a connection that has ended, if it had one."""
        ip = self._open.pop(connection, None)
        if ip is not None:
            self._quotas.dec(ip)
            self._accept(now)

    def _accept(self, now: int) -> None:
        while self._waiting and self._has_slot(now):
            self._taken = False
            self._admit(*self._waiting.popleft(), now)

    def _has_slot(self, now: int) -> bool:
        """Return whether the acceptor need not wait (waitForConnectionSlot)."""
        if not self._taken:
            ip = self._waiting[0][1]
            self._taken = True
            wait_ms = self._quotas.record(now // 1000)
            self._until_us = now + wait_ms * 1000
            if wait_ms:
                self._process.timers.arm("acceptor", self._until_us, LANE, self._accept)
                self._tell(ip, "max.connection.creation.rate", wait_ms)
            elif not self._quotas.slot_available:
                self._tell(ip, "max.connections", 0)
        return now >= self._until_us and self._quotas.slot_available

    def _admit(self, connection: int, ip: str, now: int) -> None:
        throttle_ms = self._quotas.record_ip(ip, now // 1000)
        if throttle_ms:
            self._tell(ip, "connection_creation_rate", throttle_ms)
            key = ("throttled-connection", connection)
            ends_us = now + throttle_ms * 1000
            self._process.timers.arm(key, ends_us, LANE, lambda _: self._close(connection))
        elif not self._quotas.inc(ip):
            self._tell(ip, "max.connections.per.ip", 0)
            self._close(connection)
        elif self._process.is_open(connection):
            self._open[connection] = ip
            self._process.out.append(Admit(connection))
        elif self._rules.releases_reset():
            self._quotas.dec(ip)
            self._close(connection)

    def _close(self, connection: int) -> None:
        self._process.out.append(Close(connection))

    def _tell(self, ip: str, limit: str, throttle_ms: int) -> None:
        self._process.out.append(ConnectionLimited(ip, limit, throttle_ms))
