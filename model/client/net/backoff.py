"""How long a client waits before it tries again: Kafka's ExponentialBackoff (KIP-580).

Most retries of a client wait by :meth:`RetryBackoff.after_us`. Some wait retry.backoff.ms however
often they failed: those of the transaction manager, of JoinGroup and SyncGroup, of auto-commits, of
offset look-ups, and an admin client's requests for metadata.

Not modelled: Kafka's sleeps are whole milliseconds. Kafka's Sender and NetworkClient draw the
jitter again in each turn of their loops, here it is drawn once for each wait.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkasim.model.config import ClientConfig

JITTER = 0.2
"""How far a wait is from the middle of its range (CommonClientConfigs.RETRY_BACKOFF_JITTER)."""


class RetryBackoff:
    """The retry.backoff.ms and retry.backoff.max.ms of one client."""

    __slots__ = ("_first_us", "_most_us", "_rng")

    def __init__(self, config: ClientConfig, grows: bool, rng: random.Random) -> None:
        """``grows``: more failures make a retry wait longer. Else it waits retry.backoff.ms."""
        self._first_us = config.retry_backoff_ms * 1000
        self._most_us = config.retry_backoff_max_ms * 1000 if grows else self._first_us
        self._rng = rng

    def after_us(self, attempts: int) -> int:
        """Return the microseconds to wait after ``attempts`` failed attempts, at least one.

        That is retry.backoff.ms, doubled for each attempt after the first, with 20 % of jitter
        either way, and retry.backoff.max.ms at most. If the first wait is the longest one, too, it
        has no jitter.
        """
        first, most = self._first_us, self._most_us
        if most <= first:
            return most
        doubled = min(first << min(max(attempts - 1, 0), 20), most)
        return min(int(doubled * (1 - JITTER + 2 * JITTER * self._rng.random())), most)
