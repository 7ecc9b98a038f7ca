"""Transactions between real brokers, in both modes: coordinator, leaders, markers, failover."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.facts import MarkerWritten
from kafkasim.model.facts import TransactionState as StateChanged
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
    ApiVersionsRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from kafkasim.model.records import TopicPartition
from tests.model.broker_cluster import Cluster
from tests.model.cluster_verbs import SECOND, TP, ClusterVerbs
from tests.model.zk_cluster import ZkCluster

NONE = Errors.NONE
ID = "payments"


class Producer:
    """A transactional producer's requests, to whoever is the coordinator."""

    def __init__(self, cluster: ClusterVerbs, version: int) -> None:
        self.cluster = cluster
        self.version = version
        self.producer_id, self.epoch = -1, -1

    def coordinator(self) -> str:
        cluster, request = self.cluster, FindCoordinatorRequest(ID, 1)
        for _ in range(20):
            broker = next(name for name in cluster.processes if name.startswith("broker"))
            answer = cluster.ask(broker, request)
            if answer.error is NONE and answer.address in cluster.processes:
                return str(answer.address)
            cluster.step(SECOND)
        raise AssertionError(answer)

    def ask(self, request: Any) -> Any:
        for _ in range(20):
            answer = self.cluster.ask(self.coordinator(), request, 5 * SECOND)
            if answer is not None and answer.error not in (
                Errors.COORDINATOR_LOAD_IN_PROGRESS,
                Errors.NOT_COORDINATOR,
                Errors.CONCURRENT_TRANSACTIONS,
            ):
                return answer
            self.cluster.step(SECOND)
        raise AssertionError(answer)

    def init(self) -> None:
        answer = self.ask(InitProducerIdRequest(ID, 60_000))
        assert answer.error is NONE, answer
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def add(self, *tps: TopicPartition) -> list[Errors]:
        asked = AddPartitionsToTxnTransaction(ID, self.producer_id, self.epoch, False, tps)
        answer = self.ask(AddPartitionsToTxnRequest((asked,), self.version))
        return [error for _, error in answer.results[0][1]]

    def end(self, committed: bool) -> Errors:
        request = EndTxnRequest(ID, self.producer_id, self.epoch, committed, self.version)
        answer = self.ask(request)
        if self.version >= 2:
            self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        return Errors(answer.error)


def states(cluster: ClusterVerbs) -> list[str]:
    return [fact.state for fact in cluster.seen(StateChanged)]


@pytest.mark.parametrize(("mode", "version"), [(Cluster, 2), (ZkCluster, 0)])
def test_a_transaction_commits(mode: Any, version: int) -> None:
    cluster: Any = mode(transaction_state_log_num_partitions=3)
    cluster.create()
    producer = Producer(cluster, version)
    producer.init()
    assert producer.add(TopicPartition("nowhere", 0), TP) == [
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.OPERATION_NOT_ATTEMPTED,
    ]
    assert producer.add(TP) == [NONE]
    assert producer.end(True) is NONE
    cluster.step(SECOND)
    assert states(cluster) == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    (marker,) = cluster.seen(MarkerWritten)
    assert (marker.producer_id, marker.committed) == (producer.producer_id, True)
    found = cluster.ask(producer.coordinator(), DescribeTransactionsRequest((ID, "x")))
    told = [(each.error, each.state) for each in found.transactions]
    assert told[0] == (NONE, "CompleteCommit")
    assert told[1][0] in (Errors.TRANSACTIONAL_ID_NOT_FOUND, Errors.NOT_COORDINATOR)
    listed = cluster.ask(producer.coordinator(), ListTransactionsRequest())
    assert listed.transactions == ((ID, producer.producer_id, "CompleteCommit"),)


@pytest.mark.parametrize("committed", [True, False])
def test_another_broker_completes_what_a_dead_coordinator_has_decided(committed: bool) -> None:
    cluster = Cluster(transaction_state_log_num_partitions=1)
    cluster.create()
    producer = Producer(cluster, 2)
    producer.init()
    producer.add(TP)
    first = producer.coordinator()
    request = EndTxnRequest(ID, producer.producer_id, producer.epoch, committed, 2)
    cluster.ask(first, request, 20 * SECOND)
    decided = "PrepareCommit" if committed else "PrepareAbort"
    assert states(cluster)[-1] == decided
    cluster.crash(first)
    cluster.step(15 * SECOND)
    producer.epoch += 1
    producer.init()
    assert states(cluster)[-2:] == [decided.replace("Prepare", "Complete"), "Empty"]
    assert producer.coordinator() != first
    # At least one marker was written, and none against the decision.
    assert {marker.committed for marker in cluster.seen(MarkerWritten)} == {committed}


@pytest.mark.parametrize(("mode", "version"), [(Cluster, 2), (Cluster, 0), (ZkCluster, 0)])
@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_commits_offsets(mode: Any, version: int, committed: bool) -> None:
    cluster: Any = mode(transaction_state_log_num_partitions=3, offsets_topic_num_partitions=3)
    cluster.create()
    cluster.ask("broker-1", FindCoordinatorRequest("billing"))
    cluster.step(2 * SECOND)
    producer = Producer(cluster, version)
    producer.init()
    group = cluster.ask("broker-1", FindCoordinatorRequest("billing")).address
    me = (producer.producer_id, producer.epoch)
    if version < 2:  # since version 2 the leader of the offsets adds its partition
        assert producer.ask(AddOffsetsToTxnRequest(ID, *me, "billing")).error is NONE
    nowhere = TopicPartition("nowhere", 0)
    offsets = ((nowhere, 1, 0, ""), (TP, 5, 0, ""))
    commit = TxnOffsetCommitRequest(ID, "billing", *me, -1, "", None, offsets, version)
    answer = cluster.ask(group, commit, 5 * SECOND)
    assert answer.results == ((nowhere, Errors.UNKNOWN_TOPIC_OR_PARTITION), (TP, NONE))
    fetch = OffsetFetchRequest("billing", (TP,), require_stable=True)
    pending = cluster.ask(group, fetch).partitions[0]
    assert pending.error is Errors.UNSTABLE_OFFSET_COMMIT
    assert producer.end(committed) is NONE
    cluster.step(2 * SECOND)
    found = cluster.ask(group, fetch).partitions[0]
    assert (found.error, found.offset) == (NONE, 5 if committed else -1)
    (marker,) = cluster.seen(MarkerWritten)
    assert marker.committed is committed


def test_offsets_of_no_transaction_are_refused() -> None:
    """KIP-890: the leader of the offsets asks the coordinator of the transaction."""
    cluster = Cluster(transaction_state_log_num_partitions=3, offsets_topic_num_partitions=3)
    cluster.create()
    cluster.ask("broker-1", FindCoordinatorRequest("billing"))
    cluster.step(2 * SECOND)
    producer = Producer(cluster, 0)
    producer.init()
    group = cluster.ask("broker-1", FindCoordinatorRequest("billing")).address

    def commit(producer_id: int, epoch: int, version: int = 0) -> Errors:
        offsets = ((TP, 5, 0, ""),)
        request = TxnOffsetCommitRequest(
            ID, "billing", producer_id, epoch, -1, "", None, offsets, version
        )
        return Errors(cluster.ask(group, request, 5 * SECOND).results[0][1])

    me = (producer.producer_id, producer.epoch)
    assert commit(*me) is Errors.TRANSACTION_ABORTABLE
    assert commit(me[0] + 1, 0) is Errors.INVALID_PRODUCER_ID_MAPPING
    assert commit(me[0], me[1] + 1, version=2) is Errors.INVALID_PRODUCER_EPOCH


def test_api_versions_tells_the_finalized_features() -> None:
    answer = Cluster().ask("broker-1", ApiVersionsRequest())
    assert dict(answer.finalized_features) == {
        "group.version": 1,
        "metadata.version": 25,
        "transaction.version": 2,
    }
    assert answer.finalized_features_epoch > 0
    answer = ZkCluster().ask("broker-1", ApiVersionsRequest())
    assert (answer.finalized_features, answer.finalized_features_epoch) == ((), -1)
