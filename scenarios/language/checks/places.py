"""Where a scenario has the properties of Kafka: the hint for one that stands beside ``config``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from kafkasim.model.config import (
    BrokerConfig,
    Config,
    ConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    TopicConfig,
)

CLIENTS: dict[Any, type[Config]] = {
    "producer": ProducerConfig,
    "consumer-group": ConsumerConfig,
    "processor": ConsumerConfig,
    "share-group": ShareConsumerConfig,
}
"""The kind of a workload to what its ``config`` takes."""


def hint(place: str, key: str, value: Any, data: Mapping[str, Any]) -> str | None:
    """Return where a scenario has a property of Kafka, None of a key that is none.

    ``key`` was given in the table ``place`` of ``data``, "" for the top level, and is unknown
    there. A key with dots is a table in a table: ``value`` has the rest of it.
    """
    name = key
    while isinstance(value, Mapping) and len(value) == 1:
        rest, value = next(iter(value.items()))
        name += f".{rest}"
    found = [
        f"{table}.config.{name}"
        for table, config in _tables(data)
        if _knows(config, name) and (place == table or not place)
    ]
    return f"{name} is a property of Kafka; its key is {' or '.join(found)}" if found else None


def _tables(data: Mapping[str, Any]) -> list[tuple[str, type[Config]]]:
    """Return the tables of a scenario that have a ``config``, and whose properties that takes."""
    found: list[tuple[str, type[Config]]] = [("cluster", BrokerConfig)]
    for index in range(len(_list(data, "topics"))):
        found.append((f"topics.{index}", TopicConfig))
    for index, workload in enumerate(_list(data, "workload")):
        kind = workload.get("kind") if isinstance(workload, Mapping) else None
        if isinstance(kind, str) and kind in CLIENTS:
            found.append((f"workload.{index}", CLIENTS[kind]))
    return found


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    tables = data.get(key)
    return tables if isinstance(tables, list) else []


def _knows(config: type[Config], name: str) -> bool:
    return any(field.name.replace("_", ".") == name for field in fields(config))
