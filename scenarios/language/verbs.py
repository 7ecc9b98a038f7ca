"""The operator's verbs: what each of them needs and takes, and the check of what a user wrote.

    rolling-restart  nodes, kill, pause         restart, replace-disk  node, kill, pause
    stop             node, kill                 start                  node
    elect-leader     election, topic, partition reassign               topic, partition, replicas or cancel
    alter-config     topic or node, config, remove
    create-topic     topic, partitions, replication-factor, assignment, config
    create-partitions topic, partitions, assignment
    delete-topic     topic                      delete-records         topic, partition, offset
    unregister-broker node                      reset-offsets          group, topic, to
    add-voter        node                       remove-voter           node
    describe-quorum                             update-features        features
    upgrade          kafka-version, nodes, config, remove, kill, pause

``add-voter`` and ``remove-voter`` are kafka-metadata-quorum.sh add-controller (run on that node,
whose directory id it reads) and remove-controller (with the directory id that the quorum knows).
``upgrade`` is a rolling restart (of controllers and brokers) in which each node, while it is down,
gets another release and other settings; ``update-features`` finalizes levels of features.

Without ``topic`` elect-leader means all partitions, without ``partition`` a verb means all of the
topic. ``alter-config`` of the node ``brokers`` sets the default of all brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkasim.scenarios.running.nodes import controller_hosts

if TYPE_CHECKING:
    from kafkasim.scenarios.language.spec import Operation, Scenario

ALL_BROKERS = "brokers"
OF_THE_QUORUM = ("add-voter", "remove-voter", "describe-quorum", "update-features")


@dataclass(frozen=True, slots=True)
class Verb:
    """What a verb needs, and what else it takes, besides ``kind`` and ``at``."""

    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


VERBS: Mapping[str, Verb] = {
    "rolling-restart": Verb((), ("nodes", "kill", "pause")),
    "restart": Verb(("node",), ("kill", "pause")),
    "stop": Verb(("node",), ("kill",)),
    "start": Verb(("node",), ("kill",)),
    "replace-disk": Verb(("node",), ("kill", "pause")),
    "duplicate-broker": Verb(("node",)),
    "elect-leader": Verb((), ("election", "topic", "partition")),
    "reassign": Verb(("topic",), ("partition", "replicas", "cancel")),
    "alter-config": Verb((), ("topic", "node", "config", "remove")),
    "create-topic": Verb(("topic",), ("partitions", "replication-factor", "assignment", "config")),
    "create-partitions": Verb(("topic", "partitions"), ("assignment",)),
    "delete-topic": Verb(("topic",)),
    "delete-records": Verb(("topic", "offset"), ("partition",)),
    "unregister-broker": Verb(("node",)),
    "upgrade": Verb(("kafka-version",), ("nodes", "config", "remove", "kill", "pause")),
    "update-features": Verb(("features",)),
    "add-voter": Verb(("node",)),
    "remove-voter": Verb(("node",)),
    "describe-quorum": Verb(),
    "reset-offsets": Verb(("group", "topic"), ("to",)),
}


def check_operation(
    place: str, operation: Operation, scenario: Scenario, topics: Iterable[str]
) -> None:
    """Raise ValueError for the first mistake; ``topics`` are those that may exist."""
    verb = VERBS[operation.kind]
    given = [name.replace("_", "-") for name in operation.model_fields_set]
    for name in verb.needs:
        if name not in given:
            raise ValueError(f"{place}.{name}: is missing")
    for name in given:
        if name not in ("kind", "at", *verb.needs, *verb.takes):
            allowed = ", ".join((*verb.needs, *verb.takes)) or "nothing"
            raise ValueError(f"{place}.{name}: {operation.kind} takes {allowed}")
    if operation.kind in OF_THE_QUORUM:
        _check_quorum(place, operation, scenario)
    known = list(topics)
    if operation.topic is not None and operation.topic not in known:
        raise ValueError(
            f"{place}.topic: no topic {operation.topic!r}; allowed: {', '.join(known)}"
        )
    if operation.kind == "reassign" and bool(operation.replicas) == operation.cancel:
        raise ValueError(f"{place}.replicas: give either replicas or cancel")
    if operation.kind == "alter-config" and (operation.topic is None) == (operation.node is None):
        raise ValueError(f"{place}.topic: give either topic or node")
    groups = [w.group for w in scenario.workload if w.kind == "consumer-group"]
    if operation.group is not None and operation.group not in groups:
        raise ValueError(f"{place}.group: no group {operation.group!r}; allowed: {groups}")


def _check_quorum(place: str, operation: Operation, scenario: Scenario) -> None:
    cluster = scenario.cluster
    if cluster.mode == "zookeeper":
        raise ValueError(f'{place}.kind: {operation.kind} needs mode = "kraft"')
    count = cluster.controllers + cluster.standby_controllers
    hosts = list(controller_hosts(count, cluster.combined).values())
    if operation.node is not None and operation.node not in hosts:
        raise ValueError(
            f"{place}.node: no controller runs on {operation.node!r}; allowed: {hosts}"
        )
