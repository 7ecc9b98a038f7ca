"""aiokafka's keyword arguments as Kafka's properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kafkasim.model.config import ClientConfig, ConfigError, ConsumerConfig
from kafkasim.scenarios.applications.consuming.assignors import strategy
from kafkasim.scenarios.applications.session import Session

OUTSIDE = (
    "api_version", "bootstrap_servers", "connections_max_idle_ms", "consumer_timeout_ms", "loop",
    "sasl_", "security_protocol", "ssl_context",
)  # fmt: skip
"""Arguments, or beginnings of them, without a meaning here: the cluster is the scenario's."""

RENAMED = {"max_batch_size": "batch.size", "request_timeout_ms": "request.timeout.ms"}

C = TypeVar("C", bound=ClientConfig)


def properties(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments under Kafka's names; what has no meaning here is left out."""
    return {
        RENAMED.get(name, name.replace("_", ".")): value
        for name, value in arguments.items()
        if value is not None and not name.startswith(OUTSIDE)
    }


def config_of(kind: type[C], found: Mapping[str, Any], what: str) -> C:
    """Return a client's configuration.

    Raises:
        ValueError: an unknown key, or a value that is not allowed; ``what`` names the client.
    """
    try:
        return kind.from_properties(dict(found))
    except ConfigError as error:
        raise ValueError(f"{what}: {error}") from None


def consumer_config(place: Session, settings: dict[str, Any]) -> ConsumerConfig:
    """Return the configuration of a consumer from its keyword arguments.

    Raises:
        ValueError: an unknown key, a value that is not allowed, or another group.
    """
    asked = settings.pop("group_id", None)
    if asked is not None and asked != place.group:
        raise ValueError(
            f"group_id {asked!r}: the workload that the application runs for has the group"
            f" {place.group!r}; leave group_id out, or set the workload's group"
        )
    assignors = settings.pop("partition_assignment_strategy", None)
    found = {"client.id": place.node, **place.defaults, **properties(settings)}
    if assignors is not None:
        found["partition.assignment.strategy"] = strategy(assignors)
    return config_of(ConsumerConfig, found | {"group.id": place.group}, "AIOKafkaConsumer")
