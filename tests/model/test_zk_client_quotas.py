"""Quotas of clients in ZooKeeper mode: their znodes, the notification, and what brokers do."""

from __future__ import annotations

import pytest

from kafkasim.model.controller.zk.store.zk_data import (
    CONFIG_CHANGES,
    QUOTA,
    ConfigChange,
    ConfigEntries,
    quota_entity_at,
    quota_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConfigChanged
from kafkasim.model.messages import (
    AlterClientQuotasRequest,
    ClientQuotaAlteration,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from kafkasim.model.messages.clients.admin import CLIENT_ID, USER, QuotaEntity
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from tests.model.zk_cluster import SECOND, ZkCluster

SENT, GOT = "producer_byte_rate", "consumer_byte_rate"
CLIENT: QuotaEntity = ((CLIENT_ID, "a/b"),)
OF_USER: QuotaEntity = ((CLIENT_ID, None), (USER, "ann"))
ANN: QuotaEntity = ((USER, "ann"),)


@pytest.fixture
def cluster() -> ZkCluster:
    return ZkCluster()


def alter(
    cluster: ZkCluster, entity: QuotaEntity, *rates: tuple[str, float | None], at: int = 2
) -> Errors:
    request = AlterClientQuotasRequest((ClientQuotaAlteration(entity, rates),))
    answer = cluster.ask(f"broker-{at}", request, 5 * SECOND)
    cluster.step(SECOND)
    ((_, error, _),) = answer.results
    assert answer.error is Errors.NONE
    return error  # type: ignore[no-any-return]


def known(cluster: ZkCluster) -> list[dict[QuotaEntity, dict[str, float]]]:
    return [cluster.broker(number).cache.image.client_quotas for number in (1, 2, 3)]


def below(cluster: ZkCluster, path: str) -> list[str]:
    """The znodes below a path."""
    nodes = cluster.processes["zookeeper-1"].database.tree.nodes
    return sorted(each for each in nodes if each.startswith(f"{path}/"))


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (CLIENT, "/config/clients/a%2Fb"),
        (((CLIENT_ID, None),), "/config/clients/<default>"),
        (((CLIENT_ID, "<default>"),), "/config/clients/%3Cdefault%3E"),
        (((USER, "a b~*"),), "/config/users/a%20b%7E%2A"),
        (OF_USER, "/config/users/ann/clients/<default>"),
        (((CLIENT_ID, "c"), (USER, None)), "/config/users/<default>/clients/c"),
    ],
)
def test_paths(entity: QuotaEntity, path: str) -> None:
    assert (quota_path(entity), quota_entity_at(path)) == (path, entity)


def test_any_broker_writes_a_quota_and_all_brokers_learn_it(cluster: ZkCluster) -> None:
    assert alter(cluster, CLIENT, (SENT, 1000.0), (GOT, 5.0), at=3) is Errors.NONE
    assert cluster.tree(quota_path(CLIENT)) == ConfigEntries(((SENT, "1000"), (GOT, "5")))
    (change,) = below(cluster, CONFIG_CHANGES)
    assert cluster.tree(change) == ConfigChange(QUOTA, quota_path(CLIENT))
    assert known(cluster) == [{CLIENT: {SENT: 1000.0, GOT: 5.0}}] * 3
    alter(cluster, CLIENT, (GOT, None))
    assert known(cluster) == [{CLIENT: {SENT: 1000.0}}] * 3
    assert [(f.resource, f.config, f.value) for f in cluster.seen(ConfigChanged)] == [
        ("client-id:a/b", SENT, "1000"),
        ("client-id:a/b", GOT, "5"),
        ("client-id:a/b", GOT, None),
    ]


def test_a_broker_that_was_down_reads_all_quotas(cluster: ZkCluster) -> None:
    cluster.crash("broker-3")
    alter(cluster, CLIENT, (SENT, 1000.0))
    alter(cluster, OF_USER, (GOT, 7.0))
    cluster.restart("broker-3")
    cluster.step(12 * SECOND)
    assert known(cluster) == [{CLIENT: {SENT: 1000.0}, OF_USER: {GOT: 7.0}}] * 3


def test_a_new_session_reads_what_it_missed(cluster: ZkCluster) -> None:
    cluster.cut("broker-3", "zookeeper-1")
    cluster.step(12 * SECOND)
    alter(cluster, CLIENT, (SENT, 1000.0))
    assert known(cluster)[2] == {}
    cluster.heal()
    cluster.step(5 * SECOND)
    assert known(cluster)[2] == {CLIENT: {SENT: 1000.0}}


def test_empty_znodes_are_deleted(cluster: ZkCluster) -> None:
    """tryCleanQuotaNodes: a user stays while it has quotas or clients."""
    alter(cluster, OF_USER, (SENT, 1.0))
    assert cluster.tree("/config/users/ann") == ConfigEntries(())
    alter(cluster, ANN, (GOT, 2.0))
    alter(cluster, OF_USER, (SENT, None))
    assert below(cluster, "/config/users") == ["/config/users/ann"]
    alter(cluster, OF_USER, (SENT, 1.0))
    alter(cluster, ANN, (GOT, None))
    assert cluster.tree("/config/users/ann") == ConfigEntries(())
    alter(cluster, ((CLIENT_ID, "c"), (USER, "ann")), (SENT, 3.0))
    alter(cluster, OF_USER, (SENT, None))
    assert known(cluster) == [{((CLIENT_ID, "c"), (USER, "ann")): {SENT: 3.0}}] * 3
    alter(cluster, ((CLIENT_ID, "c"), (USER, "ann")), (SENT, None))
    alter(cluster, CLIENT, (SENT, None))
    assert (below(cluster, "/config/users"), below(cluster, "/config/clients")) == ([], [])
    assert known(cluster) == [{}] * 3


def test_refusals_change_nothing(cluster: ZkCluster) -> None:
    for entity, key, rate in (
        ((), SENT, 1.0),
        (((CLIENT_ID, ""),), SENT, 1.0),
        ((("group", "g"),), SENT, 1.0),
        (CLIENT, "connection_creation_rate", 1.0),
        (CLIENT, SENT, 1.5),
        (CLIENT, SENT, -1.0),
    ):
        assert alter(cluster, entity, (GOT, 1.0), (key, rate)) is Errors.INVALID_REQUEST
    assert (known(cluster), below(cluster, CONFIG_CHANGES)) == ([{}] * 3, [])


def test_every_broker_describes_what_stands_in_zookeeper(cluster: ZkCluster) -> None:
    alter(cluster, CLIENT, (SENT, 1.0))
    alter(cluster, OF_USER, (SENT, 2.0))
    answer = cluster.ask("broker-1", DescribeClientQuotasRequest(()), 5 * SECOND)
    quotas = ((CLIENT, ((SENT, 1.0),)), (OF_USER, ((SENT, 2.0),)))
    assert answer == DescribeClientQuotasResponse(Errors.NONE, quotas)


def test_a_throttled_client_waits() -> None:
    scenario = {
        "name": "quota", "claim": "Who is above a quota waits.", "duration": "8s",
        "cluster": {"mode": "zookeeper", "zookeepers": 1, "brokers": 2},
        "topics": [{"name": "orders", "replication-factor": 2}],
        "workload": [{"kind": "producer", "rate": "40/s", "value-size": 1000}],
        "operations": [{"kind": "alter-client-quotas", "at": "0s", "user": "<default>",
                        "client-id": "producer-1", "config": {"producer_byte_rate": 4000}}],
    }  # fmt: skip
    result = run(parse(scenario, "quota"), 1)
    assert result.verdict == "pass"
    assert result.observations.keys() >= {"throttled:producer-1", "slow-acks:producer-1"}
