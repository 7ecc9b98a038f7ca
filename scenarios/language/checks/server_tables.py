"""Check the cluster and its topics: mode and releases, replication, properties of servers."""

from __future__ import annotations

from kafkasim.model.config import (
    BrokerConfig,
    ConfigError,
    TopicConfig,
    check_log_segment_bytes,
    check_segment_bytes,
)
from kafkasim.model.controller.common.records import ELR_FEATURE, METADATA_VERSION
from kafkasim.model.controller.kraft.feature_levels import (
    METADATA_VERSION_3_7_IV2,
    SUPPORTED,
    all_ranges,
    formatted,
    missing_dependency,
)
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.scenarios.language.checks.allowed import check_properties, some
from kafkasim.scenarios.language.tables import ClusterTable, Properties, Scenario, TopicTable
from kafkasim.scenarios.language.vocabulary import MODES, VERSIONS, Version


def check_mode(scenario: Scenario) -> None:
    """Check that the cluster has only servers and releases of its mode.

    Raises:
        ValueError: for the first mistake.
    """
    cluster = scenario.cluster
    fields = type(cluster).model_fields
    given = [name for name in fields if getattr(cluster, name) != fields[name].default]
    if cluster.mode == "zookeeper":
        for name in ("controllers", "combined", "standby_controllers"):
            if name in given:
                key = name.replace("_", "-")
                raise ValueError(
                    f'cluster.{key}: needs mode = "kraft"; in mode zookeeper a broker is the'
                    " controller"
                )
        if MODES[cluster.kafka_version] == "kraft":
            raise ValueError(
                f"cluster.kafka-version: {cluster.kafka_version} has no ZooKeeper; allowed:"
                " 2.8-zk, 3.9"
            )
        check_properties("cluster.zookeeper-config", ZooKeeperConfig, cluster.zookeeper_config)
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
    for name, node in cluster.nodes.items():
        if node.kafka_version is not None:
            check_version(f"cluster.nodes.{name}.kafka-version", node.kafka_version, cluster.mode)


def check_version(place: str, version: str, mode: str) -> None:
    """Check that a release of Kafka has a mode.

    Raises:
        ValueError: it has not.
    """
    allowed = [each for each in VERSIONS if MODES[each] in (mode, "")]
    if version not in allowed:
        raise ValueError(f"{place}: {version} has no mode {mode}; allowed: {', '.join(allowed)}")


def check_topics(scenario: Scenario) -> None:
    """Check every topic: one of each name, replicas on brokers that exist.

    Raises:
        ValueError: for the first mistake.
    """
    seen: list[str] = []
    for index, topic in enumerate(scenario.topics):
        place = f"topics.{index}"
        if topic.name in seen:
            raise ValueError(f"{place}.name: two topics are named {topic.name!r}")
        seen.append(topic.name)
        _check_assignment(place, topic, scenario.cluster.brokers)
        if topic.replication_factor > scenario.cluster.brokers:
            raise ValueError(
                f"{place}.replication-factor: {topic.replication_factor} is more than the"
                f" {scenario.cluster.brokers} brokers; allowed: 1 to {scenario.cluster.brokers}"
            )
        minimum = topic.config.get("min.insync.replicas")
        if isinstance(minimum, int) and minimum > topic.replication_factor:
            raise ValueError(
                f"{place}.config.min.insync.replicas: {minimum} is more than replication-factor"
                f" {topic.replication_factor}: no acks=all write could succeed"
            )
        check_properties(f"{place}.config", TopicConfig, topic.config)
        _check_segments(place, topic, scenario.cluster.versions[-1])


def _check_segments(place: str, topic: TopicTable, version: Version) -> None:
    """Check a topic's size of segments as the newest release in the cluster does."""
    try:
        check_segment_bytes(topic.config, VERSIONS.index(version) >= VERSIONS.index("4.1"))
    except ConfigError as error:
        raise ValueError(
            f"{place}.config.{error.key}: {error.message}: Kafka {version} answers INVALID_CONFIG"
        ) from None


def _check_assignment(place: str, topic: TopicTable, brokers: int) -> None:
    if not topic.assignment:
        return
    if len(topic.assignment) != topic.partitions:
        raise ValueError(
            f"{place}.assignment: {len(topic.assignment)} lists of replicas for"
            f" {topic.partitions} partitions; give one list for each"
        )
    factor = topic.replication_factor
    for replicas in topic.assignment:
        if len(replicas) != factor or len(dict.fromkeys(replicas)) != factor:
            raise ValueError(
                f"{place}.assignment: {replicas} are not {factor} different brokers, as"
                " replication-factor asks for"
            )
        if not all(1 <= replica <= brokers for replica in replicas):
            raise ValueError(f"{place}.assignment: {replicas} are not all in 1 to {brokers}")


def check_configs(scenario: Scenario, nodes: list[str]) -> None:
    """Check features and the properties of servers.

    Raises:
        ValueError: for the first mistake.
    """
    cluster = scenario.cluster
    _check_features(cluster)
    check_properties("cluster.config", BrokerConfig, cluster.config)
    for name, node in cluster.nodes.items():
        place = f"cluster.nodes.{name}"
        if name not in nodes:
            raise ValueError(f"{place}: no such node; allowed: {some(nodes)}")
        if node.fsync is not None:
            raise ValueError(f"{place}.fsync: is not modelled; use a fault of kind slow-disk")
        if node.disk_capacity is not None and not name.startswith("broker-"):
            raise ValueError(f"{place}.disk-capacity: only brokers have log directories with one")
        if node.config and not name.startswith(("broker-", "controller-")):
            raise ValueError(f"{place}.config: only brokers and controllers have properties")
        check_properties(f"{place}.config", BrokerConfig, {**cluster.config, **node.config})
    upgraded = [each.kafka_version for each in scenario.operations if each.kafka_version]
    newest = max([cluster.versions[-1], *upgraded], key=VERSIONS.index)
    if VERSIONS.index(newest) >= VERSIONS.index("4.0"):
        for name, config in _server_configs(scenario).items():
            _check_log_segments(name, config, newest)


def _server_configs(scenario: Scenario) -> dict[str, Properties]:
    """Return the properties that servers are given, now or by an upgrade, by their place."""
    cluster = scenario.cluster
    given = {"cluster.config": cluster.config}
    given |= {f"cluster.nodes.{name}.config": node.config for name, node in cluster.nodes.items()}
    for index, operation in enumerate(scenario.operations):
        if operation.kind == "upgrade":
            given[f"operations.{index}.config"] = operation.config
    return given


def _check_log_segments(place: str, config: Properties, version: Version) -> None:
    try:
        check_log_segment_bytes(config)
    except ConfigError as error:
        raise ValueError(
            f"{place}.{error.key}: {error.message}: a server of Kafka {version} does not start"
        ) from None


def _check_features(cluster: ClusterTable) -> None:
    """Check what kafka-storage format would refuse, and a broker at its start."""
    if cluster.mode != "kraft":
        if cluster.features:
            raise ValueError('cluster.features: needs mode = "kraft"')
        return
    ranges = all_ranges(SUPPORTED[cluster.versions[0]])
    known = {name: (low, high) for name, low, high in ranges}
    for name, level in cluster.features.items():
        low, high = known.get(name, (0, -1))
        if not low <= level <= high:
            allowed = ", ".join(f"{each} {low} to {high}" for each, low, high in ranges)
            raise ValueError(
                f"cluster.features.{name}: Kafka {cluster.versions[0]} does not support level"
                f" {level}; allowed: {allowed}"
            )
    levels = formatted(ranges, cluster.features)
    if (lacking := missing_dependency(levels)) is not None:
        raise ValueError(f"cluster.features: {ELR_FEATURE} 1 needs {lacking[0]} {lacking[1]}")
    if levels[METADATA_VERSION] < METADATA_VERSION_3_7_IV2:
        for config in (cluster.config, *(node.config for node in cluster.nodes.values())):
            if (
                len(BrokerConfig.from_properties(config).log_dirs) > 1
            ):  # KafkaConfig.validateWithMetadataVersion
                raise ValueError(
                    f"cluster.features.{METADATA_VERSION}: several log.dirs need"
                    f" {METADATA_VERSION_3_7_IV2}"
                )
