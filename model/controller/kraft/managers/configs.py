"""Dynamic settings of topics and brokers (ConfigurationControlManager, IncrementalAlterConfigs).

A resource is taken as a whole or not at all. Of brokers only what is a default of topics can be
changed while they run; other settings need a restart (INVALID_REQUEST, as Kafka answers for
settings that are not dynamic). Left out: append and subtract, client metrics, groups, policies.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import BrokerConfig, ConfigError, TopicConfig
from kafkasim.model.controller.common.image import EVERY_BROKER, MetadataImage
from kafkasim.model.controller.common.records import BrokerConfigRecord, ConfigRecord
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kafkasim.model.messages.clients.admin import TOPIC

DYNAMIC = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "log.segment.bytes",
    "log.roll.ms",
    "log.retention.ms",
    "log.retention.bytes",
    "log.index.interval.bytes",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "message.max.bytes",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
"""Broker settings that take effect while the broker runs (DynamicBrokerConfig)."""


class ConfigurationControlManager:
    """Judges changes of settings; changes nothing itself."""

    def __init__(self, image: MetadataImage, config: BrokerConfig) -> None:
        self.image = image
        self.config = config

    def alter(
        self, request: IncrementalAlterConfigsRequest
    ) -> tuple[list[Any], IncrementalAlterConfigsResponse]:
        """Return the records of all resources that may change, and a result for each."""
        records: list[Any] = []
        results = []
        for resource in request.resources:
            if resource.resource_type == TOPIC:
                error, message = self._topic(resource, records)
            else:
                error, message = self._broker(resource, records)
            results.append((resource.resource_type, resource.resource_name, error, message))
        return records, IncrementalAlterConfigsResponse(Errors.NONE, tuple(results))

    def _topic(self, resource: AlterableConfig, records: list[Any]) -> tuple[Errors, str]:
        name = resource.resource_name
        if name not in self.image.topic_names:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
        wanted = {**self.image.configs.get(name, {}), **dict(resource.configs)}
        try:
            TopicConfig.from_properties(
                {key: text for key, text in wanted.items() if text is not None}
            )
        except ConfigError as error:
            return Errors.INVALID_CONFIG, str(error)
        records += [ConfigRecord(name, key, text) for key, text in resource.configs]
        return Errors.NONE, ""

    def _broker(self, resource: AlterableConfig, records: list[Any]) -> tuple[Errors, str]:
        name = resource.resource_name
        if name and not name.isdigit():
            return Errors.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
        broker_id = int(name) if name else EVERY_BROKER
        for key, _ in resource.configs:
            if key not in DYNAMIC:
                return Errors.INVALID_REQUEST, f"Cannot update these configs dynamically: {key}"
        wanted = {**self.image.dynamic_config(broker_id), **dict(resource.configs)}
        try:
            self.config.with_properties(
                {key: text for key, text in wanted.items() if text is not None}
            )
        except ConfigError as error:
            return Errors.INVALID_CONFIG, str(error)
        records += [BrokerConfigRecord(broker_id, key, text) for key, text in resource.configs]
        return Errors.NONE, ""
