"""The settings of topics, brokers and KRaft controllers.

Since 4.1 a topic's segment.bytes is 1 MiB at least (KIP-1030), and Kafka's tests roll small
segments by internal.segment.bytes; :func:`check_segment_bytes` knows both rules. Left out: the
bound of metadata.log.segment.bytes, which may be less than 8 MiB here. Kafka has no setting for
small segments of internal topics: with offsets.topic.segment.bytes below 1 MiB, brokers of 4.1
cannot create __consumer_offsets. Here they create it with internal.segment.bytes instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from kafkasim.model.config.base import (
    MAX_INT,
    MAX_LONG,
    MAX_SHORT,
    Config,
    ConfigError,
    long,
    setting,
)
from kafkasim.model.config.consumer_groups import MIGRATION_POLICIES, validate_consumer_groups
from kafkasim.model.config.share_groups import validate_share_groups
from kafkasim.model.directories import problem

CLEANUP_POLICIES = ("delete", "compact", "compact,delete", "delete,compact", "")
COMPRESSION_TYPES = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
RACK_AWARE = (
    "RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"  # in KRaft mode
ACL_AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"  # in ZooKeeper mode
AUTHORIZERS = (STANDARD_AUTHORIZER, ACL_AUTHORIZER)
IBP_VERSIONS = (
    "2.4-IV0", "2.4-IV1", "2.5-IV0", "2.6-IV0", "2.7-IV0", "2.7-IV1", "2.7-IV2", "2.8-IV0",
    "2.8-IV1", "3.0-IV0", "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2",
    "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2",
    "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0",
)  # fmt: skip
"""Values of inter.broker.protocol.version that are modelled, oldest first (MetadataVersion)."""

LEAST_SEGMENT_BYTES = 1024 * 1024
"""Of log.segment.bytes since 4.0, and of a topic's segment.bytes since 4.1 (KIP-1030)."""

_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")


def ibp(text: str) -> str:
    """Return which of ``IBP_VERSIONS`` a value of inter.broker.protocol.version means.

    Of ``2.8.0`` the first two parts count, and ``2.8`` is the last of 2.8
    (MetadataVersion.fromVersionString).

    Raises:
        ConfigError: it means none of them.
    """
    short = ".".join(text.split(".")[:2])
    found = [each for each in IBP_VERSIONS if short in (each, each.partition("-")[0])]
    if not found:
        raise ConfigError(
            "inter.broker.protocol.version",
            f"{text!r} is not modelled; allowed: {IBP_VERSIONS[0]} to {IBP_VERSIONS[-1]}, also as"
            " 2.8 or 2.8.0",
        )
    return found[-1]


@dataclass(frozen=True)
class TopicConfig(Config):
    """The settings of a topic (LogConfig)."""

    kind: ClassVar[str] = "topic"

    cleanup_policy: str = setting("delete", allowed=CLEANUP_POLICIES)
    compression_type: str = setting("producer", allowed=COMPRESSION_TYPES)  # of the leader's log
    min_insync_replicas: int = setting(1, 1)  # ISR size below which acks=all is refused
    unclean_leader_election_enable: bool = setting(False)  # may a replica outside ISR and ELR lead?
    segment_bytes: int = setting(1073741824, 14)  # size at which a segment is rolled
    internal_segment_bytes: int = setting(0, 0)  # the same, for tests; 0: segment.bytes counts
    segment_ms: int = long(604800000, 1)  # age at which a segment is rolled
    retention_ms: int = long(604800000, -1)  # age of deleted segments; −1 unlimited
    retention_bytes: int = long(-1, -1)  # log size above which segments go; −1 unlimited
    index_interval_bytes: int = setting(4096, 0)  # log bytes between two index entries
    flush_messages: int = long(MAX_LONG, 1)  # records between two flushes
    flush_ms: int = long(MAX_LONG, 0)  # time between two flushes
    max_message_bytes: int = setting(1048588, 0)  # largest batch that the leader appends
    message_timestamp_type: str = setting("CreateTime", allowed=TIMESTAMP_TYPES)  # who sets it
    message_timestamp_before_max_ms: int = long(MAX_LONG, 0)  # how old a CreateTime may be
    message_timestamp_after_max_ms: int = long(3600000, 0)  # KIP-1030; before: MAX_LONG
    file_delete_delay_ms: int = long(60000, 0)  # of logs; of segments it keeps the room
    min_cleanable_dirty_ratio: float = setting(0.5, 0, 1)  # above it a compacted log is cleaned
    min_compaction_lag_ms: int = long(0, 0)  # for which no record is removed by the cleaner
    max_compaction_lag_ms: int = long(MAX_LONG, 1)  # after which a log is cleaned at any ratio
    delete_retention_ms: int = long(86400000, 0)  # of a tombstone, from its first cleaning on
    leader_replication_throttled_replicas: str = setting("")  # "*" or partition:broker,…
    follower_replication_throttled_replicas: str = setting("")  # the same, when fetched

    @property
    def segment_size(self) -> int:
        """The size at which a segment is rolled (LogConfig.segmentSize)."""
        return self.internal_segment_bytes or self.segment_bytes

    @property
    def compacted(self) -> bool:
        """Whether the cleaner keeps of each key the last record."""
        return "compact" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled, so that the cleaner may have it in time
        (KIP-354, LogConfig.maxSegmentMs)."""
        return (
            min(self.max_compaction_lag_ms, self.segment_ms) if self.compacted else self.segment_ms
        )

    def validate(self) -> None:
        """Check the lists of throttled replicas and the two lags of compaction (LogConfig).

        Raises:
            ConfigError: a list is neither "*" nor partition:broker,…; the lags are contradictory.
        """
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                "min.compaction.lag.ms",
                f"{self.min_compaction_lag_ms} is above max.compaction.lag.ms ="
                f" {self.max_compaction_lag_ms}",
            )
        for end, text in (
            ("leader", self.leader_replication_throttled_replicas),
            ("follower", self.follower_replication_throttled_replicas),
        ):
            pairs = [each.strip() for each in text.split(",")]
            if pairs != ["*"] and not all(_THROTTLED.fullmatch(pair) for pair in pairs):
                key = f"{end}.replication.throttled.replicas"
                raise ConfigError(key, f"{text!r} is neither * nor partition:broker,…")


def check_segment_bytes(properties: Mapping[str, Any], internal: bool) -> None:
    """Check a topic's size of segments as a release of Kafka does.

    ``internal``: the release has internal.segment.bytes, and bounds segment.bytes. A bound of
    log.segment.bytes is another one (:func:`check_log_segment_bytes`).

    Raises:
        ConfigError: segment.bytes is too small, or internal.segment.bytes is unknown.
    """
    if not internal:
        if "internal.segment.bytes" in properties:
            raise ConfigError("internal.segment.bytes", "unknown key before Kafka 4.1")
    elif "segment.bytes" in properties:
        _check_least("segment.bytes", properties["segment.bytes"])


def check_log_segment_bytes(properties: Mapping[str, Any]) -> None:
    """Check the default of topics' segments as releases from 4.0 on do.

    Raises:
        ConfigError: log.segment.bytes is too small.
    """
    if "log.segment.bytes" in properties:
        _check_least("log.segment.bytes", properties["log.segment.bytes"])


def _check_least(key: str, given: Any) -> None:
    if int(given) < LEAST_SEGMENT_BYTES:
        raise ConfigError(key, f"{given} is below {LEAST_SEGMENT_BYTES}")


@dataclass(frozen=True)
class BrokerConfig(Config):
    """The settings of a broker or of a KRaft controller."""

    kind: ClassVar[str] = "broker"

    # Replication
    replica_lag_time_max_ms: int = long(30000, 1)  # a follower behind for longer leaves the ISR
    replica_fetch_wait_max_ms: int = setting(500, 0)  # how long a leader may park a fetch
    replica_fetch_min_bytes: int = setting(1, 0)  # a parked fetch is answered from this size on
    replica_fetch_max_bytes: int = setting(1048576, 0)  # of one partition in a response
    replica_fetch_response_max_bytes: int = setting(10485760, 0)  # of a whole response
    replica_fetch_backoff_ms: int = setting(1000, 0)  # pause of a partition after an error
    replica_socket_timeout_ms: int = setting(30000, 1)  # request timeout of a fetcher
    num_replica_fetchers: int = setting(1, 1)  # fetchers for each broker that is followed
    replica_high_watermark_checkpoint_interval_ms: int = long(5000, 1)  # period
    leader_replication_throttled_rate: int = long(MAX_LONG, 0)  # bytes/s to followers
    follower_replication_throttled_rate: int = long(MAX_LONG, 0)  # bytes/s from leaders
    replica_selector_class: str = setting("", allowed=("", *RACK_AWARE))  # KIP-392
    min_insync_replicas: int = setting(1, 1)  # default of topics, as are the next three
    default_replication_factor: int = setting(1, 1)
    num_partitions: int = setting(1, 1)
    unclean_leader_election_enable: bool = setting(False)
    auto_create_topics_enable: bool = setting(True)  # does a Metadata request create topics?
    # "": the newest. Below 2.7 a follower asks OffsetsForLeaderEpoch where to truncate. Not read in
    # KRaft mode.
    inter_broker_protocol_version: str = setting("")  # "": the release's own
    # Broker and controller
    quota_window_num: int = setting(11, 1)  # samples of a client's rate
    quota_window_size_seconds: int = setting(1, 1)  # of each
    replication_quota_window_num: int = setting(11, 1)  # the same, of throttled replicas
    replication_quota_window_size_seconds: int = setting(1, 1)
    controller_quota_window_num: int = setting(11, 1)  # windows that a token bucket holds
    controller_quota_window_size_seconds: int = setting(1, 1)
    broker_session_timeout_ms: int = setting(9000, 1)  # fenced after this without heartbeats
    broker_heartbeat_interval_ms: int = setting(2000, 1)  # between two heartbeats to the controller
    initial_broker_registration_timeout_ms: int = setting(60000, 1)  # to register, or halt
    request_timeout_ms: int = setting(30000, 1)  # of requests between servers
    fetch_max_bytes: int = setting(57671680, 1024)  # of a whole response, whatever the client asks
    max_incremental_fetch_session_cache_slots: int = setting(1000, 0)  # KIP-227
    controlled_shutdown_enable: bool = setting(True)  # before a clean stop, move leaderships
    controlled_shutdown_max_retries: int = setting(3, 0)  # attempts at a controlled shutdown
    controlled_shutdown_retry_backoff_ms: int = long(5000, 0)  # between two of them
    zookeeper_session_timeout_ms: int = setting(18000, 1)  # requested by brokers
    auto_leader_rebalance_enable: bool = setting(True)  # elect preferred leaders periodically
    leader_imbalance_per_broker_percentage: int = setting(10, 0)  # of leaderships lost; accepted
    leader_imbalance_check_interval_seconds: int = long(300, 1)  # period of that check
    unclean_leader_election_interval_ms: int = long(300000, 1)  # period, in KRaft mode
    num_io_threads: int = setting(8, 1)  # request handlers
    background_threads: int = setting(10, 1)  # of the KafkaScheduler: here, those that flush logs
    num_network_threads: int = setting(3, 1)  # of each listener; they read and answer in turn
    queued_max_requests: int = setting(500, 1)  # a full queue stalls the network threads
    max_connections: int = setting(MAX_INT, 0)  # of a broker: without a free slot new ones wait
    max_connections_per_ip: int = setting(MAX_INT, 0)  # more are closed
    max_connections_per_ip_overrides: str = setting("")  # host:count,…
    max_connection_creation_rate: int = setting(MAX_INT, 0)  # new ones a second; more wait
    connections_max_idle_ms: int = long(600000)  # then a connection is closed; negative: none is
    socket_listen_backlog_size: int = setting(50, 1)  # that wait for the acceptor
    # Quorum
    controller_quorum_election_timeout_ms: int = setting(1000, 1)  # of a vote, with jitter
    controller_quorum_fetch_timeout_ms: int = setting(2000, 1)  # then a follower asks for votes
    controller_quorum_election_backoff_max_ms: int = setting(1000, 0)  # after a lost election
    controller_quorum_append_linger_ms: int = setting(25, 0)  # to gather records in a batch
    controller_quorum_request_timeout_ms: int = setting(2000, 1)  # of requests within the quorum
    controller_quorum_retry_backoff_ms: int = setting(20, 0)  # after a failed request
    metadata_max_idle_interval_ms: int = setting(500, 0)  # between no-op records; 0: none
    metadata_log_max_record_bytes_between_snapshots: int = long(20971520, 1)  # size
    metadata_log_max_snapshot_interval_ms: int = long(3600000, 0)  # or age; 0: by size only
    metadata_log_segment_bytes: int = setting(1073741824, 14)  # size at which a segment is rolled
    metadata_log_segment_ms: int = long(604800000, 1)  # age at which a segment is rolled
    metadata_max_retention_bytes: int = long(104857600, -1)  # log and snapshots; −1 unlimited
    metadata_max_retention_ms: int = long(604800000, -1)  # of snapshots; −1 unlimited
    log_dirs: tuple[str, ...] = setting(())  # paths; none or one: a single directory
    metadata_log_dir: str = setting("")  # "": the first of log.dirs
    log_dir_failure_timeout_ms: int = long(30000, 1)  # to report it to the controller, or halt
    # Log: defaults of topics
    log_segment_bytes: int = setting(1073741824, 14)
    log_roll_ms: int = long(604800000, 1)
    log_retention_ms: int = long(604800000, -1)
    log_retention_bytes: int = long(-1, -1)
    log_index_interval_bytes: int = setting(4096, 0)
    log_flush_interval_messages: int = long(MAX_LONG, 1)
    log_flush_interval_ms: int = long(MAX_LONG, 0)  # by default as the next one
    log_flush_scheduler_interval_ms: int = long(MAX_LONG)  # between two looks at flush.ms
    log_flush_offset_checkpoint_interval_ms: int = setting(60000, 0)
    log_segment_delete_delay_ms: int = long(60000, 0)
    log_cleaner_min_cleanable_ratio: float = setting(0.5, 0, 1)
    log_cleaner_min_compaction_lag_ms: int = long(0, 0)
    log_cleaner_max_compaction_lag_ms: int = long(MAX_LONG, 1)
    log_cleaner_delete_retention_ms: int = long(86400000, 0)
    log_retention_check_interval_ms: int = long(300000, 1)
    # Retention, flusher and checkpoints begin so long after the start. 2.8 has no such property.
    log_initial_task_delay_ms: int = long(30000, 0)
    message_max_bytes: int = setting(1048588, 0)
    compression_type: str = setting("producer", allowed=COMPRESSION_TYPES)
    log_message_timestamp_type: str = setting("CreateTime", allowed=TIMESTAMP_TYPES)
    log_message_timestamp_before_max_ms: int = long(MAX_LONG, 0)
    log_message_timestamp_after_max_ms: int = long(3600000, 0)
    # The log cleaner
    log_cleaner_enable: bool = setting(True)  # are compacted topics cleaned?
    log_cleaner_threads: int = setting(1, 0)
    log_cleaner_backoff_ms: int = long(15000, 0)  # pause of a thread that had nothing to clean
    log_cleaner_dedupe_buffer_size: int = long(134217728)  # bytes for keys, of all threads
    log_cleaner_io_buffer_load_factor: float = setting(0.9)  # share of that buffer that is used
    # Groups
    group_min_session_timeout_ms: int = setting(6000, 0)  # of classic members
    group_max_session_timeout_ms: int = setting(1800000, 0)
    group_initial_rebalance_delay_ms: int = setting(3000, 0)  # for the members of a new group
    group_max_size: int = setting(MAX_INT, 1)  # members of a group
    group_coordinator_threads: int = setting(4, 1)  # that serve the partitions of groups
    group_coordinator_append_linger_ms: int = setting(5, 0)  # to gather writes in a batch
    # Consumer groups (KIP-848)
    group_coordinator_rebalance_protocols: tuple[str, ...] = setting(("classic", "consumer"))
    group_consumer_session_timeout_ms: int = setting(45000, 1)  # without heartbeats: fenced
    group_consumer_min_session_timeout_ms: int = setting(45000, 1)
    group_consumer_max_session_timeout_ms: int = setting(60000, 1)
    group_consumer_heartbeat_interval_ms: int = setting(5000, 1)  # that members are told
    group_consumer_min_heartbeat_interval_ms: int = setting(5000, 1)
    group_consumer_max_heartbeat_interval_ms: int = setting(15000, 1)
    group_consumer_max_size: int = setting(MAX_INT, 1)  # members of a group
    group_consumer_assignors: tuple[str, ...] = setting(("uniform", "range"))  # the first: default
    group_consumer_migration_policy: str = setting(
        "bidirectional",
        allowed=MIGRATION_POLICIES,
    )
    # Share groups (KIP-932)
    group_share_session_timeout_ms: int = setting(45000, 1)  # without heartbeats: fenced
    group_share_min_session_timeout_ms: int = setting(45000, 1)
    group_share_max_session_timeout_ms: int = setting(60000, 1)
    group_share_heartbeat_interval_ms: int = setting(5000, 1)  # that members are told
    group_share_min_heartbeat_interval_ms: int = setting(5000, 1)
    group_share_max_heartbeat_interval_ms: int = setting(15000, 1)
    group_share_max_size: int = setting(200, 1, 1000)  # members of a group
    group_share_assignors: str = setting("simple", allowed=("simple",), no_effect="the only one")
    group_share_delivery_count_limit: int = setting(5, 2, 10)  # then archived
    group_share_record_lock_duration_ms: int = setting(30000, 1000, 3600000)  # then released
    group_share_min_record_lock_duration_ms: int = setting(15000, 1000, 30000)
    group_share_max_record_lock_duration_ms: int = setting(60000, 30000, 3600000)
    group_share_partition_max_record_locks: int = setting(2000, 100, 10000)
    group_share_max_share_sessions: int = setting(2000, 1)  # of a broker
    # The state of share groups
    share_coordinator_state_topic_num_partitions: int = setting(50, 1)
    share_coordinator_state_topic_replication_factor: int = setting(3, 1, MAX_SHORT)
    share_coordinator_state_topic_min_isr: int = setting(2, 1, MAX_SHORT)
    share_coordinator_state_topic_segment_bytes: int = setting(104857600, 1)
    share_coordinator_threads: int = setting(1, 1)
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(500, 0)
    share_coordinator_write_timeout_ms: int = setting(5000, 1)
    share_coordinator_load_buffer_size: int = setting(5 * 1024 * 1024, 1)
    share_coordinator_append_linger_ms: int = setting(5, 0)
    share_coordinator_state_topic_prune_interval_ms: int = setting(300000, 1)
    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(300000, 1)
    # Transactions at the partitions (KIP-890)
    transaction_partition_verification_enable: bool = setting(True)  # leaders ask the coordinator
    add_partitions_to_txn_retry_backoff_ms: int = setting(20, 1)  # while it is busy, with version 2
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(100, 0)  # for that long at most
    # Committed offsets
    offsets_topic_num_partitions: int = setting(50, 1)
    offsets_topic_replication_factor: int = setting(3, 1, MAX_SHORT)
    offsets_topic_segment_bytes: int = setting(104857600, 1)  # size at which a segment is rolled
    offsets_retention_minutes: int = setting(10080, 1)  # of offsets that nobody uses
    offsets_retention_check_interval_ms: int = long(600000, 1)  # period of that expiry
    offsets_commit_timeout_ms: int = setting(5000, 1)  # to replicate a coordinator's write
    offsets_load_buffer_size: int = setting(5 * 1024 * 1024, 1)  # that a coordinator reads at once
    offset_metadata_max_bytes: int = setting(4096, 0)  # of the string beside an offset
    # Transactions
    transaction_max_timeout_ms: int = setting(900000, 1)  # the most that a producer may ask for
    transactional_id_expiration_ms: int = setting(604800000, 1)  # without use; then it is forgotten
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(10000, 1)  # period
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(3600000, 1)  # period
    transaction_state_log_num_partitions: int = setting(50, 1)
    transaction_state_log_replication_factor: int = setting(3, 1, MAX_SHORT)
    transaction_state_log_min_isr: int = setting(2, 1)
    transaction_state_log_segment_bytes: int = setting(104857600, 1)
    transaction_state_log_load_buffer_size: int = setting(5 * 1024 * 1024, 1)  # read at once
    # Access
    authorizer_class_name: str = setting("", allowed=("", *AUTHORIZERS))  # "": none
    super_users: str = setting("")  # User:alice;User:bob: what they may do is not checked
    allow_everyone_if_no_acl_found: bool = setting(False)  # of a resource without any entry
    # Idempotence
    producer_id_expiration_ms: int = setting(86400000, 1)  # a producer's state is forgotten
    producer_id_expiration_check_interval_ms: int = setting(600000, 1)  # period of that check

    @property
    def truncation_on_fetch(self) -> bool:
        """Whether followers find where to truncate by Fetch responses (IBP_2_7_IV1)."""
        return self._ibp_at_least("2.7-IV1")

    @property
    def alter_partition_enabled(self) -> bool:
        """Whether leaders change ISRs by AlterPartition (IBP_2_7_IV2); else they write znodes."""
        return self._ibp_at_least("2.7-IV2")

    @property
    def leader_recovery_supported(self) -> bool:
        """Whether an unclean leader is marked as RECOVERING (KIP-704, IBP_3_2_IV0)."""
        return self._ibp_at_least("3.2-IV0")

    @property
    def max_connections_of_ips(self) -> dict[str, int]:
        """The limits of max.connections.per.ip.overrides, by address.

        Raises:
            ConfigError: it is not ``host:count,…`` (KafkaConfig.getMap).
        """
        key, text = "max.connections.per.ip.overrides", self.max_connections_per_ip_overrides
        limits: dict[str, int] = {}
        for each in text.split(",") if text.strip() else ():
            host, _, count = each.strip().rpartition(":")
            if not host or not count.isdecimal():
                raise ConfigError(key, f"{text!r} is not host:count,…")
            limits[host] = int(count)
        return limits

    @property
    def super_user_names(self) -> tuple[str, ...]:
        """The principals of super.users."""
        return tuple([each.strip() for each in self.super_users.split(";") if each.strip()])

    def _ibp_at_least(self, least: str) -> bool:
        protocol = self.inter_broker_protocol_version
        return not protocol or IBP_VERSIONS.index(ibp(protocol)) >= IBP_VERSIONS.index(least)

    def validate(self) -> None:
        """Check the log directories and rules between settings (KafkaConfig.validateValues).

        Raises:
            ConfigError: log.dirs has a bad path, or one directory inside another;
                inter.broker.protocol.version is none that is modelled; records are
                retained for no time; the cleaner has no room for a key (Cleaner); a fetch may wait
                longer than its request or a replica may lag.
        """
        if (wrong := problem(self.log_dirs)) is not None:
            raise ConfigError("log.dirs", wrong)
        if self.inter_broker_protocol_version:
            ibp(self.inter_broker_protocol_version)
        if self.log_retention_ms == 0:
            raise ConfigError("log.retention.ms", "0 is neither −1 (unlimited) nor 1 or more")
        keys = self.log_cleaner_dedupe_buffer_size // 24 // max(self.log_cleaner_threads, 1)
        if self.log_cleaner_enable and keys * self.log_cleaner_io_buffer_load_factor <= 1:
            raise ConfigError("log.cleaner.dedupe.buffer.size", "too small for a single key")
        wait_ms = self.replica_fetch_wait_max_ms
        for key, limit_ms in (
            ("replica.socket.timeout.ms", self.replica_socket_timeout_ms),
            ("replica.lag.time.max.ms", self.replica_lag_time_max_ms),
        ):
            if limit_ms < wait_ms:
                raise ConfigError(key, f"{limit_ms} is below replica.fetch.wait.max.ms = {wait_ms}")
        for name in self.super_user_names:
            if ":" not in name:
                raise ConfigError("super.users", f"{name!r} is not TYPE:NAME, e.g. User:alice")
        overrides = self.max_connections_of_ips
        if not self.max_connections_per_ip and not overrides:
            key = "max.connections.per.ip"
            raise ConfigError(key, "0 is allowed only with max.connections.per.ip.overrides")
        validate_consumer_groups(self)
        validate_share_groups(self)

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
            "compression.type": self.compression_type,
            "min.insync.replicas": self.min_insync_replicas,
            "unclean.leader.election.enable": self.unclean_leader_election_enable,
            "segment.bytes": self.log_segment_bytes,
            "segment.ms": self.log_roll_ms,
            "retention.ms": self.log_retention_ms,
            "retention.bytes": self.log_retention_bytes,
            "index.interval.bytes": self.log_index_interval_bytes,
            "flush.messages": self.log_flush_interval_messages,
            "flush.ms": self.log_flush_scheduler_interval_ms
            if self.log_flush_interval_ms == MAX_LONG
            else self.log_flush_interval_ms,
            "max.message.bytes": self.message_max_bytes,
            "message.timestamp.type": self.log_message_timestamp_type,
            "message.timestamp.before.max.ms": self.log_message_timestamp_before_max_ms,
            "message.timestamp.after.max.ms": self.log_message_timestamp_after_max_ms,
            "file.delete.delay.ms": self.log_segment_delete_delay_ms,
            "min.cleanable.dirty.ratio": self.log_cleaner_min_cleanable_ratio,
            "min.compaction.lag.ms": self.log_cleaner_min_compaction_lag_ms,
            "max.compaction.lag.ms": self.log_cleaner_max_compaction_lag_ms,
            "delete.retention.ms": self.log_cleaner_delete_retention_ms,
        }
        return _parsed(tuple({**defaults, **overrides}.items()))


@lru_cache(maxsize=256)
def _parsed(properties: tuple[tuple[str, Any], ...]) -> TopicConfig:
    """Return a topic's settings; most of the logs that a broker opens have the same."""
    return TopicConfig.from_properties(dict(properties))
