"""How far apart the links of a chain are: near one of the cluster's own timeouts.

Whether one event affects another depends on Kafka's timers: a fetch waits, a replica lags, a
session ends. So a gap is a part, or a small multiple, of one timer. In a gap longer than twice the
longest timer the cluster would only recover.
"""

from __future__ import annotations

import random
from typing import Any

NETWORK_MS = 20
"""A few round trips."""

LONGEST_GAP_MS = 6000
"""The longest gap between two links of a minute's run."""

HEARTBEAT_PARTS = (3, 4.5, 6)
"""Into how many intervals a session is divided; Kafka's default is 4.5."""


class Pace:
    """The timers of one cluster, in ms, and gaps drawn from them."""

    def __init__(self, rng: random.Random, mode: str, *, minute: bool) -> None:
        """Draw the timers. In a ``minute``'s run they reach Kafka's defaults and ten times them."""
        self.rng = rng
        self.minute = minute
        self.fetch_ms = 500 if minute else rng.choice((50, 100, 500))
        if minute:
            self.lag_ms = self._between(3000, 300_000)
            self.session_ms = self._between(900, 90_000)
        else:
            self.lag_ms = self._between(500, 20_000)
            self.session_ms = self._between(1000, 9000)
        self.longest_ms = 20_000 if minute else 3000  # that is waited for on purpose
        self.end_ms = 50_000 if minute else 7000  # when the last link begins, at the latest
        self._mode = mode

    @classmethod
    def of(
        cls,
        rng: random.Random,
        mode: str,
        config: dict[str, Any],
        duration_ms: float | None = None,
    ) -> Pace:
        """Return the pace of a cluster whose servers have these settings.

        In a run whose duration is given, something is away for half of it at most, and the last
        link begins when a third is left.
        """
        pace = cls(rng, mode, minute=False)
        session = "zookeeper.session" if mode == "zookeeper" else "broker.session"
        pace.fetch_ms = int(config["replica.fetch.wait.max.ms"])
        pace.lag_ms = int(config["replica.lag.time.max.ms"])
        pace.session_ms = int(config[f"{session}.timeout.ms"])
        if duration_ms is not None:
            pace.longest_ms, pace.end_ms = int(duration_ms / 2), int(duration_ms * 2 / 3)
        return pace

    def _between(self, low: int, high: int) -> int:
        """Draw a time whose logarithm is uniform: each order of magnitude is as likely."""
        return int(low * (high / low) ** self.rng.random())

    def configure(self, cluster: dict[str, Any]) -> None:
        """Set the timers of the servers."""
        config = cluster["config"]
        config["replica.fetch.wait.max.ms"] = self.fetch_ms
        config["replica.lag.time.max.ms"] = max(self.lag_ms, self.fetch_ms)
        config["broker.session.timeout.ms"] = self.session_ms
        config["broker.heartbeat.interval.ms"] = int(
            self.session_ms / self.rng.choice(HEARTBEAT_PARTS)
        )
        # A new incarnation must outwait the session of the one before, or the broker halts.
        config["initial.broker.registration.timeout.ms"] = max(60_000, 2 * self.session_ms)
        if self._mode == "zookeeper":
            config["zookeeper.session.timeout.ms"] = self.session_ms
            cluster["zookeeper-config"] = {"tickTime": max(50, self.session_ms // 10)}

    def near(self) -> float:
        """Draw a gap: up to one and a half of a timer, as often of a short as of a long one."""
        timer = self.rng.choice((NETWORK_MS, self.fetch_ms, self.lag_ms, self.session_ms))
        return min(timer * self.rng.uniform(0.1, 1.5), self.longest_ms)

    def next(self, at: float, links: int) -> float:
        """Draw when the next link begins, after one at ``at`` ms; ``links`` are left.

        The links of a minute's run are spread over all of it.
        """
        gap = self.near()
        if self.minute:
            gap = min(gap, LONGEST_GAP_MS)
            gap = max(gap, self.rng.uniform(0.5, 1.5) * (self.end_ms - at) / max(links, 1))
        return min(at + gap, self.end_ms)

    def away(self) -> float:
        """Draw how long something is away: often shorter, and often longer, than the timers."""
        timer = self.rng.choice((self.fetch_ms, self.lag_ms, self.session_ms, self.session_ms))
        return max(50.0, min(timer * self.rng.uniform(0.1, 2.0), self.longest_ms))
