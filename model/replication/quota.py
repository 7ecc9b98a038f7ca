"""Replication throttles: a limited rate for chosen replicas while they catch up (KIP-73).

Models ReplicationQuotaManager. The topic settings leader.replication.throttled.replicas and
follower.replication.throttled.replicas choose the replicas: ``*`` or ``partition:broker,…``. The
broker settings leader.replication.throttled.rate and follower.replication.throttled.rate limit
them, in bytes a second, measured over eleven windows of one second.

A replica in sync is never throttled. A rate below that of produced bytes may keep a replica from
ever joining the ISR, but it pushes no member out.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kafkasim.model.config import MAX_LONG

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.replication.fetching.fetch_state import FetchState
    from kafkasim.model.replication.partitions.partition import Partition

WINDOWS = 11  # replication.quota.window.num
WINDOW_US = 1_000_000  # replication.quota.window.size.seconds
EVERY = "*"


def is_throttled(replicas: str, partition: int, broker_id: int) -> bool:
    """Return whether a setting …throttled.replicas names the replica of ``broker_id``."""
    named = [each.strip() for each in replicas.split(",")]
    return named == [EVERY] or f"{partition}:{broker_id}" in named


class ReplicationQuota:
    """The bytes that throttled replicas moved in the last windows, against a rate."""

    __slots__ = ("_samples", "broker_id", "rate")

    def __init__(self, rate: int, broker_id: int) -> None:
        self.rate = rate  # bytes a second
        self.broker_id = broker_id
        self._samples: deque[list[int]] = deque()  # [start of the window, bytes]

    def record(self, size: int, now: int) -> None:
        """Count ``size`` bytes that were moved."""
        samples = self._samples
        if not samples or now - samples[-1][0] >= WINDOW_US:
            samples.append([now, 0])
        samples[-1][1] += size

    def exceeded(self, now: int) -> bool:
        """Return whether the replicas moved more than the rate allows."""
        samples = self._samples
        while samples and now - samples[0][0] >= WINDOWS * WINDOW_US:
            samples.popleft()
        if not samples:
            return False
        elapsed = max(now - samples[0][0], WINDOW_US)
        return sum([size for _, size in samples]) * 1_000_000 > self.rate * elapsed

    def sends(self, partition: Partition, replica: int, now: int) -> bool:
        """Return whether the leader may send records to a follower (shouldLeaderThrottle)."""
        leader = partition.leadership
        in_sync = leader is not None and replica in leader.isr
        return in_sync or not self._leads_throttled(partition) or not self.exceeded(now)

    def sent(self, partition: Partition, size: int, now: int) -> None:
        """Count ``size`` bytes that the leader sends of a partition."""
        if self._leads_throttled(partition):
            self.record(size, now)

    def fetches(self, state: FetchState, now: int) -> bool:
        """Return whether the follower may fetch a partition (shouldFollowerThrottle)."""
        in_sync = state.lag <= 0
        return in_sync or not self._follows_throttled(state.partition) or not self.exceeded(now)

    def fetched(self, state: FetchState, size: int, now: int) -> None:
        """Count ``size`` bytes that the follower fetched of a partition."""
        if self._follows_throttled(state.partition):
            self.record(size, now)

    def _leads_throttled(self, partition: Partition) -> bool:
        replicas = partition.log.config.leader_replication_throttled_replicas
        return is_throttled(replicas, partition.tp.partition, self.broker_id)

    def _follows_throttled(self, partition: Partition) -> bool:
        replicas = partition.log.config.follower_replication_throttled_replicas
        return is_throttled(replicas, partition.tp.partition, self.broker_id)


class ReplicationQuotas:
    """The throttles of one broker, as leader and as follower; None: no limit."""

    __slots__ = ("_broker_id", "follower", "leader")

    def __init__(self, config: BrokerConfig, broker_id: int) -> None:
        self._broker_id = broker_id
        self.leader: ReplicationQuota | None = None
        self.follower: ReplicationQuota | None = None
        self.update(config)

    def update(self, config: BrokerConfig) -> None:
        """Take the rates of ``config`` and start to measure from zero."""
        self.leader = self._quota(config.leader_replication_throttled_rate)
        self.follower = self._quota(config.follower_replication_throttled_rate)

    def _quota(self, rate: int) -> ReplicationQuota | None:
        return None if rate == MAX_LONG else ReplicationQuota(rate, self._broker_id)
