"""Brokers and a controller together: what clients see through failures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkasim.model.effects import Exit
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerState, IsrChanged, LogLoaded, PartitionChanged, Truncated
from kafkasim.model.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochPartition,
    OffsetsForLeaderEpochRequest,
    ProducePartition,
    ProduceRequest,
)
from kafkasim.model.storage.files import DiskFull
from tests.model.broker_cluster import SECOND, TP, Cluster, batch

NONE = Errors.NONE


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.create()
    return cluster


def test_acks_all_is_on_every_replica(cluster: Cluster) -> None:
    assert cluster.produce(1, 10, 11) == (NONE, 0)
    cluster.run(cluster.now + SECOND)
    assert [cluster.values(number) for number in (1, 2, 3)] == [[10, 11]] * 3
    assert [cluster.partition(n).log.high_watermark for n in (1, 2, 3)] == [2, 2, 2]


def test_produce_to_a_follower_names_the_leader(cluster: Cluster) -> None:
    assert cluster.produce(2, 10) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)


def test_leader_crash_elects_and_the_old_leader_returns(cluster: Cluster) -> None:
    cluster.produce(1, 10)
    cluster.crash("broker-1")
    cluster.run(cluster.now + 12 * SECOND)
    assert cluster.leader_known_to(2) == 2
    assert cluster.produce(2, 11) == (NONE, 1)
    cluster.restart("broker-1")
    cluster.run(cluster.now + 5 * SECOND)
    assert cluster.values(1) == [10, 11]
    assert cluster.partition(2).role.isr == (2, 3, 1)
    loaded = cluster.seen(LogLoaded)
    assert [(fact.log_end_offset, fact.clean) for fact in loaded] == [(1, False)]


def test_unreplicated_tail_of_an_old_leader_is_truncated(cluster: Cluster) -> None:
    cluster.produce(1, 10)
    cluster.run(cluster.now + SECOND)
    cluster.held[:] = ["broker-1"]
    assert cluster.produce(1, 99, acks=1) == (NONE, 1)
    cluster.run(cluster.now + 12 * SECOND)
    assert cluster.produce(2, 11, 12) == (NONE, 1)
    cluster.held.clear()
    cluster.run(cluster.now + 10 * SECOND)
    assert cluster.values(1) == [10, 11, 12]
    assert [(f.log_end_offset, f.offset) for f in cluster.seen(Truncated)] == [(2, 1)]


def test_isr_shrinks_for_lag_and_expands_again() -> None:
    cluster = Cluster(replica_lag_time_max_ms=2000)
    cluster.create()
    cluster.produce(1, 10)
    replica = cluster.partition(3)
    fetcher = cluster.broker(3).replicas.fetchers.threads.pop((1, 0))
    fetcher.stop(cluster.now)  # broker 3 stays alive, its fetcher is stuck
    assert cluster.produce(1, 11, wait_us=10 * SECOND) == (NONE, 1)
    cluster.broker(3).replicas.fetchers.add(replica, cluster.now)
    cluster.drain("broker-3")
    cluster.run(cluster.now + 3 * SECOND)
    changes = [(f.change, f.replica_ids, f.isr) for f in cluster.seen(IsrChanged)]
    assert changes == [("shrink", (3,), (1, 2)), ("expand", (3,), (1, 2, 3))]
    assert [f.reason for f in cluster.seen(PartitionChanged)][-2:] == ["lag", "caught-up"]


def test_min_isr_refuses_before_the_append_and_freezes_the_high_watermark(
    cluster: Cluster,
) -> None:
    cluster.crash("broker-2")
    cluster.crash("broker-3")
    cluster.run(cluster.now + 15 * SECOND)
    assert cluster.partition(1).role.isr == (1,)
    assert cluster.produce(1, 10) == (Errors.NOT_ENOUGH_REPLICAS, -1)
    assert cluster.produce(1, 11, acks=1) == (NONE, 0)
    assert cluster.consume(1) == []
    assert cluster.partition(1).log.high_watermark == 0


def test_produce_times_out_but_may_commit_later(cluster: Cluster) -> None:
    cluster.held[:] = ["broker-2", "broker-3"]
    assert cluster.produce(1, 10, wait_us=31 * SECOND) is not None
    cluster.held.clear()
    cluster.run(cluster.now + 20 * SECOND)
    assert cluster.values(cluster.leader_known_to(1)) == [10]


def test_controlled_shutdown_moves_leadership_and_leaves_a_clean_log(cluster: Cluster) -> None:
    cluster.produce(1, 10)
    cluster.broker(1).shutdown(cluster.now)
    cluster.drain("broker-1")
    cluster.run(cluster.now + 6 * SECOND)
    assert cluster.exits == [("broker-1", Exit("shutdown", True))]
    assert cluster.leader_known_to(2) == 2
    cluster.run(cluster.now + 9 * SECOND)  # until then its session refuses another incarnation
    cluster.restart("broker-1")
    cluster.run(cluster.now + 4 * SECOND)
    assert [fact.clean for fact in cluster.seen(LogLoaded)] == [True]
    assert cluster.partition(2).role.isr == (2, 3, 1)


def test_controlled_shutdown_asks_again_soon(cluster: Cluster) -> None:
    """BrokerLifecycleManager: 50 ms after the first answer, not a heartbeat interval."""
    cluster.broker(1).shutdown(cluster.now)
    cluster.drain("broker-1")
    waits = []
    for _ in range(40):
        cluster.run(cluster.now + 5000)
        deadline = cluster.broker(1).timers.deadline("heartbeat")
        if deadline is not None and (not waits or deadline != waits[-1]):
            waits.append(deadline)
    assert len(waits) == 2
    assert 2_000_000 <= waits[1] - waits[0] < 2_100_000  # a full interval behind the second one
    assert waits[0] < cluster.now


def test_duplicate_under_acks_all_waits_for_the_high_watermark(cluster: Cluster) -> None:
    first = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    cluster.held[:] = ["broker-2", "broker-3"]
    request = ProduceRequest(-1, 30000, (ProducePartition(TP, batch(1, **first)),))
    assert cluster.ask("broker-1", request, SECOND) is None
    assert cluster.ask("broker-1", request, SECOND) is None
    cluster.held.clear()
    answer = cluster.ask("broker-1", request, 3 * SECOND).partitions[0]
    assert (answer.error, answer.base_offset) == (NONE, 0)
    assert cluster.values(1) == [1]


def test_a_full_disk_halts_the_broker(cluster: Cluster) -> None:
    def refuse(*_: object) -> None:
        raise DiskFull("orders-0", "no space")

    cluster.files["broker-1"].append = refuse  # type: ignore[method-assign]
    assert cluster.produce(1, 10) == (Errors.KAFKA_STORAGE_ERROR, -1)
    cluster.run(cluster.now + SECOND)
    assert [(name, effect.clean) for name, effect in cluster.exits] == [("broker-1", False)]


def test_list_offsets_and_epochs(cluster: Cluster) -> None:
    cluster.produce(1, 10, 11)
    answers = []
    for timestamp in (-1, -2, 0, 5):
        asked = (ListOffsetsPartition(TP, 0, timestamp),)
        answers += cluster.ask("broker-1", ListOffsetsRequest(-1, 0, asked)).partitions
    assert [(p.error, p.timestamp, p.offset) for p in answers] == [
        (NONE, -1, 2),
        (NONE, -1, 0),
        (NONE, 0, 0),
        (NONE, -1, -1),
    ]
    epochs = tuple([OffsetForLeaderEpochPartition(TP, 0, epoch) for epoch in (0, 1)])
    found = cluster.ask("broker-1", OffsetsForLeaderEpochRequest(-1, epochs)).partitions
    assert [(p.leader_epoch, p.end_offset) for p in found] == [(0, 2), (-1, -1)]


def test_metadata_creates_topics_and_find_coordinator_the_offsets_topic(cluster: Cluster) -> None:
    first = cluster.ask("broker-2", MetadataRequest(("fresh",))).topics[0]
    assert first.error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    answer = cluster.ask("broker-2", FindCoordinatorRequest("billing"))
    assert answer.error is Errors.COORDINATOR_NOT_AVAILABLE
    cluster.run(cluster.now + 2 * SECOND)
    assert cluster.ask("broker-3", MetadataRequest(("fresh",))).topics[0].error is NONE
    found = cluster.ask("broker-2", FindCoordinatorRequest("billing"))
    assert found.error is NONE
    assert found.address == f"broker-{found.node_id}"


def test_metadata_names_a_live_broker_as_the_controller(cluster: Cluster) -> None:
    assert cluster.ask("broker-3", MetadataRequest(())).controller_id == 3
    brokers = cluster.broker(3).loader.image.brokers
    for fenced, named in ((3, 1), (1, 2), (2, -1)):
        brokers[fenced] = replace(brokers[fenced], fenced=True)
        assert cluster.ask("broker-3", MetadataRequest(())).controller_id == named


def test_producer_ids_come_in_blocks(cluster: Cluster) -> None:
    request = InitProducerIdRequest(None, 0)
    first = cluster.ask("broker-1", request)
    assert first.error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    cluster.run(cluster.now + SECOND)
    ids = [cluster.ask("broker-1", request).producer_id for _ in range(3)]
    assert ids == [0, 1, 2]
    assert cluster.ask("broker-2", request).error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    cluster.run(cluster.now + SECOND)
    assert cluster.ask("broker-2", request).producer_id == 1000


def test_create_topics_is_refused_by_the_controller(cluster: Cluster) -> None:
    answer = cluster.ask(
        "broker-3", CreateTopicsRequest((CreatableTopic("orders", 1, 3),), 1000), 2 * SECOND
    )
    assert answer.results[0][1] is Errors.TOPIC_ALREADY_EXISTS


def test_lifecycle(cluster: Cluster) -> None:
    states = [
        f.state for _, name, f in cluster.facts if name == "broker-1" and type(f) is BrokerState
    ]
    assert states == ["STARTING", "FENCED", "RECOVERY", "UNFENCED", "RUNNING"]


def test_a_committed_offset_is_on_the_offsets_partition_and_survives_failover() -> None:
    cluster = Cluster(offsets_topic_num_partitions=2)
    cluster.create()
    cluster.ask("broker-1", FindCoordinatorRequest("billing"))
    cluster.run(cluster.now + 2 * SECOND)
    first = cluster.ask("broker-1", FindCoordinatorRequest("billing"))
    commit = OffsetCommitRequest("billing", -1, "", None, ((TP, 5, 0, ""),))
    assert cluster.ask(first.address, commit).results == ((TP, NONE),)
    cluster.crash(first.address)
    cluster.run(cluster.now + 12 * SECOND)
    other = next(name for name in cluster.processes if name.startswith("broker"))
    second = cluster.ask(other, FindCoordinatorRequest("billing"))
    assert second.address != first.address
    fetched = cluster.ask(second.address, OffsetFetchRequest("billing", (TP,)), 5 * SECOND)
    assert [(p.error, p.offset) for p in fetched.partitions] == [(NONE, 5)]
