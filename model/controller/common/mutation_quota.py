"""How many partitions a client may create and delete: ControllerMutationQuotaManager (KIP-599).

``controller_mutation_rate`` fills a token bucket, which holds what ``controller.quota.window.num``
windows of ``controller.quota.window.size.seconds`` bring. A topic takes a token for each of its
partitions that are created or deleted. While the bucket is not below zero a topic is admitted
whole, so one may overdraw it; afterwards the strict quota refuses with THROTTLING_QUOTA_EXCEEDED
until the bucket is at zero again. Versions of the requests that do not know the error have the
permissive quota: all is admitted, and the client is asked to wait.

Each controller has buckets of its own. Left out: their expiry after an hour without use, and the
metric ``mutation-rate``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.controller.common.client_quotas import MUTATION_RATE, Quotas, Tags, applied
from kafkasim.model.controller.common.topics import Refused
from kafkasim.model.errors import Errors

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig

MESSAGE = "The throttling quota has been exceeded."


class TokenBucket:
    """Tokens that come at a rate and do not exceed a burst (TokenBucket). It begins full."""

    __slots__ = ("_tokens", "_updated_ms")

    def __init__(self, now_ms: int) -> None:
        self._tokens = float("inf")
        self._updated_ms = now_ms

    def measure(self, rate: float, burst: float, now_ms: int) -> float:
        """Return the tokens; below zero the bucket is overdrawn."""
        came = rate * (now_ms - self._updated_ms) / 1000
        self._tokens = min(burst, self._tokens + came)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, tokens: float) -> None:
        """Take tokens, also those that are not there."""
        self._tokens -= tokens


class ControllerMutationQuota:
    """The quota of one request, for as long as it is served."""

    def __init__(
        self, bucket: TokenBucket, rate: float, burst: float, strict: bool, now_ms: int
    ) -> None:
        self._bucket = bucket
        self._rate, self._burst = rate, burst
        self._strict = strict
        self._now_ms = now_ms
        self._wait_ms = 0

    def record(self, partitions: int) -> Refused | None:
        """Take a token for each partition, or refuse them if the quota is strict and used up."""
        if self._is_overdrawn() and self._strict:
            return Refused(Errors.THROTTLING_QUOTA_EXCEEDED, MESSAGE)
        self._bucket.take(partitions)
        if not self._strict:
            self._is_overdrawn()
        return None

    def _is_overdrawn(self) -> bool:
        tokens = self._bucket.measure(self._rate, self._burst, self._now_ms)
        if tokens >= 0:
            return False
        self._wait_ms = int(-tokens / self._rate * 1000 + 0.5)
        return True

    def throttle_time_ms(self, now_ms: int) -> int:
        """Return how long the client must wait from now on; 0 if nothing was above the quota."""
        return max(0, self._wait_ms - (now_ms - self._now_ms))


class ControllerMutationQuotaManager:
    """The token buckets of all clients at one controller; ``quotas()`` are the committed ones."""

    def __init__(self, config: BrokerConfig, quotas: Callable[[], Quotas]) -> None:
        self._burst_s = config.controller_quota_window_num * (
            config.controller_quota_window_size_seconds
        )
        self._quotas = quotas
        self._buckets: dict[Tags, TokenBucket] = {}

    def quota_for(
        self, user: str, client_id: str, strict: bool, now: int
    ) -> ControllerMutationQuota | None:
        """Return the quota of a client's request (newQuotaFor), None without one."""
        tags, rate = applied(self._quotas(), MUTATION_RATE, user, client_id)
        if rate is None:
            self._buckets.pop(tags, None)  # without a limit it would fill at once
            return None
        now_ms = now // 1000
        bucket = self._buckets.setdefault(tags, TokenBucket(now_ms))
        return ControllerMutationQuota(bucket, rate, rate * self._burst_s, strict, now_ms)
