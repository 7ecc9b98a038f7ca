"""aiokafka's keyword arguments as Kafka's properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from kafkasim.model.config import ClientConfig, ConfigError, ConsumerConfig
from kafkasim.scenarios.applications.consuming.assignors import strategy
from kafkasim.scenarios.applications.session import Session
from kafkasim.scenarios.language.checks.allowed import meant

CONNECTING = ("bootstrap_servers", "loop")
"""Arguments that every application sets, and that the scenario's cluster replaces."""

OUTSIDE = (
    "api_version", "connections_max_idle_ms", "consumer_timeout_ms", "sasl_kerberos_domain_name",
    "sasl_kerberos_service_name", "sasl_mechanism", "sasl_oauth_token_provider",
    "sasl_plain_password", "sasl_plain_username", "security_protocol", "ssl_context",
)  # fmt: skip
"""Arguments without an effect here. A run tells which of them were set."""

RENAMED = {"max_batch_size": "batch_size"}

REFUSED = {
    "rebalance_timeout_ms": "as in Kafka's consumer, max_poll_interval_ms is the time to rejoin"
}
"""Arguments of aiokafka alone, and what has their place in Kafka's clients"""

C = TypeVar("C", bound=ClientConfig)


def properties(
    place: Session, kind: type[ClientConfig], arguments: Mapping[str, Any], what: str
) -> dict[str, Any]:
    """Return keyword arguments of a client under Kafka's names; what has no effect is left out.

    Raises:
        ValueError: there is no such argument; ``what`` names the client.
    """
    known = [field.name for field in fields(kind)]
    found = {}
    for name, value in arguments.items():
        own = RENAMED.get(name, name)
        if value is None or name in CONNECTING:
            continue
        if name in OUTSIDE:
            place.ignored[name] = None
        elif own in known:
            found[own.replace("_", ".")] = value
        else:
            why = REFUSED.get(name) or f"unknown argument; {meant(name, known)}"
            raise ValueError(f"{what}: {name}: {why}")
    return found


def refused(error: ConfigError, arguments: Mapping[str, Any], what: str) -> ValueError:
    """Return the error of a client; a setting is named as the application has named it."""
    own = {RENAMED.get(name, name).replace("_", "."): name for name in arguments}
    return ValueError(f"{what}: {own.get(error.key, error.key)}: {error.message}")


def config_of(
    kind: type[C], found: Mapping[str, Any], arguments: Mapping[str, Any], what: str
) -> C:
    """Return a client's configuration from properties, some of them from its ``arguments``.

    Raises:
        ValueError: a value that is not allowed; ``what`` names the client.
    """
    try:
        return kind.from_properties(dict(found))
    except ConfigError as error:
        raise refused(error, arguments, what) from None


def consumer_config(place: Session, settings: dict[str, Any]) -> ConsumerConfig:
    """Return the configuration of a consumer from its keyword arguments.

    Raises:
        ValueError: an unknown argument, a value that is not allowed, or another group.
    """
    what = "AIOKafkaConsumer"
    asked = settings.pop("group_id", None)
    if asked is not None and not place.group:
        raise ValueError(
            f"group_id {asked!r}: the application runs for a workload of kind producer, which has"
            " no group; use kind consumer-group"
        )
    if asked is not None and asked != place.group:
        raise ValueError(
            f"group_id {asked!r}: the workload that the application runs for has the group"
            f" {place.group!r}; leave group_id out, or set the workload's group"
        )
    assignors = settings.pop("partition_assignment_strategy", None)
    own = properties(place, ConsumerConfig, settings, what)
    found = {"client.id": place.node, **place.defaults, **own}
    if assignors is not None:
        found["partition.assignment.strategy"] = strategy(assignors)
    return config_of(ConsumerConfig, found | {"group.id": place.group}, settings, what)
