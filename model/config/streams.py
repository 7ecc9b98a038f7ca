"""The settings of an application of Kafka Streams (StreamsConfig), and those of its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from kafkasim.model.config.base import MAX_INT, Config, ConfigError, long, setting
from kafkasim.model.config.clients import ClientConfig, ConsumerConfig, ProducerConfig

_ERRORS = "org.apache.kafka.streams.errors"
LOG_AND_FAIL = f"{_ERRORS}.LogAndFailExceptionHandler"
LOG_AND_CONTINUE = f"{_ERRORS}.LogAndContinueExceptionHandler"
HANDLER = "deserialization.exception.handler"
"""With ``default.`` before it until KIP-1056 (4.0), which is still understood."""

EXACTLY_ONCE = "exactly_once_v2"
GUARANTEES = ("at_least_once", EXACTLY_ONCE)


@dataclass(frozen=True)
class StreamsConfig(Config):
    """The settings of Streams itself."""

    kind: ClassVar[str] = "streams"

    application_id: str = setting("")  # the group, and the prefix of internal topics
    num_stream_threads: int = setting(1, 1)
    processing_guarantee: str = setting("at_least_once", allowed=GUARANTEES)
    commit_interval_ms: int = long(30000, 0)  # 100 under exactly_once_v2
    poll_ms: int = long(100)  # how long a thread waits for records
    num_standby_replicas: int = setting(0)
    acceptable_recovery_lag: int = long(10000, 0)  # records; a replica within it is caught up
    max_warmup_replicas: int = setting(2, 1)  # of the whole application at a time
    probing_rebalance_interval_ms: int = long(600000, 60000)
    max_task_idle_ms: int = long(0)  # −1: never wait for a partition without records
    buffered_records_per_partition: int = setting(1000)  # more than that pause the partition
    statestore_cache_max_bytes: int = long(10485760, 0)  # of all threads of an instance
    deserialization_exception_handler: str = setting(
        LOG_AND_FAIL, allowed=(LOG_AND_FAIL, LOG_AND_CONTINUE)
    )
    repartition_purge_interval_ms: int = long(30000, 0)
    state_cleanup_delay_ms: int = long(600000)  # directories of other tasks live that long
    task_timeout_ms: int = long(300000, 0)  # a task without progress fails after it
    replication_factor: int = setting(-1)  # of internal topics; −1: the brokers' default

    @property
    def exactly_once(self) -> bool:
        """Whether commits are transactions."""
        return self.processing_guarantee == EXACTLY_ONCE

    @property
    def skips_corrupt(self) -> bool:
        """Whether a record that cannot be deserialized is skipped, and does not end its thread."""
        return self.deserialization_exception_handler == LOG_AND_CONTINUE

    def validate(self) -> None:
        """Check that the application has a name.

        Raises:
            ConfigError: it has none.
        """
        if not self.application_id:
            raise ConfigError("application.id", "is missing")


@dataclass(frozen=True)
class StreamsSettings:
    """The settings of an application, and of each kind of client that its threads have."""

    streams: StreamsConfig
    consumer: Mapping[str, Any]  # properties of the main consumers
    restore: Mapping[str, Any]  # of restore consumers
    producer: Mapping[str, Any]  # without the transactional id


CONSUMER: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "max.poll.records": 1000,
    "enable.auto.commit": False,
    "internal.leave.group.on.close": False,
    "allow.auto.create.topics": False,
}
"""What Streams sets of consumers (CONSUMER_DEFAULT_OVERRIDES, getMainConsumerConfigs)."""

EXACTLY_ONCE_PRODUCER: dict[str, Any] = {
    "delivery.timeout.ms": MAX_INT,
    "enable.idempotence": True,
    "transaction.timeout.ms": 10000,
}


def streams_settings(properties: Mapping[str, Any]) -> StreamsSettings:
    """Return the settings of properties: Streams' own, and those of its clients.

    A client's property may have a prefix: ``consumer.``, ``main.consumer.``, ``restore.consumer.``
    or ``producer.``; without one it is that of every client that knows it.

    Raises:
        ConfigError: nobody knows a key, its value is not allowed, or Streams sets it itself.
    """
    own: dict[str, Any] = {}
    consumer: dict[str, Any] = {}
    main: dict[str, Any] = {}
    restore: dict[str, Any] = {}
    producer: dict[str, Any] = {}
    prefixes = (
        ("main.consumer.", main), ("restore.consumer.", restore), ("consumer.", consumer),
        ("producer.", producer),
    )  # fmt: skip
    known = _names(StreamsConfig)
    for key, raw in properties.items():
        prefixed = next((each for each in prefixes if key.startswith(each[0])), None)
        if key in known:
            own[key] = raw
        elif prefixed is not None:
            prefixed[1][key.removeprefix(prefixed[0])] = raw
        elif key in _names(ConsumerConfig) | _names(ProducerConfig):
            if key in _names(ConsumerConfig):
                consumer.setdefault(key, raw)
            if key in _names(ProducerConfig):
                producer.setdefault(key, raw)
        else:
            own[key] = raw  # is refused
    if f"default.{HANDLER}" in own:
        own.setdefault(HANDLER, own.pop(f"default.{HANDLER}"))
    if own.get("processing.guarantee") == EXACTLY_ONCE:
        own.setdefault("commit.interval.ms", 100)
    streams = StreamsConfig.from_properties(own)
    eos = streams.exactly_once
    level = {"isolation.level": "read_committed"} if eos else {}
    consumers = {**CONSUMER, **consumer, **level}
    settings = StreamsSettings(
        streams,
        {**consumers, **main, "group.id": streams.application_id},
        {**consumers, **restore, "auto.offset.reset": "none"},
        {"linger.ms": 100, **(EXACTLY_ONCE_PRODUCER if eos else {}), **producer},
    )
    ConsumerConfig.from_properties(settings.consumer)
    ConsumerConfig.from_properties(settings.restore)
    ProducerConfig.from_properties(settings.producer)
    return settings


def _names(config: type[ClientConfig] | type[StreamsConfig]) -> frozenset[str]:
    return frozenset(f.name.replace("_", ".") for f in fields(config))
