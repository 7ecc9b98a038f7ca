"""Requests that brokers of older releases answer otherwise than those of 4.0."""

from __future__ import annotations

import pytest

from kafkasim.model.broker import BrokerRules
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
    FetchPartition,
    FindCoordinatorRequest,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
)
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.scenarios.variants.releases import RULES
from tests.model.broker_cluster import TP, Cluster
from tests.model.cluster_verbs import SECOND
from tests.model.zk_cluster import ZkCluster


def cluster_of(release: str) -> Cluster:
    """Return a cluster whose brokers have the rules of a release."""
    rules = RULES.get(release, {})
    parts = {
        part: rules[part]() for part in ("group", "replication", "transaction") if part in rules
    }
    cluster = Cluster(BrokerRules(**parts))
    cluster.create()
    return cluster


@pytest.mark.parametrize(
    ("release", "error"),
    [
        ("2.8-zk", Errors.INVALID_REQUEST),  # FindCoordinatorRequest.CoordinatorType.forId
        ("3.9", Errors.COORDINATOR_NOT_AVAILABLE),  # KafkaApis.getCoordinator
        ("4.0", Errors.INVALID_REQUEST),
    ],
)
def test_the_coordinator_of_a_share_group_where_there_is_none(release: str, error: Errors) -> None:
    cluster = cluster_of(release)
    assert cluster.ask("broker-1", FindCoordinatorRequest("readers", 2)).error is error
    assert cluster.ask("broker-1", FindCoordinatorRequest("readers", 7)).error is (
        Errors.INVALID_REQUEST
    )


@pytest.mark.parametrize(("release", "answers"), [("2.8-zk", False), ("3.9", True)])
def test_coordinators_answer_leaders_about_transactions_since_kip_890(
    release: str, answers: bool
) -> None:
    """AddPartitionsToTxnRequest.json: version 4 came with 3.6, so a broker before has none."""
    cluster = cluster_of(release)
    asked = AddPartitionsToTxnTransaction("id", 7, 0, True, (TP,))
    elsewhere = (("id", ((TP, Errors.NOT_COORDINATOR),)),)
    assert cluster.ask("broker-1", AddPartitionsToTxnRequest((asked,), 2)) == (
        AddPartitionsToTxnResponse(Errors.NONE, elsewhere)
        if answers
        else AddPartitionsToTxnResponse(Errors.UNSUPPORTED_VERSION, ())
    )


@pytest.mark.parametrize(("release", "verifies"), [("2.8-zk", False), ("3.9", True), ("4.0", True)])
def test_brokers_verify_transactions_since_kip_890(release: str, verifies: bool) -> None:
    rules = RULES.get(release, {}).get("replication", ReplicationRules)()
    assert rules.knows_verification() is verifies


@pytest.mark.parametrize(("release", "drops"), [("2.8-zk", False), ("3.9", True), ("4.1", True)])
def test_followers_drop_the_answer_of_an_older_leader_epoch_since_kafka_18991(
    release: str, drops: bool
) -> None:
    """AbstractFetcherThread.processFetchRequest of 2.8.0, 3.9.1 and 4.1.0."""
    rules = RULES.get(release, {}).get("replication", ReplicationRules)()
    asked = FetchPartition(TP, "topic-1", 5, 0, 1, 0, 1000)
    now = ((5, 1), (6, 1), (5, 2))  # fetch offset and leader epoch
    assert [rules.accepts_fetch_reply(asked, *each) for each in now] == [True, False, not drops]


@pytest.mark.parametrize(("release", "times"), [("2.8-zk", 2), ("3.9", 2), ("4.0", 1)])
def test_a_partition_that_stands_twice_is_answered_as_often_before_4_0(
    release: str, times: int
) -> None:
    """KafkaApis.handleListOffsetRequestV1AndAbove; since 4.0 ReplicaManager.fetchOffset."""
    one = ListOffsetsPartition(TP, -1, -1)
    answer = cluster_of(release).ask("broker-1", ListOffsetsRequest(-1, 0, (one, one)))
    refused = ListOffsetsPartitionResponse(TP, Errors.INVALID_REQUEST, -1, -1, -1)
    assert answer.partitions == (refused,) * times


@pytest.mark.parametrize(("cluster_of_mode", "on_fetch"), [(Cluster, True), (ZkCluster, False)])
def test_lookup_mode_is_of_zookeeper_alone(cluster_of_mode: type, on_fetch: bool) -> None:
    """RemoteLeaderEndPoint.isTruncationOnFetchSupported asks KRaft's metadata.version."""
    cluster = cluster_of_mode(inter_broker_protocol_version="2.6")
    cluster.create()
    cluster.step(3 * SECOND)  # the first fetches may have to be repeated
    threads = cluster.processes["broker-2"].replicas.fetchers.threads.values()
    states = [
        state
        for thread in threads
        for state in (*thread.states.fetching.values(), *thread.states.truncating.values())
    ]
    assert [state.on_fetch for state in states if state.partition.tp == TP] == [on_fetch]
