"""Connections over which nothing has come or gone are closed (Selector.IdleExpiryManager).

A broker closes a connection that was idle for connections.max.idle.ms; a negative value closes
none. A request that is being served does not keep its connection: its response is dropped. Clients
of Kafka close theirs a minute earlier by default; those of the model close none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.effects import Close

if TYPE_CHECKING:
    from kafkasim.model.effects import Process

LANE = "network"


class IdleConnections:
    """Closes the idle connections of a broker."""

    def __init__(self, process: Process, max_idle_ms: int) -> None:
        self._process = process
        self._max_idle_us = max_idle_ms * 1000

    def start(self, now: int) -> None:
        """Look for the first time when a connection of now may be idle for too long."""
        if self._max_idle_us >= 0:
            self._look_again(now + self._max_idle_us)

    def _look_again(self, at: int) -> None:
        self._process.timers.arm("idle-connections", at, LANE, self._expire)

    def _expire(self, now: int) -> None:
        """Close what is idle for too long (maybeCloseOldestConnection)."""
        next_us = now + self._max_idle_us
        for connection, active_us in self._process.last_active():
            if now - active_us > self._max_idle_us:
                self._process.out.append(Close(connection))
            else:
                next_us = min(next_us, active_us + self._max_idle_us)
        self._look_again(max(next_us, now) + 1000)
