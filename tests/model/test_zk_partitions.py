"""Topics that get more partitions in ZooKeeper mode: ZkAdminManager.createPartitions and
processPartitionModifications."""

from __future__ import annotations

import pytest

from kafkasim.model.controller.zk.store.zk_data import (
    ReplicaAssignment,
    TopicAssignment,
    state_path,
    topic_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    DeleteTopicsRequest,
    MetadataRequest,
    ReassignablePartition,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import SetData
from tests.model.zk_cluster import SECOND, ZkCluster

NONE = Errors.NONE


@pytest.fixture
def cluster() -> ZkCluster:
    cluster = ZkCluster()
    cluster.create()
    return cluster


def grow(
    cluster: ZkCluster, count: int, *assignments: tuple[int, ...], topic: str = "orders"
) -> tuple[Errors, str]:
    wanted = CreatePartitionsTopic(topic, count, assignments)
    answer = cluster.operate(CreatePartitionsRequest((wanted,)))
    ((name, error, message),) = answer.results
    assert name == topic
    return error, message


def test_the_controller_takes_up_what_was_written_into_the_topics_znode(
    cluster: ZkCluster,
) -> None:
    count = len(cluster.tree(topic_path("orders")).partitions)
    assert grow(cluster, count + 2) == (NONE, "")
    cluster.step(3 * SECOND)
    for number in (count, count + 1):
        state = cluster.tree(state_path(TopicPartition("orders", number)))
        assert len(state.isr) == 3
        assert state.leader == state.isr[0]
    metadata = cluster.ask("broker-3", MetadataRequest(("orders",), False))
    assert [p.partition for p in metadata.topics[0].partitions] == list(range(count + 2))
    assert all(p.leader > 0 for p in metadata.topics[0].partitions)
    assert grow(cluster, count + 3, (2, 3, 1)) == (NONE, "")  # the watch is set again
    cluster.step(3 * SECOND)
    assert cluster.tree(state_path(TopicPartition("orders", count + 2))).leader == 2


def test_refusals_have_the_words_of_the_zookeeper_admin_manager(cluster: ZkCluster) -> None:
    count = len(cluster.tree(topic_path("orders")).partitions)
    assert grow(cluster, count) == (
        Errors.INVALID_PARTITIONS,
        f"Topic already has {count} partitions.",
    )
    assert grow(cluster, 0) == (
        Errors.INVALID_PARTITIONS,
        f"Topic currently has {count} partitions, which is higher than the requested 0.",
    )
    assert grow(cluster, 3, topic="no") == (
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic 'no' does not exist.",
    )


def test_more_partitions_than_a_znode_holds_are_refused(cluster: ZkCluster) -> None:
    error, message = grow(cluster, 2**31 - 1)
    assert (error, message.endswith("do not fit in a znode.")) == (
        Errors.UNKNOWN_SERVER_ERROR,
        True,
    )


def test_a_topic_that_is_being_reassigned_gets_no_partitions() -> None:
    cluster = ZkCluster(brokers=4)
    cluster.create()
    cluster.cut("broker-4", "broker-1")
    move = ReassignablePartition(TopicPartition("orders", 0), (4, 2, 3))
    cluster.operate(AlterPartitionReassignmentsRequest((move,)))
    cluster.step(SECOND)
    assert grow(cluster, 2) == (
        Errors.REASSIGNMENT_IN_PROGRESS,
        "A partition reassignment is in progress for the topic 'orders'.",
    )


def test_a_topic_that_shall_go_gets_no_partitions(cluster: ZkCluster) -> None:
    cluster.crash("broker-3")
    cluster.step(12 * SECOND)
    cluster.operate(DeleteTopicsRequest((("orders", ""),)))
    cluster.step(SECOND)
    refused = (Errors.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    assert grow(cluster, 9) == refused
    before = cluster.tree(topic_path("orders"))
    more = (1, ReplicaAssignment((1, 2)))
    grown = TopicAssignment(before.topic_id, (*before.partitions, more))
    cluster.client("admin")
    cluster.connected("admin")
    cluster.ok("admin", SetData(topic_path("orders"), grown))
    cluster.step(SECOND)
    assert cluster.tree(topic_path("orders")) == before  # taken out again
