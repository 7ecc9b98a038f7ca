"""What a broker's group.share.* settings must obey, and the settings of one share group (KIP-932).

Kafka: GroupCoordinatorConfig, ShareGroupConfig, GroupConfig. Left out: classes of one's own as
assignor or persister, and settings of single consumer groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kafkasim.model.config.base import Config, ConfigError, setting

AUTO_OFFSET_RESETS = ("latest", "earliest")
"""Where the share partitions of a new group start. Left out: by_duration."""

ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


@dataclass(frozen=True)
class ShareGroupSettings(Config):
    """The settings of one group (GroupConfig): 0 or less stands for the broker's default."""

    share_session_timeout_ms: int = setting(-1)
    share_heartbeat_interval_ms: int = setting(-1)
    share_record_lock_duration_ms: int = setting(-1)
    share_auto_offset_reset: str = setting("latest", allowed=AUTO_OFFSET_RESETS)
    share_isolation_level: str = setting("read_uncommitted", allowed=ISOLATION_LEVELS)


class BrokerShareGroupSettings(Protocol):
    """The settings of a broker that are checked together."""

    @property
    def group_share_session_timeout_ms(self) -> int: ...
    @property
    def group_share_min_session_timeout_ms(self) -> int: ...
    @property
    def group_share_max_session_timeout_ms(self) -> int: ...
    @property
    def group_share_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_share_min_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_share_max_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_share_record_lock_duration_ms(self) -> int: ...
    @property
    def group_share_min_record_lock_duration_ms(self) -> int: ...
    @property
    def group_share_max_record_lock_duration_ms(self) -> int: ...
    @property
    def group_share_max_share_sessions(self) -> int: ...
    @property
    def group_share_max_size(self) -> int: ...


def validate_share_groups(config: BrokerShareGroupSettings) -> None:
    """Check that the timeouts are within their bounds, and that every member may have a session.

    Raises:
        ConfigError: a timeout is out of its own bounds, or there are fewer share sessions than
            members of a group.
    """
    for name, low, current, high in (
        (
            "session.timeout.ms",
            config.group_share_min_session_timeout_ms,
            config.group_share_session_timeout_ms,
            config.group_share_max_session_timeout_ms,
        ),
        (
            "heartbeat.interval.ms",
            config.group_share_min_heartbeat_interval_ms,
            config.group_share_heartbeat_interval_ms,
            config.group_share_max_heartbeat_interval_ms,
        ),
        (
            "record.lock.duration.ms",
            config.group_share_min_record_lock_duration_ms,
            config.group_share_record_lock_duration_ms,
            config.group_share_max_record_lock_duration_ms,
        ),
    ):
        if not low <= current <= high:
            raise ConfigError(f"group.share.{name}", f"{current} is not from {low} to {high}")
    if config.group_share_heartbeat_interval_ms >= config.group_share_session_timeout_ms:
        raise ConfigError(
            "group.share.heartbeat.interval.ms",
            f"{config.group_share_heartbeat_interval_ms} is not below group.share.session.timeout"
            f".ms = {config.group_share_session_timeout_ms}",
        )
    if config.group_share_max_share_sessions < config.group_share_max_size:
        raise ConfigError(
            "group.share.max.share.sessions",
            f"{config.group_share_max_share_sessions} is below group.share.max.size ="
            f" {config.group_share_max_size}",
        )
