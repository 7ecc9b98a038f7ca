"""The configuration of a ZooKeeper server: keys of zoo.cfg, defaults of zoo_sample.cfg."""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.model.config import BrokerConfig, Config, ConfigError, setting

ELECTION_TIMEOUT_MS = 200
"""How long an election waits for better votes (FastLeaderElection.finalizeWait)."""


@dataclass(frozen=True)
class ZooKeeperConfig(Config):
    """Keys of zoo.cfg. Times are in milliseconds; limits are numbers of ticks."""

    tickTime: int = setting(2000, 1)  # noqa: N815  # the length of a tick
    initLimit: int = setting(  # noqa: N815
        10, 1, no_effect="a follower catches up by fetching; the leader sets it no limit"
    )
    syncLimit: int = setting(5, 1)  # noqa: N815  # of silence between a follower and the leader
    minSessionTimeout: int = setting(-1, -1)  # noqa: N815  # −1: 2 ticks
    maxSessionTimeout: int = setting(-1, -1)  # noqa: N815  # −1: 20 ticks

    def validate(self) -> None:
        """Check the bounds of a session's timeout.

        Raises:
            ConfigError: the least timeout is above the greatest.
        """
        if self.min_session_timeout_ms > self.max_session_timeout_ms:
            raise ConfigError("minSessionTimeout", "is above maxSessionTimeout")

    @property
    def min_session_timeout_ms(self) -> int:
        """The shortest timeout that a session can get."""
        return self.tickTime * 2 if self.minSessionTimeout == -1 else self.minSessionTimeout

    @property
    def max_session_timeout_ms(self) -> int:
        """The longest timeout that a session can get."""
        return self.tickTime * 20 if self.maxSessionTimeout == -1 else self.maxSessionTimeout

    @property
    def tick_us(self) -> int:
        """One tick, in microseconds."""
        return self.tickTime * 1000

    @property
    def sync_limit_ms(self) -> int:
        """How long a follower and the leader may be silent to each other."""
        return self.tickTime * self.syncLimit

    def quorum(self) -> BrokerConfig:
        """Return the Raft core's settings; ``server/replica.py`` explains the mapping."""
        return BrokerConfig(
            controller_quorum_election_timeout_ms=ELECTION_TIMEOUT_MS,
            controller_quorum_election_backoff_max_ms=ELECTION_TIMEOUT_MS,
            controller_quorum_fetch_timeout_ms=self.sync_limit_ms,
            controller_quorum_append_linger_ms=0,
        )
