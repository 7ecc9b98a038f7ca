"""Check the operations: each has the keys that its kind needs, and no others."""

from __future__ import annotations

from collections.abc import Iterable

from kafkasim.model.config import ConsumerConfig
from kafkasim.model.records import COORDINATOR_TOPICS
from kafkasim.scenarios.language.checks.allowed import check_properties, some
from kafkasim.scenarios.language.checks.fault_tables import check_node, check_when
from kafkasim.scenarios.language.checks.server_tables import check_version
from kafkasim.scenarios.language.nodes import ROLES, controller_hosts
from kafkasim.scenarios.language.tables import OperationTable, Scenario
from kafkasim.scenarios.language.vocabulary import ALL_BROKERS, QUORUM_VERBS, VERBS

MOVES = ("reassign", "elect-leader")
"""Operations that may name an internal topic: they move replicas and leaders, and lose nothing."""


def check_operations(scenario: Scenario, nodes: list[str]) -> None:
    """Check every operation; ``nodes`` are the names of all hosts.

    Raises:
        ValueError: for the first mistake.
    """
    topics = [topic.name for topic in scenario.topics]
    topics += [o.topic for o in scenario.operations if o.kind == "create-topic" and o.topic]
    for index, operation in enumerate(scenario.operations):
        place = f"operations.{index}"
        for name in [operation.node, *operation.nodes]:
            if name is not None and name != ALL_BROKERS:
                check_node(f"{place}.node", name, scenario, nodes)
                if name not in nodes and not name.startswith(_selectors(operation)):
                    raise ValueError(
                        f"{place}.node: {operation.kind} names no role: {name!r};"
                        f" allowed: {some(nodes)}"
                    )
        check_when(place, operation, scenario, nodes)
        if operation.at is None and operation.when is None:
            raise ValueError(f"{place}.at: give at, when, or both (at is then the delay)")
        if operation.kafka_version is not None:
            version, mode = operation.kafka_version, scenario.cluster.mode
            check_version(f"{place}.kafka-version", version, mode)
        _check_keys(place, operation)
        _check_names(place, operation, scenario, topics)
    _check_deployments(scenario)


def _check_deployments(scenario: Scenario) -> None:
    """Check the properties that each consumer has after each deployment to its group."""
    for workload in scenario.workload:
        if workload.kind != "consumer-group":
            continue
        config = dict(workload.config)
        for index, operation in enumerate(scenario.operations):
            if operation.kind == "rolling-deploy" and operation.group == workload.group:
                kept = {key: each for key, each in config.items() if key not in operation.remove}
                config = {**kept, **operation.config}
                check_properties(f"operations.{index}.config", ConsumerConfig, config)


def _selectors(operation: OperationTable) -> tuple[str, ...]:
    """Return the beginnings of selectors that an operation may name besides hosts.

    What stops and starts one machine looks a role up when it begins.
    """
    if operation.kind in ("stop", "start", "restart", "replace-disk"):
        return ("any-", *ROLES)
    return ("any-",)


def _check_keys(place: str, operation: OperationTable) -> None:
    verb = VERBS[operation.kind]
    given = [name.replace("_", "-") for name in operation.model_fields_set]
    for name in verb.needs:
        if name not in given:
            raise ValueError(f"{place}.{name}: is missing")
    fields = type(operation).model_fields
    for name in given:
        attribute = name.replace("-", "_")
        default = fields[attribute].get_default(call_default_factory=True)
        if name in ("kind", "at", "when", *verb.needs, *verb.takes):
            continue
        if getattr(operation, attribute) != default:  # a stored run's manifest holds all defaults
            allowed = ", ".join((*verb.needs, *verb.takes)) or "nothing"
            raise ValueError(f"{place}.{name}: {operation.kind} takes {allowed}")
    if operation.kind == "reassign" and bool(operation.replicas) == operation.cancel:
        raise ValueError(f"{place}.replicas: give either replicas or cancel")
    if operation.kind == "rolling-deploy":
        check_properties(f"{place}.config", ConsumerConfig, operation.config)
    targets = (operation.topic, operation.node, operation.group)
    if operation.kind == "alter-config" and len([t for t in targets if t is not None]) != 1:
        raise ValueError(f"{place}.topic: give either topic, node or group")


def _check_names(
    place: str, operation: OperationTable, scenario: Scenario, topics: Iterable[str]
) -> None:
    if operation.kind in QUORUM_VERBS:
        _check_quorum(place, operation, scenario)
    known = list(topics)
    if operation.kind in MOVES:
        known += COORDINATOR_TOPICS
    if operation.topic is not None and operation.topic not in known:
        raise ValueError(f"{place}.topic: no topic {operation.topic!r}; allowed: {some(known)}")
    if operation.kind == "alter-config" and operation.group is not None:
        if scenario.cluster.mode == "zookeeper":
            raise ValueError(f'{place}.group: alter-config of a group needs mode = "kraft"')
    groups = [w.group for w in scenario.workload if w.kind in ("consumer-group", "processor")]
    makes_it = operation.kind == "reset-offsets" and not groups  # as kafka-consumer-groups does
    if operation.group is not None and operation.group not in groups and not makes_it:
        raise ValueError(f"{place}.group: no group {operation.group!r}; allowed: {some(groups)}")


def _check_quorum(place: str, operation: OperationTable, scenario: Scenario) -> None:
    cluster = scenario.cluster
    if cluster.mode == "zookeeper":
        raise ValueError(f'{place}.kind: {operation.kind} needs mode = "kraft"')
    count = cluster.controllers + cluster.standby_controllers
    hosts = list(controller_hosts(count, cluster.combined).values())
    if operation.node is not None and operation.node not in hosts:
        raise ValueError(
            f"{place}.node: no controller runs on {operation.node!r}; allowed: {some(hosts)}"
        )
