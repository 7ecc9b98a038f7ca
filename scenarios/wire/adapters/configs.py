"""DescribeConfigs and IncrementalAlterConfigs: settings with their types, defaults and sources.

A broker names its addresses besides what the model describes (config_helper.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.broker.common.config_helper import described
from kafkasim.model.controller.common.image import EVERY_BROKER
from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients.configs import INT, STATIC, STRING
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

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
"""What IncrementalAlterConfigs does with a value (AlterConfigOp.OpType)."""


def _describe(call: Call) -> list[Any]:
    resources = [
        m.DescribeConfigsResource(
            _TYPES.get(each["ResourceType"], str(each["ResourceType"])),
            each["ResourceName"],
            tuple(each["ConfigurationKeys"] or ()),
        )
        for each in call.body["Resources"]
    ]
    return [m.DescribeConfigsRequest(tuple(resources))]


def _described(call: Call, answers: list[Any]) -> Body:
    results = []
    numbers = {name: number for number, name in _TYPES.items()}
    wanted = {
        (each["ResourceType"], each["ResourceName"]): each["ConfigurationKeys"]
        for each in call.body["Resources"]
    }
    with_synonyms = call.body.get("IncludeSynonyms", False)
    for result in answers[0].results:
        kind, name = numbers.get(result.resource_type), result.resource_name
        configs = list(result.configs)
        if kind == BROKER and name and not result.error:
            configs[:0] = _addresses(call, int(name), wanted[kind, name])
        results.append(
            {
                "ErrorCode": result.error,
                "ErrorMessage": result.message or None,
                "ResourceType": int(result.resource_type) if kind is None else kind,
                "ResourceName": name,
                "Configs": [_row(each, with_synonyms) for each in configs],
            }
        )
    return {"Results": results}


def _row(found: m.DescribedConfig, with_synonyms: bool) -> Body:
    synonyms = [
        {"Name": name, "Value": text, "Source": source} for name, text, source in found.synonyms
    ]
    return {
        "Name": found.name,
        "Value": found.value,
        "ReadOnly": found.read_only,
        "ConfigSource": found.source,
        "IsSensitive": False,
        "Synonyms": synonyms if with_synonyms else [],
        "ConfigType": found.type,
    }


def _addresses(call: Call, broker: int, keys: list[str] | None) -> list[m.DescribedConfig]:
    """Return what names a broker: the model has neither listeners nor node.id as settings."""
    image = call.image
    registered = None if image is None else image.brokers.get(broker)
    named = [("node.id", str(broker), INT)]
    if registered is not None:
        host, port = call.broker.listener(registered.address)
        text = f"PLAINTEXT://{host}:{port}"
        named += [("listeners", text, STRING), ("advertised.listeners", text, STRING)]
    return [
        m.DescribedConfig(key, each, STATIC, ((key, each, STATIC),), kind, read_only=True)
        for key, each, kind in named
        if not keys or key in keys
    ]


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
    kafka = call.broker.kafka
    if kafka is None:
        return {}
    kind = _TYPES[resource["ResourceType"]]
    asked_for = m.DescribeConfigsResource(kind, resource["ResourceName"])
    broker = kafka.incarnation.broker_id
    found = described(asked_for, kafka.config, kafka.image, broker)
    return {row.name: row.value for row in found.configs}


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
    "DescribeConfigs": Adapter(1, 4, _describe, _described),
    "AlterConfigs": Adapter(0, 2, _replace, _altered),
    "ListConfigResources": Adapter(0, 1, asked, _list_resources),
    "DescribeLogDirs": Adapter(1, 4, asked, _log_dirs),
    "IncrementalAlterConfigs": Adapter(0, 1, _alter, _altered),
}
"""By the API's name."""
