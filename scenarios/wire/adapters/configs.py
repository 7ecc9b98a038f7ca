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
from kafkasim.scenarios.wire.adapters.base import Adapter, Body, Call, asked, by_topic

TOPIC, BROKER, GROUP = 2, 4, 32
"""Types of resources (ConfigResource.Type)."""

_CLIENT_METRICS = 16
_TYPES = {TOPIC: "topic", BROKER: "broker", GROUP: "group"}

_OF_TOPIC, _OF_BROKER, _OF_ALL_BROKERS, _STATIC, _DEFAULT, _OF_GROUP = 1, 2, 3, 4, 5, 8
"""Sources (DescribeConfigsResponse.ConfigSource)."""

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
        row["Configs"] = [each for each in rows if wanted is None or each["Name"] in wanted]
        results.append(row)
    return {"Results": results}


def _described(call: Call, kind: int, name: str) -> tuple[Errors, str, list[Body]]:
    kafka = call.broker.kafka
    if kafka is None:
        return Errors.BROKER_NOT_AVAILABLE, "", []
    if kind == TOPIC:
        if name not in kafka.image.topic_names:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, "", []
        return Errors.NONE, "", _of_topic(kafka.config, kafka.image, name)
    if kind == BROKER:
        own = str(kafka.incarnation.broker_id)
        if name == "":
            cluster = kafka.image.broker_configs.get(EVERY_BROKER, {})
            return (
                Errors.NONE,
                "",
                [_row(key, each, _OF_ALL_BROKERS) for key, each in cluster.items()],
            )
        if name != own:
            text = f"Unexpected broker id, expected {own} or empty string, but received {name}"
            return Errors.INVALID_REQUEST, text, []
        rows = _of_broker(kafka.config, kafka.image, int(own))
        return Errors.NONE, "", [*_addresses(call, int(own)), *rows]
    if kind == GROUP:
        rows = [
            _row(key, each, _OF_GROUP)
            for key, each in kafka.image.group_configs.get(name, {}).items()
        ]
        return Errors.NONE, "", rows
    return Errors.INVALID_REQUEST, f"Unsupported resource type: {kind}", []


def _of_topic(config: BrokerConfig, image: MetadataImage, name: str) -> list[Body]:
    own = image.configs.get(name, {})
    effective, defaults = config.topic_config(own).properties(), TopicConfig().properties()
    inherited = config.topic_config({}).properties()
    limits = {f.name.replace("_", "."): f.metadata.get("high") for f in fields(TopicConfig)}
    rows = []
    for key, found in effective.items():
        source = _DEFAULT
        if key in own:
            source = _OF_TOPIC
        elif inherited[key] != defaults[key]:
            source = _STATIC
        rows.append(_row(key, found, source, limits[key]))
    return rows


def _of_broker(config: BrokerConfig, image: MetadataImage, broker: int) -> list[Body]:
    cluster, own = image.broker_configs.get(EVERY_BROKER, {}), image.broker_configs.get(broker, {})
    defaults = BrokerConfig().properties()
    limits = {f.name.replace("_", "."): f.metadata.get("high") for f in fields(BrokerConfig)}
    rows = []
    for key, found in config.properties().items():
        source = _DEFAULT if found == defaults[key] else _STATIC
        if key in own:
            found, source = own[key], _OF_BROKER
        elif key in cluster:
            found, source = cluster[key], _OF_ALL_BROKERS
        rows.append(_row(key, found, source, limits[key]))
    return rows


def _addresses(call: Call, broker: int) -> list[Body]:
    """Return what names a broker: the model has neither listeners nor node.id as settings."""
    image = call.image
    registered = None if image is None else image.brokers.get(broker)
    rows = [_row("node.id", broker, _STATIC)]
    if registered is not None:
        host, port = call.broker.listener(registered.address)
        text = f"PLAINTEXT://{host}:{port}"
        rows += [_row(key, text, _STATIC) for key in ("listeners", "advertised.listeners")]
    return [{**row, "ReadOnly": True} for row in rows]


def _row(key: str, found: Any, source: int, limit: float | None = None) -> Body:
    kind = _KINDS.get(type(found), 2)
    if kind == 3 and limit is not None and limit > 2**31 - 1:
        kind = _LONG
    return {
        "Name": key,
        "Value": text_of(found),
        "ReadOnly": False,
        "ConfigSource": source,
        "IsSensitive": False,
        "Synonyms": [],
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
    if call.body["ValidateOnly"]:
        return []
    return [each for each in call.body["Resources"] if each["ResourceType"] in _TYPES]


def _alter(call: Call) -> list[Any]:
    resources = [
        m.AlterableConfig(
            _TYPES[each["ResourceType"]], each["ResourceName"], tuple(_changes(call, each))
        )
        for each in _served(call)
    ]
    return [m.IncrementalAlterConfigsRequest(tuple(resources))] if resources else asked(call)


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
    return [m.IncrementalAlterConfigsRequest(tuple(resources))] if resources else asked(call)


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
