"""Reassignments in ZooKeeper mode: phases, resumption, cancellation, refusals (KIP-455)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.controller.zk.events import ZkFailed
from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.controller.zk.store.zk_data import (
    REASSIGN_PARTITIONS,
    ReassignPartitions,
    ReplicaAssignment,
    state_path,
    topic_path,
)
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ControlRequest, PartitionChanged, ZkControllerWrite
from kafkasim.model.messages import (
    AlterPartitionReassignmentsRequest,
    DeleteTopicsRequest,
    ListPartitionReassignmentsRequest,
    OngoingPartitionReassignment,
    ReassignablePartition,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import Create
from tests.model.zk_cluster import SECOND, TP, ZkCluster

NONE = Errors.NONE
NOWHERE = TopicPartition("nowhere", 0)


@pytest.fixture
def cluster() -> ZkCluster:
    cluster = ZkCluster(brokers=4)
    cluster.create()
    cluster.produce(1, 10, 11)
    return cluster


class Forgetful(ZkControllerRules):
    """What a topic's znode says of a reassignment is not looked at."""

    def resumes_reassignment(self, adding: tuple[int, ...], removing: tuple[int, ...]) -> bool:
        return False


def reassign(
    cluster: ZkCluster, *replicas: int, tp: TopicPartition = TP, cancel: bool = False
) -> Errors:
    target = None if cancel else replicas
    request = AlterPartitionReassignmentsRequest((ReassignablePartition(tp, target),))
    answer = cluster.operate(request)
    assert answer.error is NONE, answer
    error: Errors = answer.results[0][1]
    return error


def ongoing(cluster: ZkCluster, *partitions: TopicPartition) -> Any:
    request = ListPartitionReassignmentsRequest(partitions or None)
    return cluster.operate(request).partitions


def assignment(cluster: ZkCluster) -> ReplicaAssignment:
    """What stands in the topic's znode."""
    found: ReplicaAssignment = dict(cluster.tree(topic_path("orders")).partitions)[0]
    return found


def stuck(cluster: ZkCluster) -> None:
    """Begin 1,2,3 -> 4,2,3 while 4 cannot fetch."""
    cluster.cut("broker-4", "broker-1")
    assert cluster.who()[0] == 1  # its own requests to 4 are cut, too
    assert reassign(cluster, 4, 2, 3) is NONE
    cluster.step(SECOND)


def test_a_replica_moves_in_phases(cluster: ZkCluster) -> None:
    since = cluster.now
    assert reassign(cluster, 4, 2, 3) is NONE
    cluster.step(3 * SECOND)
    assert assignment(cluster) == ReplicaAssignment((4, 2, 3))
    state = cluster.tree(state_path(TP))
    assert (state.leader, state.isr) == (4, (2, 3, 4))
    assert TP not in cluster.broker(1).replicas.partitions
    assert [cluster.values(number) for number in (2, 3, 4)] == [[10, 11]] * 3
    assert ongoing(cluster) == ()
    changes = [
        (f.leader, f.leader_epoch, f.isr, f.replicas, f.adding_replicas, f.removing_replicas)
        for f in cluster.seen(PartitionChanged, since)
    ]
    assert changes == [
        (1, 1, (1, 2, 3), (4, 2, 3, 1), (4,), (1,)),  # A
        (1, 1, (1, 2, 3, 4), (4, 2, 3, 1), (4,), (1,)),
        (4, 2, (1, 2, 3, 4), (4, 2, 3), (), ()),  # B3
        (4, 3, (2, 3, 4), (4, 2, 3), (), ()),  # B4
    ]
    written = [f.path for f in cluster.seen(ZkControllerWrite, since)]
    assert written[0] == written[-1] == topic_path("orders")  # U1, B6


def test_a_leader_that_stays_hears_of_it_under_a_new_epoch(cluster: ZkCluster) -> None:
    assert reassign(cluster, 1, 4, 2) is NONE
    cluster.step(3 * SECOND)
    state = cluster.tree(state_path(TP))
    assert (state.leader, state.leader_epoch, state.isr) == (1, 3, (1, 2, 4))
    assert cluster.partition(1).role.replicas == (1, 4, 2)
    assert TP not in cluster.broker(3).replicas.partitions
    assert cluster.produce(1, 12) == (NONE, 2)


def test_a_new_controller_goes_on_with_it(cluster: ZkCluster) -> None:
    stuck(cluster)
    expected = (OngoingPartitionReassignment(TP, (4, 2, 3, 1), (4,), (1,)),)
    assert ongoing(cluster) == ongoing(cluster, TP, NOWHERE) == expected
    cluster.crash("broker-1")
    cluster.heal()
    cluster.step(15 * SECOND)
    assert cluster.who()[1] == 2
    assert assignment(cluster) == ReplicaAssignment((4, 2, 3))
    assert sorted(cluster.tree(state_path(TP)).isr) == [2, 3, 4]
    assert cluster.values(4) == [10, 11]
    assert ongoing(cluster) == ()


def test_a_target_that_was_down_hears_of_it_when_it_is_up(cluster: ZkCluster) -> None:
    stuck(cluster)
    cluster.crash("broker-4")
    cluster.heal()
    cluster.step(12 * SECOND)
    assert len(ongoing(cluster)) == 1
    cluster.restart("broker-4")
    cluster.step(5 * SECOND)
    assert assignment(cluster) == ReplicaAssignment((4, 2, 3))
    assert cluster.values(4) == [10, 11]


def test_cancelling_stops_the_replicas_that_were_added(cluster: ZkCluster) -> None:
    assert reassign(cluster, 2, 3, 1) is NONE  # another order: nobody to wait for
    assert assignment(cluster) == ReplicaAssignment((2, 3, 1))
    for other in ("broker-1", "broker-2", "broker-3"):
        cluster.cut("broker-4", other)
    assert reassign(cluster, 4, 3) is NONE
    assert assignment(cluster) == ReplicaAssignment((4, 3, 2, 1), (4,), (2, 1))
    assert reassign(cluster, cancel=True) is NONE
    assert assignment(cluster) == ReplicaAssignment((3, 2, 1))  # the order is lost
    assert ongoing(cluster) == ()
    cluster.heal()
    cluster.step(3 * SECOND)
    assert TP not in cluster.broker(4).replicas.partitions
    assert sorted(cluster.tree(state_path(TP)).isr) == [1, 2, 3]
    assert reassign(cluster, cancel=True) is Errors.NO_REASSIGNMENT_IN_PROGRESS


def test_a_later_reassignment_supplants_an_earlier_one(cluster: ZkCluster) -> None:
    stuck(cluster)
    assert reassign(cluster, 1, 2) is NONE
    cluster.step(SECOND)
    assert assignment(cluster) == ReplicaAssignment((1, 2))
    assert cluster.tree(state_path(TP)).isr == (1, 2)
    cluster.heal()
    cluster.step(2 * SECOND)
    hosts = [n for n in (1, 2, 3, 4) if TP in cluster.broker(n).replicas.partitions]
    assert hosts == [1, 2]


@pytest.mark.parametrize(
    ("replicas", "tp", "error"),
    [
        ((), TP, Errors.INVALID_REPLICA_ASSIGNMENT),
        ((1, 1), TP, Errors.INVALID_REPLICA_ASSIGNMENT),
        ((1, -1), TP, Errors.INVALID_REPLICA_ASSIGNMENT),
        ((1, 9), TP, Errors.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2), NOWHERE, Errors.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_refusals(
    cluster: ZkCluster, replicas: tuple[int, ...], tp: TopicPartition, error: Errors
) -> None:
    before = assignment(cluster)
    assert reassign(cluster, *replicas, tp=tp) is error
    assert assignment(cluster) == before
    assert reassign(cluster, tp=tp, cancel=True) is Errors.NO_REASSIGNMENT_IN_PROGRESS


def test_a_dead_replica_may_stay_but_not_join(cluster: ZkCluster) -> None:
    cluster.crash("broker-3")
    cluster.step(12 * SECOND)
    assert reassign(cluster, 3, 2, 1) is NONE
    assert len(ongoing(cluster)) == 0  # nobody is added or removed: done at once
    assert reassign(cluster, 1, 2, 4) is NONE
    cluster.step(3 * SECOND)
    assert assignment(cluster) == ReplicaAssignment((1, 2, 4))
    assert reassign(cluster, 1, 2, 3) is Errors.INVALID_REPLICA_ASSIGNMENT


def test_by_znode_and_a_request_supplants_it(cluster: ZkCluster) -> None:
    cluster.client("admin")
    cluster.connected("admin")
    cluster.ok("admin", Create(REASSIGN_PARTITIONS, ReassignPartitions(((TP, (2, 3, 4)),))))
    cluster.step(3 * SECOND)
    assert assignment(cluster) == ReplicaAssignment((2, 3, 4))
    assert cluster.tree(REASSIGN_PARTITIONS) is None
    cluster.cut("broker-2", "broker-1")  # 2 leads
    cluster.ok(
        "admin", Create(REASSIGN_PARTITIONS, ReassignPartitions(((TP, (1, 3, 4)), (NOWHERE, (1,)))))
    )
    cluster.step(SECOND)
    assert cluster.tree(REASSIGN_PARTITIONS) == ReassignPartitions(((TP, (1, 3, 4)),))
    request = AlterPartitionReassignmentsRequest((ReassignablePartition(TP, (3, 4)),))
    assert cluster.operate(request).results[0][1] is NONE
    cluster.heal()
    cluster.step(2 * SECOND)
    assert cluster.tree(REASSIGN_PARTITIONS) is None
    assert assignment(cluster) == ReplicaAssignment((3, 4))


def test_before_ibp_2_7_a_watch_on_the_state_completes_it() -> None:
    cluster = ZkCluster(brokers=4, inter_broker_protocol_version="2.6")
    cluster.create()
    cluster.produce(1, 10)
    assert reassign(cluster, 4, 2, 3) is NONE
    cluster.step(4 * SECOND)
    assert assignment(cluster) == ReplicaAssignment((4, 2, 3))
    assert cluster.tree(state_path(TP)).isr == (2, 3, 4)
    assert TP not in cluster.broker(1).replicas.partitions


def test_a_topic_that_goes_is_not_reassigned(cluster: ZkCluster) -> None:
    cluster.crash("broker-3")
    cluster.step(12 * SECOND)
    cluster.operate(DeleteTopicsRequest((("orders", ""),)))
    cluster.step(SECOND)
    assert reassign(cluster, 1, 2, 4) is Errors.UNKNOWN_TOPIC_OR_PARTITION
    cluster.restart("broker-3")
    cluster.step(4 * SECOND)
    assert cluster.tree(topic_path("orders")) is None


def test_a_deletion_that_a_new_controller_finds_waits_for_the_reassignment(
    cluster: ZkCluster,
) -> None:
    stuck(cluster)
    zombie = cluster.controller()
    zombie.events.close()  # it does nothing any more, so the deletion is not begun
    cluster.client("admin")
    cluster.connected("admin")
    cluster.ok("admin", Create("/admin/delete_topics/orders", ()))
    cluster.crash("broker-1")
    cluster.step(12 * SECOND)
    assert cluster.tree(topic_path("orders")) is not None
    cluster.restart("broker-1")
    cluster.heal()
    cluster.step(10 * SECOND)
    assert cluster.tree(topic_path("orders")) is None
    assert [TP in cluster.broker(n).replicas.partitions for n in (1, 2, 3, 4)] == [False] * 4
    errors = [f.error for f in cluster.seen(ControlRequest) if f.error != "NONE"]
    assert "STALE_CONTROLLER_EPOCH" not in errors


def test_a_deletion_asked_for_during_a_reassignment_begins_at_once(cluster: ZkCluster) -> None:
    assert reassign(cluster, 4, 2, 3) is NONE
    cluster.operate(DeleteTopicsRequest((("orders", ""),)))
    cluster.step(4 * SECOND)
    assert cluster.tree(topic_path("orders")) is None
    assert not cluster.controller().context.reassigning
    assert [TP in cluster.broker(n).replicas.partitions for n in (1, 2, 3, 4)] == [False] * 4
    cluster.create()
    assert cluster.produce(1, 7) == (NONE, 0)


def test_a_controller_that_does_not_look_for_it_leaves_it_where_it_is() -> None:
    cluster = ZkCluster(brokers=4, rules=BrokerRules(zk=Forgetful()))
    cluster.create()
    stuck(cluster)
    cluster.crash("broker-1")
    cluster.heal()
    cluster.step(15 * SECOND)
    assert cluster.who()[1] == 2
    assert assignment(cluster) == ReplicaAssignment((4, 2, 3, 1), (4,), (1,))


def test_who_fails_to_become_controller_lets_another_try() -> None:
    cluster = ZkCluster(brokers=3)
    cluster.create()
    successor = cluster.broker(2).controller, cluster.broker(3).controller
    failed: list[int] = []

    def fail(broker: int, load: Any) -> Any:
        def steps() -> Any:
            if not failed:
                failed.append(broker)
                raise ZkFailed("the first attempt")
            yield from load()

        return steps

    for controller in successor:
        controller.loading.load = fail(controller.info.id, controller.loading.load)
    cluster.crash("broker-1")
    cluster.step(15 * SECOND)
    assert len(failed) == 1
    assert cluster.who()[1] == 3
    assert cluster.controller().is_active
    assert cluster.tree(state_path(TP)).leader in (2, 3)
