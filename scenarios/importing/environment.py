"""Variables of containers, such as KAFKA_NODE_ID, under the names of Kafka's properties.

The images of Apache and Confluent take KAFKA_…, Bitnami's KAFKA_CFG_…: after the prefix ``___`` is
a dash, ``__`` an underscore and ``_`` a dot.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFIXES = ("KAFKA_CFG_", "KAFKA_")
OF_THE_IMAGE = (
    "KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_JVM_", "KAFKA_GC_LOG", "KAFKA_LOG4J", "KAFKA_JMX",
    "KAFKA_VERSION", "KAFKA_HOME", "KAFKA_CLUSTER_ID", "KAFKA_KRAFT_", "KAFKA_ENABLE_KRAFT",
    "KAFKA_CREATE_TOPICS", "KAFKA_DEBUG", "KAFKA_REST_", "KAFKA_TOOLS_LOG4J", "KAFKA_CLIENT_",
    "KAFKA_INTER_BROKER_USER", "KAFKA_INTER_BROKER_PASSWORD", "KAFKA_CONTROLLER_USER",
    "KAFKA_CERTIFICATE_PASSWORD", "KAFKA_TLS_", "KAFKA_ZOOKEEPER_PROTOCOL", "KAFKA_ADVERTISED_HOST",
)  # fmt: skip
"""Beginnings of variables that the image or the JVM reads, and no broker."""


def is_environment(found: Mapping[str, str]) -> bool:
    """Return whether a file of ``key=value`` lines is one of variables."""
    return any(key.removeprefix("export ").startswith("KAFKA_") for key in found)


def properties(variables: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the properties that variables set, and the variables that set none."""
    found: dict[str, str] = {}
    others: list[str] = []
    for given, value in variables.items():
        name = given.removeprefix("export ").strip()
        prefix = next((each for each in PREFIXES if name.startswith(each)), None)
        if prefix is None or name.startswith(OF_THE_IMAGE):
            others.append(name)
            continue
        rest = name.removeprefix(prefix).replace("___", "-").replace("__", "\0")
        key = rest.replace("_", ".").replace("\0", "_").lower()
        found[key] = value.strip().strip("\"'")
    return found, others
