"""Which changes of topics' and brokers' settings are allowed (IncrementalAlterConfigs).

The broker that gets the request checks it first (:func:`preprocess`), then the controller
(:func:`config_problem`). Of a broker only the settings in :data:`DYNAMIC` can be changed while it
runs; all others that Kafka has are refused, some of which Kafka could change (num.io.threads,
log.cleaner.threads). Names that Kafka does not have are stored and mean nothing. Left out: append
and subtract, client metrics, policies.
"""

from __future__ import annotations

from collections import Counter

from kafkasim.model.config import (
    BrokerConfig,
    ConfigError,
    ShareGroupSettings,
    TopicConfig,
    check_log_segment_bytes,
    check_segment_bytes,
)
from kafkasim.model.config.kafka_names import KAFKA_CONFIG_NAMES
from kafkasim.model.controller.common.image import EVERY_BROKER, MetadataImage
from kafkasim.model.controller.common.topics import name_problem
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AlterableConfig
from kafkasim.model.messages.clients.admin import GROUP, TOPIC

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
    "log.segment.delete.delay.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.threads",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.io.buffer.load.factor",
    "log.message.timestamp.type",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.after.max.ms",
    "message.max.bytes",
    "compression.type",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
)
"""Broker settings that take effect while the broker runs (DynamicBrokerConfig)."""


def broker_id_of(name: str) -> int:
    """Return the id in the name of a broker resource; an empty name stands for all brokers."""
    return int(name) if name else EVERY_BROKER


Problem = tuple[Errors, str]
"""Why a change of settings is refused: the error, NONE if it is allowed, and its message."""


def preprocess(
    resources: tuple[AlterableConfig, ...],
    broker_id: int,
    image: MetadataImage,
    config: BrokerConfig,
    bounds_log_segment_bytes: bool,
) -> dict[int, Problem]:
    """Return the resources that a broker refuses itself, by their place in the request.

    The broker forwards the others to the controller (ConfigAdminManager.preprocess). ``config`` is
    the static configuration of the broker. ``bounds_log_segment_bytes`` says that its release has a
    bound for that setting.
    """
    times = Counter([(each.resource_type, each.resource_name) for each in resources])
    refused: dict[int, Problem] = {}
    for place, resource in enumerate(resources):
        problem = (Errors.INVALID_REQUEST, "Each resource must appear at most once.")
        if times[resource.resource_type, resource.resource_name] == 1:
            problem = _preprocessed(resource, broker_id, image, config, bounds_log_segment_bytes)
        if problem[0] is not Errors.NONE:
            refused[place] = problem
    return refused


def _preprocessed(
    resource: AlterableConfig,
    broker_id: int,
    image: MetadataImage,
    config: BrokerConfig,
    bounds_log_segment_bytes: bool,
) -> Problem:
    keys, name = [key for key, _ in resource.configs], resource.resource_name
    if len(set(keys)) < len(keys):
        return Errors.INVALID_REQUEST, "Error due to duplicate config keys"
    if resource.resource_type in (TOPIC, GROUP):
        return Errors.NONE, ""
    if name and not _is_int(name):
        return Errors.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}"
    if name and int(name) != broker_id:
        message = f"Unexpected broker id, expected {broker_id}, but received {name}"
        return Errors.INVALID_REQUEST, message
    # DynamicBrokerConfig.validate; what it throws becomes INVALID_REQUEST (KAFKA-13609).
    static = config.properties()
    for key in keys:
        if key not in DYNAMIC and (key in KAFKA_CONFIG_NAMES or key in static):
            return Errors.INVALID_REQUEST, f"Cannot update these configs dynamically: {key}"
    wanted = {**image.dynamic_config(broker_id_of(name)), **dict(resource.configs)}
    kept = {key: text for key, text in wanted.items() if text is not None and key in static}
    try:
        config.with_properties(kept)
        if bounds_log_segment_bytes:
            check_log_segment_bytes(kept)
    except ConfigError as error:
        return Errors.INVALID_REQUEST, str(error)
    return Errors.NONE, ""


def config_problem(
    resource: AlterableConfig, image: MetadataImage, internal_segment_bytes: bool
) -> Problem:
    """Return why the controller refuses a change of settings (ControllerConfigurationValidator).

    ``internal_segment_bytes`` says that topics may have the setting of that name.
    """
    name = resource.resource_name
    if resource.resource_type == TOPIC:
        return _topic_problem(resource, image, internal_segment_bytes)
    if resource.resource_type == GROUP:
        return _group_problem(resource, image)
    if name and not _is_int(name):
        return Errors.INVALID_REQUEST, "Unable to parse broker name as a base 10 number."
    if name and int(name) < 0:
        return Errors.INVALID_REQUEST, "Invalid negative broker ID."
    return Errors.NONE, ""


def _topic_problem(
    resource: AlterableConfig, image: MetadataImage, internal_segment_bytes: bool
) -> Problem:
    name = resource.resource_name
    if not name:
        return Errors.INVALID_REQUEST, "Default topic resources are not allowed."
    illegal = name_problem(name)
    if illegal is not None:
        return Errors.INVALID_TOPIC_EXCEPTION, illegal
    wanted = {**image.configs.get(name, {}), **dict(resource.configs)}
    kept = {key: text for key, text in wanted.items() if text is not None}
    try:
        TopicConfig.from_properties(kept)
        check_segment_bytes(kept, internal_segment_bytes)
    except ConfigError as error:
        return Errors.INVALID_CONFIG, str(error)
    if name not in image.topic_names:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
    return Errors.NONE, ""


def _group_problem(resource: AlterableConfig, image: MetadataImage) -> Problem:
    """Return why a group cannot have these settings (GroupConfig.validate).

    Left out: the settings of consumer groups, and the bounds of the brokers.
    """
    name = resource.resource_name
    if not name:
        return Errors.INVALID_REQUEST, "Default group resources are not allowed."
    wanted = {**image.group_configs.get(name, {}), **dict(resource.configs)}
    try:
        ShareGroupSettings.from_properties(
            {key: text for key, text in wanted.items() if text is not None}
        )
    except ConfigError as error:
        return Errors.INVALID_CONFIG, str(error)
    return Errors.NONE, ""


def _is_int(name: str) -> bool:
    return name.removeprefix("-").isdecimal()
