"""Transactions at the partition: markers, read_committed fetches, offsets, producers (KIP-98)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkasim.model.effects import Request
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts.transactions import MarkerWritten
from kafkasim.model.messages import (
    LATEST_TIMESTAMP,
    DescribeProducersPartition,
    DescribeProducersRequest,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ProducePartition,
    ProduceRequest,
    ProducerState,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from kafkasim.model.records import GROUP_METADATA_TOPIC, TopicPartition
from tests.model.broker_cluster import Cluster
from tests.model.cluster_verbs import SECOND, TP, batch

LEADER = "broker-1"
OFFSETS = TopicPartition(GROUP_METADATA_TOPIC, 0)


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster(transaction_partition_verification_enable=False)
    made.create()
    return made


def send(cluster: Cluster, pid: int, sequence: int, *values: int, epoch: int = 0) -> Any:
    data = batch(
        *values, producer_id=pid, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )
    request = ProduceRequest(-1, 30000, (ProducePartition(TP, data),), f"id-{pid}")
    answer = cluster.ask(LEADER, request, SECOND)
    return answer.partitions[0].error


def marker(
    pid: int, committed: bool, *tps: TopicPartition, epoch: int = 0, coordinator_epoch: int = 0
) -> WritableTxnMarker:
    return WritableTxnMarker(pid, epoch, committed, tps or (TP,), coordinator_epoch)


def write(cluster: Cluster, *markers: WritableTxnMarker, wait_us: int = SECOND) -> Any:
    answer = cluster.ask(LEADER, WriteTxnMarkersRequest(markers), wait_us)
    return None if answer is None else answer.results


def fetch(cluster: Cluster, offset: int, isolation: int, wait_ms: int = 0) -> FetchRequest:
    partition = cluster.partition(1)
    asked = FetchPartition(TP, partition.topic_id, offset, -1, partition.leader_epoch, -1, 1 << 20)
    return FetchRequest(-1, -1, wait_ms, 1, 1 << 20, isolation, (asked,))


def read(cluster: Cluster, offset: int, isolation: int) -> Any:
    """Offsets of the batches, aborted transactions, last stable offset."""
    found = cluster.ask(LEADER, fetch(cluster, offset, isolation)).partitions[0]
    offsets = [each.base_offset for each in found.batches]
    return offsets, found.aborted_transactions, found.last_stable_offset


def test_markers_are_answered_once_they_are_replicated(cluster: Cluster) -> None:
    assert send(cluster, 1, 0, 10) is NONE
    assert write(cluster, marker(1, True)) == ((1, ((TP, NONE),)),)
    partition = cluster.partition(1)
    assert partition.log.high_watermark == partition.log.log_end_offset == 2
    assert cluster.seen(MarkerWritten) == [
        MarkerWritten(partition.topic_id, 0, 1, 0, True, 1, 0, 0)
    ]


def test_marker_waits_for_the_isr(cluster: Cluster) -> None:
    send(cluster, 1, 0, 10)
    for number in (2, 3):
        cluster.crash(f"broker-{number}")
    assert write(cluster, marker(1, True)) is None  # the high watermark stands still
    assert cluster.partition(1).log.last_stable_offset == 0


def test_every_partition_of_a_marker_has_its_error(cluster: Cluster) -> None:
    unknown = TopicPartition("orders", 7)
    send(cluster, 2, 0, 10, epoch=3)
    write(cluster, marker(4, True, coordinator_epoch=5))
    answer = write(
        cluster,
        marker(1, True, unknown, TP),
        marker(2, False, epoch=2),
        marker(4, False, coordinator_epoch=4),
    )
    assert answer == (
        (1, ((unknown, Errors.UNKNOWN_TOPIC_OR_PARTITION), (TP, NONE))),
        (2, ((TP, Errors.INVALID_PRODUCER_EPOCH),)),
        (4, ((TP, Errors.TRANSACTION_COORDINATOR_FENCED),)),
    )


def test_follower_does_not_write_markers(cluster: Cluster) -> None:
    request = WriteTxnMarkersRequest((marker(1, True),))
    answer = cluster.ask("broker-2", request, SECOND)
    assert answer.results == ((1, ((TP, Errors.NOT_LEADER_OR_FOLLOWER),)),)


@pytest.mark.parametrize(("pid", "epoch"), [(-1, 0), (2, -1)])
def test_a_marker_of_no_producer_fails_its_request_after_the_markers_before_it(
    cluster: Cluster, pid: int, epoch: int
) -> None:
    """MemoryRecordsBuilder refuses it with an exception; no request ends the broker."""
    end = cluster.partition(1).log.log_end_offset
    markers = (marker(1, True), marker(pid, True, epoch=epoch), marker(5, True))
    unknown = ((TP, Errors.UNKNOWN_SERVER_ERROR),)
    assert write(cluster, *markers) == ((1, unknown), (pid, unknown), (5, unknown))
    assert cluster.partition(1).log.log_end_offset == end + 1


def test_request_without_markers_is_answered(cluster: Cluster) -> None:
    assert write(cluster) == ()


class Groups:
    """A group coordinator that refuses or is slow."""

    def __init__(self, error: Errors) -> None:
        self.error = error
        self.asked: list[Any] = []

    def complete_transaction(
        self,
        tp: TopicPartition,
        marker: WritableTxnMarker,
        done: Callable[[Errors, int], None],
        now: int,
    ) -> None:
        self.asked.append((tp, marker))
        done(self.error, now)


def test_group_coordinator_writes_the_markers_of_its_topic(cluster: Cluster) -> None:
    cluster.create(GROUP_METADATA_TOPIC)
    groups = Groups(Errors.COORDINATOR_LOAD_IN_PROGRESS)
    cluster.broker(1).replicas.markers.groups = groups
    written = marker(1, True, OFFSETS, TP)
    assert write(cluster, written) == ((1, ((OFFSETS, Errors.NOT_LEADER_OR_FOLLOWER), (TP, NONE))),)
    assert groups.asked == [(OFFSETS, written)]


def test_read_committed_ends_at_the_last_stable_offset(cluster: Cluster) -> None:
    send(cluster, 1, 0, 10)
    send(cluster, 2, 0, 20)
    write(cluster, marker(2, False))
    assert read(cluster, 0, 0) == ([0, 1, 2], (), 0)
    assert read(cluster, 0, 1) == ([], (), 0)
    write(cluster, marker(1, True))
    assert read(cluster, 0, 0) == ([0, 1, 2, 3], (), 4)
    assert read(cluster, 0, 1) == ([0, 1, 2, 3], ((2, 1),), 4)
    assert read(cluster, 3, 1) == ([3], (), 4)


def test_parked_read_committed_fetch_ends_when_the_transaction_does(cluster: Cluster) -> None:
    send(cluster, 1, 0, 10)
    waiting = fetch(cluster, 0, 1, wait_ms=20_000)
    cluster.give(LEADER, Request(7, 1, waiting, cluster.now))
    cluster.step(SECOND)
    assert (LEADER, 7, 1) not in cluster.answers
    write(cluster, marker(1, False))
    found = cluster.answers[(LEADER, 7, 1)].partitions[0]
    assert [each.base_offset for each in found.batches] == [0, 1]
    assert (found.aborted_transactions, found.last_stable_offset) == (((1, 0),), 2)


def test_followers_copy_undecided_records_and_markers(cluster: Cluster) -> None:
    send(cluster, 1, 0, 10)
    cluster.step(SECOND)
    logs = [cluster.partition(number).log for number in (1, 2, 3)]
    assert [(log.log_end_offset, log.last_stable_offset) for log in logs] == [(1, 0)] * 3
    write(cluster, marker(1, False))
    cluster.step(SECOND)
    assert [(log.log_end_offset, log.last_stable_offset) for log in logs] == [(2, 2)] * 3
    assert [len(log.local.aborted_transactions(0, 2)) for log in logs] == [1, 1, 1]


def test_latest_offset_depends_on_the_isolation_level(cluster: Cluster) -> None:
    send(cluster, 1, 0, 10)
    asked = ListOffsetsPartition(TP, -1, LATEST_TIMESTAMP)
    answers = [
        cluster.ask(LEADER, ListOffsetsRequest(-1, isolation, (asked,))).partitions[0].offset
        for isolation in (0, 1)
    ]
    assert answers == [1, 0]


def test_describe_producers(cluster: Cluster) -> None:
    send(cluster, 1, 0, 10, 11)
    send(cluster, 2, 0, 20)
    write(cluster, marker(2, True, epoch=1, coordinator_epoch=3))
    asked = (TP, TopicPartition("orders", 1), TopicPartition("no/name", 0))
    answer = cluster.ask(LEADER, DescribeProducersRequest(asked))
    now_ms = answer.partitions[0].producers[1].last_timestamp_ms
    assert answer.partitions == (
        DescribeProducersPartition(
            TP, NONE, (ProducerState(1, 0, 1, 0, -1, 0), ProducerState(2, 1, -1, now_ms, 3, -1))
        ),
        DescribeProducersPartition(asked[1], Errors.UNKNOWN_TOPIC_OR_PARTITION, ()),
        DescribeProducersPartition(asked[2], Errors.INVALID_TOPIC_EXCEPTION, ()),
    )
    follower = cluster.ask("broker-2", DescribeProducersRequest((TP,)))
    assert follower.partitions == answer.partitions[:1]
