"""DescribeConfigs and IncrementalAlterConfigs: settings with their types, defaults and sources.

Kafka's ConfigHelper answers DescribeConfigs from the broker's configuration and its metadata cache,
without the controller; so does this module, from the same two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.config import BrokerConfig, TopicConfig
from kafkasim.model.controller.common.image import EVERY_BROKER, MetadataImage
from kafkasim.model.errors import Errors
from kafkasim.scenarios.wire.adapters.base import (
    NOT_VALIDATED,
    Adapter,
    Body,
    Call,
    asked,
    by_topic,
)

TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources (ConfigResource.Type)."""

_CLIENT_METRICS = 16
_TYPES = {TOPIC: "topic", BROKER: "broker", GROUP: "group"}

_OF_TOPIC, _OF_BROKER, _OF_ALL_BROKERS, _STATIC, _DEFAULT, _OF_GROUP = 1, 2, 3, 4, 5, 8
"""Sources (DescribeConfigsResponse.ConfigSource)."""

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

_KINDS: dict[type, int] = {bool: 1, str: 2, int: 3, float: 6, tuple: 7}
"""Types of settings (DescribeConfigsResponse.ConfigType); LONG is 5."""

_LONG = 5
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
"""What IncrementalAlterConfigs does with a value (AlterConfigOp.OpType)."""


def _describe(call: Call, answers: list[Any]) -> Body:
    results = []
    for resource in call.body["Resources"]:
        kind, name = resource["ResourceType"], resource["ResourceName"]
        row: Body = {"ResourceType": kind, "ResourceName": name}
        error, text, rows = _described(call, kind, name)
        wanted = resource["ConfigurationKeys"]
        row |= {"ErrorCode": error, "ErrorMessage": text or None}
        found = [each for each in rows if not wanted or each["Name"] in wanted]
        if not call.body.get("IncludeSynonyms", False):
            found = [{**each, "Synonyms": []} for each in found]
        row["Configs"] = found
        results.append(row)
    return {"Results": results}


def _described(call: Call, kind: int, name: str) -> tuple[Errors, str, list[Body]]:
    kafka = call.broker.kafka
    if kafka is None:
        return Errors.BROKER_NOT_AVAILABLE, "", []
    if kind == TOPIC:
        if name not in kafka.image.topic_names:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, "", []
        broker = kafka.incarnation.broker_id
        return Errors.NONE, "", _of_topic(kafka.config, kafka.image, broker, name)
    if kind == BROKER:
        own = str(kafka.incarnation.broker_id)
        if name == "":
            cluster = kafka.image.broker_configs.get(EVERY_BROKER, {})
            return (
                Errors.NONE,
                "",
                [
                    _row(key, each, [_synonym(key, each, _OF_ALL_BROKERS)])
                    for key, each in cluster.items()
                ],
            )
        if name != own:
            text = f"Unexpected broker id, expected {own} or empty string, but received {name}"
            return Errors.INVALID_REQUEST, text, []
        rows = _of_broker(kafka.config, kafka.image, int(own))
        return Errors.NONE, "", [*_addresses(call, int(own)), *rows]
    if kind == GROUP:
        rows = [
            _row(key, each, [_synonym(key, each, _OF_GROUP)])
            for key, each in kafka.image.group_configs.get(name, {}).items()
        ]
        return Errors.NONE, "", rows
    return Errors.INVALID_REQUEST, f"Unsupported resource type: {kind}", []


def _of_topic(config: BrokerConfig, image: MetadataImage, broker: int, name: str) -> list[Body]:
    own = image.configs.get(name, {})
    effective = config.topic_config(own).properties()
    limits = {f.name.replace("_", "."): f.metadata.get("high") for f in fields(TopicConfig)}
    of_broker = _Synonyms(config, image, broker)
    rows = []
    for key, found in effective.items():
        synonyms = of_broker.of(BROKER_NAMES.get(key, ""))
        if key in own:
            synonyms.insert(0, _synonym(key, own[key], _OF_TOPIC))
        rows.append(_row(key, found, synonyms, limits[key]))
    return rows


def _of_broker(config: BrokerConfig, image: MetadataImage, broker: int) -> list[Body]:
    limits = {f.name.replace("_", "."): f.metadata.get("high") for f in fields(BrokerConfig)}
    synonyms = _Synonyms(config, image, broker)
    rows = []
    for key, found in config.properties().items():
        named = synonyms.of(key)
        dynamic = named and named[0]["Source"] in (_OF_BROKER, _OF_ALL_BROKERS)
        rows.append(_row(key, named[0]["Value"] if dynamic else found, named, limits[key]))
    return rows


class _Synonyms:
    """Where a broker's setting has its value from, the highest first (configSynonyms)."""

    def __init__(self, config: BrokerConfig, image: MetadataImage, broker: int) -> None:
        self._dynamic = [
            (image.broker_configs.get(broker, {}), _OF_BROKER),
            (image.broker_configs.get(EVERY_BROKER, {}), _OF_ALL_BROKERS),
        ]
        self._static, self._defaults = config.properties(), BrokerConfig().properties()

    def of(self, key: str) -> list[Body]:
        """Return the synonyms of a broker's key, empty if it is none, or has no value at all."""
        if key not in self._static:
            return []
        found = [_synonym(key, own[key], source) for own, source in self._dynamic if key in own]
        if self._static[key] != self._defaults[key]:
            found.append(_synonym(key, self._static[key], _STATIC))
        if key in _UNSET:
            return found and [*found, _synonym(*_UNSET[key], _DEFAULT)]
        return [*found, _synonym(key, self._defaults[key], _DEFAULT)]


def _synonym(key: str, found: Any, source: int) -> Body:
    return {"Name": key, "Value": text_of(found), "Source": source}


def _addresses(call: Call, broker: int) -> list[Body]:
    """Return what names a broker: the model has neither listeners nor node.id as settings."""
    image = call.image
    registered = None if image is None else image.brokers.get(broker)
    named: dict[str, Any] = {"node.id": broker}
    if registered is not None:
        host, port = call.broker.listener(registered.address)
        text = f"PLAINTEXT://{host}:{port}"
        named |= {"listeners": text, "advertised.listeners": text}
    rows = [_row(key, each, [_synonym(key, each, _STATIC)]) for key, each in named.items()]
    return [{**row, "ReadOnly": True} for row in rows]


def _row(key: str, found: Any, synonyms: list[Body], limit: float | None = None) -> Body:
    kind = _KINDS.get(type(found), 2)
    if kind == 3 and limit is not None and limit > 2**31 - 1:
        kind = _LONG
    return {
        "Name": key,
        "Value": text_of(found),
        "ReadOnly": False,
        "ConfigSource": synonyms[0]["Source"] if synonyms else _DEFAULT,
        "IsSensitive": False,
        "Synonyms": synonyms,
        "ConfigType": kind,
    }


def text_of(found: Any) -> str:
    """Return a setting as Kafka writes it."""
    if isinstance(found, bool):
        return "true" if found else "false"
    if isinstance(found, tuple | list):
        return ",".join(map(str, found))
    return "" if found is None else str(found)


# --------------------------------------------------------------------------------- alterations


def _served(call: Call) -> list[Body]:
    """Return the resources whose alteration the model serves."""
    if call.refused:
        return []
    return [each for each in call.body["Resources"] if each["ResourceType"] in _TYPES]


def _alter(call: Call) -> list[Any]:
    resources = [
        m.AlterableConfig(
            _TYPES[each["ResourceType"]], each["ResourceName"], tuple(_changes(call, each))
        )
        for each in _served(call)
    ]
    return (
        [m.IncrementalAlterConfigsRequest(tuple(resources), call.validates)]
        if resources
        else asked(call)
    )


def _changes(call: Call, resource: Body) -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = []
    present = _present(call, resource)
    for each in resource["Configs"]:
        key, given, operation = each["Name"], each["Value"], each["ConfigOperation"]
        if operation in (_APPEND, _SUBTRACT):
            items = [item for item in present.get(key, "").split(",") if item]
            named = [item.strip() for item in (given or "").split(",")]
            if operation == _APPEND:
                items += [item for item in named if item not in items]
            else:
                items = [item for item in items if item not in named]
            given = ",".join(items)
        found.append((key, None if operation == _DELETE else given))
    return found


def _present(call: Call, resource: Body) -> Mapping[str, str]:
    _, _, rows = _described(call, resource["ResourceType"], resource["ResourceName"])
    return {row["Name"]: row["Value"] for row in rows}


def _altered(call: Call, answers: list[Any]) -> Body:
    served = _served(call)
    results = iter(answers[0].results if served else ())
    rows = []
    for each in call.body["Resources"]:
        error, text = Errors.INVALID_REQUEST, "kafkasim does not alter this"
        if call.refused:
            text = NOT_VALIDATED
        if each in served:
            _, _, error, text = next(results, ("", "", answers[0].error, ""))
        row = {"ResourceType": each["ResourceType"], "ResourceName": each["ResourceName"]}
        rows.append({**row, "ErrorCode": error, "ErrorMessage": text or None})
    return {"Responses": rows}


def _replace(call: Call) -> list[Any]:
    """Return the changes that leave a resource only the settings that AlterConfigs names."""
    resources = []
    for each in _served(call):
        wanted = {row["Name"]: row["Value"] for row in each["Configs"]}
        changes = [*wanted.items()]
        changes += [(key, None) for key in _own(call, each) if key not in wanted]
        kind, name = _TYPES[each["ResourceType"]], each["ResourceName"]
        resources.append(m.AlterableConfig(kind, name, tuple(changes)))
    return (
        [m.IncrementalAlterConfigsRequest(tuple(resources), call.validates)]
        if resources
        else asked(call)
    )


def _own(call: Call, resource: Body) -> Mapping[str, str]:
    """Return the settings of a resource itself, without defaults."""
    kind, name, image = resource["ResourceType"], resource["ResourceName"], call.image
    if image is None:
        return {}
    if kind == BROKER:
        return image.broker_configs.get(int(name) if name.isdigit() else EVERY_BROKER, {})
    return (image.configs if kind == TOPIC else image.group_configs).get(name, {})


def _list_resources(call: Call, answers: list[Any]) -> Body:
    """Return the resources that have settings of their own (KIP-1142); topics and brokers, all."""
    image = call.image
    found: list[tuple[int, str]] = []
    if image is not None:
        found += [(TOPIC, name) for name in sorted(image.topic_names)]
        found += [(BROKER, str(broker)) for broker in sorted(image.brokers)]
        found += [(GROUP, name) for name in sorted(image.group_configs)]
    wanted = call.body.get("ResourceTypes", [_CLIENT_METRICS]) or [TOPIC, BROKER, GROUP]
    rows = [{"ResourceName": name, "ResourceType": kind} for kind, name in found if kind in wanted]
    return {"ErrorCode": Errors.NONE, "ConfigResources": rows}


def _log_dirs(call: Call, answers: list[Any]) -> Body:
    """Return the broker's log directories, and in each the sizes of its partitions."""
    kafka = call.broker.kafka
    if kafka is None:
        return {"ErrorCode": Errors.BROKER_NOT_AVAILABLE}
    topics = call.body["Topics"]
    wanted = None if topics is None else {t["Topic"]: t["Partitions"] for t in topics}
    replicas, results = kafka.replicas, []
    for directory in replicas.logs.directories:
        if not directory.online:
            row = {"ErrorCode": Errors.KAFKA_STORAGE_ERROR, "LogDir": directory.path}
            results.append(row)
            continue
        rows = []
        for tp in replicas.logs.placed_in(directory):
            hosted = replicas.hosted.online.get(tp)
            if hosted is None or (
                wanted is not None and tp.partition not in wanted.get(tp.topic, ())
            ):
                continue
            size = hosted.log.size
            rows.append((tp, {"PartitionIndex": tp.partition, "PartitionSize": size}))
        found = by_topic(rows)
        results.append({"ErrorCode": Errors.NONE, "LogDir": directory.path, "Topics": found})
    return {"ErrorCode": Errors.NONE, "Results": results}


CONFIGS: dict[str, Adapter] = {
    "DescribeConfigs": Adapter(1, 4, asked, _describe),
    "AlterConfigs": Adapter(0, 2, _replace, _altered),
    "ListConfigResources": Adapter(0, 1, asked, _list_resources),
    "DescribeLogDirs": Adapter(1, 4, asked, _log_dirs),
    "IncrementalAlterConfigs": Adapter(0, 1, _alter, _altered),
}
"""By the API's name."""
