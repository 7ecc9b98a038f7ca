"""Configurations under Kafka's property names, with Kafka's defaults, validated once.

A field is the property name with dots as underscores (``replica.lag.time.max.ms`` is
``replica_lag_time_max_ms``); units are Kafka's. ``from_properties`` takes Kafka's names and raises
:class:`ConfigError` naming the key and what is allowed. Defaults are those of Kafka 4.0 unless
``kafka_version`` selects others (facts, section 0.1).

Keys that Kafka knows and this model does not are refused by :func:`unmodelled`'s callers, so that
nobody believes in a setting without effect.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self, get_type_hints

from kafkasim.model.directories import problem

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
RACK_AWARE = (
    "RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
IBP_VERSIONS = (
    "2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7",
    "3.8", "3.9",
)  # fmt: skip


class ConfigError(ValueError):
    """A configuration is wrong: ``key`` is Kafka's property name."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(key, message)
        self.key = key
        self.message = message

    def __str__(self) -> str:
        return f"{self.key}: {self.message}"


def setting(
    default: Any,
    low: float | None = None,
    high: float | None = None,
    allowed: tuple[Any, ...] | None = None,
) -> Any:
    """A field with its allowed range or values."""
    return field(default=default, metadata={"low": low, "high": high, "allowed": allowed})


@dataclass(frozen=True)
class Config:
    """Base: parsing and validation by the fields' types and ranges."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """Build from Kafka's property names; values may be strings as in a properties file.

        Raises:
            ConfigError: unknown key, wrong type, or out of range.
        """
        known = {f.name.replace("_", "."): f.name for f in fields(cls)}
        hints = _hints(cls)
        values: dict[str, Any] = {}
        for key, raw in properties.items():
            name = known.get(key)
            if name is None:
                raise ConfigError(key, _unknown(key, sorted(known)))
            values[name] = _parse(key, raw, hints[name])
        return cls(**values)

    def with_properties(self, properties: Mapping[str, Any]) -> Self:
        """Return a copy with some keys replaced."""
        return type(self).from_properties({**self.properties(), **properties})

    def properties(self) -> dict[str, Any]:
        """Return all keys under Kafka's names."""
        return {f.name.replace("_", "."): getattr(self, f.name) for f in fields(self)}

    def __post_init__(self) -> None:
        for f in fields(self):
            current = getattr(self, f.name)
            key = f.name.replace("_", ".")
            low, high = f.metadata.get("low"), f.metadata.get("high")
            allowed = f.metadata.get("allowed")
            if allowed is not None and current not in allowed:
                raise ConfigError(key, f"{current!r} is not one of {', '.join(map(str, allowed))}")
            if low is not None and current < low:
                raise ConfigError(key, f"{current} is below {low}")
            if high is not None and current > high:
                raise ConfigError(key, f"{current} is above {high}")
        self.validate()

    def validate(self) -> None:
        """Check what concerns several keys at once."""


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(config: type) -> dict[str, Any]:
    """Return the fields' types, worked out once for each class."""
    known = _HINTS.get(config)
    if known is None:
        known = _HINTS[config] = get_type_hints(config)
    return known


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, n=3, cutoff=0.5)
    if near:
        return f"unknown key; did you mean {' or '.join(near)}?"
    return f"unknown key; allowed: {', '.join(known)}"


def _parse(key: str, raw: Any, hint: Any) -> Any:
    if hint is bool:
        if isinstance(raw, bool):
            return raw
        if raw in ("true", "false"):
            return raw == "true"
        raise ConfigError(key, f"{raw!r} is neither true nor false")
    if hint is int or hint is float:
        if isinstance(raw, bool) or not isinstance(raw, int | float | str):
            raise ConfigError(key, f"{raw!r} is not a number")
        try:
            return hint(raw)
        except ValueError:
            raise ConfigError(key, f"{raw!r} is not a number") from None
    if isinstance(raw, list | tuple):
        return tuple(raw)
    if hint == tuple[str, ...]:
        return tuple(part.strip() for part in str(raw).split(",") if part.strip())
    if raw is not None and not isinstance(raw, str):
        raise ConfigError(key, f"{raw!r} is not a string")
    return raw


@dataclass(frozen=True)
class TopicConfig(Config):
    """Topic-level settings (LogConfig)."""

    cleanup_policy: str = setting("delete", allowed=("delete", "compact", "compact,delete"))
    min_insync_replicas: int = setting(1, 1)
    unclean_leader_election_enable: bool = setting(False)
    segment_bytes: int = setting(1073741824, 14)
    segment_ms: int = setting(604800000, 1)
    retention_ms: int = setting(604800000, -1)
    retention_bytes: int = setting(-1, -1)
    index_interval_bytes: int = setting(4096, 0)
    flush_messages: int = setting(MAX_LONG, 1)
    flush_ms: int = setting(MAX_LONG, 0)
    max_message_bytes: int = setting(1048588, 0)
    message_timestamp_type: str = setting("CreateTime", allowed=TIMESTAMP_TYPES)
    message_timestamp_before_max_ms: int = setting(MAX_LONG, 0)
    message_timestamp_after_max_ms: int = setting(3600000, 0)  # KIP-1030; before: MAX_LONG
    file_delete_delay_ms: int = setting(60000, 0)
    leader_replication_throttled_replicas: str = setting("")
    follower_replication_throttled_replicas: str = setting("")


@dataclass(frozen=True)
class BrokerConfig(Config):
    """Settings of a broker (and, in combined mode, of its controller)."""

    # Replication
    replica_lag_time_max_ms: int = setting(30000, 1)
    replica_fetch_wait_max_ms: int = setting(500, 0)
    replica_fetch_min_bytes: int = setting(1, 0)
    replica_fetch_max_bytes: int = setting(1048576, 0)
    replica_fetch_response_max_bytes: int = setting(10485760, 0)
    replica_fetch_backoff_ms: int = setting(1000, 0)
    replica_socket_timeout_ms: int = setting(30000, 1)
    num_replica_fetchers: int = setting(1, 1)
    replica_high_watermark_checkpoint_interval_ms: int = setting(5000, 1)
    leader_replication_throttled_rate: int = setting(MAX_LONG, 0)
    follower_replication_throttled_rate: int = setting(MAX_LONG, 0)
    replica_selector_class: str = setting("", allowed=("", *RACK_AWARE))
    min_insync_replicas: int = setting(1, 1)
    default_replication_factor: int = setting(1, 1)
    num_partitions: int = setting(1, 1)
    unclean_leader_election_enable: bool = setting(False)
    auto_create_topics_enable: bool = setting(True)
    # "" is the newest. Below 2.7 followers truncate by OffsetsForLeaderEpoch before they fetch.
    inter_broker_protocol_version: str = setting("", allowed=("", *IBP_VERSIONS))
    # Broker and controller
    broker_session_timeout_ms: int = setting(9000, 1)
    broker_heartbeat_interval_ms: int = setting(2000, 1)
    initial_broker_registration_timeout_ms: int = setting(60000, 1)
    request_timeout_ms: int = setting(30000, 1)
    fetch_max_bytes: int = setting(57671680, 1024)
    controlled_shutdown_enable: bool = setting(True)
    controlled_shutdown_max_retries: int = setting(3, 0)
    controlled_shutdown_retry_backoff_ms: int = setting(5000, 0)
    zookeeper_session_timeout_ms: int = setting(18000, 1)
    auto_leader_rebalance_enable: bool = setting(True)
    leader_imbalance_per_broker_percentage: int = setting(10, 0)
    leader_imbalance_check_interval_seconds: int = setting(300, 1)
    unclean_leader_election_interval_ms: int = setting(300000, 1)
    num_io_threads: int = setting(8, 1)
    num_network_threads: int = setting(3, 1)
    queued_max_requests: int = setting(500, 1)
    # Quorum
    controller_quorum_election_timeout_ms: int = setting(1000, 1)
    controller_quorum_fetch_timeout_ms: int = setting(2000, 1)
    controller_quorum_election_backoff_max_ms: int = setting(1000, 0)
    controller_quorum_append_linger_ms: int = setting(25, 0)
    controller_quorum_request_timeout_ms: int = setting(2000, 1)
    controller_quorum_retry_backoff_ms: int = setting(20, 0)
    metadata_max_idle_interval_ms: int = setting(500, 0)
    metadata_log_max_record_bytes_between_snapshots: int = setting(20971520, 1)
    metadata_log_max_snapshot_interval_ms: int = setting(3600000, 0)
    metadata_log_segment_bytes: int = setting(1073741824, 14)
    metadata_log_segment_ms: int = setting(604800000, 1)
    metadata_max_retention_bytes: int = setting(104857600, -1)
    metadata_max_retention_ms: int = setting(604800000, -1)
    log_dirs: tuple[str, ...] = setting(())
    metadata_log_dir: str = setting("")
    log_dir_failure_timeout_ms: int = setting(30000, 1)
    # Log: defaults of topics
    log_segment_bytes: int = setting(1073741824, 14)
    log_roll_ms: int = setting(604800000, 1)
    log_retention_ms: int = setting(604800000, -1)
    log_retention_bytes: int = setting(-1, -1)
    log_index_interval_bytes: int = setting(4096, 0)
    log_flush_interval_messages: int = setting(MAX_LONG, 1)
    log_flush_interval_ms: int = setting(MAX_LONG, 0)
    log_flush_offset_checkpoint_interval_ms: int = setting(60000, 0)
    log_segment_delete_delay_ms: int = setting(60000, 0)
    log_retention_check_interval_ms: int = setting(300000, 1)
    message_max_bytes: int = setting(1048588, 0)
    log_message_timestamp_type: str = setting("CreateTime", allowed=TIMESTAMP_TYPES)
    log_message_timestamp_before_max_ms: int = setting(MAX_LONG, 0)
    log_message_timestamp_after_max_ms: int = setting(3600000, 0)
    # Groups
    group_min_session_timeout_ms: int = setting(6000, 0)
    group_max_session_timeout_ms: int = setting(1800000, 0)
    group_initial_rebalance_delay_ms: int = setting(3000, 0)
    group_max_size: int = setting(MAX_INT, 1)
    # 4.0's default (3.9 and trunk of 2024: 10). The coordinator does not batch its appends: see
    # model.group.runtime; any value counts as 0.
    group_coordinator_append_linger_ms: int = setting(5, 0)
    offsets_topic_num_partitions: int = setting(50, 1)
    offsets_topic_replication_factor: int = setting(3, 1)
    offsets_topic_segment_bytes: int = setting(104857600, 1)
    offsets_retention_minutes: int = setting(10080, 1)
    offsets_retention_check_interval_ms: int = setting(600000, 1)
    offsets_commit_timeout_ms: int = setting(5000, 1)
    offset_metadata_max_bytes: int = setting(4096, 0)
    # Idempotence
    producer_id_expiration_ms: int = setting(86400000, 1)
    producer_id_expiration_check_interval_ms: int = setting(600000, 1)

    @property
    def truncation_on_fetch(self) -> bool:
        """Whether inter.broker.protocol.version has truncation by Fetch (IBP_2_7_IV1)."""
        return self.inter_broker_protocol_version not in ("2.4", "2.5", "2.6")

    alter_partition_enabled = truncation_on_fetch
    """Whether leaders ask the controller to change ISRs (IBP_2_7_IV2) or write the znodes."""

    @property
    def leader_recovery_supported(self) -> bool:
        """Whether an unclean leader is marked as RECOVERING (KIP-704, IBP_3_2_IV0)."""
        protocol = self.inter_broker_protocol_version
        return not protocol or IBP_VERSIONS.index(protocol) >= IBP_VERSIONS.index("3.2")

    def validate(self) -> None:
        """Check the log directories."""
        if (wrong := problem(self.log_dirs)) is not None:
            raise ConfigError("log.dirs", wrong)

    def metadata_log_config(self) -> TopicConfig:
        """Return the settings of the metadata log; snapshots are its retention (KIP-630)."""
        return TopicConfig(
            segment_bytes=self.metadata_log_segment_bytes,
            segment_ms=self.metadata_log_segment_ms,
            retention_ms=-1,
        )

    def topic_config(self, overrides: Mapping[str, Any]) -> TopicConfig:
        """Return a topic's settings: its own overrides above this broker's defaults."""
        defaults = {
            "min.insync.replicas": self.min_insync_replicas,
            "unclean.leader.election.enable": self.unclean_leader_election_enable,
            "segment.bytes": self.log_segment_bytes,
            "segment.ms": self.log_roll_ms,
            "retention.ms": self.log_retention_ms,
            "retention.bytes": self.log_retention_bytes,
            "index.interval.bytes": self.log_index_interval_bytes,
            "flush.messages": self.log_flush_interval_messages,
            "flush.ms": self.log_flush_interval_ms,
            "max.message.bytes": self.message_max_bytes,
            "message.timestamp.type": self.log_message_timestamp_type,
            "message.timestamp.before.max.ms": self.log_message_timestamp_before_max_ms,
            "message.timestamp.after.max.ms": self.log_message_timestamp_after_max_ms,
            "file.delete.delay.ms": self.log_segment_delete_delay_ms,
        }
        return TopicConfig.from_properties({**defaults, **overrides})


@dataclass(frozen=True)
class ClientConfig(Config):
    """What producer, consumer and admin share (CommonClientConfigs)."""

    client_id: str = setting("")
    client_rack: str = setting("")
    request_timeout_ms: int = setting(30000, 0)
    metadata_max_age_ms: int = setting(300000, 0)
    retry_backoff_ms: int = setting(100, 0)
    retry_backoff_max_ms: int = setting(1000, 0)
    reconnect_backoff_ms: int = setting(50, 0)
    reconnect_backoff_max_ms: int = setting(1000, 0)


@dataclass(frozen=True)
class ProducerConfig(ClientConfig):
    """Producer settings. ``acks``: 0, 1 or −1 (``all``)."""

    acks: str = setting("all", allowed=("all", "-1", "0", "1"))
    enable_idempotence: bool = setting(True)
    batch_size: int = setting(16384, 0)
    linger_ms: int = setting(5, 0)
    buffer_memory: int = setting(33554432, 0)
    max_block_ms: int = setting(60000, 0)
    max_request_size: int = setting(1048576, 0)
    max_in_flight_requests_per_connection: int = setting(5, 1)
    retries: int = setting(MAX_INT, 0)
    delivery_timeout_ms: int = setting(120000, 0)

    @property
    def acks_number(self) -> int:
        """``acks`` as on the wire: −1 for all."""
        return -1 if self.acks == "all" else int(self.acks)

    def validate(self) -> None:
        """Check idempotence's requirements and the delivery timeout, as ProducerConfig does."""
        least = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < least:
            raise ConfigError(
                "delivery.timeout.ms",
                f"{self.delivery_timeout_ms} is below linger.ms + request.timeout.ms = {least}",
            )
        if self.enable_idempotence:
            if self.acks_number != -1:
                raise ConfigError("acks", "must be all when enable.idempotence is true")
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigError(
                    "max.in.flight.requests.per.connection",
                    f"{self.max_in_flight_requests_per_connection} is above 5, the limit when"
                    " enable.idempotence is true",
                )
            if self.retries == 0:
                raise ConfigError("retries", "must be above 0 when enable.idempotence is true")


@dataclass(frozen=True)
class ConsumerConfig(ClientConfig):
    """Consumer settings of the classic group protocol."""

    group_id: str = setting("")
    group_instance_id: str | None = setting(None)
    session_timeout_ms: int = setting(45000, 1)
    heartbeat_interval_ms: int = setting(3000, 1)
    max_poll_interval_ms: int = setting(300000, 1)
    max_poll_records: int = setting(500, 1)
    enable_auto_commit: bool = setting(True)
    auto_commit_interval_ms: int = setting(5000, 0)
    auto_offset_reset: str = setting("latest", allowed=("latest", "earliest", "none"))
    isolation_level: str = setting(
        "read_uncommitted", allowed=("read_uncommitted", "read_committed")
    )
    fetch_min_bytes: int = setting(1, 0)
    fetch_max_wait_ms: int = setting(500, 0)
    fetch_max_bytes: int = setting(52428800, 0)
    max_partition_fetch_bytes: int = setting(1048576, 0)
    default_api_timeout_ms: int = setting(60000, 0)
    # Kafka: [range, cooperative-sticky] (KIP-726), of which the coordinator picks range as long as
    # all members list it first: the same rebalances, for the sticky assignor is not modelled.
    partition_assignment_strategy: tuple[str, ...] = setting(("range",))
    allow_auto_create_topics: bool = setting(True)

    def validate(self) -> None:
        """Check that heartbeats fit into the session."""
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                f"{self.heartbeat_interval_ms} is not below session.timeout.ms ="
                f" {self.session_timeout_ms}",
            )
        for name in self.partition_assignment_strategy:
            if name not in ("range", "roundrobin"):
                raise ConfigError(
                    "partition.assignment.strategy", f"{name!r} is not one of range, roundrobin"
                )
