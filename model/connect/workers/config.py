"""The settings of a Connect worker (DistributedConfig, WorkerConfig)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafkasim.model.config import ClientConfig
from kafkasim.model.config.base import Config, ConfigError, setting


@dataclass(frozen=True)
class WorkerSettings(Config):
    """What a dedicated MirrorMaker is told of its workers, besides its flow."""

    tasks_max: int = setting(1, 1)  # of each connector
    session_timeout_ms: int = setting(10000, 1)  # without heartbeats the worker is removed
    heartbeat_interval_ms: int = setting(3000, 1)
    rebalance_timeout_ms: int = setting(60000, 1)  # for a worker to join again
    scheduled_rebalance_max_delay_ms: int = setting(300000, 0)  # that lost work waits
    worker_sync_timeout_ms: int = setting(3000, 1)  # for a worker to read the config topic
    # Whether workers may send each other requests, as all but the leader must (KIP-710).
    dedicated_mode_enable_internal_rest: bool = setting(False)

    # Source tasks copy in transactions (KIP-618); "preparing" has no effect of its own here.
    exactly_once_source_support: str = setting("disabled", allowed=("disabled", "enabled"))

    @property
    def exactly_once(self) -> bool:
        """Whether source tasks copy in transactions."""
        return self.exactly_once_source_support == "enabled"

    def validate(self) -> None:
        """Check that a session has room for a heartbeat.

        Raises:
            ConfigError: it has none.
        """
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                f"{self.heartbeat_interval_ms} is not below session.timeout.ms ="
                f" {self.session_timeout_ms}",
            )


@dataclass(frozen=True)
class WorkerConfig(ClientConfig, WorkerSettings):
    """The settings of a worker's membership in its group."""

    protocol_type: ClassVar[str] = "connect"
    group_instance_id: ClassVar[None] = None  # Connect has no static members

    request_timeout_ms: int = setting(40000, 0)
    group_id: str = setting("")
