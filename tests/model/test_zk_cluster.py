"""Brokers, their controller and ZooKeeper together: elections, failures, sessions, topics."""

from __future__ import annotations

import pytest

from kafkasim.model.controller.zk.store.zk_data import (
    PREFERRED_ELECTION,
    PartitionList,
    broker_path,
    state_path,
    topic_path,
)
from kafkasim.model.effects import Exit
from kafkasim.model.errors import Errors
from kafkasim.model.facts import (
    BrokerRegistration,
    ControlRequest,
    LogLoaded,
    PartitionChanged,
    TopicDeleted,
    TopicDeletionQueued,
)
from kafkasim.model.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from kafkasim.model.zookeeper.ops import Create
from tests.model.zk_cluster import SECOND, TP, ZkCluster

NONE = Errors.NONE


@pytest.fixture
def cluster() -> ZkCluster:
    cluster = ZkCluster()
    cluster.create()
    return cluster


def test_the_first_broker_is_the_controller_and_all_register(cluster: ZkCluster) -> None:
    assert cluster.who() == (1, 1)
    epochs = [cluster.broker(number).broker_epoch for number in (1, 2, 3)]
    assert epochs == sorted(epochs)
    assert len(dict.fromkeys(epochs)) == 3
    assert [cluster.tree(broker_path(n)).address for n in (1, 2)] == ["broker-1", "broker-2"]


def test_acks_all_is_on_every_replica(cluster: ZkCluster) -> None:
    assert cluster.produce(1, 10, 11) == (NONE, 0)
    cluster.step(SECOND)
    assert [cluster.values(number) for number in (1, 2, 3)] == [[10, 11]] * 3
    assert [cluster.partition(n).log.high_watermark for n in (1, 2, 3)] == [2, 2, 2]
    state = cluster.tree(state_path(TP))
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2, 3))


def test_leader_and_controller_crash_and_both_are_replaced(cluster: ZkCluster) -> None:
    cluster.produce(1, 10)
    cluster.crash("broker-1")
    cluster.step(12 * SECOND)
    leader = cluster.tree(state_path(TP)).leader
    assert leader in (2, 3)
    assert cluster.who() == (cluster.controller().info.id, 2)
    assert cluster.produce(leader, 11) == (NONE, 1)
    cluster.restart("broker-1")
    cluster.step(5 * SECOND)
    assert cluster.values(1) == [10, 11]
    assert sorted(cluster.tree(state_path(TP)).isr) == [1, 2, 3]
    assert [(f.log_end_offset, f.clean) for f in cluster.seen(LogLoaded)] == [(1, False)]


def test_a_restarted_broker_waits_until_its_old_session_is_over(cluster: ZkCluster) -> None:
    old = cluster.broker(3).broker_epoch
    cluster.crash("broker-3")
    cluster.restart("broker-3")
    cluster.step(SECOND)
    assert cluster.broker(3).broker_epoch == -1
    cluster.step(10 * SECOND)
    assert cluster.broker(3).broker_epoch > old
    assert cluster.partition(3).leader_epoch == cluster.partition(1).leader_epoch


def test_a_broker_cut_from_zookeeper_is_replaced_and_registers_anew(cluster: ZkCluster) -> None:
    old = cluster.broker(3).broker_epoch
    cluster.cut("broker-3", "zookeeper-1")
    cluster.step(12 * SECOND)
    assert cluster.tree(broker_path(3)) is None
    assert cluster.tree(state_path(TP)).isr == (1, 2)
    assert cluster.broker(3).broker_epoch == old  # it cannot know
    cluster.heal()
    cluster.step(6 * SECOND)
    assert cluster.broker(3).broker_epoch > old
    assert sorted(cluster.tree(state_path(TP)).isr) == [1, 2, 3]


def test_a_deposed_controller_is_refused_by_brokers_and_by_zookeeper(cluster: ZkCluster) -> None:
    cluster.cut("broker-1", "zookeeper-1")
    cluster.step(12 * SECOND)
    zombie = cluster.broker(1).controller
    assert zombie.is_active
    assert cluster.who()[1] == 2
    zombie.batch.new_batch()
    zombie.batch.add_update_metadata((2,), [TP])
    zombie.batch.send()
    cluster.drain("broker-1")
    cluster.step(SECOND)
    refused = [f for f in cluster.seen(ControlRequest) if f.error != "NONE"]
    assert [(f.api, f.controller, f.error) for f in refused] == [
        ("UpdateMetadata", 1, "STALE_CONTROLLER_EPOCH")
    ]
    cluster.heal()
    cluster.step(6 * SECOND)
    assert not zombie.is_active
    assert cluster.broker(1).broker_epoch == cluster.controller().context.broker_epochs[1]


def test_a_broker_back_before_it_was_missed_has_bounced() -> None:
    cluster = ZkCluster(controlled_shutdown_enable=False)
    cluster.create(assignment=(3, 1, 2))
    old = cluster.broker(3).broker_epoch
    cluster.cut("broker-1", "zookeeper-1")  # the controller hears of nothing
    cluster.broker(3).shutdown(cluster.now)
    cluster.drain("broker-3")
    cluster.until(lambda: "broker-3" not in cluster.processes)
    assert cluster.exits[-1][1] == Exit("shutdown", True)
    cluster.restart("broker-3")
    cluster.step(SECOND)
    assert cluster.tree(state_path(TP)).leader == 3
    assert not cluster.broker(3).replicas.partitions
    since = cluster.now
    cluster.heal()
    cluster.step(4 * SECOND)
    changes = [f.change for f in cluster.seen(BrokerRegistration, since) if f.broker == 3]
    assert changes == ["bounced", "registered"]
    assert cluster.broker(3).broker_epoch > old
    assert cluster.who() == (1, 1)
    assert cluster.tree(state_path(TP)).leader == 1
    assert cluster.tree(state_path(TP)).isr == (1, 2, 3)


def test_controlled_shutdown_moves_leadership_first(cluster: ZkCluster) -> None:
    cluster.broker(1).shutdown(cluster.now)
    since = cluster.now
    cluster.drain("broker-1")
    cluster.until(lambda: "broker-1" not in cluster.processes)
    reasons = [(f.reason, f.leader, f.isr) for f in cluster.seen(PartitionChanged, since)]
    assert reasons[0] == ("controlled-shutdown", 2, (2, 3))
    assert cluster.produce(2, 5) == (NONE, 0)
    cluster.restart("broker-1")
    cluster.step(3 * SECOND)
    assert cluster.tree(state_path(TP)).isr == (2, 3, 1)
    shutting = [f.change for f in cluster.seen(BrokerRegistration, since) if f.broker == 1]
    assert shutting[0] == "shutting-down"
    assert shutting[-1] == "registered"


def test_a_deleted_topic_leaves_no_log_and_no_znode(cluster: ZkCluster) -> None:
    cluster.produce(1, 10)
    cluster.operate(DeleteTopicsRequest((("orders", ""),)))
    cluster.step(3 * SECOND)
    assert cluster.tree(topic_path("orders")) is None
    assert cluster.tree("/admin/delete_topics/orders") is None
    assert [cluster.broker(n).replicas.partitions for n in (1, 2, 3)] == [{}, {}, {}]
    metadata = cluster.ask("broker-2", MetadataRequest(("orders",), False))
    assert metadata.topics[0].error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    cluster.create()
    assert cluster.produce(1, 7) == (NONE, 0)


def test_a_group_forgets_what_it_has_committed_in_a_deleted_topic(cluster: ZkCluster) -> None:
    """KafkaApis.handleUpdateMetadataRequest: GroupCoordinator.handleDeletedPartitions."""
    coordinator = _coordinator(cluster, "billing")
    commit = OffsetCommitRequest("billing", -1, "", None, ((TP, 7, 0, ""),))
    assert cluster.ask(coordinator, commit).results == ((TP, NONE),)
    assert _committed(cluster, coordinator) == 7
    cluster.operate(DeleteTopicsRequest((("orders", ""),)))
    told = [cluster.seen(TopicDeletionQueued), cluster.seen(TopicDeleted)]
    assert [len(each) for each in told] == [1, 0]  # the brokers hear of it before it is done
    cluster.step(3 * SECOND)
    assert _committed(cluster, coordinator) == -1
    assert len(cluster.seen(TopicDeleted)) == 1
    cluster.create()
    assert _committed(cluster, coordinator) == -1


def _coordinator(cluster: ZkCluster, group: str) -> str:
    """Return the broker that coordinates a group, once the offsets topic exists."""
    found = []

    def is_known() -> bool:
        found.append(cluster.ask("broker-1", FindCoordinatorRequest(group)))
        return found[-1].error is NONE

    cluster.until(is_known)
    cluster.step(2 * SECOND)
    return f"broker-{found[-1].node_id}"


def _committed(cluster: ZkCluster, coordinator: str) -> int:
    (answer,) = cluster.ask(coordinator, OffsetFetchRequest("billing", (TP,))).partitions
    return answer.offset


def test_a_topic_whose_replica_is_down_is_deleted_when_it_is_back(cluster: ZkCluster) -> None:
    cluster.crash("broker-3")
    cluster.step(12 * SECOND)
    cluster.operate(DeleteTopicsRequest((("orders", ""),)))
    cluster.step(3 * SECOND)
    assert cluster.tree(topic_path("orders")) is not None
    cluster.restart("broker-3")
    cluster.step(3 * SECOND)
    assert cluster.tree(topic_path("orders")) is None


def test_preferred_leaders_by_znode(cluster: ZkCluster) -> None:
    cluster.crash("broker-1")
    cluster.step(12 * SECOND)
    cluster.controller().leader_elections.stop()  # no automatic balance
    cluster.restart("broker-1")
    cluster.step(3 * SECOND)
    assert cluster.tree(state_path(TP)).leader != 1
    cluster.client("admin")
    cluster.connected("admin")
    cluster.ok("admin", Create(PREFERRED_ELECTION, PartitionList((TP,))))
    cluster.step(SECOND)
    assert cluster.tree(state_path(TP)).leader == 1
    assert cluster.tree(PREFERRED_ELECTION) is None


@pytest.mark.parametrize(("empty", "leader"), [(False, 1), (True, 2)])
def test_a_partition_without_replicas_ends_the_balance_of_leaders(empty: bool, leader: int) -> None:
    """AdminZkClient.validateTopicCreate accepts it; checkAndTriggerAutoLeaderRebalance fails."""
    cluster = ZkCluster(leader_imbalance_check_interval_seconds=5)
    cluster.create()
    if empty:
        topic = CreatableTopic("none", -1, -1, ((),))
        assert cluster.operate(CreateTopicsRequest((topic,), 2000)).results == (
            ("none", Errors.REQUEST_TIMED_OUT, ""),
        )
    cluster.crash("broker-1")
    cluster.step(12 * SECOND)
    cluster.restart("broker-1")
    cluster.step(12 * SECOND)
    assert cluster.tree(state_path(TP)).leader == leader


def test_producer_ids_of_two_brokers_are_of_two_blocks(cluster: ZkCluster) -> None:
    found = []
    for number in (1, 2):
        request = InitProducerIdRequest(None, 60000)
        cluster.ask(f"broker-{number}", request)
        cluster.step(SECOND)
        found.append(cluster.ask(f"broker-{number}", request).producer_id)
    assert sorted(each // 1000 for each in found) == [0, 1]


def test_before_ibp_2_7_leaders_write_their_isr_themselves() -> None:
    cluster = ZkCluster(inter_broker_protocol_version="2.6", replica_lag_time_max_ms=3000)
    cluster.create()
    cluster.cut("broker-3", "broker-1")
    for number in range(8):
        cluster.produce(1, number, acks=1)
        cluster.step(SECOND)
    state = cluster.tree(state_path(TP))
    assert (state.leader_epoch, state.isr) == (0, (1, 2))
    cluster.step(10 * SECOND)  # the notification is gathered for 5 s, looked for every 2.5 s
    assert cluster.controller().context.leaderships[TP].state.isr == (1, 2)
    assert cluster.broker(2).cache.image.topic_by_name("orders").partitions[0].isr == (1, 2)


def test_a_broker_knows_the_controller_before_it_has_anything_to_ask_it() -> None:
    """BrokerToControllerRequestThread.doWork; it looks again once the connection is lost."""
    cluster = ZkCluster()
    cluster.step(SECOND)
    first = cluster.controller().info.id
    other = next(number for number in (1, 2, 3) if number != first)
    links = cluster.broker(other)._links
    assert [link._active for link in links] == [first] * len(links)
