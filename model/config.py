"""Configurations under Kafka's property names, with Kafka's defaults, checked at construction.

A field is the property name with underscores for dots: ``replica.lag.time.max.ms`` is
``replica_lag_time_max_ms``. The name has the unit: ``_ms`` milliseconds, ``_bytes`` bytes,
``_seconds`` and ``_minutes`` as they say. :meth:`Config.from_properties` takes Kafka's names.
Defaults are those of Kafka 4.0; a scenario's ``kafka-version`` selects others (KAFKA.md, 0.1).

A key that is no field is an error, so that nobody believes in a setting that has no effect. The few
fields without effect say why (``no_effect``), and a test proves that each other one is read.
"""

from __future__ import annotations

import difflib
import re
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
    """A setting is unknown or its value is not allowed; ``key`` is Kafka's property name."""

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
    no_effect: str = "",
) -> Any:
    """Return a field: its default, its range (inclusive) or values, why it may be read nowhere."""
    metadata = {"low": low, "high": high, "allowed": allowed, "no_effect": no_effect}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Config:
    """Base of all configurations: parses properties, checks types and ranges."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """Return the configuration with these properties, and defaults for all others.

        Keys are Kafka's names; values may be strings, as in a properties file.

        Raises:
            ConfigError: a key is unknown, or its value has a wrong type or is out of range.
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
        """Return a copy with some properties replaced.

        Raises:
            ConfigError: as in :meth:`from_properties`.
        """
        return type(self).from_properties({**self.properties(), **properties})

    def properties(self) -> dict[str, Any]:
        """Return all settings under Kafka's names."""
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
        """Check rules between several settings.

        Raises:
            ConfigError: a rule is broken.
        """


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
        return _parse_number(key, raw, hint)
    if hint == tuple[str, ...]:
        parts = raw if isinstance(raw, list | tuple) else str(raw).split(",")
        if not all(isinstance(part, str) for part in parts):
            raise ConfigError(key, f"{raw!r} is not a list of strings")
        return tuple(part.strip() for part in parts if part.strip())
    if raw is not None and not isinstance(raw, str):
        raise ConfigError(key, f"{raw!r} is not a string")
    return raw


def _parse_number(key: str, raw: Any, hint: type) -> int | float:
    """Return a number as ConfigDef.parseType reads INT, LONG and DOUBLE: spaces around are fine.

    Raises:
        ConfigError: it is none, an integer with a fraction, infinite, or longer than 64 bits.
    """
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ConfigError(key, f"{raw!r} is not a number")
    if isinstance(raw, str) and not _NUMBER.fullmatch(raw.strip()):
        raise ConfigError(key, f"{raw[:40]!r} is not a number")
    try:
        number = hint(raw)
    except (ValueError, OverflowError):  # "1.5" for an integer, an infinity, too many digits
        raise ConfigError(key, f"{str(raw)[:40]!r} is not {_NAMES[hint]}") from None
    if hint is int and number != raw and not isinstance(raw, str):
        raise ConfigError(key, f"{raw!r} is not an integer")
    if not -MAX_LONG - 1 <= number <= MAX_LONG:  # nan, too
        raise ConfigError(key, "the number does not fit 64 bits")
    return number  # type: ignore[no-any-return]


_NAMES = {int: "an integer", float: "a number"}
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class TopicConfig(Config):
    """The settings of a topic (LogConfig)."""

    # There is no cleaner: "compact" keeps all records.
    cleanup_policy: str = setting("delete", allowed=("delete", "compact", "compact,delete"))
    min_insync_replicas: int = setting(1, 1)  # ISR size below which acks=all is refused
    unclean_leader_election_enable: bool = setting(False)  # may a replica outside ISR and ELR lead?
    segment_bytes: int = setting(1073741824, 14)  # size at which a segment is rolled
    segment_ms: int = setting(604800000, 1)  # age at which a segment is rolled
    retention_ms: int = setting(604800000, -1)  # age of deleted segments; −1 unlimited
    retention_bytes: int = setting(-1, -1)  # log size above which segments go; −1 unlimited
    index_interval_bytes: int = setting(4096, 0)  # log bytes between two index entries
    flush_messages: int = setting(MAX_LONG, 1)  # records between two flushes
    flush_ms: int = setting(MAX_LONG, 0)  # time between two flushes
    max_message_bytes: int = setting(1048588, 0)  # largest batch that the leader appends
    message_timestamp_type: str = setting("CreateTime", allowed=TIMESTAMP_TYPES)  # who sets it
    message_timestamp_before_max_ms: int = setting(MAX_LONG, 0)  # how old a CreateTime may be
    message_timestamp_after_max_ms: int = setting(3600000, 0)  # KIP-1030; before: MAX_LONG
    file_delete_delay_ms: int = setting(60000, 0)  # until a deleted segment's file goes
    leader_replication_throttled_replicas: str = setting("")  # "*" or partition:broker,…
    follower_replication_throttled_replicas: str = setting("")  # the same, when fetched


@dataclass(frozen=True)
class BrokerConfig(Config):
    """The settings of a broker or of a KRaft controller."""

    # Replication
    replica_lag_time_max_ms: int = setting(30000, 1)  # a follower behind for longer leaves the ISR
    replica_fetch_wait_max_ms: int = setting(500, 0)  # how long a leader may park a fetch
    replica_fetch_min_bytes: int = setting(1, 0)  # a parked fetch is answered from this size on
    replica_fetch_max_bytes: int = setting(1048576, 0)  # of one partition in a response
    replica_fetch_response_max_bytes: int = setting(10485760, 0)  # of a whole response
    replica_fetch_backoff_ms: int = setting(1000, 0)  # pause of a partition after an error
    replica_socket_timeout_ms: int = setting(30000, 1)  # request timeout of a fetcher
    num_replica_fetchers: int = setting(1, 1)  # fetchers for each broker that is followed
    replica_high_watermark_checkpoint_interval_ms: int = setting(5000, 1)  # period
    leader_replication_throttled_rate: int = setting(MAX_LONG, 0)  # bytes/s to followers
    follower_replication_throttled_rate: int = setting(MAX_LONG, 0)  # bytes/s from leaders
    replica_selector_class: str = setting("", allowed=("", *RACK_AWARE))  # KIP-392
    min_insync_replicas: int = setting(1, 1)  # default of topics, as are the next three
    default_replication_factor: int = setting(1, 1)
    num_partitions: int = setting(1, 1)
    unclean_leader_election_enable: bool = setting(False)
    auto_create_topics_enable: bool = setting(True)  # does a Metadata request create topics?
    # "": the newest. Below 2.7 a follower asks OffsetsForLeaderEpoch where to truncate.
    inter_broker_protocol_version: str = setting("", allowed=("", *IBP_VERSIONS))
    # Broker and controller
    broker_session_timeout_ms: int = setting(9000, 1)  # fenced after this without heartbeats
    broker_heartbeat_interval_ms: int = setting(2000, 1)  # between two heartbeats to the controller
    initial_broker_registration_timeout_ms: int = setting(60000, 1)  # to register, or halt
    request_timeout_ms: int = setting(30000, 1)  # of requests between servers
    fetch_max_bytes: int = setting(57671680, 1024)  # of a whole response, whatever the client asks
    controlled_shutdown_enable: bool = setting(True)  # before a clean stop, move leaderships
    controlled_shutdown_max_retries: int = setting(3, 0)  # attempts at a controlled shutdown
    controlled_shutdown_retry_backoff_ms: int = setting(5000, 0)  # between two of them
    zookeeper_session_timeout_ms: int = setting(18000, 1)  # requested by brokers
    auto_leader_rebalance_enable: bool = setting(True)  # elect preferred leaders periodically
    leader_imbalance_per_broker_percentage: int = setting(10, 0)  # of leaderships lost; accepted
    leader_imbalance_check_interval_seconds: int = setting(300, 1)  # period of that check
    unclean_leader_election_interval_ms: int = setting(300000, 1)  # period, in KRaft mode
    num_io_threads: int = setting(8, 1)  # request handlers
    num_network_threads: int = setting(3, 1, no_effect="the network threads cost no time")
    queued_max_requests: int = setting(500, 1)  # a full queue stops the network threads
    # Quorum
    controller_quorum_election_timeout_ms: int = setting(1000, 1)  # of a vote, with jitter
    controller_quorum_fetch_timeout_ms: int = setting(2000, 1)  # then a follower asks for votes
    controller_quorum_election_backoff_max_ms: int = setting(1000, 0)  # after a lost election
    controller_quorum_append_linger_ms: int = setting(25, 0)  # to gather records in a batch
    controller_quorum_request_timeout_ms: int = setting(2000, 1)  # of requests within the quorum
    controller_quorum_retry_backoff_ms: int = setting(20, 0)  # after a failed request
    metadata_max_idle_interval_ms: int = setting(500, 0)  # between no-op records; 0: none
    metadata_log_max_record_bytes_between_snapshots: int = setting(20971520, 1)  # size
    metadata_log_max_snapshot_interval_ms: int = setting(3600000, 0)  # or age; 0: by size only
    metadata_log_segment_bytes: int = setting(1073741824, 14)  # size at which a segment is rolled
    metadata_log_segment_ms: int = setting(604800000, 1)  # age at which a segment is rolled
    metadata_max_retention_bytes: int = setting(104857600, -1)  # log and snapshots; −1 unlimited
    metadata_max_retention_ms: int = setting(604800000, -1)  # of snapshots; −1 unlimited
    log_dirs: tuple[str, ...] = setting(())  # paths; none or one: a single directory
    metadata_log_dir: str = setting("")  # "": the first of log.dirs
    log_dir_failure_timeout_ms: int = setting(30000, 1)  # to report it to the controller, or halt
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
    group_min_session_timeout_ms: int = setting(6000, 0)  # of classic members
    group_max_session_timeout_ms: int = setting(1800000, 0)
    group_initial_rebalance_delay_ms: int = setting(3000, 0)  # for the members of a new group
    group_max_size: int = setting(MAX_INT, 1)  # members of a group
    offsets_topic_num_partitions: int = setting(50, 1)
    offsets_topic_replication_factor: int = setting(3, 1)
    offsets_topic_segment_bytes: int = setting(104857600, 1)  # size at which a segment is rolled
    offsets_retention_minutes: int = setting(10080, 1)  # of offsets that nobody uses
    offsets_retention_check_interval_ms: int = setting(600000, 1)  # period of that expiry
    offsets_commit_timeout_ms: int = setting(5000, 1)  # to replicate a coordinator's write
    offset_metadata_max_bytes: int = setting(4096, 0)  # of the string beside an offset
    # Idempotence
    producer_id_expiration_ms: int = setting(86400000, 1)  # a producer's state is forgotten
    producer_id_expiration_check_interval_ms: int = setting(600000, 1)  # period of that check

    @property
    def truncation_on_fetch(self) -> bool:
        """Whether followers find where to truncate by Fetch responses (IBP_2_7_IV1)."""
        return self.inter_broker_protocol_version not in ("2.4", "2.5", "2.6")

    alter_partition_enabled = truncation_on_fetch
    """Whether leaders change ISRs by AlterPartition (IBP_2_7_IV2); else they write the znodes."""

    @property
    def leader_recovery_supported(self) -> bool:
        """Whether an unclean leader is marked as RECOVERING (KIP-704, IBP_3_2_IV0)."""
        protocol = self.inter_broker_protocol_version
        return not protocol or IBP_VERSIONS.index(protocol) >= IBP_VERSIONS.index("3.2")

    def validate(self) -> None:
        """Check the log directories.

        Raises:
            ConfigError: log.dirs has a bad path, or one directory inside another.
        """
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
        """Return a topic's settings: its overrides, and this broker's defaults for the rest.

        Raises:
            ConfigError: an override is unknown or not allowed.
        """
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
    """The settings that producer, consumer and admin client share (CommonClientConfigs)."""

    client_id: str = setting("")  # prefix of member ids
    client_rack: str = setting("")  # for fetches from the nearest replica (KIP-392)
    request_timeout_ms: int = setting(30000, 0)  # of each request
    metadata_max_age_ms: int = setting(300000, 0)  # then metadata is refreshed
    retry_backoff_ms: int = setting(100, 0)  # before the first retry; doubles
    retry_backoff_max_ms: int = setting(1000, 0)  # up to this
    reconnect_backoff_ms: int = setting(50, 0)  # before the first new connection; doubles
    reconnect_backoff_max_ms: int = setting(1000, 0)  # up to this


@dataclass(frozen=True)
class ProducerConfig(ClientConfig):
    """The settings of a producer."""

    acks: str = setting("all", allowed=("all", "-1", "0", "1"))  # all: the whole ISR
    enable_idempotence: bool = setting(True)  # sequence numbers: no duplicates, in order
    batch_size: int = setting(16384, 0)  # bytes of a batch
    linger_ms: int = setting(5, 0)  # how long a batch waits for more records
    buffer_memory: int = setting(33554432, 0)  # bytes of all unsent batches
    max_block_ms: int = setting(60000, 0)  # of send(), for metadata or memory
    max_request_size: int = setting(1048576, 0)  # bytes of a request or a record
    max_in_flight_requests_per_connection: int = setting(5, 1)  # unanswered at a time
    retries: int = setting(MAX_INT, 0)  # of a batch
    delivery_timeout_ms: int = setting(120000, 0)  # from send() to the end of retries

    @property
    def acks_number(self) -> int:
        """``acks`` as in a Produce request: −1 stands for all."""
        return -1 if self.acks == "all" else int(self.acks)

    def validate(self) -> None:
        """Check the delivery timeout and what idempotence needs (ProducerConfig.postProcess…).

        Raises:
            ConfigError: the delivery timeout is too short, or idempotence lacks a condition.
        """
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
    """The settings of a consumer of the classic group protocol."""

    group_id: str = setting("")  # "": no group
    group_instance_id: str | None = setting(None)  # of a static member (KIP-345)
    session_timeout_ms: int = setting(45000, 1)  # without heartbeats the member is removed
    heartbeat_interval_ms: int = setting(3000, 1)  # between two heartbeats
    max_poll_interval_ms: int = setting(300000, 1)  # without poll() the member leaves
    max_poll_records: int = setting(500, 1)  # of one poll()
    enable_auto_commit: bool = setting(True)  # commit in poll() and close()
    auto_commit_interval_ms: int = setting(5000, 0)  # between two such commits
    auto_offset_reset: str = setting("latest", allowed=("latest", "earliest", "none"))
    isolation_level: str = setting(
        "read_uncommitted", allowed=("read_uncommitted", "read_committed")
    )
    fetch_min_bytes: int = setting(1, 0)  # a parked fetch is answered from this size on
    fetch_max_wait_ms: int = setting(500, 0)  # how long a broker may park a fetch
    fetch_max_bytes: int = setting(52428800, 0)  # of a whole response
    max_partition_fetch_bytes: int = setting(1048576, 0)  # of one partition in a response
    default_api_timeout_ms: int = setting(60000, 0)  # of calls without a timeout of their own
    # Kafka's default is [range, cooperative-sticky] (KIP-726), of which a group uses range while
    # all members list it first. The sticky assignor is not modelled.
    partition_assignment_strategy: tuple[str, ...] = setting(("range",))
    allow_auto_create_topics: bool = setting(True)  # by Metadata requests

    def validate(self) -> None:
        """Check the heartbeat interval and the assignors.

        Raises:
            ConfigError: a session has no room for a heartbeat, or an assignor is not modelled.
        """
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
