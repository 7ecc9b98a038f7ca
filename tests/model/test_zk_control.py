"""What a broker checks before it obeys, and what the controller checks before it changes an ISR."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.controller.zk.store.zk_data import state_path
from kafkasim.model.effects import Close
from kafkasim.model.errors import Errors
from kafkasim.model.facts import LogDeleted
from kafkasim.model.messages import (
    AlterPartitionData,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    ControlPartition,
    DeleteRecordsRequest,
    FetchPartition,
    FetchRequest,
    LeaderAndIsrRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
    ReassignablePartition,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBroker,
    UpdateMetadataRequest,
)
from kafkasim.model.messages.servers.control import (
    EPOCH_DURING_DELETE,
    LEADER_DURING_DELETE,
    NO_EPOCH,
)
from kafkasim.model.records import TRANSACTION_STATE_TOPIC, Record, TopicPartition, batch_of
from kafkasim.model.storage.checkpoints import write_topic_id
from tests.model.zk_cluster import SECOND, TP, ZkCluster

NONE = Errors.NONE
TRANSACTIONS = TopicPartition(TRANSACTION_STATE_TOPIC, 0)
BROKERS = tuple([UpdateMetadataBroker(number, f"broker-{number}", None) for number in (1, 2, 3)])


class BeforeKafka9307(ZkControllerRules):
    def coordinator_reads_zookeeper(self) -> bool:
        return True


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


def test_a_log_of_another_topic_of_that_name_takes_no_role_before_it_is_deleted(
    cluster: ZkCluster,
) -> None:
    """ReplicaManager.hasConsistentTopicId: the broker was away meanwhile."""
    stale = TopicPartition("stale", 0)
    broker = cluster.broker(3)
    (directory,) = broker.replicas.logs.online
    write_topic_id(directory.files, directory.log_path(stale), "old", stale)
    directory.on_disk[stale] = "old"
    taken = ControlPartition(stale, "new", 9, 1, 5, (1, 3), 7, (1, 3))
    request = LeaderAndIsrRequest(2, 9, broker.broker_epoch, (taken,), ())
    refused = cluster.ask("broker-3", request)
    assert refused.partitions == ((stale, Errors.INCONSISTENT_TOPIC_ID),)
    stop = (StopReplicaPartition(stale, NO_EPOCH, True),)
    cluster.ask("broker-3", StopReplicaRequest(2, 9, broker.broker_epoch, stop))
    assert cluster.ask("broker-3", request).partitions == ((stale, NONE),)
    assert broker.replicas.partitions[stale].topic_id == "new"


@pytest.mark.parametrize("leader", [-1, 9])
def test_a_replica_follows_no_leader_that_is_not_alive(cluster: ZkCluster, leader: int) -> None:
    """ReplicaManager.makeFollowers: it keeps its role, and the answer is NONE."""
    before = cluster.partition(3).leader_epoch
    assert leader_and_isr(cluster, leader=leader).partitions == ((TP, NONE),)
    assert (cluster.partition(3).leader_id, cluster.partition(3).leader_epoch) == (1, before)
    assert leader_and_isr(cluster, leader=2).partitions == ((TP, NONE),)
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


def test_stop_replica_deletes_a_log_that_no_role_has_come_for(cluster: ZkCluster) -> None:
    """The replica went elsewhere while its broker was down (ReplicaManager.stopReplicas)."""
    assert cluster.produce(1, 10) == (NONE, 0)
    cluster.crash("broker-3")
    cluster.step(10 * SECOND)
    moved = ReassignablePartition(TP, (1, 2))
    cluster.operate(AlterPartitionReassignmentsRequest((moved,)))
    cluster.step(SECOND)
    cluster.restart("broker-3")
    cluster.step(SECOND)
    broker = cluster.broker(3)
    assert TP not in broker.replicas.partitions
    assert broker.files.paths(f"{TP}/")
    epoch = cluster.controller().context.epoch
    asked = StopReplicaPartition(TP, NO_EPOCH, True)
    request = StopReplicaRequest(cluster.who()[0], epoch, broker.broker_epoch, (asked,))
    assert cluster.ask("broker-3", request).partitions == ((TP, NONE),)
    assert broker.files.paths(f"{TP}/") == []
    assert [fact.log_end_offset for fact in cluster.seen(LogDeleted)] == [1]


@pytest.mark.parametrize("named", [True, False])
def test_a_partition_is_served_to_whoever_asks_once_an_update_metadata_names_it(
    cluster: ZkCluster, named: bool
) -> None:
    """KafkaApis looks into the metadata cache, for followers, too; ListOffsets does not."""
    broker_epoch = cluster.broker(3).broker_epoch
    gone = state(cluster, leader=LEADER_DURING_DELETE)
    cluster.ask("broker-3", UpdateMetadataRequest(2, 9, broker_epoch, (gone,), BROKERS))
    assert leader_and_isr(cluster, leader=3).partitions == ((TP, NONE),)
    if named:
        update = UpdateMetadataRequest(2, 9, broker_epoch, (state(cluster, leader=3),), BROKERS)
        assert cluster.ask("broker-3", update).error is NONE
    data = ProducePartition(TP, batch_of((Record("key", 1, 80, 0),)))
    asked = FetchPartition(TP, "", 0, 0, 5, -1, 1000)
    requests = (
        ProduceRequest(1, 1000, (data,)),
        *[FetchRequest(replica, -1, 0, 1, 1000, 0, (asked,)) for replica in (-1, 1)],
        DeleteRecordsRequest(((TP, 0),), 1000),
        ListOffsetsRequest(-1, 0, (ListOffsetsPartition(TP, 5, -2),)),
    )
    errors = [cluster.ask("broker-3", request).partitions[0].error for request in requests]
    served = [NONE, NONE, NONE, Errors.REQUEST_TIMED_OUT, NONE]  # nobody follows broker-3
    assert errors == (served if named else [Errors.UNKNOWN_TOPIC_OR_PARTITION] * 4 + [NONE])


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
    assert cluster.ask("broker-2", request).error is Errors.STALE_CONTROLLER_EPOCH
    stale = ControlledShutdownRequest(2, cluster.broker(2).broker_epoch - 1)
    assert cluster.ask("broker-1", stale).error is Errors.STALE_BROKER_EPOCH


def test_broker_epochs_tell_incarnations_apart() -> None:
    rules = ZkControllerRules()
    assert rules.is_bounced(10, 11)
    assert not rules.is_bounced(11, 11)
    assert rules.is_stale_broker_epoch(10, 11)
    assert not rules.is_stale_broker_epoch(-1, 11)


def coordinating(rules: ZkControllerRules) -> ZkCluster:
    """A cluster whose broker 3 is the coordinator of a transactions' partition."""
    cluster = ZkCluster(rules=BrokerRules(zk=rules))
    cluster.create(TRANSACTION_STATE_TOPIC, (3, 1, 2))
    assert coordinates(cluster)
    return cluster


def coordinates(cluster: ZkCluster) -> bool:
    coordinator: Any = cluster.broker(3).kafka.coordinators.coordinator_of(TRANSACTION_STATE_TOPIC)
    return 0 in coordinator.owned.by_partition


def follow(cluster: ZkCluster) -> Any:
    """Tell broker 3 that broker 2 leads the transactions' partition now."""
    topic_id = cluster.partition(3, TRANSACTIONS).topic_id
    told = ControlPartition(TRANSACTIONS, topic_id, 9, 2, 5, (1, 2, 3), 7, (3, 1, 2))
    epoch = cluster.broker(3).broker_epoch
    return cluster.ask("broker-3", LeaderAndIsrRequest(2, 9, epoch, (told,), ()))


def test_a_coordinator_resigns_without_a_session() -> None:
    """KAFKA-9307."""
    cluster = coordinating(ZkControllerRules())
    cluster.cut("broker-3", "zookeeper-1")
    assert follow(cluster).partitions == ((TRANSACTIONS, NONE),)
    assert not coordinates(cluster)


def test_before_that_it_resigned_once_zookeeper_had_answered() -> None:
    cluster = coordinating(BeforeKafka9307())
    assert follow(cluster).partitions == ((TRANSACTIONS, NONE),)
    assert not coordinates(cluster)


def test_and_requests_waited_for_one_that_waited_for_zookeeper() -> None:
    """becomeLeaderOrFollower, stopReplicas and maybeUpdateMetadataCache hold one lock."""
    cluster = coordinating(BeforeKafka9307())
    cluster.cut("broker-3", "zookeeper-1")
    assert follow(cluster) is None
    asked = (StopReplicaPartition(TRANSACTIONS, NO_EPOCH, False),)
    stop = StopReplicaRequest(2, 9, cluster.broker(3).broker_epoch, asked)
    assert cluster.ask("broker-3", stop) is None
    cluster.step(10 * SECOND)  # the session expires
    cluster.heal()
    cluster.step(10 * SECOND)
    answers = [each for each in cluster.answers.values() if type(each) is not Close]
    assert [(type(each).__name__, each.error) for each in answers] == [
        ("LeaderAndIsrResponse", Errors.UNKNOWN_SERVER_ERROR),
        ("StopReplicaResponse", NONE),
    ]
    assert cluster.partition(3, TRANSACTIONS).leader_epoch == 5
    assert coordinates(cluster)
