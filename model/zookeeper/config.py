"""The configuration of a ZooKeeper server: zoo.cfg's keys and defaults (QuorumPeerConfig)."""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.model.config import BrokerConfig, Config, ConfigError, setting

ELECTION_TIMEOUT_MS = 200  # FastLeaderElection.finalizeWait


@dataclass(frozen=True)
class ZooKeeperConfig(Config):
    """Keys of zoo.cfg; −1 in a session bound stands for 2 and 20 ticks."""

    tickTime: int = setting(2000, 1)  # noqa: N815  # ms, the unit of all other times
    initLimit: int = setting(10, 1)  # noqa: N815  # ticks a follower may take to catch up
    syncLimit: int = setting(5, 1)  # noqa: N815  # ticks a follower or leader may be unheard of
    minSessionTimeout: int = setting(-1, -1)  # noqa: N815
    maxSessionTimeout: int = setting(-1, -1)  # noqa: N815

    def validate(self) -> None:
        """Check that the bounds of a session's timeout are in order."""
        if self.min_session_timeout_ms > self.max_session_timeout_ms:
            raise ConfigError("minSessionTimeout", "is above maxSessionTimeout")

    @property
    def min_session_timeout_ms(self) -> int:
        """The least timeout a session can have."""
        return self.tickTime * 2 if self.minSessionTimeout == -1 else self.minSessionTimeout

    @property
    def max_session_timeout_ms(self) -> int:
        """The greatest timeout a session can have."""
        return self.tickTime * 20 if self.maxSessionTimeout == -1 else self.maxSessionTimeout

    @property
    def tick_us(self) -> int:
        """One tick."""
        return self.tickTime * 1000

    @property
    def sync_limit_ms(self) -> int:
        """How long the ends of the ensemble may be silent to each other."""
        return self.tickTime * self.syncLimit

    def quorum(self) -> BrokerConfig:
        """Return what the Raft core reads: see :mod:`kafkasim.model.zookeeper.server.replica` for the mapping."""
        return BrokerConfig(
            controller_quorum_election_timeout_ms=ELECTION_TIMEOUT_MS,
            controller_quorum_election_backoff_max_ms=ELECTION_TIMEOUT_MS,
            controller_quorum_fetch_timeout_ms=self.sync_limit_ms,
            controller_quorum_append_linger_ms=0,
        )
