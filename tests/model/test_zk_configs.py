"""Dynamic settings in ZooKeeper mode: written, announced, taken over by brokers and controller."""

from __future__ import annotations

import pytest

from kafkasim.model.controller.zk.store.zk_data import (
    ConfigEntries,
    broker_config_path,
    config_path,
    state_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConfigChanged, PartitionChanged
from kafkasim.model.messages import (
    AlterableConfig,
    IncrementalAlterConfigsRequest,
    UnregisterBrokerRequest,
)
from kafkasim.model.messages.clients.admin import BROKER, TOPIC
from tests.model.zk_cluster import SECOND, TP, ZkCluster

NONE = Errors.NONE
UNCLEAN = "unclean.leader.election.enable"


@pytest.fixture
def cluster() -> ZkCluster:
    cluster = ZkCluster()
    cluster.create()
    return cluster


def alter(
    cluster: ZkCluster, kind: str, name: str, *configs: tuple[str, str | None], at: int = 2
) -> Errors:
    request = IncrementalAlterConfigsRequest((AlterableConfig(kind, name, configs),))
    at = int(name) if kind == BROKER and name.isdigit() else at  # only it serves its settings
    answer = cluster.ask(f"broker-{at}", request, 5 * SECOND)
    assert answer.error is NONE, answer
    cluster.step(SECOND)
    error: Errors = answer.results[0][2]
    return error


def test_a_topic_setting_takes_effect_on_all_replicas(cluster: ZkCluster) -> None:
    settings = (("min.insync.replicas", "3"), ("retention.ms", "1000"))
    assert alter(cluster, TOPIC, "orders", *settings) is NONE
    assert cluster.tree(config_path("orders")) == ConfigEntries(settings)
    assert [cluster.partition(n).min_isr for n in (1, 2, 3)] == [3, 3, 3]
    assert [cluster.partition(n).log.config.retention_ms for n in (1, 2, 3)] == [1000] * 3
    assert alter(cluster, TOPIC, "orders", ("min.insync.replicas", None)) is NONE
    assert cluster.tree(config_path("orders")) == ConfigEntries(settings[1:])
    assert [cluster.partition(n).min_isr for n in (1, 2, 3)] == [2, 2, 2]
    changes = [(f.resource, f.config, f.value) for f in cluster.seen(ConfigChanged)]
    assert changes == [
        ("topic:orders", "min.insync.replicas", "3"),
        ("topic:orders", "retention.ms", "1000"),
        ("topic:orders", "min.insync.replicas", None),
    ]


def test_a_replica_that_was_down_or_is_new_has_the_settings_too(cluster: ZkCluster) -> None:
    cluster.crash("broker-3")
    alter(cluster, TOPIC, "orders", ("min.insync.replicas", "1"))
    cluster.restart("broker-3")
    cluster.step(12 * SECOND)
    assert cluster.partition(3).min_isr == 1


def test_a_broker_setting_concerns_that_broker_only(cluster: ZkCluster) -> None:
    assert alter(cluster, BROKER, "3", ("leader.replication.throttled.rate", "1000")) is NONE
    rates = [
        cluster.broker(n).replicas.settings.current.leader_replication_throttled_rate
        for n in (1, 2, 3)
    ]
    assert rates[2] == 1000
    assert rates[0] == rates[1] > 1000
    assert alter(cluster, BROKER, "", ("min.insync.replicas", "1")) is NONE
    assert [cluster.partition(n).min_isr for n in (1, 2, 3)] == [1, 1, 1]
    assert cluster.tree(broker_config_path("")) == ConfigEntries((("min.insync.replicas", "1"),))
    cluster.crash("broker-3")
    cluster.restart("broker-3")
    cluster.step(12 * SECOND)
    assert cluster.broker(3).replicas.settings.current.leader_replication_throttled_rate == 1000
    assert cluster.partition(3).min_isr == 1


@pytest.mark.parametrize(
    ("kind", "name", "key", "text", "error"),
    [
        (TOPIC, "nowhere", "retention.ms", "1", Errors.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "orders", "min.insync.replicas", "0", Errors.INVALID_CONFIG),
        (BROKER, "1", "zookeeper.session.timeout.ms", "1", Errors.INVALID_REQUEST),
        (BROKER, "one", "min.insync.replicas", "1", Errors.INVALID_REQUEST),
        (TOPIC, "", "retention.ms", "1", Errors.INVALID_REQUEST),
    ],
)
def test_refusals(
    cluster: ZkCluster, kind: str, name: str, key: str, text: str, error: Errors
) -> None:
    assert alter(cluster, kind, name, (key, text)) is error
    assert not cluster.seen(ConfigChanged)


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "orders"), (BROKER, "")])
def test_unclean_elections_begin_when_they_are_allowed(
    cluster: ZkCluster, kind: str, name: str
) -> None:
    cluster.step(SECOND)
    cluster.crash("broker-2")
    cluster.crash("broker-3")
    cluster.step(12 * SECOND)
    assert cluster.tree(state_path(TP)).isr == (1,)
    cluster.crash("broker-1")
    cluster.restart("broker-2")
    cluster.step(12 * SECOND)
    state = cluster.tree(state_path(TP))
    assert (state.leader, state.isr) == (-1, (1,))
    assert alter(cluster, kind, name, (UNCLEAN, "true")) is NONE
    assert cluster.tree(state_path(TP)).leader == 2
    assert cluster.seen(PartitionChanged)[-1].unclean


def test_a_new_session_watches_again(cluster: ZkCluster) -> None:
    cluster.cut("broker-3", "zookeeper-1")
    cluster.step(12 * SECOND)
    alter(cluster, TOPIC, "orders", ("min.insync.replicas", "1"))
    assert cluster.partition(3).min_isr == 2
    cluster.heal()
    cluster.step(5 * SECOND)
    assert cluster.partition(3).min_isr == 1
    alter(cluster, TOPIC, "orders", ("min.insync.replicas", "3"))
    assert cluster.partition(3).min_isr == 3


def test_what_only_kraft_serves_is_refused(cluster: ZkCluster) -> None:
    answer = cluster.ask("broker-3", UnregisterBrokerRequest(2))
    assert answer.error is Errors.UNSUPPORTED_VERSION
