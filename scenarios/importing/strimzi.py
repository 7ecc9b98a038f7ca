"""Strimzi's resources: Kafka, KafkaNodePool and KafkaTopic.

A Kafka resource has its replicas itself, with ZooKeeper or without, or in node pools that have a
label with its name. Volumes of jbod storage are log directories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkasim.scenarios.importing.given import Given, Server
from kafkasim.scenarios.language.spec import ScenarioError

Resource = tuple[Path, Mapping[str, Any]]

READ = ("Kafka", "KafkaNodePool", "KafkaTopic")


def text(value: Any) -> str:
    """Return a value of YAML as a properties file has it."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)


def read(resources: Sequence[Resource], given: Given) -> None:
    """Add what the resources say to ``given``.

    Raises:
        ScenarioError: there are two clusters, a pool without one, or a key of another type.
    """
    of: dict[str, list[Resource]] = {kind: [] for kind in READ}
    for path, each in resources:
        if each["kind"] in of:
            of[each["kind"]].append((path, each))
        else:
            given.left_out.append(f"{each['kind']} ({path}): is no cluster and no topic")
    clusters = of["Kafka"]
    if len(clusters) > 1:
        names = ", ".join(_name(each) for _, each in clusters)
        raise ScenarioError(
            f"{clusters[1][0]}: the files have several clusters ({names}); give one"
        )
    if clusters:
        _cluster(*clusters[0], of["KafkaNodePool"], given)
    elif of["KafkaNodePool"]:
        raise ScenarioError(
            f"{of['KafkaNodePool'][0][0]}: a KafkaNodePool; give the Kafka resource, too"
        )
    for path, each in of["KafkaTopic"]:
        _topic(path, each, given)


def _cluster(
    path: Path, resource: Mapping[str, Any], pools: Sequence[Resource], given: Given
) -> None:
    spec = _table(path, resource, "spec")
    kafka = _table(path, spec, "kafka", "spec.")
    config = {str(key): text(value) for key, value in _table(path, kafka, "config").items()}
    given.name = _name(resource) or given.name
    given.version = text(kafka.get("version")) or given.version
    given.all_servers, given.racks = True, "rack" in kafka
    given.zookeepers = 0 if pools else _count(path, _table(path, spec, "zookeeper"), 0)
    if pools:
        for where, pool in pools:
            of_pool = _table(where, pool, "spec")
            roles = of_pool.get("roles") or ["broker"]
            _servers(
                where, of_pool, f"pool {_name(pool)}", ",".join(map(str, roles)), config, given
            )
    elif given.zookeepers:
        _servers(path, kafka, "spec.kafka", "", config, given)
    else:
        _servers(path, kafka, "spec.kafka", "broker,controller", config, given)


def _servers(
    path: Path, spec: Mapping[str, Any], what: str, roles: str, config: Mapping[str, str],
    given: Given,
) -> None:  # fmt: skip
    own = dict(config)
    own |= {"process.roles": roles} if roles else {"zookeeper.connect": "zookeeper:2181"}
    storage = _table(path, spec, "storage")
    volumes = storage.get("volumes") if storage.get("type") == "jbod" else None
    if isinstance(volumes, list) and len(volumes) > 1 and "broker" in (roles or "broker"):
        own["log.dirs"] = ",".join(f"/var/lib/kafka/data-{n}" for n in range(len(volumes)))
    for number in range(_count(path, spec, 3)):
        given.servers.append(Server(f"{path}: {what}[{number}]", own))
    for key in ("resources", "jvmOptions", "storage"):
        if key in spec:
            given.left_out.append(f"{what}.{key} ({path}): sizes of machines have no effect")


def _topic(path: Path, resource: Mapping[str, Any], given: Given) -> None:
    spec = _table(path, resource, "spec")
    name = text(spec.get("topicName")) or _name(resource)
    topic: dict[str, Any] = {"name": name}
    for key, ours in (("partitions", "partitions"), ("replicas", "replication-factor")):
        if key in spec:
            topic[ours] = _count(path, spec, 1, key)
    config = {str(key): text(value) for key, value in _table(path, spec, "config").items()}
    given.topics.append(topic | ({"config": config} if config else {}))


def _name(resource: Mapping[str, Any]) -> str:
    metadata = resource.get("metadata")
    return text(metadata.get("name")) if isinstance(metadata, Mapping) else ""


def _table(path: Path, of: Mapping[str, Any], key: str, above: str = "") -> Mapping[str, Any]:
    found = of.get(key)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise ScenarioError(f"{path}: {above}{key}: {found!r} is not a table")
    return found


def _count(path: Path, spec: Mapping[str, Any], default: int, key: str = "replicas") -> int:
    if not spec:
        return default
    found = spec.get(key, default or 3)
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise ScenarioError(f"{path}: {key}: {found!r} is not a number above 0")
    return found
