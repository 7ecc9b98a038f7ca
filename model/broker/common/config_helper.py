"""What a broker answers DescribeConfigs (ConfigHelper).

It asks no controller: the settings are those of its own configuration and of its metadata cache.
Left out: the resource types broker-logger and client-metrics, the broker's listeners.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from kafkasim.model.config import BrokerConfig, TopicConfig
from kafkasim.model.config.base import MAX_INT, kafka_name
from kafkasim.model.controller.common.image import EVERY_BROKER, MetadataImage
from kafkasim.model.controller.common.topics import name_problem
from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients.admin import BROKER, GROUP, TOPIC
from kafkasim.model.messages.clients.configs import (
    BOOLEAN,
    DEFAULT,
    DOUBLE,
    INT,
    LIST,
    LONG,
    OF_ALL_BROKERS,
    OF_BROKER,
    OF_GROUP,
    OF_TOPIC,
    STATIC,
    STRING,
    DescribeConfigsResource,
    DescribeConfigsResult,
    DescribedConfig,
)

BROKER_NAMES = {
    **{
        key: f"log.{key}"
        for key in (
            "segment.bytes", "retention.bytes", "retention.ms", "index.interval.bytes",
            "cleanup.policy", "preallocate", "message.timestamp.type",
            "message.timestamp.before.max.ms", "message.timestamp.after.max.ms",
        )
    },
    **{
        key: f"log.cleaner.{key}"
        for key in ("delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms")
    },
    **{
        key: key
        for key in ("unclean.leader.election.enable", "min.insync.replicas", "compression.type")
    },
    "segment.ms": "log.roll.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "max.message.bytes": "message.max.bytes",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
}  # fmt: skip
"""The broker's name of a topic's setting (ServerTopicConfigSynonyms)."""

_UNSET = {
    "log.retention.ms": ("log.retention.hours", 168),
    "log.roll.ms": ("log.roll.hours", 168),
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms", 2**63 - 1),
}
"""Settings without a default, and the synonym in larger units that has one."""

_INTERNAL = "internal.segment.bytes"
"""A topic's setting that is described only where it is set (ConfigHelper.allConfigs)."""

_KINDS: dict[type, int] = {bool: BOOLEAN, str: STRING, int: INT, float: DOUBLE, tuple: LIST}

_Synonym = tuple[str, str, int]


def described(
    resource: DescribeConfigsResource, config: BrokerConfig, image: MetadataImage, broker_id: int
) -> DescribeConfigsResult:
    """Return what the broker with this configuration and metadata cache says of a resource."""
    kind, name = resource.resource_type, resource.resource_name
    error, message, rows = Errors.NONE, "", list[DescribedConfig]()
    if kind == TOPIC and name_problem(name) is not None:
        error, message = Errors.INVALID_TOPIC_EXCEPTION, str(name_problem(name))
    elif kind == TOPIC and name not in image.topic_names:
        error = Errors.UNKNOWN_TOPIC_OR_PARTITION
    elif kind == TOPIC:
        rows = _of_topic(config, image, broker_id, name)
    elif kind == BROKER and name == "":
        rows = _as_they_are(image.broker_configs.get(EVERY_BROKER, {}), OF_ALL_BROKERS)
    elif kind == BROKER and name == str(broker_id):
        rows = _of_broker(config, image, broker_id)
    elif kind == BROKER:
        error = Errors.INVALID_REQUEST
        message = f"Unexpected broker id, expected {broker_id} or empty string, but received {name}"
    elif kind == GROUP:
        rows = _as_they_are(image.group_configs.get(name, {}), OF_GROUP)
    else:
        error, message = Errors.INVALID_REQUEST, f"Unsupported resource type: {kind}"
    wanted = tuple([each for each in rows if not resource.keys or each.name in resource.keys])
    return DescribeConfigsResult(kind, name, error, message, wanted)


def _of_topic(
    config: BrokerConfig, image: MetadataImage, broker: int, name: str
) -> list[DescribedConfig]:
    own, known = image.configs.get(name, {}), config.properties()
    dynamic = {key: each for key, each in image.dynamic_config(broker).items() if key in known}
    in_force = config.with_properties(dynamic)  # DynamicLogConfig.reconfigure
    effective, limits = in_force.topic_config(own).properties(), _limits(TopicConfig)
    of_broker = _Synonyms(config, image, broker)
    rows = []
    for key, found in effective.items():
        if key == _INTERNAL and key not in own:
            continue
        synonyms = of_broker.of(BROKER_NAMES.get(key, ""))
        if key in own:
            synonyms.insert(0, _synonym(key, own[key], OF_TOPIC))
        rows.append(_row(key, found, text_of(found), synonyms, limits[key]))
    return rows


def _of_broker(config: BrokerConfig, image: MetadataImage, broker: int) -> list[DescribedConfig]:
    limits, synonyms = _limits(BrokerConfig), _Synonyms(config, image, broker)
    rows = []
    for key, found in config.properties().items():
        named = synonyms.of(key)
        dynamic = named and named[0][2] in (OF_BROKER, OF_ALL_BROKERS)
        text = named[0][1] if dynamic else text_of(found)
        rows.append(_row(key, found, text, named, limits[key]))
    return rows


def _limits(config: type[BrokerConfig | TopicConfig]) -> dict[str, float | None]:
    return {kafka_name(each): each.metadata.get("high") for each in fields(config)}


class _Synonyms:
    """Where a broker's setting has its value from, the highest first (configSynonyms)."""

    def __init__(self, config: BrokerConfig, image: MetadataImage, broker: int) -> None:
        self._dynamic = [
            (image.broker_configs.get(broker, {}), OF_BROKER),
            (image.broker_configs.get(EVERY_BROKER, {}), OF_ALL_BROKERS),
        ]
        self._static, self._defaults = config.properties(), BrokerConfig().properties()

    def of(self, key: str) -> list[_Synonym]:
        """Return the synonyms of a broker's key, empty if it is none, or has no value at all."""
        if key not in self._static:
            return []
        found = [_synonym(key, own[key], source) for own, source in self._dynamic if key in own]
        if self._static[key] != self._defaults[key]:
            found.append(_synonym(key, self._static[key], STATIC))
        if key in _UNSET:
            return found and [*found, _synonym(*_UNSET[key], DEFAULT)]
        return [*found, _synonym(key, self._defaults[key], DEFAULT)]


def _synonym(key: str, found: Any, source: int) -> _Synonym:
    return (key, text_of(found), source)


def _as_they_are(own: dict[str, Any], source: int) -> list[DescribedConfig]:
    return [
        _row(key, each, text_of(each), [_synonym(key, each, source)], None)
        for key, each in own.items()
    ]


def _row(
    key: str, found: Any, text: str, synonyms: list[_Synonym], limit: float | None
) -> DescribedConfig:
    kind = _KINDS.get(type(found), STRING)
    if kind == INT and limit is not None and limit > MAX_INT:
        kind = LONG
    source = synonyms[0][2] if synonyms else DEFAULT
    return DescribedConfig(key, text, source, tuple(synonyms), kind)


def text_of(found: Any) -> str:
    """Return a setting as Kafka writes it."""
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, tuple | list):
        return ",".join(map(str, found))
    return "" if found is None else str(found)
