"""What a broker checks before it obeys, and what the controller checks before it changes an ISR."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.controller.zk.store.zk_data import state_path
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionData,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControlPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from kafkasim.model.messages.servers.control import EPOCH_DURING_DELETE, NO_EPOCH
from tests.model.zk_cluster import TP, ZkCluster

NONE = Errors.NONE


@pytest.fixture
def cluster() -> ZkCluster:
    cluster = ZkCluster()
    cluster.create()
    return cluster


def state(cluster: ZkCluster, leader: int = 2, leader_epoch: int = 5) -> ControlPartition:
    topic_id = cluster.partition(1).topic_id
    return ControlPartition(TP, topic_id, 9, leader, leader_epoch, (1, 2, 3), 7, (1, 2, 3))


def leader_and_isr(cluster: ZkCluster, epoch: int = 9, broker: int = 0, **fields: int) -> Any:
    broker_epoch = cluster.broker(3).broker_epoch + broker
    request = LeaderAndIsrRequest(2, epoch, broker_epoch, (state(cluster, **fields),), ())
    return cluster.ask("broker-3", request)


def test_a_request_for_an_earlier_incarnation_is_refused_a_newer_one_obeyed(
    cluster: ZkCluster,
) -> None:
    assert leader_and_isr(cluster, broker=-1).error is Errors.STALE_BROKER_EPOCH
    assert cluster.partition(3).leader_id == 1
    assert leader_and_isr(cluster, broker=+1).error is NONE  # KAFKA-9839
    assert cluster.partition(3).leader_id == 2


def test_no_controller_but_the_newest_is_obeyed(cluster: ZkCluster) -> None:
    assert leader_and_isr(cluster, epoch=9).error is NONE
    broker_epoch = cluster.broker(3).broker_epoch
    update = UpdateMetadataRequest(1, 8, broker_epoch, (), (UpdateMetadataBroker(1, "b", None),))
    assert cluster.ask("broker-3", update).error is Errors.STALE_CONTROLLER_EPOCH
    stop = StopReplicaRequest(1, 8, broker_epoch, (StopReplicaPartition(TP, NO_EPOCH, True),))
    assert cluster.ask("broker-3", stop).error is Errors.STALE_CONTROLLER_EPOCH
    assert len(cluster.broker(3).cache.image.brokers) == 3
    assert cluster.partition(3)


def test_only_a_higher_leader_epoch_changes_a_role(cluster: ZkCluster) -> None:
    assert leader_and_isr(cluster).partitions == ((TP, NONE),)
    again = leader_and_isr(cluster, leader=1)
    assert again.error is NONE
    assert again.partitions == ((TP, Errors.STALE_CONTROLLER_EPOCH),)
    assert cluster.partition(3).leader_id == 2


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(4, Errors.FENCED_LEADER_EPOCH), (5, NONE), (EPOCH_DURING_DELETE, NONE), (NO_EPOCH, NONE)],
)
def test_stop_replica_of_an_earlier_leadership_is_refused(
    cluster: ZkCluster, leader_epoch: int, error: Errors
) -> None:
    leader_and_isr(cluster)
    asked = StopReplicaPartition(TP, leader_epoch, True)
    request = StopReplicaRequest(2, 9, cluster.broker(3).broker_epoch, (asked,))
    assert cluster.ask("broker-3", request).partitions == ((TP, error),)
    assert (TP in cluster.broker(3).replicas.partitions) is (error is not NONE)


def alter(cluster: ZkCluster, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int) -> Any:
    topic_id = cluster.partition(1).topic_id
    members = tuple([(member, -1) for member in isr])
    data = AlterPartitionData(topic_id, 0, leader_epoch, members, partition_epoch, 0, "lag")
    request = AlterPartitionRequest(1, cluster.broker(1).broker_epoch, (data,))
    return cluster.ask("broker-1", request)


def test_alter_partition_is_idempotent_and_fenced(cluster: ZkCluster) -> None:
    first = alter(cluster, (1, 2), 0, 0).partitions[0]
    assert (first.error, first.isr, first.partition_epoch) == (NONE, (1, 2), 1)
    again = alter(cluster, (1, 2), 0, 0).partitions[0]  # the answer was lost: B22
    assert (again.error, again.partition_epoch) == (NONE, 1)
    stale = alter(cluster, (1, 3), 0, 0).partitions[0]
    assert stale.error is Errors.INVALID_UPDATE_VERSION
    ahead = alter(cluster, (1,), 3, 1).partitions[0]  # B23
    assert ahead.error is Errors.NOT_CONTROLLER
    assert cluster.tree(state_path(TP)).isr == (1, 2)


def test_alter_partition_takes_nobody_who_stops_and_nobody_unregistered(
    cluster: ZkCluster,
) -> None:
    alter(cluster, (1, 2), 0, 0)
    cluster.controller().context.shutting_down[3] = None
    assert alter(cluster, (1, 2, 3), 0, 1).partitions[0].error is Errors.INELIGIBLE_REPLICA
    request = AlterPartitionRequest(7, 1, ())
    assert cluster.ask("broker-1", request).error is Errors.STALE_BROKER_EPOCH


def test_a_broker_that_is_not_controller_says_so(cluster: ZkCluster) -> None:
    request = ControlledShutdownRequest(1, cluster.broker(1).broker_epoch)
    assert cluster.ask("broker-2", request).error is Errors.NOT_CONTROLLER
    stale = ControlledShutdownRequest(2, cluster.broker(2).broker_epoch - 1)
    assert cluster.ask("broker-1", stale).error is Errors.STALE_BROKER_EPOCH


def test_broker_epochs_tell_incarnations_apart() -> None:
    rules = ZkControllerRules()
    assert rules.is_bounced(10, 11)
    assert not rules.is_bounced(11, 11)
    assert rules.is_stale_broker_epoch(10, 11)
    assert not rules.is_stale_broker_epoch(-1, 11)
