"""Configurations under Kafka's property names, with Kafka's defaults, checked at construction.

A field is the property name with underscores for dots: ``replica.lag.time.max.ms`` is
``replica_lag_time_max_ms``. The name has the unit: ``_ms`` milliseconds, ``_bytes`` bytes,
``_seconds`` and ``_minutes`` as they say. :meth:`Config.from_properties` takes Kafka's names.
Defaults are those of Kafka 4.0; a scenario's ``kafka-version`` selects others (KAFKA.md, 0.1).

A key that is no field is an error, so that nobody believes in a setting that has no effect. The few
fields without effect say why (``no_effect``), and a test proves that each other one is read.
"""

from kafkasim.model.config.base import MAX_INT, MAX_LONG, Config, ConfigError, long, setting
from kafkasim.model.config.clients import (
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
)
from kafkasim.model.config.legacy import LegacyConsumerConfig
from kafkasim.model.config.servers import (
    LEAST_SEGMENT_BYTES,
    BrokerConfig,
    TopicConfig,
    check_log_segment_bytes,
    check_segment_bytes,
)
from kafkasim.model.config.share_groups import ShareGroupSettings

__all__ = [
    "LEAST_SEGMENT_BYTES",
    "MAX_INT",
    "MAX_LONG",
    "BrokerConfig",
    "ClientConfig",
    "Config",
    "ConfigError",
    "ConsumerConfig",
    "LegacyConsumerConfig",
    "ProducerConfig",
    "ShareConsumerConfig",
    "ShareGroupSettings",
    "TopicConfig",
    "check_log_segment_bytes",
    "check_segment_bytes",
    "long",
    "setting",
]
