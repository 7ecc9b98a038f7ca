"""Which changes of topics' and brokers' settings are allowed (IncrementalAlterConfigs).

Models the validation in ConfigurationControlManager and, in ZooKeeper mode, ConfigAdminManager. Of
a broker only the settings in :data:`DYNAMIC` can be changed while it runs. All others need a
restart and are refused with INVALID_REQUEST, as in Kafka. Left out: append and subtract, client
metrics, groups, policies.
"""

from __future__ import annotations

from kafkasim.model.config import BrokerConfig, ConfigError, TopicConfig
from kafkasim.model.controller.common.image import EVERY_BROKER, MetadataImage
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AlterableConfig
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


def broker_id_of(name: str) -> int:
    """Return the id in the name of a broker resource; an empty name stands for all brokers."""
    return int(name) if name else EVERY_BROKER


def config_problem(
    resource: AlterableConfig, image: MetadataImage, config: BrokerConfig
) -> tuple[Errors, str]:
    """Return the error and the message with which a change of settings is refused.

    The error is NONE if the change is allowed. ``config`` is the static configuration of a broker.
    """
    if resource.resource_type == TOPIC:
        return _topic_problem(resource, image)
    return _broker_problem(resource, image, config)


def _topic_problem(resource: AlterableConfig, image: MetadataImage) -> tuple[Errors, str]:
    name = resource.resource_name
    if name not in image.topic_names:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
    wanted = {**image.configs.get(name, {}), **dict(resource.configs)}
    try:
        TopicConfig.from_properties({key: text for key, text in wanted.items() if text is not None})
    except ConfigError as error:
        return Errors.INVALID_CONFIG, str(error)
    return Errors.NONE, ""


def _broker_problem(
    resource: AlterableConfig, image: MetadataImage, config: BrokerConfig
) -> tuple[Errors, str]:
    name = resource.resource_name
    if name and not name.isdigit():
        return Errors.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
    for key, _ in resource.configs:
        if key not in DYNAMIC:
            return Errors.INVALID_REQUEST, f"Cannot update these configs dynamically: {key}"
    wanted = {**image.dynamic_config(broker_id_of(name)), **dict(resource.configs)}
    try:
        config.with_properties({key: text for key, text in wanted.items() if text is not None})
    except ConfigError as error:
        return Errors.INVALID_CONFIG, str(error)
    return Errors.NONE, ""
