"""Replication throttles: a limited rate for chosen replicas while they catch up (KIP-73).

Models ReplicationQuotaManager. The topic settings leader.replication.throttled.replicas and
follower.replication.throttled.replicas choose the replicas: ``*`` or ``partition:broker,…``. The
broker settings leader.replication.throttled.rate and follower.replication.throttled.rate limit
them, in bytes a second, measured over replication.quota.window.num windows. A new rate keeps what
was measured (updateQuota).

A replica in sync is never throttled. A rate below that of produced bytes may keep a replica from
ever joining the ISR, but it pushes no member out.

Left out: what throttled replicas move while there is no rate; Kafka measures that, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.config import MAX_LONG
from kafkasim.model.replication.quotas.rate import DEFAULT, SimpleRate, Windows

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.replication.fetching.fetch_state import FetchState
    from kafkasim.model.replication.partitions.partition import Partition

EVERY = "*"


def is_throttled(replicas: str, partition: int, broker_id: int) -> bool:
    """Return whether a setting …throttled.replicas names the replica of ``broker_id``."""
    named = [each.strip() for each in replicas.split(",")]
    return named == [EVERY] or f"{partition}:{broker_id}" in named


class ReplicationQuota:
    """The bytes that throttled replicas moved in the last windows, against a rate."""

    __slots__ = ("_moved", "broker_id", "rate")

    def __init__(self, rate: int, broker_id: int, windows: Windows = DEFAULT) -> None:
        self.rate = rate  # bytes a second; MAX_LONG is no limit
        self.broker_id = broker_id
        self._moved = SimpleRate(windows)

    def record(self, size: int, now: int) -> None:
        """Count ``size`` bytes that were moved."""
        self._moved.record(size, now // 1000)

    def exceeded(self, now: int) -> bool:
        """Return whether the replicas moved more than the rate allows (isQuotaExceeded)."""
        return self._moved.measure(now // 1000) > self.rate

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
    """The throttles of one broker, as leader and as follower."""

    __slots__ = ("_follower", "_leader")

    def __init__(self, config: BrokerConfig, broker_id: int) -> None:
        size_ms = config.replication_quota_window_size_seconds * 1000
        windows = Windows(config.replication_quota_window_num, size_ms)
        leaders, followers = (
            config.leader_replication_throttled_rate,
            config.follower_replication_throttled_rate,
        )
        self._leader = ReplicationQuota(leaders, broker_id, windows)
        self._follower = ReplicationQuota(followers, broker_id, windows)

    @property
    def leader(self) -> ReplicationQuota | None:
        """The throttle of what this broker sends to followers; None: no limit."""
        return None if self._leader.rate == MAX_LONG else self._leader

    @property
    def follower(self) -> ReplicationQuota | None:
        """The throttle of what this broker fetches; None: no limit."""
        return None if self._follower.rate == MAX_LONG else self._follower

    def update(self, config: BrokerConfig) -> None:
        """Take the rates of ``config``."""
        self._leader.rate = config.leader_replication_throttled_rate
        self._follower.rate = config.follower_replication_throttled_rate
