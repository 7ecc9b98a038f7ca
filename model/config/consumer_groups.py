"""What a broker's group.consumer.* settings must obey (GroupCoordinatorConfig, KIP-848)."""

from __future__ import annotations

from typing import Protocol

from kafkasim.model.config.base import ConfigError

MIGRATION_POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
REBALANCE_PROTOCOLS = ("classic", "consumer", "share")
ASSIGNORS = ("uniform", "range")
"""Kafka's own; a broker of Kafka also loads classes of other names."""


class ConsumerGroupSettings(Protocol):
    """The settings that are checked together."""

    @property
    def group_coordinator_rebalance_protocols(self) -> tuple[str, ...]: ...
    @property
    def group_consumer_session_timeout_ms(self) -> int: ...
    @property
    def group_consumer_min_session_timeout_ms(self) -> int: ...
    @property
    def group_consumer_max_session_timeout_ms(self) -> int: ...
    @property
    def group_consumer_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_consumer_min_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_consumer_max_heartbeat_interval_ms(self) -> int: ...
    @property
    def group_consumer_assignors(self) -> tuple[str, ...]: ...


def validate_consumer_groups(config: ConsumerGroupSettings) -> None:
    """Check the protocols, the assignors, and that the timeouts are within their bounds.

    Raises:
        ConfigError: a name is unknown, or a timeout is out of its own bounds.
    """
    key = "group.coordinator.rebalance.protocols"
    for protocol in config.group_coordinator_rebalance_protocols:
        if protocol not in REBALANCE_PROTOCOLS:
            raise ConfigError(key, f"{protocol!r} is not one of {', '.join(REBALANCE_PROTOCOLS)}")
    if "classic" not in config.group_coordinator_rebalance_protocols:
        raise ConfigError(key, "must contain classic")
    if not config.group_consumer_assignors:
        raise ConfigError("group.consumer.assignors", "must not be empty")
    for assignor in config.group_consumer_assignors:
        if assignor not in ASSIGNORS:
            raise ConfigError(
                "group.consumer.assignors", f"{assignor!r} is not one of {', '.join(ASSIGNORS)}"
            )
    _check_range(
        "session.timeout.ms",
        config.group_consumer_min_session_timeout_ms,
        config.group_consumer_session_timeout_ms,
        config.group_consumer_max_session_timeout_ms,
    )
    _check_range(
        "heartbeat.interval.ms",
        config.group_consumer_min_heartbeat_interval_ms,
        config.group_consumer_heartbeat_interval_ms,
        config.group_consumer_max_heartbeat_interval_ms,
    )


def _check_range(name: str, low: int, current: int, high: int) -> None:
    if high < low:
        minimum = f"group.consumer.min.{name}"
        raise ConfigError(f"group.consumer.max.{name}", f"{high} is below {minimum} = {low}")
    if not low <= current <= high:
        raise ConfigError(f"group.consumer.{name}", f"{current} is not from {low} to {high}")
