"""What concerns several tables of a scenario: names that must exist, settings that must agree.

Each mistake raises ValueError with the key's path first and what is allowed behind it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.config import (
    BrokerConfig,
    Config,
    ConfigError,
    ConsumerConfig,
    ProducerConfig,
    TopicConfig,
)
from kafkasim.model.controller.common.records import ELR_FEATURE
from kafkasim.model.facts import FACTS
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.scenarios.judging.observations import OBSERVATIONS
from kafkasim.scenarios.language.translate import log_dirs_of, translate
from kafkasim.scenarios.language.verbs import ALL_BROKERS, check_operation
from kafkasim.scenarios.language.versions import MODES, VERSIONS
from kafkasim.sim.faults.faults import KINDS, FaultError, validate

if TYPE_CHECKING:
    from kafkasim.scenarios.language.spec import Fault, Scenario, Topic

SELECTORS = ("leader:", "follower:", "coordinator:", "active-controller", "any-", "@node")
ANY = ("any-broker", "any-controller", "any-zookeeper", "any-producer", "any-consumer")


def check(scenario: Scenario) -> None:
    """Raise ValueError for the first mistake."""
    _check_mode(scenario)
    _check_topics(scenario)
    _check_configs(scenario)
    _check_workloads(scenario)
    nodes = node_names(scenario)
    for index, fault in enumerate(scenario.faults):
        _check_fault(f"faults.{index}", fault, scenario, nodes)
    for index, operation in enumerate(scenario.operations):
        for name in [operation.node, *operation.nodes]:
            if name not in (None, ALL_BROKERS):
                _check_node(f"operations.{index}.node", str(name), scenario, nodes)
                if name not in nodes and not str(name).startswith("any-"):
                    raise ValueError(f"operations.{index}.node: only faults name roles: {name!r}")
        if operation.kafka_version is not None:
            place = f"operations.{index}.kafka-version"
            check_version(place, operation.kafka_version, scenario.cluster.mode)
        topics = [topic.name for topic in scenario.topics]
        topics += [o.topic for o in scenario.operations if o.kind == "create-topic" and o.topic]
        check_operation(f"operations.{index}", operation, scenario, topics)
    _check_observations(scenario)


def _check_mode(scenario: Scenario) -> None:
    """Each mode has its own servers and its own versions of Kafka."""
    cluster = scenario.cluster
    fields = type(cluster).model_fields
    given = [name for name in fields if getattr(cluster, name) != fields[name].default]
    if cluster.mode == "zookeeper":
        for name in ("controllers", "combined", "standby_controllers"):
            if name in given:
                key = name.replace("_", "-")
                raise ValueError(f"cluster.{key}: in mode zookeeper a broker is the controller")
        if cluster.kafka_version == "4.0":
            raise ValueError("cluster.kafka-version: 4.0 has no ZooKeeper; allowed: 2.8-zk, 3.9")
        _properties("cluster.zookeeper-config", ZooKeeperConfig, cluster.zookeeper_config)
    else:
        for name, key in (("zookeepers",) * 2, ("zookeeper_config", "zookeeper-config")):
            if name in given:
                raise ValueError(f'cluster.{key}: needs mode = "zookeeper"')
        if cluster.kafka_version == "2.8-zk":
            raise ValueError('cluster.kafka-version: 2.8-zk needs mode = "zookeeper"')
        most = min(cluster.brokers, cluster.controllers)
        if cluster.combined > most:
            raise ValueError(
                f"cluster.combined: {cluster.combined} is more than the brokers or the controllers;"
                f" allowed: 0 to {most}"
            )
    for name, host in cluster.nodes.items():
        if host.kafka_version is not None:
            check_version(f"cluster.nodes.{name}.kafka-version", host.kafka_version, cluster.mode)


def check_version(place: str, version: str, mode: str) -> None:
    """Raise ValueError if a mode has no such version of Kafka."""
    allowed = [each for each in VERSIONS if MODES[each] == mode or MODES[each] == ""]
    if version not in allowed:
        raise ValueError(f"{place}: {version} has no mode {mode}; allowed: {', '.join(allowed)}")


def node_names(scenario: Scenario) -> list[str]:
    """Return the names of all hosts: broker-1…, controller-1…, producer-1…, consumer-1…."""
    cluster = scenario.cluster
    names = [f"broker-{i}" for i in range(1, cluster.brokers + 1)]
    if cluster.mode == "zookeeper":
        names += [f"zookeeper-{i}" for i in range(1, cluster.zookeepers + 1)]
    else:
        last = cluster.controllers + cluster.standby_controllers
        names += [f"controller-{i}" for i in range(cluster.combined + 1, last + 1)]
    producers = sum(w.count for w in scenario.workload if w.kind == "producer")
    consumers = sum(w.count for w in scenario.workload if w.kind == "consumer-group")
    names += [f"producer-{i}" for i in range(1, producers + 1)]
    names += [f"consumer-{i}" for i in range(1, consumers + 1)]
    return names


def _check_topics(scenario: Scenario) -> None:
    seen: list[str] = []
    for index, topic in enumerate(scenario.topics):
        place = f"topics.{index}"
        if topic.name in seen:
            raise ValueError(f"{place}.name: {topic.name!r} is there twice")
        seen.append(topic.name)
        if topic.replication_factor > scenario.cluster.brokers:
            raise ValueError(
                f"{place}.replication-factor: {topic.replication_factor} is more than the"
                f" {scenario.cluster.brokers} brokers; allowed: 1 to {scenario.cluster.brokers}"
            )
        _check_assignment(place, topic, scenario.cluster.brokers)
        minimum = topic.config.get("min.insync.replicas")
        if isinstance(minimum, int) and minimum > topic.replication_factor:
            raise ValueError(
                f"{place}.config.min.insync.replicas: {minimum} is more than replication-factor"
                f" {topic.replication_factor}: no acks=all write could succeed"
            )
        _properties(f"{place}.config", TopicConfig, topic.config)


def _check_assignment(place: str, topic: Topic, brokers: int) -> None:
    if not topic.assignment:
        return
    if len(topic.assignment) != topic.partitions:
        raise ValueError(f"{place}.assignment: has not one list for each of the partitions")
    for replicas in topic.assignment:
        if len(replicas) != topic.replication_factor or len(dict.fromkeys(replicas)) != len(
            replicas
        ):
            raise ValueError(
                f"{place}.assignment: {replicas} are not {topic.replication_factor} brokers"
            )
        if not all(1 <= replica <= brokers for replica in replicas):
            raise ValueError(f"{place}.assignment: {replicas} are not all in 1 to {brokers}")


def _check_configs(scenario: Scenario) -> None:
    for name, level in scenario.cluster.features.items():
        if name != ELR_FEATURE or level not in (0, 1):
            raise ValueError(f"cluster.features.{name}: allowed is {ELR_FEATURE} with 0 or 1")
        if level and scenario.cluster.kafka_version != "4.0":
            raise ValueError(f"cluster.features.{name}: came with kafka-version 4.0")
    _properties("cluster.config", BrokerConfig, scenario.cluster.config)
    nodes = node_names(scenario)
    for name, host in scenario.cluster.nodes.items():
        if name not in nodes:
            raise ValueError(f"cluster.nodes.{name}: no such node; allowed: {_some(nodes)}")
        if host.config and not name.startswith(("broker-", "controller-")):
            raise ValueError(f"cluster.nodes.{name}.config: only brokers and controllers have one")
        merged = {**scenario.cluster.config, **host.config}
        _properties(f"cluster.nodes.{name}.config", BrokerConfig, merged)


def _check_workloads(scenario: Scenario) -> None:
    topics = [topic.name for topic in scenario.topics]
    for index, workload in enumerate(scenario.workload):
        place = f"workload.{index}"
        if not topics:
            raise ValueError(f"{place}: there is no topic; add a [[topics]] table")
        if workload.kind == "producer":
            named = [workload.topic] if workload.topic is not None else []
            key = f"{place}.topic"
            _properties(f"{place}.config", ProducerConfig, workload.config)
        else:
            named, key = workload.topics, f"{place}.topics"
            _properties(f"{place}.config", ConsumerConfig, workload.config)
        for name in named:
            if name not in topics:
                raise ValueError(f"{key}: no topic {name!r}; allowed: {_some(topics)}")


def _check_fault(place: str, fault: Fault, scenario: Scenario, nodes: list[str]) -> None:
    if fault.kind != "nemesis" and fault.at is None and fault.when is None:
        raise ValueError(
            f"{place}: give at, when, or both: at is then the delay after the condition"
        )
    if fault.every is not None and fault.at is None:
        raise ValueError(f"{place}.every: needs at")
    if fault.count > 1 and fault.every is None:
        raise ValueError(f"{place}.count: needs every")
    if fault.when is not None and fault.when.fact not in FACTS:
        raise ValueError(
            f"{place}.when.fact: no fact {fault.when.fact!r}; allowed: {', '.join(FACTS)}"
        )
    if fault.kind == "nemesis":
        for kind in fault.kinds:
            if kind not in KINDS:
                raise ValueError(f"{place}.kinds: no kind {kind!r}; allowed: {', '.join(KINDS)}")
    elif fault.kind == "rack-loss":
        if fault.rack not in scenario.cluster.racks:
            racks = _some(scenario.cluster.racks) or "none: cluster.racks is empty"
            raise ValueError(f"{place}.rack: no rack {fault.rack!r}; allowed: {racks}")
    elif fault.node is None and not fault.nodes:
        raise ValueError(f"{place}.node: is missing")
    if fault.kind != "nemesis":
        _check_as_data(place, fault, scenario, nodes)
    for key, names in (("node", [fault.node]), ("nodes", fault.nodes), ("peers", fault.peers)):
        for name in names:
            if name is not None:
                _check_node(f"{place}.{key}", name, scenario, nodes)


def _check_as_data(place: str, fault: Fault, scenario: Scenario, nodes: list[str]) -> None:
    try:
        combined = scenario.cluster.combined
        log_dirs = _check_dir(place, fault, scenario)
        validate(translate(fault, nodes, random.Random(0), 0, combined=combined, log_dirs=log_dirs))
    except FaultError as error:
        raise ValueError(f"{place}.{error.field}: {error.problem}") from None


def _check_dir(place: str, fault: Fault, scenario: Scenario) -> tuple[str, ...]:
    """Check the log directory that a fault names; return those of its node."""
    log_dirs = log_dirs_of(scenario.cluster, fault.node)
    if fault.dir is not None:
        if "path" not in KINDS[fault.kind].parameters:
            raise ValueError(f"{place}.dir: {fault.kind} is no fault of a directory")
        if fault.path is not None:
            raise ValueError(f"{place}.dir: give dir or path, not both")
        if fault.dir not in log_dirs:
            known = ", ".join(log_dirs) or "none: log.dirs is not set"
            raise ValueError(f"{place}.dir: no log directory {fault.dir!r}; allowed: {known}")
    return log_dirs


def _check_node(place: str, name: str, scenario: Scenario, nodes: list[str]) -> None:
    if name in nodes:
        return
    if not name.startswith(SELECTORS):
        raise ValueError(
            f"{place}: no node {name!r}; allowed: {_some(nodes)}, or a selector"
            " (leader:TOPIC-P, follower:TOPIC-P, active-controller, coordinator:GROUP, any-broker)"
        )
    selector, _, argument = name.partition(":")
    if selector in ("leader", "follower"):
        topic, _, partition = argument.rpartition("-")
        known = {t.name: t.partitions for t in scenario.topics}
        if topic not in known:
            raise ValueError(f"{place}: no topic {topic!r}; allowed: {_some(list(known))}")
        if not partition.isdigit() or int(partition) >= known[topic]:
            raise ValueError(f"{place}: {topic} has partitions 0 to {known[topic] - 1}")
    elif name.startswith("any-") and name not in ANY:
        raise ValueError(f"{place}: no selector {name!r}; allowed: {_some(ANY)}")


def _check_observations(scenario: Scenario) -> None:
    from kafkasim.scenarios.language.spec import ANOMALIES

    expect = scenario.expect
    topics = [topic.name for topic in scenario.topics]
    for name in expect.permits:
        anomaly, colon, topic = name.partition(":")
        if anomaly not in ANOMALIES:
            raise ValueError(
                f"expect.permits: no anomaly {anomaly!r}; allowed: {', '.join(ANOMALIES)}"
            )
        if colon and topic not in topics:
            raise ValueError(f"expect.permits: no topic {topic!r}; allowed: {_some(topics)}")
    for key, names in (
        ("must-see", expect.must_see),
        ("in-time", expect.in_time),
        ("fleet-must-see", expect.fleet_must_see),
        ("never", expect.never),
    ):
        for name in names:
            if name.partition(":")[0] not in OBSERVATIONS:
                raise ValueError(
                    f"expect.{key}: no observation {name!r}; allowed: {', '.join(OBSERVATIONS)}"
                )


def _properties(place: str, config: type[Config], properties: object) -> None:
    assert isinstance(properties, dict), properties
    try:
        if config is ProducerConfig:
            config.from_properties({"enable.idempotence": False, **properties})  # each on its own
            producer_config(properties)
        else:
            config.from_properties(properties)
    except ConfigError as error:
        raise ValueError(f"{place}.{error.key}: {error.message}") from None


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:12]) + (f", … ({len(shown)} in all)" if len(shown) > 12 else "")
