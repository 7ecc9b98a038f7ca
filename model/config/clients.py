"""The settings of producers, consumers and admin clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kafkasim.model.config.base import MAX_INT, Config, ConfigError, long, setting

_CONSUMER = "org.apache.kafka.clients.consumer"
ASSIGNOR_CLASSES = {
    "range": f"{_CONSUMER}.RangeAssignor",
    "roundrobin": f"{_CONSUMER}.RoundRobinAssignor",
    "sticky": f"{_CONSUMER}.StickyAssignor",
    "cooperative-sticky": f"{_CONSUMER}.CooperativeStickyAssignor",
}
"""Kafka's assignors: name in JoinGroup to class."""


ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"

PARTITIONER_CLASSES = ("", ROUND_ROBIN)
"""Kafka's values of partitioner.class; "" is the built-in partitioner."""


@dataclass(frozen=True)
class ClientConfig(Config):
    """The settings that producer, consumer and admin client share (CommonClientConfigs)."""

    client_id: str = setting("")  # prefix of member ids
    request_timeout_ms: int = setting(30000, 0)  # of each request
    metadata_max_age_ms: int = long(300000, 0)  # then metadata is refreshed
    retry_backoff_ms: int = long(100, 0)  # before the first retry; doubles
    retry_backoff_max_ms: int = long(1000, 0)  # up to this
    reconnect_backoff_ms: int = long(50, 0)  # before the first new connection; doubles
    reconnect_backoff_max_ms: int = long(1000, 0)  # up to this
    # When no known broker is available, go back to the bootstrap servers, or do not (KIP-899); also
    # when no metadata came for the time below (KIP-1102).
    metadata_recovery_strategy: str = setting("rebootstrap", allowed=("none", "rebootstrap"))
    metadata_recovery_rebootstrap_trigger_ms: int = long(300000, 0)


@dataclass(frozen=True)
class ProducerConfig(ClientConfig):
    """The settings of a producer."""

    kind: ClassVar[str] = "producer"

    acks: str = setting("all", allowed=("all", "-1", "0", "1"))  # all: the whole ISR
    enable_idempotence: bool = setting(True)  # sequence numbers: no duplicates, in order
    batch_size: int = setting(16384, 0)  # bytes of a batch
    linger_ms: int = long(5, 0)  # how long a batch waits for more records
    buffer_memory: int = long(33554432, 0)  # bytes of all unsent batches
    max_block_ms: int = long(60000, 0)  # of send(), for metadata or memory
    max_request_size: int = setting(1048576, 0)  # bytes of a request or a record
    max_in_flight_requests_per_connection: int = setting(5, 1)  # unanswered at a time
    retries: int = setting(MAX_INT, 0)  # of a batch
    delivery_timeout_ms: int = setting(120000, 0)  # from send() to the end of retries
    compression_type: str = setting("none", allowed=("none", "gzip", "snappy", "lz4", "zstd"))
    # "": by key, or sticky; else RoundRobinPartitioner, or ``module:name`` of a Python class
    # (model/client/producer/partitioner.py).
    partitioner_class: str = setting("")
    transactional_id: str | None = setting(None)  # the same over restarts of one application
    transaction_timeout_ms: int = setting(60000)  # after it the coordinator aborts a transaction

    @property
    def acks_number(self) -> int:
        """``acks`` as in a Produce request: −1 stands for all."""
        return -1 if self.acks == "all" else int(self.acks)

    def validate(self) -> None:
        """Check the delivery timeout and what idempotence needs (ProducerConfig.postProcess…).

        Raises:
            ConfigError: the delivery timeout is too short, the transactional id is empty, the
                partitioner is not modelled, or idempotence or transactions lack a condition.
        """
        if self.transactional_id == "":
            raise ConfigError("transactional.id", "must not be empty")
        if self.transactional_id is not None and not self.enable_idempotence:
            raise ConfigError("transactional.id", "needs enable.idempotence")
        if self.partitioner_class not in PARTITIONER_CLASSES and ":" not in self.partitioner_class:
            known = ", ".join([repr(each) for each in PARTITIONER_CLASSES])
            raise ConfigError(
                "partitioner.class",
                f"{self.partitioner_class!r} is not one of {known}, or module:name",
            )
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
    """The settings of a consumer.

    With group.protocol=consumer (KIP-848) the broker has the session timeout, the heartbeat
    interval and the assignor, and the settings of those names must not be set here.
    """

    kind: ClassVar[str] = "consumer"
    protocol_type: ClassVar[str] = "consumer"  # of its group

    group_protocol: str = setting("classic", allowed=("classic", "consumer"))
    group_remote_assignor: str | None = setting(None)  # None: the broker's default
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
    client_rack: str = setting("")  # for fetches from the nearest replica (KIP-392)
    fetch_min_bytes: int = setting(1, 0)  # a parked fetch is answered from this size on
    fetch_max_wait_ms: int = setting(500, 0)  # how long a broker may park a fetch
    fetch_max_bytes: int = setting(52428800, 0)  # of a whole response
    max_partition_fetch_bytes: int = setting(1048576, 0)  # of one partition in a response
    default_api_timeout_ms: int = setting(60000, 0)  # of calls without a timeout of their own
    # Assignors by preference: Kafka's classes or their names in JoinGroup, ``module:name`` of a
    # Python function or class, or such a class itself (model/group/assignors). A group of defaults
    # uses range; a bounce without it makes the group cooperative (KIP-726).
    partition_assignment_strategy: tuple[str | type, ...] = setting(
        (ASSIGNOR_CLASSES["range"], ASSIGNOR_CLASSES["cooperative-sticky"])
    )
    allow_auto_create_topics: bool = setting(True)  # by Metadata requests
    internal_leave_group_on_close: bool = setting(True)  # Kafka Streams sets it to false
    check_crcs: bool = setting(
        True, no_effect="a damaged batch has no records to hand out, so a poll always fails at it"
    )
    exclude_internal_topics: bool = setting(
        True, no_effect="a pattern never matches an internal topic"
    )

    def validate(self) -> None:
        """Check the static member's id, the protocol, the heartbeat interval and the assignors.

        Raises:
            ConfigError: the id is empty, a setting belongs to the other group protocol, a session
                has no room for a heartbeat, or an assignor is not modelled.
        """
        if self.group_instance_id == "":
            raise ConfigError("group.instance.id", "must not be empty")
        if self.group_protocol == "consumer":
            self._refuse_classic_settings()
        elif self.group_remote_assignor is not None:
            raise ConfigError("group.remote.assignor", "needs group.protocol=consumer")
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError(
                "heartbeat.interval.ms",
                f"{self.heartbeat_interval_ms} is not below session.timeout.ms ="
                f" {self.session_timeout_ms}",
            )
        known = (*ASSIGNOR_CLASSES, *ASSIGNOR_CLASSES.values())
        for name in self.partition_assignment_strategy:
            if isinstance(name, str) and name not in known and ":" not in name:
                raise ConfigError(
                    "partition.assignment.strategy",
                    f"{name!r} is not one of {', '.join(ASSIGNOR_CLASSES)}, their classes, or"
                    " module:name",
                )

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a rebalance waits for the member (GroupRebalanceConfig)."""
        return self.max_poll_interval_ms

    def _refuse_classic_settings(self) -> None:
        """Refuse what the consumer protocol does not use (checkUnsupportedConfigsPostProcess).

        Kafka refuses these keys whatever their values; here a key with its default is no key.
        """
        defaults = ConsumerConfig.__dataclass_fields__
        for name in (
            "session_timeout_ms",
            "heartbeat_interval_ms",
            "partition_assignment_strategy",
        ):
            if getattr(self, name) != defaults[name].default:
                key = name.replace("_", ".")
                raise ConfigError(key, "cannot be set when group.protocol=consumer")


@dataclass(frozen=True)
class ShareConsumerConfig(ConsumerConfig):
    """The settings of a share consumer (KIP-932).

    The group has the rest: where it begins, its isolation level, and how long a member may hold a
    record (ShareGroupSettings).
    """

    share_acknowledgement_mode: str = setting("implicit", allowed=("implicit", "explicit"))

    def validate(self) -> None:
        """Check that there is a group, and nothing that a share consumer has no use for.

        Kafka refuses these keys whatever their values (ShareConsumerConfig); here a key with its
        default is no key.

        Raises:
            ConfigError: group.id is empty, or such a key is set.
        """
        if not self.group_id:
            raise ConfigError("group.id", "a share consumer needs a group")
        defaults = ConsumerConfig.__dataclass_fields__
        for name in (
            "auto_offset_reset",
            "enable_auto_commit",
            "group_instance_id",
            "isolation_level",
            "partition_assignment_strategy",
            "session_timeout_ms",
            "heartbeat_interval_ms",
            "group_protocol",
            "group_remote_assignor",
        ):
            if getattr(self, name) != defaults[name].default:
                key = name.replace("_", ".")
                raise ConfigError(key, "cannot be set of a share consumer")
